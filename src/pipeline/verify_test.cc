#include "pith/pipeline/verify.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "pith/io/writer.h"
#include "pith/pipeline/compress.h"
#include "pith/pipeline/restore.h"
#include "pith/quantize/dense.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

class Verify : public ::testing::Test {
 protected:
  void SetUp() override {
    write_source(0);
    RecipeFlags flags;
    flags.quantize = "int8-row";
    options_.recipe = recipe_from_flags(flags).value();
    options_.sync = false;
    options_.overwrite = true;
    ASSERT_TRUE(compress(source_, output_, options_));
  }

  void write_source(float shift) const {
    CheckpointLayout layout;
    layout.tensors = {
        TensorSpec::plain("a.weight", DType::kF32, Shape::make({40, 70}).value()),
        TensorSpec::plain("norm", DType::kF32, Shape::make({70}).value())};
    auto writer =
        CheckpointWriter::create(source_, layout, {.overwrite = true, .sync = false})
            .value();
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<float> values(i == 0 ? 2800 : 70);
      for (float& value : values) value = normal(random);
      values[3] += shift;
      ASSERT_TRUE(writer->write(i, 0, std::as_bytes(std::span(values))).ok());
    }
    ASSERT_TRUE(writer->commit().ok());
  }

  // Changes one byte of the output, counted from its end.
  void flip(std::int64_t from_end) const {
    std::fstream file(output_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
  }

  const testing::TempFolder folder_;
  const fs::path source_ = folder_.path() / "in.safetensors";
  const fs::path output_ = folder_.path() / "out.safetensors";
  CompressOptions options_;
};

TEST_F(Verify, AGoodOutputHasNoProblems) {
  const Result<VerifyResult> result = verify(source_, output_, {});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->problems, std::vector<std::string>());
  EXPECT_EQ(result->checksums, 3);
  EXPECT_EQ(result->figures, 1);
  EXPECT_EQ(result->tensors.size(), 2u);
}

TEST_F(Verify, EveryFlippedBitOfDataIsFound) {
  for (const std::int64_t at : {1, 2800, 2801, 2870, 3080}) {
    flip(at);
    const Result<VerifyResult> result = verify(source_, output_, {});
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_FALSE(result->problems.empty()) << at;
    flip(at);
  }
  EXPECT_TRUE(verify(source_, output_, {})->problems.empty());
}

TEST_F(Verify, AnotherSourceIsFound) {
  write_source(1);
  const VerifyResult result = verify(source_, output_, {}).value();
  // The kept tensor changed, and the claimed error is not the one of this source.
  EXPECT_EQ(result.problems.size(), 2u);
}

TEST_F(Verify, LimitsAreGates) {
  VerifyOptions options;
  options.min_sqnr = 20;
  options.max_rmse = 0.1;
  EXPECT_TRUE(verify(source_, output_, options)->problems.empty());
  options.min_sqnr = 90;
  EXPECT_EQ(verify(source_, output_, options)->problems.size(), 1u);
  options.max_rmse = 1e-9;
  EXPECT_EQ(verify(source_, output_, options)->problems.size(), 2u);
}

TEST_F(Verify, RestoreGivesTheDecodedValues) {
  const fs::path dense = folder_.path() / "dense.safetensors";
  const Result<RestoreReport> report = restore(output_, dense, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->restored, 1);
  EXPECT_EQ(report->output_bytes, static_cast<std::int64_t>(fs::file_size(dense)));
  const DiffResult same = diff(output_, dense, {}).value();
  EXPECT_EQ(same.same, 2);
  EXPECT_EQ(same.differ, 0);
  const DiffResult other = diff(source_, dense, {}).value();
  EXPECT_EQ(other.same, 1);
  EXPECT_EQ(other.differ, 1);
  EXPECT_EQ(Checkpoint::open(dense).value()->tensors()[0].encoding.dtype, DType::kF32);
}

TEST_F(Verify, MissingAndExtraTensorsAreTold) {
  CheckpointLayout layout;
  layout.tensors = {TensorSpec::plain("other", DType::kF32, Shape::make({1}).value())};
  const fs::path path = folder_.path() / "other.safetensors";
  auto writer = CheckpointWriter::create(path, layout).value();
  const float value = 1;
  ASSERT_TRUE(writer->write(0, 0, std::as_bytes(std::span(&value, 1))).ok());
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(verify(source_, path, {})->problems.size(), 3u);
  EXPECT_EQ(diff(source_, path, {})->differ, 3);
}

}  // namespace
}  // namespace pith
