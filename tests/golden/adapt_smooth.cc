// smoothquant.jsonl and the blocks of fp8_smooth.jsonl: pith/quantize/smooth.h and fp8.h.
#include <string>
#include <vector>

#include "pith/quantize/fp8.h"
#include "pith/quantize/smooth.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

Result<Json> config_new(const Json& inputs) {
  const SmoothOptions options = SmoothOptions::limited(to_f32(inputs.at("alpha")));
  return Json{{"alpha", f32(options.alpha)}, {"epsilon", f32(options.epsilon)}};
}

Result<Json> factors(const Json& inputs) {
  const std::int64_t features = to_size(inputs.at("in_features"));
  PITH_TRY(std::vector<float> activations,
           column_absmax(to_f32s(inputs.at("activations")), to_size(inputs.at("tokens")),
                         features));
  PITH_TRY(std::vector<float> weights,
           column_absmax(to_f32s(inputs.at("weights")),
                         to_size(inputs.at("out_features")), features));
  SmoothOptions options{.alpha = to_f32(inputs.at("alpha"))};
  if (inputs.contains("epsilon")) options.epsilon = to_f32(inputs.at("epsilon"));
  PITH_TRY(std::vector<float> found, smooth_factors(activations, weights, options));
  return Json{{"factors", f32s(found)}};
}

Result<Json> activations(const Json& inputs) {
  std::vector<float> data = to_f32s(inputs.at("data"));
  const std::vector<float> before = data;
  const Status status = smooth_activations(data, to_size(inputs.at("tokens")),
                                           to_size(inputs.at("in_features")),
                                           to_f32s(inputs.at("factors")));
  PITH_OK(unchanged(status, before, data));
  return Json{{"data", f32s(data)}};
}

Result<Json> weights(const Json& inputs) {
  std::vector<float> data = to_f32s(inputs.at("data"));
  const std::vector<float> before = data;
  const Status status =
      smooth_weights(data, to_size(inputs.at("out_features")),
                     to_size(inputs.at("in_features")), to_f32s(inputs.at("factors")));
  PITH_OK(unchanged(status, before, data));
  return Json{{"data", f32s(data)}};
}

Result<Json> calibrator(const Json& inputs) {
  SmoothCalibrator layers({.alpha = to_f32(inputs.at("alpha"))});
  for (const Json& record : inputs.at("records")) {
    PITH_OK(layers.record(record.at("layer").get<std::string>(),
                          to_f32s(record.at("activations")),
                          to_size(record.at("in_features"))));
  }
  const auto layer = inputs.at("layer").get<std::string>();
  PITH_TRY(std::vector<float> found, layers.factors(layer, to_f32s(inputs.at("weights")),
                                                    to_size(inputs.at("out_features"))));
  return Json{{"factors", f32s(found)},
              {"layer_count", layers.layer_count()},
              {"has_layer", layers.has_layer(layer)}};
}

Result<Json> fp8_blocks(const Json& inputs, DType dtype) {
  const std::vector<float> values = to_f32s(inputs.at("weights"));
  PITH_TRY(Fp8Blocks blocks,
           quantize_fp8_blocks(values, to_size(inputs.at("out_features")),
                               to_size(inputs.at("in_features")),
                               to_f32s(inputs.at("factors")), dtype));
  std::vector<float> decoded(values.size());
  PITH_OK(dequantize(blocks, decoded));
  return Json{{"codes", bytes_hex(blocks.codes)},
              {"scales", f16s(blocks.scales)},
              {"dequantized", f32s(decoded)}};
}

Result<Json> e4m3_blocks(const Json& inputs) {
  return fp8_blocks(inputs, DType::kF8E4M3);
}
Result<Json> e5m2_blocks(const Json& inputs) {
  return fp8_blocks(inputs, DType::kF8E5M2);
}

constexpr AdapterEntry kSmoothAdapters[] = {
    {"smooth_config_new", config_new},         {"compute_smooth_factors", factors},
    {"smooth_activations", activations},       {"smooth_weights", weights},
    {"smoothquant_calibrator", calibrator},    {"quantize_fp8_e4m3_smooth", e4m3_blocks},
    {"quantize_fp8_e5m2_smooth", e5m2_blocks},
};

}  // namespace

std::span<const AdapterEntry> smooth_adapters() { return kSmoothAdapters; }

}  // namespace pith::golden
