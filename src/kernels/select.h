// The k-th smallest magnitude, exactly and without a sort.
//
//   const MagnitudeRank rank = select_magnitude(values, n, k);
//   // rank.below values are smaller than the threshold, so k + 1 - rank.below of those
//   // equal to it, the first by index, belong to the k + 1 smallest.
//
// Magnitudes are compared by their bits without the sign: the order of |x|, with -0 equal
// to 0, subnormals in their place, and NaN above infinity. The result is exact, so it
// depends neither on the instruction set nor on the number of threads, nor on how values
// are sampled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/kernels/float_bits.h"

namespace pith::kernels {

/// What stands at rank k of the magnitudes in rising order.
struct MagnitudeRank {
  std::uint32_t bits = 0;  ///< of the magnitude; std::bit_cast<float>(bits) is its value
  std::int64_t below = 0;  ///< values of a smaller magnitude
  std::int64_t equal = 0;  ///< values of this magnitude: below <= k < below + equal
  bool has_nan = false;    ///< a NaN is among the values; first_nan tells where
  std::uint32_t largest = 0;  ///< bits of the largest magnitude of all

  friend bool operator==(const MagnitudeRank&, const MagnitudeRank&) = default;
};

/// Rank k (0 is the smallest) of n values in memory; 0 <= k < n. Uses the library's
/// threads. Reads the values about once: a sample gives a narrow bracket, one pass counts
/// what lies below it and collects what lies inside. Needs memory for about n / 64
/// values.
MagnitudeRank select_magnitude(const float* values, std::int64_t n, std::int64_t k);

/// The same over several arrays, as if they stood one after the other.
using FloatSpan = std::span<const float>;
MagnitudeRank select_magnitude(std::span<const FloatSpan> spans, std::int64_t k);

/// The definition: a copy, sorted.
MagnitudeRank reference_select_magnitude(const float* values, std::int64_t n,
                                         std::int64_t k);

/// Index of the first NaN, or -1.
std::int64_t first_nan(const float* values, std::int64_t n) noexcept;

/// floor(share * n) and ceil(share * n) for a share in [0, 1]: the product is rounded to
/// f32 up to n = 2^24, as the reference does, and is exact above, where an f32 could not
/// hold the count.
std::int64_t share_floor(float share, std::int64_t n);
std::int64_t share_ceil(float share, std::int64_t n);

/// Rank of percentile p in [0, 1] among n > 0 values: min(max(share_ceil(p, n), 1), n)
/// - 1.
std::int64_t percentile_rank(float p, std::int64_t n);

/// Rank k of values that come in chunks: two passes over the same values, in any order
/// and cut, in 2.6 MB whatever their number. Uses the library's threads. Who can look at
/// some values first does with one pass, as a rule, and up to 19 MB.
///
///   MagnitudeHistogram histogram(k);
///   histogram.preview(sample, 128, n);  // optional
///   do {
///     for (each chunk) histogram.add(chunk, size);
///   } while (histogram.next_pass());
///   use(histogram.result());
///
/// In a pass that the preview made possible, several threads may add chunks at once.
class MagnitudeHistogram {
 public:
  /// 0 <= k < the number of values to come.
  explicit MagnitudeHistogram(std::int64_t k);
  ~MagnitudeHistogram();
  MagnitudeHistogram(MagnitudeHistogram&&) noexcept;
  MagnitudeHistogram& operator=(MagnitudeHistogram&&) noexcept;

  /// Before the first pass: a sample of the n values to come, in runs of `run` neighbours
  /// from all over them. If they tell where rank k lies, one pass is enough; if they
  /// mislead, there are three.
  void preview(std::span<const float> sample, std::int64_t run, std::int64_t n);
  /// True if a NaN is among the values.
  bool add(const float* values, std::int64_t n);
  /// True if several threads may add() in this pass.
  [[nodiscard]] bool adds_apart() const { return inside_ != nullptr; }
  /// Ends a pass. True: feed all values once more. False: the result is there.
  bool next_pass();
  /// Only after next_pass() was false.
  [[nodiscard]] const MagnitudeRank& result() const { return result_; }
  /// A NaN was added.
  [[nodiscard]] bool has_nan() const { return largest_ > kInfinityBits; }
  /// Chooses another rank; only in the first pass.
  void set_rank(std::int64_t k) { k_ = k; }
  /// Values seen in the pass that is under way, or in the last one.
  [[nodiscard]] std::int64_t seen() const { return seen_; }

 private:
  struct Inside;  // what lies in the bracket that a preview gave

  bool add_bracketed(const float* values, std::int64_t n);
  void flush();

  std::unique_ptr<Inside> inside_;  // during a pass after a preview
  std::int64_t k_;
  int pass_ = 0;
  std::uint32_t high_ = 0;  // upper bits of the answer, known after the first pass
  std::int64_t below_ = 0;  // values with smaller upper bits
  std::int64_t seen_ = 0;
  std::uint32_t largest_ = 0;
  std::int64_t unflushed_ = 0;  // values counted in narrow_ only
  MagnitudeRank result_;
  std::vector<std::uint32_t> narrow_;  // two tables for each thread
  std::vector<std::int64_t> wide_;
};

}  // namespace pith::kernels
