// dynamic_quant.jsonl: pith/quantize/dynamic.h and compute_scale of quantize.h.
#include <algorithm>
#include <string>
#include <vector>

#include "pith/quantize/dynamic.h"
#include "pith/quantize/error.h"
#include "pith/quantize/quantize.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

ScaleRule rule_of(const Json& mode) {
  const auto kind = mode.at("kind").get<std::string>();
  if (kind == "max_abs") return ScaleRule::kAbsmax;
  if (kind == "percentile") return ScaleRule::kPercentile;
  throw BadCase("unknown mode " + kind);
}

double percentile_of(const Json& mode) {
  return mode.contains("p") ? to_f32(mode.at("p")) : 1;
}

DynamicOptions options_of(const Json& inputs, int bits) {
  const Json mode = inputs.value("mode", Json{{"kind", "max_abs"}});
  return {.bits = bits, .rule = rule_of(mode), .percentile = percentile_of(mode)};
}

Result<Json> compute_scale_case(const Json& inputs) {
  const Json& mode = inputs.at("mode");
  PITH_TRY(float scale,
           compute_scale(to_f32s(inputs.at("data")), to_f32(inputs.at("clip_val")),
                         rule_of(mode), percentile_of(mode)));
  return Json{{"scale", f32(scale)}};
}

// The mean error over what both have: the reference takes lists of unequal length.
Result<float> mae_of(const std::vector<float>& original,
                     const std::vector<float>& decoded) {
  const std::size_t both = std::min(original.size(), decoded.size());
  PITH_TRY(ErrorFigures figures, measure_error(std::span(original).first(both),
                                               std::span(decoded).first(both)));
  return static_cast<float>(figures.mae());
}

Result<Json> describe(const DynamicCodes& codes, const std::vector<float>& original) {
  PITH_TRY(std::vector<float> decoded, dequantize(codes));
  PITH_TRY(float mae, mae_of(original, decoded));
  const char* format = codes.per_row     ? "int8_per_row"
                       : codes.bits == 4 ? "int4_per_tensor"
                                         : "int8_per_tensor";
  return Json{{"format", format},
              {"q", integers(codes.codes)},
              {"scales", f32s(codes.scales)},
              {"shape", extents_of(codes.shape)},
              {"dequantized", f32s(decoded)},
              {"memory_bytes", codes.memory_bytes()},
              {"compression_ratio", f32(codes.compression_ratio())},
              {"element_count", codes.codes.size()},
              {"mae", f32(mae)}};
}

Result<Json> quantize_tensor(const Json& inputs, int bits) {
  const std::vector<float> data = to_f32s(inputs.at("data"));
  PITH_TRY(DynamicCodes codes, dynamic_quantize(data, options_of(inputs, bits)));
  return describe(codes, data);
}

Result<Json> dynamic_int8(const Json& inputs) { return quantize_tensor(inputs, 8); }
Result<Json> dynamic_int4(const Json& inputs) { return quantize_tensor(inputs, 4); }

Result<Json> dynamic_int8_rows(const Json& inputs) {
  const std::vector<float> data = to_f32s(inputs.at("data"));
  PITH_TRY(DynamicCodes codes,
           dynamic_quantize_rows(data, to_size(inputs.at("rows")),
                                 to_size(inputs.at("cols")), options_of(inputs, 8)));
  return describe(codes, data);
}

Result<DynamicCodes> codes_of(const Json& quantized) {
  const auto format = quantized.at("format").get<std::string>();
  PITH_TRY(Shape shape, to_shape(quantized.at("shape")));
  return DynamicCodes{.bits = format == "int4_per_tensor" ? 4 : 8,
                      .per_row = format == "int8_per_row",
                      .shape = std::move(shape),
                      .codes = to_codes(quantized.at("q")),
                      .scales = to_f32s(quantized.at("scales"))};
}

Result<Json> dequantize_case(const Json& inputs) {
  PITH_TRY(DynamicCodes codes, codes_of(inputs));
  PITH_TRY(std::vector<float> decoded, dequantize(codes));
  return Json{{"dequantized", f32s(decoded)},
              {"memory_bytes", codes.memory_bytes()},
              {"compression_ratio", f32(codes.compression_ratio())}};
}

Result<Json> quantization_mae(const Json& inputs) {
  PITH_TRY(DynamicCodes codes, codes_of(inputs.at("quantized")));
  PITH_TRY(std::vector<float> decoded, dequantize(codes));
  PITH_TRY(float mae, mae_of(to_f32s(inputs.at("original")), decoded));
  return Json{{"mae", f32(mae)}};
}

constexpr AdapterEntry kDynamicAdapters[] = {
    {"compute_scale", compute_scale_case},
    {"dynamic_quantize_int8", dynamic_int8},
    {"dynamic_quantize_int4", dynamic_int4},
    {"dynamic_quantize_int8_per_row", dynamic_int8_rows},
    {"dequantize", dequantize_case},
    {"quantization_mae", quantization_mae},
};

}  // namespace

std::span<const AdapterEntry> dynamic_adapters() { return kDynamicAdapters; }

}  // namespace pith::golden
