#include "pith/run/smooth_layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "pith/calibrate/stats_file.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::SafetensorsBuilder;
using testing::TempFolder;

constexpr std::int64_t kFeatures = 64;
constexpr std::int64_t kTokens = 16;

ByteBuilder floats_of(const std::vector<float>& values) {
  ByteBuilder out;
  out.text(std::string_view(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(float)));
  return out;
}

// A norm without its normalization, v * weight + bias, and two layers that read its output.
// Channel 5 is an outlier, channel 9 is dead.
class SmoothLayers : public ::testing::Test {
 protected:
  SmoothLayers() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    const auto fill = [&](std::vector<float>& values, std::int64_t n) {
      values.resize(static_cast<std::size_t>(n));
      for (float& value : values) value = normal(random);
    };
    fill(q_, 24 * kFeatures);
    fill(k_, 8 * kFeatures);
    fill(k_bias_, 8);
    fill(norm_weight_, kFeatures);
    fill(norm_bias_, kFeatures);
    norm_weight_[5] = 100;
    norm_weight_[9] = 0;
    norm_bias_[9] = 0;
    fill(hidden_, kTokens * kFeatures);
    x_ = normed(norm_weight_, norm_bias_);
    SafetensorsBuilder file;
    file.add("q.weight", "F32", {24, kFeatures}, floats_of(q_));
    file.add("k.weight", "F32", {8, kFeatures}, floats_of(k_));
    file.add("k.bias", "F32", {8}, floats_of(k_bias_));
    file.add("norm.weight", "F32", {kFeatures}, floats_of(norm_weight_));
    file.add("norm.bias", "F32", {kFeatures}, floats_of(norm_bias_));
    file.add("other.weight", "F32", {2, 3}, floats_of({1, 2, 3, 4, 5, 6}));
    model_ = Checkpoint::open(folder_.write("m.safetensors", file.str())).value();
    Observer observer;
    EXPECT_TRUE(observer.record("q", x_, kFeatures).ok());
    EXPECT_TRUE(write_statistics(observer, folder_ / "stats.safetensors").ok());
    statistics_ = read_statistics(folder_ / "stats.safetensors").value();
  }

  [[nodiscard]] std::vector<float> normed(const std::vector<float>& weight,
                                          const std::vector<float>& bias) const {
    std::vector<float> x(hidden_.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = hidden_[i] * weight[i % kFeatures] + bias[i % kFeatures];
    }
    return x;
  }

  static std::vector<float> forward(Linear layer, const std::vector<float>& x) {
    std::vector<float> y(static_cast<std::size_t>(kTokens * layer.outputs()));
    EXPECT_TRUE(layer.forward(x, kTokens, y).ok());
    return y;
  }

  // Relative to f32.
  [[nodiscard]] double error(const std::string& name, const std::vector<float>& y) const {
    const std::vector<float> exact = forward(
        Linear::load(*model_, name, {.activations = Activations::kF32}).value(), x_);
    double difference = 0;
    double energy = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      difference += std::pow(double{y[i]} - double{exact[i]}, 2);
      energy += std::pow(double{exact[i]}, 2);
    }
    return std::sqrt(difference / energy);
  }

  TempFolder folder_;
  std::vector<float> q_, k_, k_bias_, norm_weight_, norm_bias_, hidden_, x_;
  std::unique_ptr<Checkpoint> model_;
  Observer statistics_;
  const std::vector<std::string> names_ = {"q", "k"};
};

TEST_F(SmoothLayers, FromStatisticsToLayersThatDivideTheirInput) {
  const auto smoothed = load_smoothed(*model_, statistics_, names_);
  ASSERT_TRUE(smoothed) << smoothed.error().message();
  ASSERT_EQ(smoothed->layers.size(), 2u);
  EXPECT_TRUE(smoothed->norm_weight.empty());
  EXPECT_GT(smoothed->factors[5], 3.0f);
  EXPECT_EQ(smoothed->factors[9], 1.0f);
  for (std::size_t i = 0; i < 2; ++i) {
    const double rough = error(
        names_[i],
        forward(Linear::make(
                    quantize(
                        TensorView::of(
                            i == 0 ? q_ : k_,
                            model_->tensors()[*model_->find(names_[i] + ".weight")].shape,
                            "w")
                            .value(),
                        Scheme::int8_rows())
                        .value(),
                    i == 0 ? std::vector<float>() : k_bias_)
                    .value(),
                x_));
    const double smooth = error(names_[i], forward(smoothed->layers[i], x_));
    EXPECT_LT(smooth, 0.02) << names_[i];
    EXPECT_LT(smooth, rough) << names_[i];
  }
}

TEST_F(SmoothLayers, FactorsAreFoldedIntoTheNormThatIsNamed) {
  const auto divided = load_smoothed(*model_, statistics_, names_).value();
  for (const std::string norm : {"norm", "norm.weight"}) {
    const auto folded = load_smoothed(*model_, statistics_, names_, {.norm = norm});
    ASSERT_TRUE(folded) << folded.error().message();
    EXPECT_EQ(folded->factors, divided.factors);
    const std::vector<float> x = normed(folded->norm_weight, folded->norm_bias);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<float> y = forward(folded->layers[i], x);
      EXPECT_LT(error(names_[i], y), 0.02);
    }
  }
}

TEST_F(SmoothLayers, WhatDoesNotFitIsRefused) {
  const auto code = [&](const std::vector<std::string>& names,
                        const SmoothLayersOptions& options = {}) {
    const auto result = load_smoothed(*model_, statistics_, names, options);
    return result ? StatusCode::kOk : result.error().code();
  };
  EXPECT_EQ(code({}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({"v"}), StatusCode::kNotFound);
  EXPECT_EQ(code({"k"}), StatusCode::kInvalidArgument);           // no statistics
  EXPECT_EQ(code({"q", "other"}), StatusCode::kInvalidArgument);  // 3 inputs
  EXPECT_EQ(code({"q", "norm"}), StatusCode::kInvalidArgument);   // no matrix
  EXPECT_EQ(code({"q"}, {.norm = "none"}), StatusCode::kNotFound);
  EXPECT_EQ(code({"q"}, {.norm = "other"}), StatusCode::kInvalidArgument);
  const std::vector<float> ones(kFeatures, 1.0f);
  EXPECT_EQ(code({"q"}, {.linear = {.input_scale = ones}}), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith
