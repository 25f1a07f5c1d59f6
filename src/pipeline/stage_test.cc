#include "pith/pipeline/stage.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "pith/quantize/quantize.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::shape_of;

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

PruneOptions by_rows() {
  PruneOptions options;
  options.granularity = Granularity::kRow;
  return options;
}

std::vector<std::uint32_t> bits_of_all(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(Stage, OptionsAreCheckedAndNamed) {
  PruneOptions prune;
  prune.sparsity = 1;
  EXPECT_NE(prune_stage(prune)->validate().message().find("sparsity is 1"),
            std::string::npos);
  EXPECT_NE(clip_stage(1.5F)->validate().message().find("percentile is 1.5"),
            std::string::npos);
  EXPECT_FALSE(limit_stage(std::numeric_limits<float>::quiet_NaN())->validate().ok());
  Scheme scheme;
  scheme.bits = 5;
  EXPECT_NE(quantize_stage(scheme)->validate().message().find("bits is 5"),
            std::string::npos);
  EXPECT_NE(convert_stage(DType::kI8)->validate().message().find("dtype is i8"),
            std::string::npos);
  PruneOptions wanda;
  wanda.importance = Importance::kWanda;
  EXPECT_EQ(prune_stage(wanda)->validate().code(), StatusCode::kInvalidArgument);
}

TEST(Stage, PruneSkipsWhatItCannotPrune) {
  const StagePtr rows = prune_stage(by_rows());
  EXPECT_EQ(rows->skip_reason({"w", shape_of({2, 3})}), "");
  EXPECT_EQ(rows->skip_reason({"bias", shape_of({3})}), "is not two-dimensional");
  EXPECT_EQ(rows->skip_reason({"conv", shape_of({2, 3, 4})}), "is not two-dimensional");
  const StagePtr elements = prune_stage(PruneOptions());
  EXPECT_EQ(elements->skip_reason({"bias", shape_of({3})}), "");
  EXPECT_EQ(elements->skip_reason({"hole", shape_of({0})}), "has no elements");
}

TEST(Stage, StorageFollowsTheLastStageThatSetsIt) {
  const Shape shape = shape_of({4, 6});
  const Storage f32;
  EXPECT_EQ(f32.stored_bytes(shape), 96);
  const Storage int8 = quantize_stage(Scheme::int8_rows())->storage(f32);
  EXPECT_EQ(int8.code_bytes(shape), 24);
  EXPECT_EQ(int8.stored_bytes(shape), 24 + 4 * 4);
  EXPECT_EQ(prune_stage(PruneOptions())->storage(int8), int8);
  EXPECT_EQ(clip_stage(0.5F)->storage(int8), int8);
  const Storage half = convert_stage(DType::kBF16)->storage(int8);
  EXPECT_EQ(half.code_bytes(shape), 48);
  EXPECT_EQ(half.stored_bytes(shape), 48);
}

TEST(Stage, QuantizeLeavesWhatItsCodesDecodeTo) {
  const TensorHeader spec{"w", shape_of({2, 3})};
  std::vector<float> values = {1, -2, 3, 0.1F, 0.2F, -0.3F};
  const Result<TensorView> view = TensorView::of(values, spec.shape);
  const Result<QuantizedTensor> codes = quantize(*view, Scheme::int8_rows());
  ASSERT_TRUE(codes);
  std::vector<float> expected(values.size());
  ASSERT_TRUE(dequantize(*codes, expected).ok());
  ASSERT_TRUE(quantize_stage(Scheme::int8_rows())->apply(spec, values).ok());
  EXPECT_EQ(values, expected);
  const Storage storage = quantize_stage(Scheme::int8_rows())->storage({});
  EXPECT_EQ(storage.stored_bytes(spec.shape), codes->stored_bytes());
}

TEST(Stage, SubnormalsWithoutAScaleBecomePositiveZeros) {
  std::vector<float> values = {7e-45F, -3e-45F};
  ASSERT_TRUE(
      quantize_stage(Scheme::int8_tensor())->apply({"w", shape_of({2})}, values).ok());
  EXPECT_EQ(bits_of_all(values), (std::vector<std::uint32_t>{0, 0}));
}

TEST(Stage, NotFiniteIsRefusedWithTensorAndIndex) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const StagePtr& stage :
       {prune_stage(PruneOptions()), clip_stage(0.5F), limit_stage(0.5F),
        quantize_stage(Scheme::int8_tensor())}) {
    std::vector<float> values = {1, 2, nan, 4};
    const Status status = stage->apply({"blk.weight", shape_of({4})}, values);
    EXPECT_EQ(status.code(), StatusCode::kNotFinite) << stage->name();
    EXPECT_NE(status.message().find("blk.weight"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find('2'), std::string::npos) << status.message();
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[3], 4);
  }
}

TEST(Stage, ConvertRoundsAndRefusesOverflow) {
  const TensorHeader spec{"w", shape_of({3})};
  std::vector<float> values = {1.0001F, 65504, -3};
  ASSERT_TRUE(convert_stage(DType::kF16)->apply(spec, values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 65504, -3}));
  values = {1, 70000, -80000};
  const Status status = convert_stage(DType::kF16)->apply(spec, values);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("70000"), std::string::npos) << status.message();
  EXPECT_EQ(values, (std::vector<float>{1, 70000, -80000}));
  ASSERT_TRUE(convert_stage(DType::kF16, true)->apply(spec, values).ok());
  EXPECT_EQ(values[1], std::numeric_limits<float>::infinity());
}

TEST(Stage, SchemeThatDoesNotFitNamesTheTensor) {
  const Status status =
      quantize_stage(Scheme::int8_blocks(32))->fits({"odd", shape_of({4, 33})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("odd"), std::string::npos) << status.message();
}

TEST(Stage, GlobalPruningLetsTensorsCompete) {
  PruneOptions options;
  options.scope = PruneScope::kGlobal;
  std::vector<float> small = {0.1F, 0.2F};
  std::vector<float> large = {1, 2};
  const TensorHeader small_spec{"small", shape_of({2})};
  const TensorHeader large_spec{"large", shape_of({2})};
  const std::vector<StageTensor> tensors = {{small_spec, small}, {large_spec, large}};
  ASSERT_TRUE(prune_stage(options)->apply_all(tensors).ok());
  EXPECT_EQ(small, (std::vector<float>{0, 0}));
  EXPECT_EQ(large, (std::vector<float>{1, 2}));
}

// Feeds a stream in chunks of `rows` rows.
Status stream_all(StageStream& stream, std::vector<float>& values, std::size_t chunk) {
  const auto each = [&](auto&& use) -> Status {
    for (std::size_t at = 0; at < values.size(); at += chunk) {
      PITH_OK(use(std::span(values).subspan(at, std::min(chunk, values.size() - at))));
    }
    return {};
  };
  while (stream.needs_pass()) {
    PITH_OK(each([&](std::span<float> part) { return stream.feed(part); }));
    PITH_OK(stream.end_pass());
  }
  return each([&](std::span<float> part) { return stream.apply(part); });
}

std::vector<StagePtr> streaming_stages() {
  Scheme percentile = Scheme::int8_tensor();
  percentile.rule = ScaleRule::kPercentile;
  percentile.percentile = 0.9;
  PruneOptions random;
  random.importance = Importance::kRandom;
  return {prune_stage(PruneOptions()),
          prune_stage(random),
          prune_stage(by_rows()),
          clip_stage(0.3F),
          quantize_stage(Scheme::int8_tensor()),
          quantize_stage(percentile),
          quantize_stage(Scheme::int8_rows()),
          quantize_stage(Scheme::int4_blocks(4)),
          quantize_stage(Scheme::w4a16_asymmetric(4)),
          quantize_stage(Scheme::int8_flat_blocks(2))};
}

RC_GTEST_PROP(StageStream, RowByRowGivesTheSameBits, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 20);
  const std::int64_t cols = 8;
  const TensorHeader spec{"w", shape_of({rows, cols})};
  // Few different values, so that there are ties.
  const auto whole = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(rows * cols), rc::gen::inRange(-6, 7));
  std::vector<float> values;
  for (int value : whole) values.push_back(static_cast<float>(value) / 4);
  if (std::all_of(values.begin(), values.end(), [](float v) { return v == 0; })) {
    values[0] = 1;
  }
  const auto chunk =
      static_cast<std::size_t>(cols) * *rc::gen::inRange<std::size_t>(1, 7);
  for (const StagePtr& stage : streaming_stages()) {
    std::vector<float> at_once = values;
    std::vector<float> in_parts = values;
    RC_ASSERT(stage->apply(spec, at_once).ok());
    Result<std::unique_ptr<StageStream>> stream = stage->stream(std::span(&spec, 1));
    RC_ASSERT(stream.has_value());
    RC_ASSERT(stream_all(**stream, in_parts, chunk).ok());
    RC_ASSERT(bits_of_all(at_once) == bits_of_all(in_parts));
  }
}

TEST(StageStream, NanIsNamedByItsIndexInTheTensor) {
  const TensorHeader spec{"w", shape_of({2, 2})};
  std::vector<float> values = {1, 2, 3, std::numeric_limits<float>::quiet_NaN()};
  Result<std::unique_ptr<StageStream>> stream =
      clip_stage(0.5F)->stream(std::span(&spec, 1));
  ASSERT_TRUE(stream);
  const Status status = stream_all(**stream, values, 2);
  EXPECT_EQ(status.code(), StatusCode::kNotFinite);
  EXPECT_NE(status.message().find("index 3"), std::string::npos) << status.message();
}

class Doubling : public Stage {
 public:
  std::string_view name() const override { return "double"; }
  Status validate() const override { return {}; }
  Status apply(const TensorHeader& /*tensor*/, std::span<float> values) const override {
    for (float& value : values) value *= 2;
    return {};
  }
};

TEST(Stage, AStageOfOnesOwnNeedsThreeFunctions) {
  const Doubling stage;
  std::vector<float> a = counting(3);
  std::vector<float> b = counting(2);
  const TensorHeader spec_a{"a", shape_of({3})};
  const TensorHeader spec_b{"b", shape_of({2})};
  const std::vector<StageTensor> tensors = {{spec_a, a}, {spec_b, b}};
  ASSERT_TRUE(stage.apply_all(tensors).ok());
  EXPECT_EQ(a, (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(b, (std::vector<float>{2, 4}));
  EXPECT_EQ(stage.storage({}), Storage());
  EXPECT_EQ(stage.stream(std::span(&spec_a, 1)).status().code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace pith
