// Sums of powers, extremes and counts of f32 values in one pass.
//
// Value i of a call is added to lane i % 16 of each sum, and the lanes are added at the
// end in one order, so every instruction set gives the same bits; whoever combines calls
// does so in the order of the values.
//
// Lanes are f32 within a block of 512 values, 32 of them for each lane, and double from
// block to block: rounding errors of 32 additions at most, random in sign, are some 1e-8
// of a sum, and the loop is nearly twice as fast as one in double. What is left behind the
// last block is added in double. So is everything if the blocks hold values whose powers
// f32 cannot: NaN, infinity, or a largest magnitude outside of [kLeast, kMost].
#pragma once

#include <cstdint>
#include <limits>

namespace pith::kernels {

struct PowerSums {
  static constexpr int kPowers = 4;
  static constexpr int kLanes = 16;
  static constexpr int kBlock = 512;  // values
  // x^4 of the largest value is far from what f32 can hold; 0 is as good.
  static constexpr float kLeast = 1e-6F;
  static constexpr float kMost = 1e9F;

  double sums[kPowers] = {};  // of x, x^2, x^3 and x^4 of the finite values
  float min =
      std::numeric_limits<float>::infinity();  // of the finite values; zeros are +0
  float max = -std::numeric_limits<float>::infinity();
  std::int64_t zeros = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
};

// Values in[0 .. count), of any alignment; count is below 2^31. The x^3 and x^4 are
// (x * x) * x and (x * x) * (x * x), each product rounded to the type of the sum.
PowerSums power_sums(const float* in, std::int64_t count) noexcept;
PowerSums reference_power_sums(const float* in, std::int64_t count) noexcept;

}  // namespace pith::kernels
