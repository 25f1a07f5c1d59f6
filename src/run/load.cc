#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pith/quantize/dense.h"
#include "pith/run/linear.h"
#include "src/base/text.h"
#include "src/quantize/mapped_codes.h"
#include "src/run/find_tensor.h"
#include "src/run/unpack.h"

namespace pith {
namespace {

// Scales inside of mapped blocks, which nobody has looked at.
Status check_block_scales(const CodesView& view) {
  if (view.scheme.layout != Layout::kBlocks || view.shape.elements() == 0) return {};
  const std::int64_t blocks = view.shape.cols() / view.scheme.block_size;
  std::vector<float> scales(static_cast<std::size_t>(blocks));
  for (std::int64_t row = 0; row < view.shape.rows(); ++row) {
    unpack_scales(view, row, scales);
    for (std::size_t b = 0; b < scales.size(); ++b) {
      if (std::isfinite(scales[b])) continue;
      return Status::corrupt(fmt::format("the scale of block {} is not finite",
                                         row * blocks + static_cast<std::int64_t>(b)));
    }
  }
  return {};
}

// With the factors of columns that the file has.
Result<LinearOptions> with_factors(const LinearOptions& options,
                                   const StoredCodes& stored) {
  LinearOptions used = options;
  if (stored.column_scale.empty()) return used;
  if (!options.input_scale.empty()) {
    return Status::invalid_argument(
        "linear: it has factors of its own, so input_scale must be empty");
  }
  used.input_scale = stored.column_scale;
  return used;
}

}  // namespace

Result<Linear> Linear::load(const Checkpoint& model, std::string_view name,
                            const LinearOptions& options) {
  PITH_TRY(const std::size_t index, find_weight(model, name));
  const TensorInfo& info = model.tensors()[index];
  const auto in_file = [&](const Status& status) {
    return status.with_context(
        fmt::format("{}: tensor '{}'", file_of(model), printable(info.name)));
  };
  PITH_TRY(const std::vector<float> bias, read_bias(model, info));
  const auto from_codes = [&](const CodesView& view, const StoredCodes& rest,
                              std::shared_ptr<const void> owner) -> Result<Linear> {
    PITH_OK(check_block_scales(view));
    PITH_TRY(const LinearOptions used, with_factors(options, rest));
    return make(view, std::move(owner), bias, used);
  };
  PITH_TRY(std::optional<MappedCodes> mapped, map_codes(model, index));
  if (mapped) {
    const auto owner = std::make_shared<const MappedCodes>(*std::move(mapped));
    const QuantizedTensor& tensor = owner->rest.tensor;
    const CodesView view(
        tensor.scheme, tensor.shape,
        {owner->codes.bytes(), tensor.scales.bytes(), tensor.zero_points.bytes()});
    Result<Linear> layer = from_codes(view, owner->rest, owner);
    if (!layer) return in_file(layer.error());
    return layer;
  }
  PITH_TRY(std::optional<StoredCodes> stored, read_codes(model, index));
  if (stored) {
    const auto owner = std::make_shared<const StoredCodes>(*std::move(stored));
    Result<Linear> layer = from_codes(CodesView(owner->tensor), *owner, owner);
    if (!layer) return in_file(layer.error());
    return layer;
  }
  std::vector<float> values(static_cast<std::size_t>(info.shape.elements()));
  PITH_OK(model.read_rows(index, 0, info.shape.rows(), values));
  PITH_TRY(const TensorView view, TensorView::of(values, info.shape, info.name));
  Result<Linear> layer = make(view, bias, options);
  if (!layer) return in_file(layer.error());
  return layer;
}

Result<Linear> Linear::load(const std::filesystem::path& path, std::string_view name,
                            const LinearOptions& options) {
  PITH_TRY(const std::unique_ptr<Checkpoint> model, open_dense(path));
  return load(*model, name, options);
}

}  // namespace pith
