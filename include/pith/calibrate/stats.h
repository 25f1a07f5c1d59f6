// Statistics of values that come in batches. They can be merged, and are the same bits
// for every batching, every order of batches and every number of threads.
//
//   pith::ValueStats stats;
//   for (std::span<const float> batch : batches) PITH_OK(stats.add(batch));
//   PITH_TRY(float p99, stats.percentile(0.99));
//
// Sums are exact (exact_sum.h) and rounded once, when they are read. Percentiles are
// exact up to kExactValues values. Beyond that magnitudes are counted in bins of one
// exponent and eight bits of the mantissa, and a percentile is the upper end of its bin:
// at most one part in 256 too large, never too small. Which of the two holds depends on
// the number of values alone.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/calibrate/exact_sum.h"
#include "pith/tensor/non_finite.h"

namespace pith {

/// A magnitude and how many values have it.
struct MagnitudeCount {
  float magnitude = 0;
  std::int64_t count = 0;

  friend bool operator==(const MagnitudeCount&, const MagnitudeCount&) = default;
};

/// All that ValueStats know: what a file keeps, so that it can be merged with others later.
struct ValueState {
  std::int64_t nonfinite = 0;
  float min = 0;
  float max = 0;
  ExactSum sum;
  ExactSum sum_abs;
  ExactSum sum_squares;
  std::vector<MagnitudeCount> magnitudes;  ///< as ValueStats::magnitudes() gives them
};

/// Minimum, maximum, mean, deviation and percentiles of a stream of values. Figures of no
/// value are 0. -0 counts as smaller than +0. Copies and moves like a value; a const one
/// may be read by several threads.
class ValueStats {
 public:
  static constexpr std::int64_t kExactValues = 16384;

  ValueStats();
  ValueStats(const ValueStats& other);
  ValueStats& operator=(const ValueStats& other);
  ValueStats(ValueStats&&) noexcept;
  ValueStats& operator=(ValueStats&&) noexcept;
  ~ValueStats();

  /// kNotFinite if a value is NaN or infinite and the policy rejects that: the message
  /// names its index in `values`, and nothing changes.
  Status add(std::span<const float> values, NonFinite policy = NonFinite::kError);
  /// As if the values of `other` had been added here.
  void merge(const ValueStats& other);

  [[nodiscard]] std::int64_t count() const { return count_; }  ///< finite values
  [[nodiscard]] std::int64_t zeros() const { return zeros_; }
  [[nodiscard]] std::int64_t nonfinite() const { return nonfinite_; }
  [[nodiscard]] float min() const;
  [[nodiscard]] float max() const;
  [[nodiscard]] float absmax() const;

  [[nodiscard]] double mean() const;
  [[nodiscard]] double mean_abs() const;
  [[nodiscard]] double rms() const;      ///< root of the mean square
  [[nodiscard]] double std_dev() const;  ///< of the population
  /// Sum of (x - mean)^2.
  [[nodiscard]] double squared_deviations() const;

  /// The smallest magnitude that at least the fraction p of the values do not exceed: in
  /// rising order that at rank max(1, ceil(p * count)). Up to 2^24 values the product is
  /// taken in f32, as the reference does. 0 if there is no value; kInvalidArgument if p
  /// is not in [0, 1].
  [[nodiscard]] Result<float> percentile(double p) const;
  /// The percentile rounded up to a 256th of absmax(): what a histogram of 256 equal bins
  /// tells. The reference's calibration uses it.
  [[nodiscard]] Result<float> percentile_256(double p) const;
  [[nodiscard]] bool percentiles_are_exact() const { return count_ <= kExactValues; }

  /// All magnitudes in rising order, each once; beyond kExactValues the upper end of each
  /// bin that is not empty.
  [[nodiscard]] std::vector<MagnitudeCount> magnitudes() const;

  /// For files. from_state() gives kCorrupt if no values can have this state, as far as
  /// that shows.
  [[nodiscard]] ValueState state() const;
  static Result<ValueStats> from_state(const ValueState& state);

  /// True if both have seen the same values, as far as they can tell.
  friend bool operator==(const ValueStats& a, const ValueStats& b);

 private:
  static constexpr int kExponents = 255;
  using Page = std::array<std::int64_t, 256>;  // by the upper eight bits of the mantissa

  void add_piece(std::span<const float> values);
  void count_bins(std::span<const float> values);
  void count_magnitude(std::uint32_t bits, std::int64_t times);

  std::int64_t count_ = 0;
  std::int64_t zeros_ = 0;
  std::int64_t nonfinite_ = 0;
  std::int32_t min_key_ = INT32_MAX;  // bits of the float in the order of its value
  std::int32_t max_key_ = INT32_MIN;
  ExactSum sum_;
  ExactSum sum_abs_;
  ExactSum sum_squares_;
  // Magnitudes other than 0: each of them while count_ <= kExactValues, then bins, a page
  // per exponent that occurs.
  std::vector<std::uint32_t> exact_;
  std::vector<std::unique_ptr<Page>> bins_;
};

/// All that ColumnStats know, as ValueState.
struct ColumnState {
  std::int64_t rows = 0;
  std::int64_t nonfinite = 0;
  std::vector<float> absmax;
  std::vector<float> min;
  std::vector<float> max;
  std::vector<ExactSum> sum;
  std::vector<ExactSum> sum_squares;
};

/// Largest magnitude, range, mean and sum of squares of every column: what SmoothQuant,
/// Wanda and AWQ ask of activations.
class ColumnStats {
 public:
  ColumnStats() = default;
  /// `cols` is not negative.
  explicit ColumnStats(std::int64_t cols);

  /// Adds whole rows. kInvalidArgument if the number of values is no multiple of cols();
  /// kNotFinite as in ValueStats. Nothing changes then.
  Status add(std::span<const float> values, NonFinite policy = NonFinite::kError);
  /// kInvalidArgument if the numbers of columns differ; nothing changes then.
  Status merge(const ColumnStats& other);

  [[nodiscard]] std::int64_t cols() const {
    return static_cast<std::int64_t>(absmax_.size());
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t nonfinite() const { return nonfinite_; }
  [[nodiscard]] std::span<const float> absmax() const { return absmax_; }
  /// Infinity and -infinity for a column without values.
  [[nodiscard]] std::span<const float> min() const { return min_; }
  [[nodiscard]] std::span<const float> max() const { return max_; }
  /// One per column, rounded once.
  [[nodiscard]] std::vector<double> sum() const;
  [[nodiscard]] std::vector<double> sum_squares() const;
  /// sum() / rows(); 0 without rows.
  [[nodiscard]] std::vector<double> mean() const;

  /// For files; kCorrupt as ValueStats::from_state().
  [[nodiscard]] ColumnState state() const;
  static Result<ColumnStats> from_state(ColumnState state);

  friend bool operator==(const ColumnStats&, const ColumnStats&) = default;

 private:
  std::int64_t rows_ = 0;
  std::int64_t nonfinite_ = 0;
  std::vector<float> absmax_;
  std::vector<float> min_;
  std::vector<float> max_;
  std::vector<ExactSum> sums_;
  std::vector<ExactSum> squares_;
};

}  // namespace pith
