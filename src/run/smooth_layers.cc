#include "pith/run/smooth_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/text.h"
#include "src/run/find_tensor.h"

namespace pith {
namespace {

struct WeightToSmooth {
  TensorInfo info;
  std::vector<float> values;
  std::vector<float> bias;
};

Result<WeightToSmooth> read_weight(const Checkpoint& model, const std::string& name) {
  PITH_TRY(const std::size_t index, find_weight(model, name));
  WeightToSmooth weight;
  weight.info = model.tensors()[index];
  const Shape& shape = weight.info.shape;
  if (shape.rank() != 2) {
    return Status::invalid_argument(
        fmt::format("smooth: tensor '{}' has shape {}, expected [outputs, inputs]",
                    printable(weight.info.name), shape.to_string()));
  }
  weight.values.resize(static_cast<std::size_t>(shape.elements()));
  PITH_OK(model.read_rows(index, 0, shape.rows(), weight.values));
  PITH_TRY(weight.bias, read_bias(model, weight.info));
  return weight;
}

Status expect_inputs(std::string_view what, std::string_view name, std::int64_t found,
                     std::int64_t inputs) {
  if (found == inputs) return {};
  return Status::invalid_argument(
      fmt::format("smooth: {} '{}' has {} inputs, but the first layer has {}", what,
                  printable(name), found, inputs));
}

Result<const LayerStats*> input_statistics(const Observer& statistics,
                                           const std::vector<WeightToSmooth>& weights) {
  for (const WeightToSmooth& weight : weights) {
    const LayerStats* stats = statistics.input_of(weight.info.name);
    if (stats == nullptr) continue;
    PITH_OK(expect_inputs("the statistics of", weight.info.name, stats->columns.cols(),
                          weight.info.shape.cols()));
    return stats;
  }
  return Status::invalid_argument(
      fmt::format("smooth: there are no statistics of the input of '{}'",
                  printable(weights.front().info.name)));
}

// The norm's own values, divided by the factors.
Status fold_norm(const Checkpoint& model, const std::string& name,
                 SmoothedLayers& result) {
  PITH_TRY(const std::size_t index, find_weight(model, name));
  const TensorInfo& info = model.tensors()[index];
  const auto inputs = static_cast<std::int64_t>(result.factors.size());
  PITH_OK(expect_inputs("the norm", info.name, info.shape.elements(), inputs));
  result.norm_weight.resize(result.factors.size());
  PITH_OK(model.read_rows(index, 0, info.shape.rows(), result.norm_weight));
  PITH_OK(fold_factors(result.norm_weight, result.factors));
  const auto bias = find_bias(model, info.name);
  if (!bias) return {};
  const Shape& shape = model.tensors()[*bias].shape;
  PITH_OK(expect_inputs("the bias of the norm", info.name, shape.elements(), inputs));
  result.norm_bias.resize(result.factors.size());
  PITH_OK(model.read_rows(*bias, 0, shape.rows(), result.norm_bias));
  return fold_factors(result.norm_bias, result.factors);
}

}  // namespace

Result<SmoothedLayers> load_smoothed(const Checkpoint& model, const Observer& statistics,
                                     std::span<const std::string> names,
                                     const SmoothLayersOptions& options) {
  if (names.empty()) {
    return Status::invalid_argument("smooth: no names of layers, expected at least one");
  }
  if (!options.linear.input_scale.empty()) {
    return Status::invalid_argument(
        "smooth: linear.input_scale must be empty: it is found here");
  }
  std::vector<WeightToSmooth> weights;
  std::vector<float> absmax;  // of the columns of all
  for (const std::string& name : names) {
    PITH_TRY(WeightToSmooth weight, read_weight(model, name));
    const Shape& shape = weight.info.shape;
    if (!weights.empty()) {
      PITH_OK(expect_inputs("tensor", weight.info.name, shape.cols(),
                            weights.front().info.shape.cols()));
    }
    PITH_TRY(const std::vector<float> columns,
             column_absmax(weight.values, shape.rows(), shape.cols()));
    absmax.resize(columns.size());
    std::transform(columns.begin(), columns.end(), absmax.begin(), absmax.begin(),
                   [](float a, float b) { return std::max(a, b); });
    weights.push_back(std::move(weight));
  }
  PITH_TRY(const LayerStats* stats, input_statistics(statistics, weights));
  SmoothedLayers result;
  PITH_TRY(result.factors, smooth_factors(stats->columns, absmax, options.smooth));
  LinearOptions linear = options.linear;
  linear.in_place = false;  // the codes made here do not stay
  std::vector<float> inverse;
  if (options.norm.empty()) {
    PITH_TRY(inverse, inverse_factors(result.factors));
    linear.input_scale = inverse;
  } else {
    PITH_OK(fold_norm(model, options.norm, result));
  }
  for (WeightToSmooth& weight : weights) {
    const Shape& shape = weight.info.shape;
    PITH_OK(smooth_weights(weight.values, shape.rows(), shape.cols(), result.factors));
    PITH_TRY(const TensorView view,
             TensorView::of(weight.values, shape, weight.info.name));
    PITH_TRY(const QuantizedTensor codes, quantize(view, options.scheme));
    PITH_TRY(Linear layer, Linear::make(codes, weight.bias, linear));
    result.layers.push_back(std::move(layer));
  }
  return result;
}

}  // namespace pith
