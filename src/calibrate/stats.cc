#include "pith/calibrate/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "src/base/parallel.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/moments.h"
#include "src/kernels/select.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

constexpr int kBinShift = 15;  // magnitude bits below the bin: one exponent has 256 bins
constexpr std::uint32_t kBinMask = (1u << kBinShift) - 1;

// Pieces for threads. Any cut gives the same bits; at most 16, because each piece has
// bins of its own for a while.
constexpr std::int64_t kSmallestPiece = 1 << 16;
constexpr std::int64_t kPieces = 16;

std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & kernels::kMagnitudeMask;
}

}  // namespace

ValueStats::ValueStats() = default;
ValueStats::ValueStats(ValueStats&&) noexcept = default;
ValueStats& ValueStats::operator=(ValueStats&&) noexcept = default;
ValueStats::~ValueStats() = default;

ValueStats::ValueStats(const ValueStats& other) { merge(other); }

ValueStats& ValueStats::operator=(const ValueStats& other) {
  if (this != &other) *this = ValueStats(other);
  return *this;
}

Status ValueStats::add(std::span<const float> values, NonFinite policy) {
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t piece = std::max(kSmallestPiece, piece_count(n, kPieces));
  std::vector<ValueStats> parts(static_cast<std::size_t>(piece_count(n, piece)));
  parallel_pieces(n, piece, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(i)].add_piece(values.subspan(
        static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
  if (policy == NonFinite::kError) {
    for (const ValueStats& part : parts) {
      if (part.nonfinite_ != 0) return require_finite(values, "statistics");
    }
  }
  for (const ValueStats& part : parts) merge(part);
  return {};
}

// Adds to an empty object.
void ValueStats::add_piece(std::span<const float> values) {
  for (std::size_t begin = 0; begin < values.size();
       begin += static_cast<std::size_t>(kernels::kMomentsChunk)) {
    const std::int64_t size = std::min(kernels::kMomentsChunk,
                                       static_cast<std::int64_t>(values.size() - begin));
    const float* const data = values.data() + begin;
    kernels::ChunkRange range;
    kernels::chunk_range(data, size, range);
    min_key_ = std::min(min_key_, range.min_key);
    max_key_ = std::max(max_key_, range.max_key);
    zeros_ += range.zeros;
    nonfinite_ += range.nonfinite;
    count_ += size - range.nonfinite;
    for (std::uint32_t largest = range.largest; largest >= range.smallest;) {
      const kernels::Window window = kernels::window_below(largest);
      const kernels::WindowSums sums = kernels::window_sums(data, size, window);
      sum_.add(sums.sum);
      sum_abs_.add(sums.sum_abs);
      sum_squares_.add(sums.squares_high);
      sum_squares_.add(sums.squares_low);
      largest = window.low - 1;
    }
  }
  if (!percentiles_are_exact()) {
    count_bins(values);
    return;
  }
  for (float value : values) {
    const std::uint32_t bits = magnitude_bits(value);
    if (bits < kernels::kInfinityBits && bits != 0) exact_.push_back(bits);
  }
}

void ValueStats::count_bins(std::span<const float> values) {
  // Neighbours go to different tables: counting one bin over and over would wait for
  // itself.
  constexpr std::size_t kBins = std::size_t{1} << (31 - kBinShift);
  constexpr std::size_t kMost = UINT32_MAX;
  std::vector<std::uint32_t> even(kBins), odd(kBins);
  bins_.resize(kExponents);
  while (!values.empty()) {
    const std::span<const float> part = values.first(std::min(kMost, values.size()));
    values = values.subspan(part.size());
    std::size_t i = 0;
    for (; i + 2 <= part.size(); i += 2) {
      ++even[magnitude_bits(part[i]) >> kBinShift];
      ++odd[magnitude_bits(part[i + 1]) >> kBinShift];
    }
    if (i < part.size()) ++even[magnitude_bits(part[i]) >> kBinShift];
    for (std::uint32_t bin = 0; bin < kernels::kInfinityBits >> kBinShift; ++bin) {
      const std::int64_t count = std::int64_t{even[bin]} + odd[bin];
      if (count != 0) count_magnitude(bin << kBinShift, count);
      even[bin] = odd[bin] = 0;
    }
  }
  if (zeros_ > 0) count_magnitude(0, -zeros_);  // they have a count of their own
}

void ValueStats::merge(const ValueStats& other) {
  if (&other == this) {
    ValueStats copy = other;  // which merging would change under its own feet
    std::swap(*this, copy);
    merge(copy);
    return;
  }
  const bool was_exact = percentiles_are_exact();
  count_ += other.count_;
  zeros_ += other.zeros_;
  nonfinite_ += other.nonfinite_;
  min_key_ = std::min(min_key_, other.min_key_);
  max_key_ = std::max(max_key_, other.max_key_);
  sum_.add(other.sum_);
  sum_abs_.add(other.sum_abs_);
  sum_squares_.add(other.sum_squares_);
  if (percentiles_are_exact()) {
    exact_.insert(exact_.end(), other.exact_.begin(), other.exact_.end());
    return;
  }
  if (was_exact) {
    bins_.resize(kExponents);
    for (std::uint32_t bits : exact_) count_magnitude(bits, 1);
    exact_ = {};
  }
  for (std::uint32_t bits : other.exact_) count_magnitude(bits, 1);
  for (std::size_t e = 0; e < other.bins_.size(); ++e) {
    if (!other.bins_[e]) continue;
    if (!bins_[e]) bins_[e] = std::make_unique<Page>();
    for (std::size_t m = 0; m < bins_[e]->size(); ++m) {
      (*bins_[e])[m] += (*other.bins_[e])[m];
    }
  }
}

void ValueStats::count_magnitude(std::uint32_t bits, std::int64_t times) {
  std::unique_ptr<Page>& page = bins_[bits >> 23];
  if (!page) page = std::make_unique<Page>();
  (*page)[bits >> kBinShift & 0xff] += times;
}

float ValueStats::min() const {
  return count_ == 0 ? 0 : std::bit_cast<float>(kernels::key_bits(min_key_));
}
float ValueStats::max() const {
  return count_ == 0 ? 0 : std::bit_cast<float>(kernels::key_bits(max_key_));
}
float ValueStats::absmax() const { return std::max(std::fabs(min()), std::fabs(max())); }

double ValueStats::mean() const {
  return count_ == 0 ? 0 : sum_.value() / static_cast<double>(count_);
}
double ValueStats::mean_abs() const {
  return count_ == 0 ? 0 : sum_abs_.value() / static_cast<double>(count_);
}
double ValueStats::rms() const {
  return count_ == 0 ? 0 : std::sqrt(sum_squares_.value() / static_cast<double>(count_));
}
double ValueStats::std_dev() const {
  if (count_ == 0) return 0;
  return std::sqrt(scaled_variance(count_, sum_, sum_squares_)) /
         static_cast<double>(count_);
}
double ValueStats::squared_deviations() const {
  if (count_ == 0) return 0;
  return scaled_variance(count_, sum_, sum_squares_) / static_cast<double>(count_);
}

Result<float> ValueStats::percentile(double p) const {
  if (!(p >= 0 && p <= 1)) {
    return Status::invalid_argument(
        fmt::format("percentile is {}, expected a value in [0, 1]", p));
  }
  if (count_ == 0) return 0.0f;
  std::int64_t rank = kernels::percentile_rank(static_cast<float>(p), count_);
  if (rank < zeros_) return 0.0f;
  rank -= zeros_;
  if (percentiles_are_exact()) {
    std::vector<std::uint32_t> sorted = exact_;
    std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
    return std::bit_cast<float>(sorted[static_cast<std::size_t>(rank)]);
  }
  for (const MagnitudeCount& bin : magnitudes()) {
    if (bin.magnitude == 0) continue;
    if (rank < bin.count) return bin.magnitude;
    rank -= bin.count;
  }
  return absmax();
}

Result<float> ValueStats::percentile_256(double p) const {
  PITH_TRY(const float exact, percentile(p));
  const float largest = absmax();
  if (largest == 0) return 0.0f;
  const float bin = std::min(255.0f, std::floor(exact / largest * 256.0f));
  return std::min(largest, (bin + 1.0f) / 256.0f * largest);
}

std::vector<MagnitudeCount> ValueStats::magnitudes() const {
  std::vector<MagnitudeCount> all;
  if (zeros_ > 0) all.push_back({0.0f, zeros_});
  if (percentiles_are_exact()) {
    std::vector<std::uint32_t> sorted = exact_;
    std::sort(sorted.begin(), sorted.end());
    for (std::uint32_t bits : sorted) {
      const float magnitude = std::bit_cast<float>(bits);
      if (all.empty() || all.back().magnitude != magnitude) all.push_back({magnitude, 0});
      ++all.back().count;
    }
    return all;
  }
  for (std::uint32_t e = 0; e < bins_.size(); ++e) {
    for (std::uint32_t m = 0; bins_[e] && m < bins_[e]->size(); ++m) {
      if ((*bins_[e])[m] == 0) continue;
      const std::uint32_t end = e << 23 | m << kBinShift | kBinMask;
      all.push_back({std::min(absmax(), std::bit_cast<float>(end)), (*bins_[e])[m]});
    }
  }
  return all;
}

ValueState ValueStats::state() const {
  return {nonfinite_, min(), max(), sum_, sum_abs_, sum_squares_, magnitudes()};
}

Result<ValueStats> ValueStats::from_state(const ValueState& state) {
  ValueStats stats;
  stats.nonfinite_ = state.nonfinite;
  stats.sum_ = state.sum;
  stats.sum_abs_ = state.sum_abs;
  stats.sum_squares_ = state.sum_squares;
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < state.magnitudes.size(); ++i) {
    const MagnitudeCount& entry = state.magnitudes[i];
    const auto bits = std::bit_cast<std::uint32_t>(entry.magnitude);
    if (bits >= kernels::kInfinityBits || (i > 0 && bits <= last)) {
      return Status::corrupt(fmt::format(
          "statistics: magnitude {} is {}, expected finite ones in rising order", i,
          entry.magnitude));
    }
    if (entry.count <= 0 ||
        __builtin_add_overflow(stats.count_, entry.count, &stats.count_)) {
      return Status::corrupt(fmt::format(
          "statistics: count {} is {}, expected 1 or more and a sum that fits", i,
          entry.count));
    }
    last = bits;
  }
  if (stats.count_ > 0) {
    if (!std::isfinite(state.min) || !std::isfinite(state.max)) {
      return Status::corrupt("statistics: minimum or maximum is not finite");
    }
    stats.min_key_ = kernels::order_key(std::bit_cast<std::uint32_t>(state.min));
    stats.max_key_ = kernels::order_key(std::bit_cast<std::uint32_t>(state.max));
  }
  const bool no_sums = state.sum == ExactSum() && state.sum_abs == ExactSum() &&
                       state.sum_squares == ExactSum();
  if (state.nonfinite < 0 || (stats.count_ > 0 && stats.min_key_ > stats.max_key_) ||
      std::bit_cast<float>(last) != stats.absmax() || state.sum_abs.negative() ||
      state.sum_squares.negative() || (stats.absmax() == 0) != no_sums) {
    return Status::corrupt("statistics: counts, range and sums contradict each other");
  }
  if (!stats.percentiles_are_exact()) stats.bins_.resize(kExponents);
  for (const MagnitudeCount& entry : state.magnitudes) {
    const auto bits = std::bit_cast<std::uint32_t>(entry.magnitude);
    if (bits == 0) {
      stats.zeros_ = entry.count;
    } else if (stats.percentiles_are_exact()) {
      stats.exact_.insert(stats.exact_.end(), static_cast<std::size_t>(entry.count),
                          bits);
    } else {
      stats.count_magnitude(bits, entry.count);
    }
  }
  return stats;
}

bool operator==(const ValueStats& a, const ValueStats& b) {
  return a.count_ == b.count_ && a.zeros_ == b.zeros_ && a.nonfinite_ == b.nonfinite_ &&
         a.min_key_ == b.min_key_ && a.max_key_ == b.max_key_ && a.sum_ == b.sum_ &&
         a.sum_abs_ == b.sum_abs_ && a.sum_squares_ == b.sum_squares_ &&
         a.magnitudes() == b.magnitudes();
}

}  // namespace pith
