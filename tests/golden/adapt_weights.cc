// weights_int8.jsonl and int8_channel.jsonl: pith/quantize/quantize.h and error.h.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pith/calibrate/scale.h"
#include "pith/pipeline/pipeline.h"
#include "pith/quantize/quantize.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

Json codes_of(const QuantizedTensor& tensor) {
  return integers(tensor.codes.as<std::int8_t>());
}

Result<std::vector<float>> decode(const QuantizedTensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  PITH_OK(dequantize(tensor, out));
  return out;
}

// Bytes of f32 / bytes held, as reports have it.
float ratio(std::int64_t elements, std::int64_t bytes) {
  return static_cast<float>(ratio_of(4 * elements, bytes));
}

Result<QuantizedTensor> quantize_values(const std::vector<float>& values,
                                        const Shape& shape, const Scheme& scheme) {
  PITH_TRY(TensorView view, TensorView::of(values, shape));
  return quantize(view, scheme);
}

Result<QuantizedTensor> quantize_layer(const Json& inputs) {
  Scheme scheme = Scheme::int8_tensor();
  if (inputs.contains("scale")) {
    scheme.rule = ScaleRule::kGiven;
    scheme.given_scale = to_f32(inputs.at("scale"));
  }
  const std::vector<float> weights = to_f32s(inputs.at("weights"));
  const Json shape = inputs.value("shape", Json{weights.size()});
  PITH_TRY(Shape extents, to_shape(shape));
  return quantize_values(weights, extents, scheme);
}

Result<Json> from_f32(const Json& inputs) {
  PITH_TRY(QuantizedTensor tensor, quantize_layer(inputs));
  PITH_TRY(std::vector<float> decoded, decode(tensor));
  const std::int64_t bytes = tensor.codes.size();
  Json out = {{"name", "layer"},
              {"q", codes_of(tensor)},
              {"shape", extents_of(tensor.shape)},
              {"scale", f32(tensor.scale(0))},
              {"dequantized", f32s(decoded)},
              {"size_bytes", bytes},
              {"original_size_bytes", 4 * tensor.elements()},
              {"compression_ratio", f32(ratio(tensor.elements(), bytes))}};
  // A bias is a tensor of its own, which nothing changes.
  if (inputs.contains("bias")) out["bias"] = f32s(to_f32s(inputs.at("bias")));
  return out;
}

Result<Json> model_weights(const Json& inputs) {
  Json layers = Json::array();
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  for (const Json& layer : inputs.at("layers")) {
    PITH_TRY(QuantizedTensor tensor, quantize_layer(layer));
    Json written = {{"name", layer.at("name")},
                    {"q", codes_of(tensor)},
                    {"shape", extents_of(tensor.shape)},
                    {"scale", f32(tensor.scale(0))}};
    if (layer.contains("bias")) written["bias"] = f32s(to_f32s(layer.at("bias")));
    layers.push_back(std::move(written));
    elements += tensor.elements();
    bytes += tensor.codes.size();
  }
  return Json{{"layers", std::move(layers)},
              {"total_quantized_bytes", bytes},
              {"total_fp32_bytes", 4 * elements},
              {"compression_ratio", f32(ratio(elements, bytes))}};
}

Result<Json> weight_calibrator(const Json& inputs) {
  PITH_TRY(WeightRange range, weight_range(to_f32s(inputs.at("weights"))));
  // The limits of activations are constants of the reference; Pith measures them.
  return Json{{"w_min", f32(range.min)},
              {"w_max", f32(range.max)},
              {"act_min", f32(-1.0F)},
              {"act_max", f32(1.0F)},
              {"weight_scale", f32(range.scale)}};
}

// The reference takes a share of the largest magnitude for the scale. In Pith that is a
// given scale.
Result<Json> quantize_channel(const Json& inputs) {
  const std::vector<float> weights = to_f32s(inputs.at("weights"));
  const float clip = to_f32(inputs.at("clip_ratio"));
  Scheme scheme = Scheme::int8_tensor();
  if (!(clip >= 1)) {
    PITH_TRY(float largest, compute_scale(weights, 1));
    scheme.rule = ScaleRule::kGiven;
    scheme.given_scale = std::max(clip, 0.0F) * largest / 127;
    if (clip != clip) scheme.given_scale = clip;
  }
  PITH_TRY(Shape shape, Shape::make({static_cast<std::int64_t>(weights.size())}));
  PITH_TRY(QuantizedTensor tensor, quantize_values(weights, shape, scheme));
  return Json{{"q", codes_of(tensor)}, {"scale", f32(tensor.scale(0))}};
}

Result<Json> describe(const QuantizedTensor& tensor, const Json& mode) {
  PITH_TRY(std::vector<float> decoded, decode(tensor));
  return Json{
      {"q", codes_of(tensor)},
      {"scales", f32s(tensor.scales.as<float>())},
      {"shape", extents_of(tensor.shape)},
      {"mode", mode},
      {"dequantized", f32s(decoded)},
      {"memory_bytes", tensor.stored_bytes()},
      {"compression_ratio", f32(ratio(tensor.elements(), tensor.stored_bytes()))}};
}

Result<QuantizedTensor> quantize_whole(const std::vector<float>& weights) {
  PITH_TRY(Shape shape, Shape::make({static_cast<std::int64_t>(weights.size())}));
  return quantize_values(weights, shape, Scheme::int8_tensor());
}

// Pith takes the shape, not the number of channels: what the weights are to be cut into.
Result<QuantizedTensor> quantize_channels(const std::vector<float>& weights,
                                          std::int64_t channels) {
  const auto count = static_cast<std::int64_t>(weights.size());
  if (count == 0) return Status::invalid_argument("no weights to cut into channels");
  if (channels == 0 || count % channels != 0) {
    return Status::invalid_argument(
        fmt::format("{} weights cannot be cut into {} channels", count, channels));
  }
  PITH_TRY(Shape shape, Shape::make({channels, count / channels}));
  return quantize_values(weights, shape, Scheme::int8_rows());
}

Result<Json> per_tensor(const Json& inputs) {
  PITH_TRY(QuantizedTensor tensor, quantize_whole(to_f32s(inputs.at("weights"))));
  return describe(tensor, Json{{"kind", "per_tensor"}});
}

Result<Json> per_channel(const Json& inputs) {
  const std::int64_t channels = to_size(inputs.at("channels"));
  PITH_TRY(QuantizedTensor tensor,
           quantize_channels(to_f32s(inputs.at("weights")), channels));
  return describe(tensor, Json{{"kind", "per_channel"}, {"channels", channels}});
}

// Codes and scales as a file would give them.
Result<QuantizedTensor> given_tensor(const Json& quantized) {
  const std::vector<std::int8_t> codes = to_codes(quantized.at("q"));
  const std::vector<float> scales = to_f32s(quantized.at("scales"));
  const Json mode = quantized.value("mode", Json{{"kind", "per_tensor"}});
  const bool rows = mode.at("kind") == "per_channel";
  Json extents = {codes.size()};
  if (rows) {
    const auto channels = mode.at("channels").get<std::size_t>();
    extents = {channels, codes.size() / channels};
  }
  PITH_TRY(Shape shape, to_shape(quantized.value("shape", extents)));
  QuantizedTensor tensor{.scheme = rows ? Scheme::int8_rows() : Scheme::int8_tensor(),
                         .shape = std::move(shape),
                         .codes = Buffer(static_cast<std::int64_t>(codes.size())),
                         .scales = Buffer(static_cast<std::int64_t>(4 * scales.size())),
                         .zero_points = {}};
  std::copy(codes.begin(), codes.end(), tensor.codes.as<std::int8_t>().begin());
  std::copy(scales.begin(), scales.end(), tensor.scales.as<float>().begin());
  return tensor;
}

Result<Json> int8_dequantize(const Json& inputs) {
  PITH_TRY(QuantizedTensor tensor, given_tensor(inputs));
  PITH_TRY(std::vector<float> decoded, decode(tensor));
  return Json{{"dequantized", f32s(decoded)}};
}

Result<Json> error_of(const std::vector<float>& original, const QuantizedTensor& tensor) {
  PITH_TRY(std::vector<float> decoded, decode(tensor));
  const std::size_t both = std::min(original.size(), decoded.size());
  PITH_TRY(ErrorFigures figures, measure_error(std::span(original).first(both),
                                               std::span(decoded).first(both)));
  return Json{
      {"mse", f32(static_cast<float>(figures.mse()))},
      {"max_abs_error", f32(static_cast<float>(figures.max_error))},
      {"snr_db", f32(static_cast<float>(figures.sqnr_db()))},
      {"bits_per_weight", f32(static_cast<float>(tensor.scheme.bits))},
      {"compression_ratio", f32(ratio(tensor.elements(), tensor.stored_bytes()))}};
}

Result<Json> analyze_error(const Json& inputs) {
  PITH_TRY(QuantizedTensor tensor, given_tensor(inputs.at("quantized")));
  return error_of(to_f32s(inputs.at("original")), tensor);
}

// Without the one-bit method, which Pith does not offer.
Result<Json> compare_methods(const Json& inputs) {
  const std::vector<float> weights = to_f32s(inputs.at("weights"));
  PITH_TRY(QuantizedTensor whole, quantize_whole(weights));
  PITH_TRY(Json whole_error, error_of(weights, whole));
  Json out = {{"per_tensor", std::move(whole_error)}};
  if (inputs.contains("channels")) {
    PITH_TRY(QuantizedTensor rows,
             quantize_channels(weights, to_size(inputs.at("channels"))));
    PITH_TRY(Json rows_error, error_of(weights, rows));
    out["per_channel"] = std::move(rows_error);
  }
  return out;
}

constexpr AdapterEntry kWeightsAdapters[] = {
    {"quantized_weights_from_f32", from_f32},
    {"quantize_model_weights", model_weights},
    {"weight_calibrator", weight_calibrator},
    {"quantize_channel", quantize_channel},
    {"quantize_per_tensor", per_tensor},
    {"quantize_per_channel", per_channel},
    {"int8_dequantize", int8_dequantize},
    {"analyze_int8_error", analyze_error},
    {"compare_quantization_methods", compare_methods},
};

}  // namespace

std::span<const AdapterEntry> weights_adapters() { return kWeightsAdapters; }

}  // namespace pith::golden
