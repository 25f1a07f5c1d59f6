// What layers with compressed weights and activations lose on real activations of trained
// networks: ../shared/models, or the folder that PITH_SHARED names has them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "pith/calibrate/observer.h"
#include "pith/calibrate/scale.h"
#include "pith/quantize/dense.h"
#include "pith/quantize/smooth.h"
#include "pith/run/linear.h"
#include "tests/support/samples.h"

namespace pith {
namespace {

struct Layer {
  std::string model;
  std::string name;
};

const Layer kLayers[] = {{"stories260K", "model.layers.0.self_attn.q_proj"},
                         {"stories260K", "model.layers.2.mlp.down_proj"},
                         {"use-lite", "layers.1.fc1"},
                         {"use-lite", "layers.1.fc2"}};

struct Loaded {
  Shape shape;
  std::vector<float> weight;
  std::vector<float> x;
  std::int64_t rows = 0;
  std::vector<float> y;  // f32
};

std::vector<float> values_of(const Checkpoint& file, std::size_t tensor) {
  return testing::read_values(file, tensor);
}

Loaded load(const std::filesystem::path& models, const Layer& layer) {
  Loaded loaded;
  const auto model = Checkpoint::open(models / layer.model / "model.safetensors").value();
  const auto index = model->find(layer.name + ".weight");
  EXPECT_TRUE(index.has_value()) << layer.name;
  loaded.shape = model->tensors()[index.value()].shape;
  loaded.weight = values_of(*model, *index);
  std::string file = layer.model + "_" + layer.name + ".npy";
  for (char& c : file) c = c == '.' && &c < &file[file.size() - 4] ? '_' : c;
  const auto activations = Checkpoint::open(models / "activations" / file).value();
  loaded.x = values_of(*activations, 0);
  loaded.rows = activations->tensors()[0].shape.rows();
  return loaded;
}

std::vector<float> forward(Linear layer, const Loaded& loaded) {
  std::vector<float> y(static_cast<std::size_t>(loaded.rows * layer.outputs()));
  EXPECT_TRUE(layer.forward(loaded.x, loaded.rows, y).ok());
  return y;
}

double relative_error(const std::vector<float>& y, const std::vector<float>& exact) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double d = static_cast<double>(y[i]) - static_cast<double>(exact[i]);
    error += d * d;
    energy += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
  }
  return std::sqrt(error / energy);
}

TEST(Quality, DynamicInt8KeepsRealLayersAndTheNinetyNinthPercentileDoesNot) {
  const std::filesystem::path samples = testing::samples_folder();
  const std::filesystem::path models = samples.parent_path() / "models";
  if (samples.empty() || !std::filesystem::exists(models)) {
    GTEST_SKIP() << "there is no folder of models";
  }
  fmt::print("{:<42} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "layer", "A32",
             "A8 row", "A8 tens.", "A7 row", "smooth", "static", "99.99%", "99%");
  for (const Layer& layer : kLayers) {
    const Loaded loaded = load(models, layer);
    const TensorView weight = TensorView::of(loaded.weight, loaded.shape, "w").value();
    const std::vector<float> exact = forward(Linear::make(weight).value(), loaded);
    const QuantizedTensor codes = quantize(weight, Scheme::int8_rows()).value();
    const auto error = [&](const LinearOptions& options) {
      return relative_error(forward(Linear::make(codes, {}, options).value(), loaded),
                            exact);
    };
    LayerStats stats;
    stats.columns = ColumnStats(loaded.shape.cols());
    ASSERT_TRUE(stats.columns.add(loaded.x).ok());
    ASSERT_TRUE(stats.values.add(loaded.x).ok());
    const auto scale_of = [&](double percentile) {
      return calibrated_scale(stats.values, {.percentile = percentile}).value();
    };
    const auto static_error = [&](float scale) {
      return error({.activations = Activations::kStatic, .static_scale = scale});
    };

    // SmoothQuant: the weights take part of the outliers of the input.
    const auto absmax =
        column_absmax(loaded.weight, loaded.shape.rows(), loaded.shape.cols()).value();
    const std::vector<float> factors = smooth_factors(stats.columns, absmax).value();
    std::vector<float> smoothed = loaded.weight;
    ASSERT_TRUE(
        smooth_weights(smoothed, loaded.shape.rows(), loaded.shape.cols(), factors).ok());
    const std::vector<float> inverse = inverse_factors(factors).value();
    const QuantizedTensor smooth_codes =
        quantize(TensorView::of(smoothed, loaded.shape, "w").value(), Scheme::int8_rows())
            .value();
    const double smooth = relative_error(
        forward(Linear::make(smooth_codes, {}, {.input_scale = inverse}).value(), loaded),
        exact);

    const double weight_only = error({.activations = Activations::kF32});
    const double rows = error({});
    const double tensor = error({.activations = Activations::kInt8Tensor});
    const double seven = error({.activations = Activations::kInt7Rows});
    const double largest = static_error(stats.values.absmax() / 127);
    const double p9999 = static_error(scale_of(0.9999));
    const double p99 = static_error(scale_of(0.99));
    fmt::print(
        "{:<42} {:>8.2f}% {:>8.2f}% {:>8.2f}% {:>8.2f}% {:>8.2f}% {:>8.2f}% "
        "{:>8.2f}% {:>8.2f}%\n",
        layer.model + " " + layer.name, 100 * weight_only, 100 * rows, 100 * tensor,
        100 * seven, 100 * smooth, 100 * largest, 100 * p9999, 100 * p99);
    EXPECT_LT(weight_only, 0.012) << layer.name;
    EXPECT_LT(rows, 0.025) << layer.name;
    EXPECT_LT(smooth, 0.025) << layer.name;
    EXPECT_LE(rows, tensor) << layer.name;
    EXPECT_GT(p99, 3 * rows) << layer.name;
    EXPECT_FALSE(check_clipping(scale_of(0.99), stats.values).empty()) << layer.name;
    EXPECT_TRUE(check_clipping(stats.values.absmax() / 127, stats.values).empty());
  }
}

}  // namespace
}  // namespace pith
