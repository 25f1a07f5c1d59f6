#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "pith/calibrate/stats.h"
#include "src/base/parallel.h"
#include "src/kernels/moments.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

// A tile is read twice, for its range and for its sums, so it should stay in the cache:
// 128 KiB. Sums go to the exact ones, about 20 ns per column, once per tile.
constexpr std::int64_t kTileRows = 64;
constexpr std::int64_t kTileCols = 512;
static_assert(kTileCols <= kernels::kMomentsChunk && kTileRows <= kernels::kMomentsChunk);

// Adds the values of one window to the sums of their columns: exact, for a column of a tile
// has at most kMomentsChunk of them.
void column_sums(const float* x, std::int64_t rows, std::int64_t cols,
                 std::int64_t stride, const kernels::Window& window, double* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const float value = x[r * stride + c];
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
      const bool inside = bits >= window.low && bits <= window.high;
      sums[c] += inside ? static_cast<double>(value) : 0.0;
    }
  }
}

// Widens the range of columns by rows x cols values; NaN and infinity are passed over.
void column_range(const float* x, std::int64_t rows, std::int64_t cols,
                  std::int64_t stride, float* min, float* max) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const float value = x[r * stride + c];
      const bool finite = value >= -kLargest && value <= kLargest;
      min[c] = finite && value < min[c] ? value : min[c];
      max[c] = finite && value > max[c] ? value : max[c];
    }
  }
}

// Adds values and squares of rows x cols values; returns how many are not finite.
std::int64_t add_tile(const float* x, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride, ExactSum* sums, ExactSum* squares) {
  kernels::ChunkRange range;
  for (std::int64_t r = 0; r < rows; ++r)
    kernels::chunk_range(x + r * stride, cols, range);
  for (std::uint32_t largest = range.largest; largest >= range.smallest;) {
    const kernels::Window window = kernels::window_below(largest);
    double sum[kTileCols] = {};
    double high[kTileCols] = {};
    double low[kTileCols] = {};
    column_sums(x, rows, cols, stride, window, sum);
    kernels::column_squares(x, rows, cols, stride, window, high, low);
    for (std::int64_t j = 0; j < cols; ++j) {
      sums[j].add(sum[j]);
      squares[j].add(high[j]);
      squares[j].add(low[j]);
    }
    largest = window.low - 1;
  }
  return range.nonfinite;
}

std::vector<double> rounded(const std::vector<ExactSum>& sums) {
  std::vector<double> values(sums.size());
  std::transform(sums.begin(), sums.end(), values.begin(),
                 [](const ExactSum& sum) { return sum.value(); });
  return values;
}

}  // namespace

ColumnStats::ColumnStats(std::int64_t cols)
    : absmax_(static_cast<std::size_t>(cols)),
      min_(absmax_.size(), std::numeric_limits<float>::infinity()),
      max_(absmax_.size(), -std::numeric_limits<float>::infinity()),
      sums_(absmax_.size()),
      squares_(absmax_.size()) {
  assert(cols >= 0);
}

Status ColumnStats::add(std::span<const float> values, NonFinite policy) {
  if (values.empty()) return {};
  const auto n = static_cast<std::int64_t>(values.size());
  if (cols() == 0 || n % cols() != 0) {
    return Status::invalid_argument(
        fmt::format("column statistics: {} values are no whole rows of {}", n, cols()));
  }
  if (policy == NonFinite::kError) PITH_OK(require_finite(values, "column statistics"));
  const std::int64_t rows = n / cols();
  std::vector<std::int64_t> nonfinite(
      static_cast<std::size_t>(piece_count(cols(), kTileCols)));
  parallel_pieces(
      cols(), kTileCols, [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
        const float* const x = values.data() + begin;
        kernels::column_absmax(x, rows, end - begin, cols(), absmax_.data() + begin);
        column_range(x, rows, end - begin, cols(), min_.data() + begin,
                     max_.data() + begin);
        for (std::int64_t r = 0; r < rows; r += kTileRows) {
          nonfinite[static_cast<std::size_t>(piece)] +=
              add_tile(x + r * cols(), std::min(kTileRows, rows - r), end - begin, cols(),
                       sums_.data() + begin, squares_.data() + begin);
        }
      });
  rows_ += rows;
  for (std::int64_t count : nonfinite) nonfinite_ += count;
  return {};
}

Status ColumnStats::merge(const ColumnStats& other) {
  if (other.cols() != cols()) {
    return Status::invalid_argument(fmt::format(
        "column statistics: {} columns cannot be merged with {}", other.cols(), cols()));
  }
  rows_ += other.rows_;
  nonfinite_ += other.nonfinite_;
  for (std::size_t j = 0; j < absmax_.size(); ++j) {
    absmax_[j] = std::max(absmax_[j], other.absmax_[j]);
    min_[j] = std::min(min_[j], other.min_[j]);
    max_[j] = std::max(max_[j], other.max_[j]);
    const ExactSum sum = other.sums_[j];  // copies: other may be *this
    sums_[j].add(sum);
    const ExactSum squares = other.squares_[j];
    squares_[j].add(squares);
  }
  return {};
}

std::vector<double> ColumnStats::sum() const { return rounded(sums_); }
std::vector<double> ColumnStats::sum_squares() const { return rounded(squares_); }

std::vector<double> ColumnStats::mean() const {
  std::vector<double> mean = sum();
  for (double& value : mean) {
    value = rows_ == 0 ? 0.0 : value / static_cast<double>(rows_);
  }
  return mean;
}

ColumnState ColumnStats::state() const {
  return {rows_, nonfinite_, absmax_, min_, max_, sums_, squares_};
}

Result<ColumnStats> ColumnStats::from_state(ColumnState state) {
  const std::size_t cols = state.absmax.size();
  if (state.rows < 0 || state.nonfinite < 0 || state.min.size() != cols ||
      state.max.size() != cols || state.sum.size() != cols ||
      state.sum_squares.size() != cols) {
    return Status::corrupt(
        fmt::format("column statistics: {} rows, {} values not finite, figures of {}, "
                    "{}, {}, {} and {} columns contradict each other",
                    state.rows, state.nonfinite, cols, state.min.size(), state.max.size(),
                    state.sum.size(), state.sum_squares.size()));
  }
  for (std::size_t j = 0; j < cols; ++j) {
    const bool zero = state.absmax[j] == 0;
    const bool none = state.min[j] > state.max[j];
    const float largest =
        none ? 0.0f : std::max(std::fabs(state.min[j]), std::fabs(state.max[j]));
    if (!std::isfinite(largest) || state.absmax[j] != largest ||
        state.sum_squares[j].negative() || zero != (state.sum_squares[j] == ExactSum())) {
      return Status::corrupt(fmt::format(
          "column statistics: column {} has maximum {}, range {} to {} and sum of "
          "squares {}",
          j, state.absmax[j], state.min[j], state.max[j], state.sum_squares[j].value()));
    }
    if (none && (!std::isinf(state.min[j]) || !std::isinf(state.max[j]))) {
      return Status::corrupt(
          fmt::format("column statistics: column {} ranges from {} to {}", j,
                      state.min[j], state.max[j]));
    }
  }
  ColumnStats stats;
  stats.rows_ = state.rows;
  stats.nonfinite_ = state.nonfinite;
  stats.absmax_ = std::move(state.absmax);
  stats.min_ = std::move(state.min);
  stats.max_ = std::move(state.max);
  stats.sums_ = std::move(state.sum);
  stats.squares_ = std::move(state.sum_squares);
  return stats;
}

}  // namespace pith
