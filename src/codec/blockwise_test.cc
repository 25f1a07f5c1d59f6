#include "pith/codec/blockwise.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "pith/tensor/half.h"
#include "src/kernels/target.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

std::vector<float> decoded(const BlockwiseCodes& codes) {
  std::vector<float> out(codes.codes.size());
  EXPECT_TRUE(blockwise_decompress(codes, out).ok());
  return out;
}

TEST(Blockwise, CodesUseTheExactScaleAndDecodingTheStoredOne) {
  const std::vector<float> values = {1, -0.5f, 0.25f, 100, -3};
  const Result<BlockwiseCodes> c = blockwise_compress(values, {.block_size = 3});
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->codes, (std::vector<std::int8_t>{127, -64, 32, 127, -4}));
  EXPECT_EQ(c->scales_f16, (std::vector<std::uint16_t>{f32_to_f16(1.0f / 127),
                                                       f32_to_f16(100.0f / 127)}));
  EXPECT_EQ(decoded(*c)[4], -4 * f16_to_f32(f32_to_f16(100.0f / 127)));
  EXPECT_EQ(c->size_bytes(), 9);
}

TEST(Blockwise, ABlockOfZerosHasScaleOne) {
  const Result<BlockwiseCodes> c =
      blockwise_compress(std::vector<float>{0, -0.0f, 0, 5}, {.block_size = 2});
  EXPECT_EQ(c->scales_f16[0], f32_to_f16(1));
  EXPECT_EQ(decoded(*c)[0], 0);
  EXPECT_EQ(decoded(*c)[1], 0);
}

TEST(Blockwise, ScalesThatF16CannotHoldAreStoredInF32) {
  for (float largest : {3e-6f, 1.2e-5f, 0.0077f, 8.4e6f, 1e9f, 3e38f}) {
    const std::vector<float> values = {largest, -largest / 3, 0, 1.0f};
    const Result<BlockwiseCodes> c = blockwise_compress(values, {.block_size = 3});
    ASSERT_TRUE(c.has_value());
    EXPECT_EQ(c->scale_type, DType::kF32) << largest;
    EXPECT_EQ(c->size_bytes(), 4 + 8);
    EXPECT_NEAR(decoded(*c)[0], largest, largest / 254) << largest;
    const Result<BlockwiseCodes> forced =
        blockwise_compress(values, {.block_size = 3, .scales = BlockScales::kF16});
    EXPECT_EQ(forced->scale_type, DType::kF16);
    EXPECT_EQ(forced->codes, c->codes);
  }
  for (float fits : {0.00776f, 8.32e6f}) {  // 127 * 2^-14 and 127 * 65520
    EXPECT_EQ(blockwise_compress(std::vector<float>{fits})->scale_type, DType::kF16)
        << fits;
  }
}

TEST(Blockwise, ScaleBelowTheSmallestFloatGivesZeros) {
  const float unit = std::numeric_limits<float>::denorm_min();
  const Result<BlockwiseCodes> c = blockwise_compress(
      std::vector<float>{3 * unit, -unit, 190 * unit}, {.block_size = 2});
  EXPECT_EQ(c->codes, (std::vector<std::int8_t>{0, 0, 127}));
  EXPECT_EQ(decoded(*c), (std::vector<float>{0, 0, 127 * unit}));
}

TEST(Blockwise, BadInputIsRefused) {
  for (std::int64_t block_size :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 31}) {
    EXPECT_EQ(blockwise_compress({}, {.block_size = block_size}).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_FALSE(BlockwiseCodec::make(block_size).has_value());
    BlockwiseCodes codes;
    codes.block_size = block_size;
    EXPECT_FALSE(blockwise_decompress(codes, {}).ok());
  }
  for (float bad : {NAN, -INFINITY}) {
    std::vector<float> values = normal_values(200000, 1);
    values[150001] = bad;
    const Status status = blockwise_compress(values).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFinite);
    EXPECT_NE(status.message().find("150001"), std::string::npos);
  }
  BlockwiseCodes codes;
  codes.block_size = 2;
  codes.codes = {1, -2, 3};
  codes.scales_f16 = {f32_to_f16(0.5f)};
  std::vector<float> out(3);
  EXPECT_EQ(blockwise_decompress(codes, out).message(),
            "blockwise: 1 scales, expected one for each of 2 blocks");
  codes.scales_f16.resize(4, f32_to_f16(9));
  EXPECT_TRUE(blockwise_decompress(codes, out).ok());
  EXPECT_EQ(out, (std::vector<float>{0.5f, -1, 27}));
  EXPECT_FALSE(blockwise_decompress(codes, std::span(out).first(2)).ok());
}

RC_GTEST_PROP(Blockwise, ErrorIsHalfAStepAndTheRoundingOfTheScale, (std::uint32_t seed)) {
  const auto n = *rc::gen::inRange<std::size_t>(0, 5000);
  const auto block = *rc::gen::element<std::int64_t>(1, 3, 32, 64, 256, 100000);
  const std::vector<float> values = normal_values(n, seed);
  const Result<BlockwiseCodes> c = blockwise_compress(values, {.block_size = block});
  const std::vector<float> back = decoded(*c);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t b = i / static_cast<std::size_t>(block);
    const float scale =
        c->scale_type == DType::kF16 ? f16_to_f32(c->scales_f16[b]) : c->scales_f32[b];
    RC_ASSERT(std::fabs(values[i] - back[i]) <= scale * (0.5f + 127.0f / 2000));
  }
}

TEST(Blockwise, IsTheSameForEveryInstructionSetAndThreadCount) {
  const std::vector<float> values = normal_values(300001, 2);
  for (std::int64_t block : {std::int64_t{1}, std::int64_t{33}, std::int64_t{1} << 20}) {
    const Result<BlockwiseCodes> expected =
        blockwise_compress(values, {.block_size = block});
    for (const std::string& target : kernels::available_targets()) {
      ASSERT_TRUE(kernels::set_target(target).ok());
      const ThreadLimit limit(1);
      const Result<BlockwiseCodes> c = blockwise_compress(values, {.block_size = block});
      EXPECT_EQ(c->codes, expected->codes) << target << " " << block;
      EXPECT_EQ(c->scales_f16, expected->scales_f16);
      EXPECT_EQ(decoded(*c), decoded(*expected));
    }
  }
  ASSERT_TRUE(kernels::set_target("").ok());
}

}  // namespace
}  // namespace pith
