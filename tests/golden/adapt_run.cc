// matvec.jsonl: pith/run/matvec.h.
#include <vector>

#include "pith/run/matvec.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

Result<Json> w8a8(const Json& inputs) {
  const std::int64_t rows = to_size(inputs.at("out_size"));
  std::vector<float> y(static_cast<std::size_t>(rows));
  MatvecScratch scratch;
  PITH_OK(w8a8_matvec(
      to_codes(inputs.at("weight_q")), to_f32s(inputs.at("weight_scales")), rows,
      to_size(inputs.at("in_size")), to_f32s(inputs.at("activation")), y, scratch));
  return Json{{"y", f32s(y)},
              {"activation_q", integers(scratch.codes)},
              {"activation_scale", f32(scratch.scale)}};
}

Result<Json> weight_only(const Json& inputs) {
  const std::vector<std::int8_t> codes = to_codes(inputs.at("q"));
  const std::vector<float> x = to_f32s(inputs.at("x"));
  const Json& mode = inputs.at("mode");
  const auto count = static_cast<std::int64_t>(codes.size());
  auto cols = static_cast<std::int64_t>(x.size());
  std::int64_t rows = cols == 0 ? 0 : count / cols;
  if (mode.at("kind") == "per_channel") {
    rows = to_size(mode.at("channels"));
    cols = count / rows;
  }
  std::vector<float> y(static_cast<std::size_t>(rows));
  PITH_OK(int8_matvec(codes, to_f32s(inputs.at("scales")), rows, cols, x, y));
  return Json{{"y", f32s(y)}};
}

constexpr AdapterEntry kRunAdapters[] = {
    {"w8a8_matvec", w8a8},
    {"int8_matvec", weight_only},
};

}  // namespace

std::span<const AdapterEntry> run_adapters() { return kRunAdapters; }

}  // namespace pith::golden
