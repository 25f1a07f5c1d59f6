#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "pith/calibrate/stats_file.h"
#include "pith/pipeline/compress.h"
#include "pith/pipeline/verify.h"
#include "pith/quantize/dense.h"
#include "pith/run/linear.h"
#include "src/quantize/manifest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

namespace fs = std::filesystem;
using testing::has;
using testing::normal_values;
using testing::shape_of;
using testing::TempFolder;

constexpr std::int64_t kOutputs = 96;
constexpr std::int64_t kInputs = 64;

// Two weights, and activations of the first with a few large columns and a dead one.
class Smooth : public ::testing::Test {
 protected:
  void SetUp() override {
    weight_ = normal_values(kOutputs * kInputs, 1);
    input_ = normal_values(32 * kInputs, 2);
    for (std::int64_t i = 0; i < 32; ++i) {
      input_[static_cast<std::size_t>(i * kInputs + 3)] *= 100;
      input_[static_cast<std::size_t>(i * kInputs + 17)] *= 60;
      input_[static_cast<std::size_t>(i * kInputs + 5)] = 0;
    }
    write(model_, "fc.weight");
    record("fc", kInputs);
  }

  void write(const fs::path& path, const std::string& name) {
    CheckpointLayout layout;
    layout.tensors = {TensorSpec::plain(name, DType::kF32, shape_of({kOutputs, kInputs})),
                      TensorSpec::plain("other.weight", DType::kF32, shape_of({8, 16}))};
    auto writer = CheckpointWriter::create(path, layout, {.overwrite = true}).value();
    ASSERT_TRUE(writer->write(0, 0, std::as_bytes(std::span(weight_))).ok());
    const std::vector<float> other = normal_values(128, 3);
    ASSERT_TRUE(writer->write(1, 0, std::as_bytes(std::span(other))).ok());
    ASSERT_TRUE(writer->commit().ok());
  }

  void record(const std::string& layer, std::int64_t cols) {
    Observer observer;
    ASSERT_TRUE(observer.record(layer, input_, cols).ok());
    ASSERT_TRUE(write_statistics(observer, statistics_, {.overwrite = true}).ok());
  }

  Result<Report> compress_with(const std::string& stages,
                               const std::string& match = "*") {
    PITH_TRY(options_.recipe, Recipe::parse("version: 1\nrules:\n  - match: '" + match +
                                            "'\n    stages: [" + stages + "]\n"));
    options_.overwrite = true;
    options_.sync = false;
    return compress(model_, output_, options_);
  }
  std::string smooth(const std::string& more = "") const {
    return "smooth: {statistics: '" + statistics_.string() + "'" + more + "}";
  }
  // Of what the layer gives for the activations, against plain f32.
  double output_error() const {
    Linear layer = Linear::load(output_, "fc").value();
    std::vector<float> y(32 * kOutputs);
    EXPECT_TRUE(layer.forward(input_, 32, y).ok());
    double error = 0;
    double total = 0;
    for (std::int64_t r = 0; r < 32; ++r) {
      for (std::int64_t o = 0; o < kOutputs; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < kInputs; ++i) {
          sum += double{weight_[static_cast<std::size_t>(o * kInputs + i)]} *
                 double{input_[static_cast<std::size_t>(r * kInputs + i)]};
        }
        const double e = sum - double{y[static_cast<std::size_t>(r * kOutputs + o)]};
        error += e * e;
        total += sum * sum;
      }
    }
    return std::sqrt(error / total);
  }

  TempFolder folder_;
  fs::path model_ = folder_.path() / "model.safetensors";
  fs::path statistics_ = folder_.path() / "stats.safetensors";
  fs::path output_ = folder_.path() / "out.safetensors";
  std::vector<float> weight_;
  std::vector<float> input_;
  CompressOptions options_;
};

TEST_F(Smooth, TheFileIsReadBackAndRuns) {
  ASSERT_TRUE(compress_with("{quantize: int8-row}"));
  const double plain = output_error();
  const Result<Report> report = compress_with("{" + smooth() + "}, {quantize: int8-row}");
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_LT(output_error(), plain / 2);

  // The factors are those of the library.
  const auto file = Checkpoint::open(output_).value();
  std::vector<float> scale(kInputs);
  ASSERT_TRUE(
      file->read_rows(file->find("fc.weight.column_scale").value(), 0, 1, scale).ok());
  const Observer statistics = read_statistics(statistics_).value();
  const std::vector<float> factors =
      smooth_factors(statistics.input_of("fc.weight")->columns,
                     column_absmax(weight_, kOutputs, kInputs).value())
          .value();
  EXPECT_EQ(scale, inverse_factors(factors).value());
  EXPECT_EQ(scale[5], 1);
  EXPECT_FALSE(file->find("other.weight.column_scale"));

  // So is the weight: smoothed, quantized, decoded, divided.
  std::vector<float> smoothed = weight_;
  ASSERT_TRUE(smooth_weights(smoothed, kOutputs, kInputs, factors).ok());
  const QuantizedTensor codes =
      quantize(TensorView::of(smoothed, shape_of({kOutputs, kInputs})).value(),
               Scheme::int8_rows())
          .value();
  ASSERT_TRUE(dequantize(codes, smoothed).ok());
  for (std::size_t i = 0; i < smoothed.size(); ++i) {
    smoothed[i] *= scale[i % kInputs];
  }
  const auto dense = open_dense(output_).value();
  std::vector<float> read(weight_.size());
  ASSERT_TRUE(dense->read_rows(dense->find("fc.weight").value(), 0, kOutputs, read).ok());
  EXPECT_EQ(read, smoothed);

  const Result<VerifyResult> verified = verify(model_, output_, {});
  ASSERT_TRUE(verified) << verified.error().message();
  EXPECT_TRUE(verified->problems.empty()) << verified->problems.front();
  EXPECT_EQ(verified->figures, 2);
}

TEST_F(Smooth, GoesWithOtherStagesAndTypes) {
  for (const std::string& stages : std::initializer_list<std::string>{
           "{prune: {sparsity: 0.5}}, {" + smooth() + "}, {quantize: int8}",
           "{" + smooth(", alpha: 0.7") + "}, {convert: f16}",
           "{" + smooth() + "}, {convert: f32}", "{" + smooth() + "}",
           "{limit: 0.99}, {" + smooth() + "}, {quantize: int4-g16}"}) {
    SCOPED_TRACE(stages);
    const Result<Report> report = compress_with(stages);
    ASSERT_TRUE(report) << report.error().message();
    const Plan planned = plan(model_, output_, options_).value();
    // Whoever does not know of the factors would read other weights.
    ASSERT_EQ(planned.loads.size(), 1);
    EXPECT_TRUE(has(planned.loads[0], "Pith"));
    EXPECT_EQ(planned.output_bytes, static_cast<std::int64_t>(fs::file_size(output_)));
    const Result<VerifyResult> verified = verify(model_, output_, {});
    ASSERT_TRUE(verified) << verified.error().message();
    EXPECT_TRUE(verified->problems.empty()) << verified->problems.front();
  }
}

TEST_F(Smooth, EnginesAreNotGivenSmoothedWeights) {
  const fs::path input = folder_.path() / "in";
  fs::create_directory(input);
  fs::copy_file(model_, input / "model.safetensors");
  std::ofstream(input / "config.json") << "{}";
  // w8a8 alone would be stored for other engines; beside a smoothed tensor it is not.
  for (const bool smoothed : {false, true}) {
    CompressOptions options;
    options.recipe = Recipe::parse("version: 1\nrules:\n  - match: 'fc*'\n    stages: [" +
                                   (smoothed ? "{" + smooth() + "}, " : "") +
                                   "{convert: f16}]\n  - match: 'other*'\n"
                                   "    stages: [{quantize: w8a8}]\n")
                         .value();
    const Result<Plan> planned = plan(input, folder_.path() / "out", options);
    ASSERT_TRUE(planned) << planned.error().message();
    EXPECT_EQ(planned->convention,
              smoothed ? FileConvention::kPith : FileConvention::kCompressedTensors);
  }
}

TEST_F(Smooth, WhatDoesNotFitIsRefused) {
  const auto refusal = [&](const std::string& stages, const std::string& match = "*") {
    const Result<Report> report = compress_with(stages, match);
    EXPECT_FALSE(report);
    return report ? "" : report.error().message();
  };
  EXPECT_TRUE(has(refusal("{" + smooth() + "}, {quantize: int8}", "other*"),
                  "stage 'smooth' takes none of its 1 tensors: 'other.weight' has no "
                  "statistics of its input"));
  EXPECT_TRUE(has(refusal("{" + smooth() + "}, {" + smooth() + "}"), "comes twice"));
  EXPECT_TRUE(has(refusal("{" + smooth(", alpha: 2") + "}"), "alpha"));
  EXPECT_TRUE(has(refusal("{" + smooth(", beta: 2") + "}"), "unknown key 'beta'"));
  EXPECT_TRUE(has(refusal("{smooth: {alpha: 0.5}}"), "smooth needs statistics"));
  EXPECT_TRUE(has(refusal("{smooth: nowhere.safetensors}"), "recipe:4: "));
  EXPECT_TRUE(has(refusal("{smooth: '" + model_.string() + "'}"), "recipe:4: "));
  output_ = folder_.path() / "out.gguf";
  EXPECT_TRUE(has(refusal("{" + smooth() + "}, {quantize: q8_0}"), "GGUF"));
  output_ = folder_.path() / "out.safetensors";
  record("fc", 32);
  EXPECT_TRUE(
      has(refusal("{" + smooth() + "}"), "has 64 inputs, but the statistics have 32"));
}

}  // namespace
}  // namespace pith
