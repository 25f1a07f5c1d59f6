#include <algorithm>
#include <cmath>

#include "src/kernels/power_sums.h"

namespace pith::kernels {
namespace {

template <typename Number>
struct Lanes {
  Number sums[PowerSums::kPowers][PowerSums::kLanes] = {};

  void add(std::int64_t i, Number x) {
    const std::int64_t lane = i % PowerSums::kLanes;
    const Number square = x * x;
    sums[0][lane] += x;
    sums[1][lane] += square;
    sums[2][lane] += square * x;
    sums[3][lane] += square * square;
  }
};

bool powers_fit_f32(const float* in, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(in[i])) return false;
    largest = std::max(largest, std::abs(in[i]));
  }
  return largest == 0 || (largest >= PowerSums::kLeast && largest <= PowerSums::kMost);
}

}  // namespace

PowerSums reference_power_sums(const float* in, std::int64_t count) noexcept {
  PowerSums result;
  Lanes<double> lanes;
  std::int64_t i = 0;
  const std::int64_t blocks = count / PowerSums::kBlock * PowerSums::kBlock;
  if (powers_fit_f32(in, blocks)) {
    while (i < blocks) {
      Lanes<float> block;
      for (int n = 0; n < PowerSums::kBlock; ++n, ++i) block.add(i, in[i]);
      for (int power = 0; power < PowerSums::kPowers; ++power) {
        for (int lane = 0; lane < PowerSums::kLanes; ++lane) {
          lanes.sums[power][lane] += block.sums[power][lane];
        }
      }
    }
  }
  for (; i < count; ++i) {
    if (std::isfinite(in[i])) lanes.add(i, in[i]);
  }
  for (i = 0; i < count; ++i) {
    result.nan += std::isnan(in[i]) ? 1 : 0;
    result.infinite += std::isinf(in[i]) ? 1 : 0;
    if (!std::isfinite(in[i])) continue;
    result.zeros += in[i] == 0 ? 1 : 0;
    result.min = std::min(result.min, in[i] + 0.0F);
    result.max = std::max(result.max, in[i] + 0.0F);
  }
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    // Halves onto each other: lane 0 + lane 8, ..., then 0 + 4, 0 + 2, 0 + 1.
    double* lane = lanes.sums[power];
    for (int half = PowerSums::kLanes / 2; half > 0; half /= 2) {
      for (int n = 0; n < half; ++n) lane[n] += lane[n + half];
    }
    result.sums[power] = lane[0];
  }
  return result;
}

}  // namespace pith::kernels
