// Zeroing elements by a threshold of their magnitude or score, ties by index.
#pragma once

#include <cstdint>
#include <span>

#include "pith/prune/importance.h"
#include "pith/prune/magnitude.h"
#include "src/kernels/select.h"

namespace pith {

/// What is to go: scores (as magnitude bits) below `bits`, and those equal to it while
/// the budgets last. The budgets shrink as consecutive elements are handled.
struct Threshold {
  std::uint32_t bits = 0;
  std::int64_t ties = kAllTies;
  /// Of the ties, how many may be non-zero weights: with scores other than magnitudes the
  /// floor of non-zero weights can end in the middle of a tie. Where the next one would
  /// exceed it, all ties that follow are kept.
  std::int64_t nonzero_ties = kAllTies;

  /// The first `count` values by rising magnitude, where `rank` is that of the last of
  /// them.
  static Threshold first(std::int64_t count, const kernels::MagnitudeRank& rank) {
    const std::int64_t ties = count - rank.below;
    return {rank.bits, ties == rank.equal ? kAllTies : ties, kAllTies};
  }
  /// Lowers it so that only `may_go` non-zero weights go; `rank` is that of the first one
  /// that stays, among the scores of the non-zero weights.
  void limit_nonzero(std::int64_t may_go, const kernels::MagnitudeRank& rank) {
    if (rank.bits > bits) return;
    if (rank.bits < bits) ties = kAllTies;
    bits = rank.bits;
    nonzero_ties = may_go - rank.below;
  }
  /// Nothing goes.
  static Threshold none() { return {0, 0, kAllTies}; }
};

struct Applied {
  std::int64_t pruned = 0;
  std::int64_t nonzero = 0;

  void add(const Applied& other) {
    pruned += other.pruned;
    nonzero += other.nonzero;
  }
};

/// Zeroes by magnitude in rows of `cols` values (all values are whole rows); a row's mask
/// begins at a byte. `out` may be where the values are, `mask` null. Uses threads.
Applied apply_threshold(std::span<const float> values, std::int64_t cols, float* out,
                        std::uint8_t* mask, Threshold& threshold);

/// Likewise by score; `first` is the index of values[0] among those that compete.
Applied apply_score_threshold(std::span<float> values, std::int64_t cols,
                              std::uint8_t* mask, const ImportanceOptions& options,
                              std::int64_t first, Threshold& threshold);

}  // namespace pith
