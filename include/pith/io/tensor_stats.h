// What the numbers of tensors look like, in one pass over the file.
//
//   PITH_TRY(std::vector<pith::TensorStats> stats, pith::tensor_stats(*model, {0, 1}));
//   use(stats[0].min, stats[0].max, stats[0].mean, stats[0].deviation,
//   stats[0].kurtosis);
//
// Sums are taken in an order that depends on the tensor's size alone: the figures are the
// same for every number of threads and every instruction set. Mean and deviation are right
// to about seven digits, as the values are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/cancel.h"
#include "pith/base/progress.h"
#include "pith/base/result.h"
#include "pith/io/checkpoint.h"

namespace pith {

/// Of the values as f32. NaN and infinities are only counted; all other figures are of
/// the finite values, and zero if there are none.
struct TensorStats {
  std::int64_t elements = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t zeros = 0;
  double min = 0;
  double max = 0;
  double absmax = 0;
  double mean = 0;
  double deviation = 0;  ///< standard deviation of the population
  double kurtosis = 0;   ///< fourth central moment over the squared second; normal: 3

  /// Sixteen equal bins over [-absmax, absmax], of at most 65,536 evenly spaced values.
  static constexpr std::size_t kBins = 16;
  std::array<std::int64_t, kBins> histogram{};
  std::int64_t sampled = 0;  ///< values in the histogram

  [[nodiscard]] std::int64_t finite() const { return elements - nan - infinite; }
};

struct StatsOptions {
  /// Bytes of buffers, at least 1 MiB.
  std::int64_t max_memory = std::int64_t{1} << 30;
  const CancelToken* cancel = nullptr;
  ProgressFunction progress = {};  ///< its item is a tensor's name, its bytes the file's
};

/// Statistics of the tensors of these numbers, in their order. Fails as
/// Checkpoint::read_rows does, also for types that cannot be decoded; kCancelled.
Result<std::vector<TensorStats>> tensor_stats(const Checkpoint& checkpoint,
                                              std::span<const std::size_t> tensors,
                                              const StatsOptions& options = {});

}  // namespace pith
