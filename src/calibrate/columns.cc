#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
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

// Adds the squares of rows x cols values; returns how many values are not finite.
std::int64_t add_tile(const float* x, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride, std::span<ExactSum> squares) {
  kernels::ChunkRange range;
  for (std::int64_t r = 0; r < rows; ++r)
    kernels::chunk_range(x + r * stride, cols, range);
  for (std::uint32_t largest = range.largest; largest >= range.smallest;) {
    const kernels::Window window = kernels::window_below(largest);
    double high[kTileCols] = {};
    double low[kTileCols] = {};
    kernels::column_squares(x, rows, cols, stride, window, high, low);
    for (std::size_t j = 0; j < squares.size(); ++j) {
      squares[j].add(high[j]);
      squares[j].add(low[j]);
    }
    largest = window.low - 1;
  }
  return range.nonfinite;
}

}  // namespace

ColumnStats::ColumnStats(std::int64_t cols)
    : absmax_(static_cast<std::size_t>(cols)), squares_(static_cast<std::size_t>(cols)) {
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
        for (std::int64_t r = 0; r < rows; r += kTileRows) {
          nonfinite[static_cast<std::size_t>(piece)] += add_tile(
              x + r * cols(), std::min(kTileRows, rows - r), end - begin, cols(),
              std::span(squares_).subspan(static_cast<std::size_t>(begin),
                                          static_cast<std::size_t>(end - begin)));
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
    const ExactSum term = other.squares_[j];  // a copy: other may be *this
    squares_[j].add(term);
  }
  return {};
}

std::vector<double> ColumnStats::sum_squares() const {
  std::vector<double> sums(squares_.size());
  std::transform(squares_.begin(), squares_.end(), sums.begin(),
                 [](const ExactSum& sum) { return sum.value(); });
  return sums;
}

ColumnState ColumnStats::state() const { return {rows_, nonfinite_, absmax_, squares_}; }

Result<ColumnStats> ColumnStats::from_state(ColumnState state) {
  if (state.rows < 0 || state.nonfinite < 0 ||
      state.absmax.size() != state.sum_squares.size()) {
    return Status::corrupt(fmt::format(
        "column statistics: {} rows, {} values not finite, {} maxima and {} sums "
        "contradict "
        "each other",
        state.rows, state.nonfinite, state.absmax.size(), state.sum_squares.size()));
  }
  for (std::size_t j = 0; j < state.absmax.size(); ++j) {
    const bool zero = state.absmax[j] == 0;
    if (!(state.absmax[j] >= 0 && std::isfinite(state.absmax[j])) ||
        state.sum_squares[j].negative() || zero != (state.sum_squares[j] == ExactSum())) {
      return Status::corrupt(
          fmt::format("column statistics: column {} has maximum {} and sum of squares {}",
                      j, state.absmax[j], state.sum_squares[j].value()));
    }
  }
  ColumnStats stats;
  stats.rows_ = state.rows;
  stats.nonfinite_ = state.nonfinite;
  stats.absmax_ = std::move(state.absmax);
  stats.squares_ = std::move(state.sum_squares);
  return stats;
}

}  // namespace pith
