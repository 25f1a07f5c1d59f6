#include "src/prune/units.h"
#include "src/base/bits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/parallel.h"
#include "src/kernels/mask.h"
#include "src/kernels/select.h"
#include "src/prune/scores.h"

namespace pith {
namespace {

constexpr std::int64_t kUnitPiece = std::int64_t{1} << 16;  // elements of one thread

double element_score(Importance importance, float value, float norm) {
  switch (importance) {
    case Importance::kL1:
      return std::fabs(double{value});
    case Importance::kL2:
    case Importance::kTaylorProxy:
      return double{value} * double{value};
    case Importance::kWanda:
      return std::fabs(double{value}) * double{norm};
    case Importance::kRandom:
      break;
  }
  return 0;
}

}  // namespace

Units::Units(const PruneOptions& options, std::int64_t rows, std::int64_t cols)
    : options_(options), rows_(rows), cols_(cols) {
  unit_rows_ = options.granularity == Granularity::kRow ? 1
               : options.granularity == Granularity::kColumn
                   ? rows
                   : std::min(options.block_rows, rows);
  unit_cols_ = options.granularity == Granularity::kRow ? cols
               : options.granularity == Granularity::kColumn
                   ? 1
                   : std::min(options.block_cols, cols);
  units_across_ = piece_count(cols, unit_cols_);
  const auto units =
      static_cast<std::size_t>(piece_count(rows, unit_rows_) * units_across_);
  score_.resize(units);
  nonzero_.resize(units);
  pruned_.resize(units);
}

void Units::add(std::span<const float> values, std::int64_t row,
                std::span<const float> norms) {
  const auto rows = static_cast<std::int64_t>(values.size()) / cols_;
  const auto add_part = [&](std::int64_t first, std::int64_t last, std::int64_t left,
                            std::int64_t right) {
    for (std::int64_t r = first; r < last; ++r) {
      const float* line = values.data() + r * cols_;
      for (std::int64_t begin = left; begin < right; begin += unit_cols_) {
        const std::int64_t end = std::min(begin + unit_cols_, right);
        const auto unit = static_cast<std::size_t>(unit_of(row + r, begin));
        double sum = score_[unit];
        std::int64_t nonzero = 0;
        for (std::int64_t c = begin; c < end; ++c) {
          sum += element_score(options_.importance, line[c],
                               norms.empty() ? 0.0f : norms[static_cast<std::size_t>(c)]);
          nonzero += line[c] != 0.0f ? 1 : 0;
        }
        score_[unit] = sum;
        nonzero_[unit] += nonzero;
      }
    }
  };
  if (unit_rows_ == 1) {
    parallel_pieces(rows, std::max<std::int64_t>(1, kUnitPiece / cols_),
                    [&](std::int64_t, std::int64_t first, std::int64_t last) {
                      add_part(first, last, 0, cols_);
                    });
    return;
  }
  // A unit goes over several rows: threads share the columns, each goes down the rows.
  const std::int64_t units = std::max<std::int64_t>(1, 512 / unit_cols_);
  parallel_pieces(cols_, units * unit_cols_,
                  [&](std::int64_t, std::int64_t left, std::int64_t right) {
                    add_part(0, rows, left, right);
                  });
}

void Units::choose() {
  const auto units = static_cast<std::int64_t>(score_.size());
  for (std::int64_t unit = 0; unit < units; ++unit) {
    double& score = score_[static_cast<std::size_t>(unit)];
    if (options_.importance == Importance::kRandom) {
      score = random_unit_score(options_.seed, unit);
    } else if (std::isnan(score)) {
      score =
          std::numeric_limits<double>::infinity();  // an infinity in a column of norm 0
    } else if (options_.granularity == Granularity::kBlock) {
      const std::int64_t down = unit / units_across_ * unit_rows_;
      const std::int64_t across = unit % units_across_ * unit_cols_;
      score /= static_cast<double>(std::min(unit_rows_, rows_ - down)) *
               static_cast<double>(std::min(unit_cols_, cols_ - across));
    }
  }
  const std::int64_t unit_size = unit_rows_ * unit_cols_;
  const std::int64_t count = std::max<std::int64_t>(
      0, std::min(kernels::share_floor(options_.sparsity, units),
                  units - piece_count(options_.min_nonzero, unit_size)));
  std::vector<std::int64_t> order(score_.size());
  for (std::int64_t unit = 0; unit < units; ++unit) {
    order[static_cast<std::size_t>(unit)] = unit;
  }
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const double score_a = score_[static_cast<std::size_t>(a)];
    const double score_b = score_[static_cast<std::size_t>(b)];
    return score_a < score_b || (score_a == score_b && a < b);
  };
  if (count < units)
    std::nth_element(order.begin(), order.begin() + count, order.end(), before);
  order.resize(static_cast<std::size_t>(count));

  std::int64_t left = 0;
  for (const std::int64_t nonzero : nonzero_) left += nonzero;
  const std::int64_t floor = std::min(options_.min_nonzero, left);
  for (const std::int64_t unit : order) left -= nonzero_[static_cast<std::size_t>(unit)];
  if (left < floor) {  // the last in the order stay, until enough is left
    std::sort(order.begin(), order.end(), before);
    while (left < floor) {
      left += nonzero_[static_cast<std::size_t>(order.back())];
      order.pop_back();
    }
  }
  for (const std::int64_t unit : order) pruned_[static_cast<std::size_t>(unit)] = true;
}

void Units::write_mask(std::int64_t row, std::uint8_t* mask) const {
  std::fill_n(mask, (cols_ + 7) / 8, std::uint8_t{0});
  for (std::int64_t begin = 0; begin < cols_; begin += unit_cols_) {
    if (pruned_[static_cast<std::size_t>(unit_of(row, begin))]) continue;
    const std::int64_t end = std::min(begin + unit_cols_, cols_);
    for (std::int64_t c = begin; c < end; ++c) {
      mask[c / 8] = static_cast<std::uint8_t>(mask[c / 8] | 1 << (c % 8));
    }
  }
}

Applied Units::apply(std::span<float> values, std::int64_t row,
                     std::uint8_t* mask) const {
  const auto rows = static_cast<std::int64_t>(values.size()) / cols_;
  const std::int64_t row_bytes = (cols_ + 7) / 8;
  const std::int64_t piece = std::max<std::int64_t>(1, kUnitPiece / cols_);
  std::vector<Applied> parts(static_cast<std::size_t>(piece_count(rows, piece)));
  parallel_pieces(
      rows, piece, [&](std::int64_t i, std::int64_t first, std::int64_t last) {
        std::vector<std::uint8_t> bits(static_cast<std::size_t>(row_bytes));
        Applied& part = parts[static_cast<std::size_t>(i)];
        std::int64_t written = -1;  // the row of units that `bits` is of
        std::int64_t kept = 0;
        for (std::int64_t r = first; r < last; ++r) {
          if ((row + r) / unit_rows_ != written) {
            write_mask(row + r, bits.data());
            written = (row + r) / unit_rows_;
            kept = count_bits(std::as_bytes(std::span(bits)));
          }
          part.nonzero +=
              kernels::apply_mask(values.data() + r * cols_, cols_, bits.data());
          part.pruned += cols_ - kept;
          if (mask != nullptr) std::copy(bits.begin(), bits.end(), mask + r * row_bytes);
        }
      });
  Applied applied;
  for (const Applied& part : parts) applied.add(part);
  return applied;
}

}  // namespace pith
