#include "src/quantize/extremes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/quantize.h"
#include "src/kernels/select.h"

namespace pith {
namespace {

constexpr std::int64_t kExtremesChunk = 2048;  // of values that are converted

Extremes finite_extremes(const float* values, std::int64_t n) {
  Extremes result;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t magnitude = bits & kernels::kMagnitudeMask;
    if (magnitude >= kernels::kInfinityBits) continue;
    std::uint32_t& extreme = bits == magnitude ? result.positive : result.negative;
    extreme = std::max(extreme, magnitude);
  }
  return result;
}

Extremes extremes_of(const float* values, std::int64_t n, bool signs, bool finite_only) {
  Extremes result;
  if (signs) {
    kernels::extremes_groups({values, 1, n, n}, &result.positive, &result.negative);
  } else {
    kernels::absmax_groups({values, 1, n, n}, &result.positive);
  }
  if (!finite_only || result.finite()) return result;
  result = finite_extremes(values, n);
  return signs ? result : Extremes{result.magnitude(), 0};
}

}  // namespace

bool Extremes::finite() const { return magnitude() < kernels::kInfinityBits; }

void Extremes::merge(const Extremes& other) {
  positive = std::max(positive, other.positive);
  negative = std::max(negative, other.negative);
}

Extremes find_extremes(const Values& values, std::int64_t first, std::int64_t n,
                       bool signs, bool finite_only) {
  std::vector<Extremes> pieces(static_cast<std::size_t>(piece_count(n, kPieceElements)));
  const auto scan = [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
    float converted[kExtremesChunk];
    const std::int64_t step = values.is_f32() ? end - begin : kExtremesChunk;
    for (std::int64_t i = begin; i < end; i += step) {
      const std::int64_t some = std::min(step, end - i);
      pieces[static_cast<std::size_t>(piece)].merge(
          extremes_of(values.read(first + i, some, converted), some, signs, finite_only));
    }
  };
  parallel_pieces(n, kPieceElements, scan);
  Extremes result;
  for (const Extremes& piece : pieces) result.merge(piece);
  return result;
}

float signed_extreme(const float* values, std::int64_t n, const Extremes& extremes) {
  const auto positive = std::bit_cast<float>(extremes.positive);
  const auto negative = std::bit_cast<float>(extremes.negative);
  if (positive != negative) return positive > negative ? positive : -negative;
  if (positive == 0) return 0;
  return *std::find_if(values, values + n,
                       [&](float v) { return std::fabs(v) == positive; });
}

float percentile_or(std::uint32_t percentile_bits, float largest) {
  if (percentile_bits == 0 || percentile_bits >= kernels::kInfinityBits) return largest;
  return std::bit_cast<float>(percentile_bits);
}

float percentile_magnitude(const float* values, std::int64_t n, double p, float largest) {
  const std::int64_t rank = kernels::percentile_rank(static_cast<float>(p), n);
  if (n > kPieceElements) {
    return percentile_or(kernels::select_magnitude(values, n, rank).bits, largest);
  }
  std::vector<std::uint32_t> magnitudes(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    magnitudes[static_cast<std::size_t>(i)] =
        std::bit_cast<std::uint32_t>(values[i]) & kernels::kMagnitudeMask;
  }
  const auto place = magnitudes.begin() + rank;
  std::nth_element(magnitudes.begin(), place, magnitudes.end());
  return percentile_or(*place, largest);
}

FinitePercentile finite_percentile(const Values& values, double p) {
  const std::int64_t n = values.count();
  if (!values.is_f32() || n <= kPieceElements) return {};
  const kernels::MagnitudeRank rank = kernels::select_magnitude(
      values.read(0, n, nullptr), n, kernels::percentile_rank(static_cast<float>(p), n));
  if (rank.largest >= kernels::kInfinityBits) return {};
  return {percentile_or(rank.bits, std::bit_cast<float>(rank.largest)), rank.largest};
}

float percentile_magnitude(const Values& values, std::int64_t first, std::int64_t n,
                           double p, float largest) {
  if (values.is_f32()) {
    return percentile_magnitude(values.read(first, n, nullptr), n, p, largest);
  }
  std::vector<float> converted(static_cast<std::size_t>(std::min(n, kPieceElements)));
  if (n <= kPieceElements) {
    return percentile_magnitude(values.read(first, n, converted.data()), n, p, largest);
  }
  kernels::MagnitudeHistogram histogram(
      kernels::percentile_rank(static_cast<float>(p), n));
  do {
    for (std::int64_t i = 0; i < n; i += kPieceElements) {
      const std::int64_t some = std::min(kPieceElements, n - i);
      histogram.add(values.read(first + i, some, converted.data()), some);
    }
  } while (histogram.next_pass());
  return percentile_or(histogram.result().bits, largest);
}

}  // namespace pith
