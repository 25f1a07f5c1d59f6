// How many weights are zero.
//
//   pith::Sparsity total;
//   for (auto& tensor : model) total += pith::count_sparsity(tensor.values);
//   print(total.sparsity());
//
// +0 and -0 are zeros, NaN is not. There is one formula for every report.
#pragma once

#include <cstdint>
#include <span>

namespace pith {

/// Of one tensor, or the sum over several.
struct Sparsity {
  std::int64_t total = 0;
  std::int64_t nonzero = 0;

  /// Zeros / total in double, rounded once; 0 where there are no elements.
  [[nodiscard]] float sparsity() const;
  /// 1 - sparsity().
  [[nodiscard]] float density() const { return 1.0f - sparsity(); }

  Sparsity& operator+=(const Sparsity& other) {
    total += other.total;
    nonzero += other.nonzero;
    return *this;
  }
  friend bool operator==(const Sparsity&, const Sparsity&) = default;
};

/// Counts in one pass.
[[nodiscard]] Sparsity count_sparsity(std::span<const float> values);

}  // namespace pith
