#include "pith/pipeline/estimate.h"

#include <gtest/gtest.h>

namespace pith {
namespace {

std::vector<TensorHeader> specs() {
  return {{"a.weight", *Shape::make({6, 8})}, {"a.bias", *Shape::make({6})}};
}

TEST(Estimate, EqualsTheRunWhateverTheStages) {
  const StagePtr int8 = quantize_stage(Scheme::int8_tensor());
  const StagePtr int4 = quantize_stage(Scheme::int4_rows());
  const StagePtr half = convert_stage(DType::kF16);
  const StagePtr prune = prune_stage(PruneOptions());
  const StagePtr clip = clip_stage(0.3F);
  const std::vector<std::vector<StagePtr>> orders = {
      {int8},       {int8, int8}, {int8, int8, int8}, {prune, int8}, {int8, prune},
      {int8, clip}, {int4, half}, {half, int4},       {clip, half},  {int8, int4, prune}};
  for (const std::vector<StagePtr>& stages : orders) {
    const Pipeline pipeline(stages);
    Model model;
    for (const TensorHeader& spec : specs()) {
      const auto count = static_cast<std::size_t>(spec.shape.elements());
      model.push_back({spec.name, spec.shape, std::vector<float>(count, 1.5F)});
    }
    const Result<PipelineResult> done = pipeline.run(std::move(model));
    ASSERT_TRUE(done) << done.error().message();
    const Result<Estimate> estimated = estimate(pipeline, specs());
    ASSERT_TRUE(estimated);
    EXPECT_EQ(estimated->bytes_before, done->total().bytes_before);
    EXPECT_EQ(estimated->code_bytes, done->total().code_bytes);
    EXPECT_EQ(estimated->stored_bytes, done->total().stored_bytes);
  }
}

TEST(Estimate, WithoutStagesIsTheInput) {
  const Result<Estimate> estimated = estimate(Pipeline(), specs());
  ASSERT_TRUE(estimated);
  EXPECT_EQ(estimated->code_bytes, 4 * 54);
  EXPECT_EQ(estimated->stored_bytes, 4 * 54);
  EXPECT_EQ(estimated->ratio(), 1);
}

TEST(Estimate, OfNoTensorsIsNothing) {
  const Result<Estimate> estimated = estimate(Pipeline::quantize_only(), {});
  ASSERT_TRUE(estimated);
  EXPECT_EQ(estimated->stored_bytes, 0);
}

TEST(Estimate, RefusesWhatARunRefuses) {
  const Pipeline bad_option({clip_stage(-1), quantize_stage(Scheme::int8_tensor())});
  EXPECT_EQ(estimate(bad_option, specs()).status().code(), StatusCode::kInvalidArgument);
  const Pipeline bad_fit({quantize_stage(Scheme::int8_blocks(5))});
  const Result<Estimate> estimated = estimate(bad_fit, specs());
  ASSERT_FALSE(estimated);
  EXPECT_NE(estimated.error().message().find("a.weight"), std::string::npos);
}

TEST(Estimate, ModelsBeyondInt64AreRefused) {
  const std::vector<TensorHeader> huge = {
      {"a", *Shape::make({std::int64_t{1} << 60})},
      {"b", *Shape::make({std::int64_t{1} << 57})},
  };
  EXPECT_EQ(estimate(Pipeline(), huge).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith
