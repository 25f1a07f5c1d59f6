// The two halves of pruning by magnitude, for values that come in chunks: find the
// threshold in two passes, then zero what is below it.
//
//   pith::MagnitudeSelector selector(count);   // the smallest `count` shall go
//   do {
//     for (each chunk) selector.feed(chunk);
//   } while (selector.next_pass());
//   pith::ThresholdPruner pruner(selector.threshold(), selector.ties());
//   for (each chunk, in the order of the tensor) pruner.apply(chunk);
//
// Exactly `count` values become +0: those below the threshold, and of those equal to it
// the first ones. stream.h does it for a tensor, with options and checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace pith {

/// In place of a number of ties: every value equal to the threshold.
inline constexpr std::int64_t kAllTies = -1;

/// The smallest `count` of many magnitudes, found in two passes over chunks of any size
/// and order.
///
///   MagnitudeSelector selector(count);
///   do { for (each chunk) selector.feed(chunk); } while (selector.next_pass());
class MagnitudeSelector {
 public:
  /// 1 <= count <= the number of values to come.
  explicit MagnitudeSelector(std::int64_t count);
  ~MagnitudeSelector();
  MagnitudeSelector(MagnitudeSelector&&) noexcept;
  MagnitudeSelector& operator=(MagnitudeSelector&&) noexcept;

  void feed(std::span<const float> values);
  /// True: feed all values again. False: the result is there.
  bool next_pass();

  /// The largest of the `count` smallest magnitudes.
  [[nodiscard]] float threshold() const;
  /// How many of the values equal to it belong to the `count` smallest: the first by
  /// index. kAllTies if all do, as is usual.
  [[nodiscard]] std::int64_t ties() const;
  /// A NaN was fed; it ranks above infinity.
  [[nodiscard]] bool has_nan() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Zeroes what is below a threshold, and the first `ties` equal to it, in consecutive
/// chunks.
class ThresholdPruner {
 public:
  /// `threshold` >= 0; `ties` >= 0 or kAllTies.
  ThresholdPruner(float threshold, std::int64_t ties)
      : threshold_(threshold), ties_(ties) {}

  /// Bit i of the mask is 1 where values[i] was kept; it has ceil(values.size() / 8)
  /// bytes, or none if it is not wanted.
  void apply(std::span<float> values, std::span<std::byte> mask = {});

  /// Set to +0 so far, and non-zero values left.
  [[nodiscard]] std::int64_t pruned() const { return pruned_; }
  [[nodiscard]] std::int64_t nonzero() const { return nonzero_; }

 private:
  float threshold_;
  std::int64_t ties_;
  std::int64_t pruned_ = 0;
  std::int64_t nonzero_ = 0;
};

}  // namespace pith
