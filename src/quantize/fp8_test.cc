#include "pith/quantize/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "pith/tensor/half.h"

namespace pith {
namespace {

std::vector<float> round_trip(const std::vector<float>& weights, DType dtype) {
  const std::vector<float> factors(weights.size(), 1.0f);
  const auto n = static_cast<std::int64_t>(weights.size());
  const Result<Fp8Blocks> blocks = quantize_fp8_blocks(weights, 1, n, factors, dtype);
  EXPECT_TRUE(blocks.has_value()) << blocks.status().message();
  std::vector<float> back(weights.size());
  EXPECT_TRUE(dequantize(*blocks, back).ok());
  return back;
}

TEST(Fp8Blocks, FactorsMultiplyColumns) {
  std::vector<float> weights(64, 1.0f);
  std::vector<float> factors(32);
  for (std::size_t j = 0; j < 32; ++j) factors[j] = j % 2 == 0 ? 448.0f : 2.0f;
  const Result<Fp8Blocks> blocks =
      quantize_fp8_blocks(weights, 2, 32, factors, DType::kF8E4M3);
  ASSERT_TRUE(blocks.has_value());
  EXPECT_EQ(blocks->scales, (std::vector<std::uint16_t>{f32_to_f16(1), f32_to_f16(1)}));
  std::vector<float> back(64);
  ASSERT_TRUE(dequantize(*blocks, back).ok());
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(back[i], factors[i % 32]);
}

TEST(Fp8Blocks, FiniteWeightsStayFiniteAndClose) {
  for (DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (int k = 1; k <= 4000; ++k) {
      const float value = 0.001f * static_cast<float>(k);
      for (float back : round_trip(std::vector<float>(32, value), dtype)) {
        ASSERT_NEAR(back, value, value / 8) << k;
      }
    }
    for (float tiny : {1e-7f, 0.0015f, 1e-5f}) {  // scales at the lower end of f16
      EXPECT_GT(round_trip(std::vector<float>(32, tiny), dtype)[0], 0) << tiny;
    }
    EXPECT_EQ(round_trip(std::vector<float>(32, 0.0f), dtype), std::vector<float>(32));
  }
  EXPECT_NEAR(round_trip(std::vector<float>(32, 0.0015f), DType::kF8E5M2)[0], 0.0015f,
              0.0015f / 8);
}

TEST(Fp8Blocks, BadSizesTypesAndValuesAreRefused) {
  const std::vector<float> weights(64, 1.0f), factors(32, 1.0f);
  const std::span<const float> w(weights), f(factors);
  const auto code = [](auto... args) {
    return quantize_fp8_blocks(args...).status().code();
  };
  EXPECT_EQ(code(w, 2, 32, f.first(31), DType::kF8E4M3), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(w.first(63), 2, 32, f, DType::kF8E4M3), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(w.first(24), 3, 8, f.first(8), DType::kF8E4M3),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(w, 2, 32, f, DType::kF16), StatusCode::kInvalidArgument);
  std::vector<float> bad = weights;
  bad[40] = NAN;
  EXPECT_EQ(code(std::span<const float>(bad), 2, 32, f, DType::kF8E4M3),
            StatusCode::kNotFinite);
  bad[40] = 3e38f;  // needs a scale of 6e35
  EXPECT_EQ(code(std::span<const float>(bad), 2, 32, f, DType::kF8E4M3),
            StatusCode::kInvalidArgument);
  Fp8Blocks blocks;
  blocks.codes.resize(32);
  std::vector<float> out(32);
  EXPECT_FALSE(dequantize(blocks, out).ok());
}

}  // namespace
}  // namespace pith
