// What the numbers of a tensor look like, in one pass over the file.
//
//   PITH_TRY(pith::TensorStats stats, pith::tensor_stats(*model, 0));
//   use(stats.min, stats.max, stats.mean, stats.deviation, stats.kurtosis);
//
// Sums are double, in an order that depends on the tensor's size alone: the figures are
// the same for every number of threads and every instruction set.
#pragma once

#include <array>
#include <cstdint>

#include "pith/base/cancel.h"
#include "pith/base/progress.h"
#include "pith/base/result.h"
#include "pith/io/checkpoint.h"

namespace pith {

/// Over the finite values; NaN and infinities are only counted. All zero for a tensor
/// without finite values.
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
  double kurtosis =
      0;  ///< fourth central moment over the square of the second; normal: 3

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
  ProgressFunction progress;  ///< its item is the tensor's name, its bytes are the file's
};

/// Statistics of one tensor. Fails as Checkpoint::read_rows does; kCancelled.
Result<TensorStats> tensor_stats(const Checkpoint& checkpoint, std::size_t tensor,
                                 const StatsOptions& options = {});

}  // namespace pith
