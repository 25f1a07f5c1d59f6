// Sums of powers, extremes and counts of f32 values in one pass.
//
// Sums are double. Value i of a call is added to lane i % 8 of each sum, and the lanes
// are added at the end in one order, so every instruction set gives the same bits;
// whoever combines calls does so in the order of the values.
#pragma once

#include <cstdint>
#include <limits>

namespace pith::kernels {

struct PowerSums {
  static constexpr int kPowers = 4;
  static constexpr int kLanes = 8;

  double sums[kPowers] = {};  // of x, x^2, x^3 and x^4 of the finite values
  float min =
      std::numeric_limits<float>::infinity();  // of the finite values; zeros are +0
  float max = -std::numeric_limits<float>::infinity();
  std::int64_t zeros = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
};

// Values in[0 .. count), of any alignment; count is below 2^31. The x^3 and x^4 are
// (x * x) * x and (x * x) * (x * x), each rounded once to double.
PowerSums power_sums(const float* in, std::int64_t count) noexcept;
PowerSums reference_power_sums(const float* in, std::int64_t count) noexcept;

}  // namespace pith::kernels
