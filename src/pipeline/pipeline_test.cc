#include "pith/pipeline/pipeline.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "pith/base/threads.h"

namespace pith {
namespace {

ModelTensor tensor_of(std::string name, std::initializer_list<std::int64_t> extents,
                      float first = 1) {
  Shape shape = *Shape::make(extents);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), first);
  return {std::move(name), std::move(shape), std::move(values)};
}

Model two_tensors() {
  return {tensor_of("fc.weight", {4, 6}), tensor_of("fc.bias", {6}, -3)};
}

PruneOptions row_pruning() {
  PruneOptions options;
  options.granularity = Granularity::kRow;
  return options;
}

bool same_values(const Model& a, const Model& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ModelTensor& x, const ModelTensor& y) {
                      return x.name == y.name && x.values == y.values;
                    });
}

TEST(Pipeline, NothingToDoIsAnError) {
  const Result<PipelineResult> no_tensors = Pipeline::quantize_only().run({});
  EXPECT_EQ(no_tensors.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(no_tensors.error().message().find("no tensors"), std::string::npos);
  const Result<PipelineResult> no_stages = Pipeline().run(two_tensors());
  EXPECT_EQ(no_stages.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(no_stages.error().message().find("no stages"), std::string::npos);
}

TEST(Pipeline, OptionsOfAllStagesAreCheckedFirst) {
  // The first stage would refuse the NaN.
  Model model = two_tensors();
  model[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  const Pipeline pipeline({prune_stage(PruneOptions()), clip_stage(0)});
  const Result<PipelineResult> done = pipeline.run(std::move(model));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "stage 2: clip: percentile is 0, expected a value in (0, 1]");
}

TEST(Pipeline, ShapesAndNamesAreChecked) {
  Model model = two_tensors();
  model[1].values.pop_back();
  EXPECT_NE(Pipeline::quantize_only()
                .run(std::move(model))
                .error()
                .message()
                .find("'fc.bias' has 5 values, but its shape [6] has 6"),
            std::string::npos);
  model = two_tensors();
  model[1].name = model[0].name;
  EXPECT_NE(Pipeline::quantize_only()
                .run(std::move(model))
                .error()
                .message()
                .find("two tensors have the name 'fc.weight'"),
            std::string::npos);
}

TEST(Pipeline, PruneThenQuantizeReportsBothStages) {
  const Result<PipelineResult> done =
      Pipeline::prune_then_quantize(0.5F).run(two_tensors());
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_EQ(done->stages.size(), 2U);
  const StageStats& prune = done->stages[0];
  EXPECT_EQ(prune.stage, "prune");
  EXPECT_EQ(prune.processed, 2);
  EXPECT_EQ(prune.params_before, 30);
  EXPECT_EQ(prune.nonzero_after, 15);
  EXPECT_EQ(prune.sparsity(), 0.5F);
  EXPECT_EQ(prune.stored_bytes, 120);
  EXPECT_EQ(prune.ratio(), 1);
  const StageStats& quantize = done->total();
  EXPECT_EQ(quantize.stage, "quantize");
  EXPECT_EQ(quantize.bytes_before, 120);
  EXPECT_EQ(quantize.code_bytes, 30);
  EXPECT_EQ(quantize.stored_bytes, 30 + 2 * 4);
  EXPECT_EQ(quantize.code_ratio(), 4);
  EXPECT_EQ(quantize.ratio(), 120.0 / 38);
  EXPECT_EQ(done->storage[0].scheme, Scheme::int8_tensor());
}

TEST(Pipeline, PresetsAreTheirStages) {
  const auto names = [](const Pipeline& pipeline) {
    std::vector<std::string> out;
    for (const StagePtr& stage : pipeline.stages()) out.emplace_back(stage->name());
    return out;
  };
  EXPECT_EQ(names(Pipeline::prune_then_quantize(0.5F)),
            (std::vector<std::string>{"prune", "quantize"}));
  EXPECT_EQ(names(Pipeline::quantize_only()), (std::vector<std::string>{"quantize"}));
  EXPECT_EQ(names(Pipeline::prune_only(0.5F)), (std::vector<std::string>{"prune"}));
  EXPECT_FALSE(Pipeline::prune_only(1).validate().ok());
}

TEST(Pipeline, QuantizedTensorsStayQuantizedWhateverFollows) {
  const Pipeline pipeline({quantize_stage(Scheme::int8_tensor()),
                           prune_stage(PruneOptions()), clip_stage(0.1F)});
  const Result<PipelineResult> done = pipeline.run(two_tensors());
  ASSERT_TRUE(done);
  for (const StageStats& stats : done->stages) {
    EXPECT_EQ(stats.code_ratio(), 4) << stats.stage;
    EXPECT_EQ(stats.stored_bytes, 38) << stats.stage;
  }
}

TEST(Pipeline, EmbeddingsPassThroughOnRequest) {
  Model model = {tensor_of("model.embed_tokens.weight", {2, 3}),
                 tensor_of("tokenizer_head.weight", {2, 3})};
  const std::vector<float> before = model[0].values;
  const Result<PipelineResult> done =
      Pipeline::prune_then_quantize(0.5F, {.skip_embeddings = true}).run(model);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->model[0].values, before);
  EXPECT_NE(done->model[1].values, before);
  for (const StageStats& stats : done->stages) {
    EXPECT_EQ(stats.processed, 1);
    ASSERT_EQ(stats.skipped.size(), 1U);
    EXPECT_EQ(stats.skipped[0].name, "model.embed_tokens.weight");
    EXPECT_EQ(stats.skipped[0].reason, "is an embedding");
  }
  EXPECT_EQ(done->total().code_bytes, 24 + 6);
  EXPECT_EQ(done->storage[0], Storage());
}

TEST(Pipeline, EmptyTensorsAndVectorsPassThroughRowPruning) {
  Model model = {tensor_of("w", {4, 2}), tensor_of("hole", {0}), tensor_of("bias", {4})};
  const std::vector<float> bias = model[2].values;
  const Pipeline pipeline({prune_stage(row_pruning())});
  const Result<PipelineResult> done = pipeline.run(std::move(model));
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->total().processed, 1);
  ASSERT_EQ(done->total().skipped.size(), 2U);
  EXPECT_EQ(done->total().skipped[0].reason, "has no elements");
  EXPECT_EQ(done->total().skipped[1].reason, "is not two-dimensional");
  EXPECT_EQ(done->model[2].values, bias);
  EXPECT_EQ(done->model[0].values, (std::vector<float>{0, 0, 0, 0, 5, 6, 7, 8}));
}

TEST(Pipeline, ClipTakesExactlyItsShareOfTies) {
  const Pipeline pipeline({clip_stage(0.1F)});
  const Result<PipelineResult> done =
      pipeline.run({{"c", *Shape::make({10}), std::vector<float>(10, 3)}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->total().nonzero_after, 9);
  EXPECT_EQ(done->model[0].values[0], 0);
}

TEST(Pipeline, ClearedTensorsAreWarnedOf) {
  const Pipeline pipeline({clip_stage(1), quantize_stage(Scheme::int8_tensor())});
  const Result<PipelineResult> done = pipeline.run(two_tensors());
  ASSERT_TRUE(done);
  ASSERT_EQ(done->stages[0].warnings.size(), 2U);
  EXPECT_NE(done->stages[0].warnings[0].find("fc.weight"), std::string::npos);
  EXPECT_TRUE(done->stages[1].warnings.empty());
  EXPECT_EQ(done->total().sparsity(), 1);
}

TEST(Pipeline, ErrorsAreThoseOfTheFirstTensorThatHasOne) {
  Model model = {tensor_of("a", {3}), tensor_of("b", {3}), tensor_of("c", {3})};
  model[1].values[2] = std::numeric_limits<float>::infinity();
  model[2].values[0] = std::numeric_limits<float>::quiet_NaN();
  const Result<PipelineResult> done = Pipeline::quantize_only().run(std::move(model));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), StatusCode::kNotFinite);
  EXPECT_NE(done.error().message().find("'b'"), std::string::npos)
      << done.error().message();
}

TEST(Pipeline, RatioOfNothingIsOne) {
  const Result<PipelineResult> done =
      Pipeline::quantize_only().run({{"hole", *Shape::make({0, 4}), {}}});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->total().code_ratio(), 1);
  EXPECT_EQ(done->total().sparsity(), 0);
  EXPECT_EQ(ratio_of(16, 0), 1);
}

TEST(Pipeline, SparsityIsNeverNegative) {
  StageStats stats;
  stats.params_before = 3;
  stats.nonzero_after = 5;
  EXPECT_EQ(stats.sparsity(), 0);
  stats.nonzero_after = 2;
  EXPECT_EQ(stats.sparsity(), 1.0F / 3);
}

RC_GTEST_PROP(Pipeline, PermutedTensorsGiveThePermutedResult, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 8);
  Model model;
  for (std::size_t i = 0; i < count; ++i) {
    const auto whole = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-9, 10));
    std::vector<float> values(whole.begin(), whole.end());
    const auto size = static_cast<std::int64_t>(values.size());
    model.push_back({"t" + std::to_string(i), *Shape::make({size}), std::move(values)});
  }
  const Pipeline pipeline = Pipeline::prune_then_quantize(0.4F);
  Model reversed(model.rbegin(), model.rend());
  Result<PipelineResult> forward = pipeline.run(model);
  Result<PipelineResult> backward = [&] {
    const ThreadLimit one(1);
    return pipeline.run(reversed);
  }();
  RC_ASSERT(forward.has_value());
  RC_ASSERT(backward.has_value());
  std::reverse(backward->model.begin(), backward->model.end());
  RC_ASSERT(same_values(forward->model, backward->model));
  RC_ASSERT(forward->total().stored_bytes == backward->total().stored_bytes);
  RC_ASSERT(forward->total().nonzero_after == backward->total().nonzero_after);
}

}  // namespace
}  // namespace pith
