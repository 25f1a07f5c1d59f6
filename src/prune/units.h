// Rows, columns and blocks: scores that add up row by row, and the choice among them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/prune/prune.h"
#include "src/prune/threshold.h"

namespace pith {

class Units {
 public:
  /// A matrix of `rows` x `cols`, which has elements. The options have been checked.
  Units(const PruneOptions& options, std::int64_t rows, std::int64_t cols);

  /// Adds the scores of whole rows, the first of which is `row`; rows come in order. Sums
  /// are in double and in the order of the elements, so they depend on neither chunks nor
  /// threads.
  void add(std::span<const float> values, std::int64_t row, std::span<const float> norms);

  /// Chooses what is zeroed, when all rows were added.
  void choose();

  /// Zeroes the chosen part of whole rows; `mask` may be null.
  Applied apply(std::span<float> values, std::int64_t row, std::uint8_t* mask) const;

 private:
  [[nodiscard]] std::int64_t unit_of(std::int64_t row, std::int64_t col) const {
    return row / unit_rows_ * units_across_ + col / unit_cols_;
  }
  void write_mask(std::int64_t row, std::uint8_t* mask) const;

  PruneOptions options_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t unit_rows_;
  std::int64_t unit_cols_;
  std::int64_t units_across_;
  std::vector<double> score_;
  std::vector<std::int64_t> nonzero_;
  std::vector<bool> pruned_;
};

}  // namespace pith
