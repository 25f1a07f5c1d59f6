#include <algorithm>
#include <cmath>

#include "src/kernels/power_sums.h"

namespace pith::kernels {

PowerSums reference_power_sums(const float* in, std::int64_t count) noexcept {
  PowerSums result;
  double lanes[PowerSums::kPowers][PowerSums::kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = in[i];
    if (std::isnan(x)) {
      ++result.nan;
      continue;
    }
    if (std::isinf(x)) {
      ++result.infinite;
      continue;
    }
    if (x == 0) ++result.zeros;
    result.min = std::min(result.min, in[i] + 0.0F);
    result.max = std::max(result.max, in[i] + 0.0F);
    const double square = x * x;
    const std::int64_t lane = i % PowerSums::kLanes;
    lanes[0][lane] += x;
    lanes[1][lane] += square;
    lanes[2][lane] += square * x;
    lanes[3][lane] += square * square;
  }
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    const double* lane = lanes[power];
    result.sums[power] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                         ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
  return result;
}

}  // namespace pith::kernels
