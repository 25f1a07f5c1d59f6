#include "pith/quantize/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/error.h"
#include "src/quantize/measure.h"

namespace pith {
namespace {

constexpr std::int64_t kErrorPiece = 32 * kErrorChunk;  // elements per task

// The elements that are finite before, and where they were.
struct FinitePairs {
  FinitePairs(const float* before_all, const float* after_all, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(before_all[i])) continue;
      before.push_back(before_all[i]);
      after.push_back(after_all[i]);
      index.push_back(i);
    }
  }
  std::vector<float> before;
  std::vector<float> after;
  std::vector<std::int64_t> index;
};

}  // namespace

double ErrorFigures::mae() const {
  return count == 0 ? 0 : sum_error / static_cast<double>(count);
}

double ErrorFigures::mse() const {
  return count == 0 ? 0 : sum_error_squared / static_cast<double>(count);
}

double ErrorFigures::rmse() const { return std::sqrt(mse()); }

double ErrorFigures::sqnr_db() const {
  if (sum_error_squared == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(sum_squared_before / sum_error_squared);
}

double ErrorFigures::cosine() const {
  if (sum_squared_before == 0 || sum_squared_after == 0) {
    return sum_squared_before == sum_squared_after ? 1 : 0;
  }
  // The product of before and after, from (before - after)^2.
  const double product = (sum_squared_before + sum_squared_after - sum_error_squared) / 2;
  const double cosine =
      product / (std::sqrt(sum_squared_before) * std::sqrt(sum_squared_after));
  return std::clamp(cosine, -1.0, 1.0);
}

void ErrorFigures::merge(const ErrorFigures& part, std::int64_t offset) {
  if (part.max_index >= 0 && is_largest(*this, part.max_error)) {
    max_error = part.max_error;
    max_index = offset + part.max_index;
  }
  count += part.count;
  non_finite += part.non_finite;
  zeros_before += part.zeros_before;
  zeros_after += part.zeros_after;
  saturated += part.saturated;
  sum_error += part.sum_error;
  sum_error_squared += part.sum_error_squared;
  sum_squared_before += part.sum_squared_before;
  sum_squared_after += part.sum_squared_after;
}

ErrorFigures figures_after(const ErrorFigures& known) {
  ErrorFigures figures;
  if (known.max_index < 0) return figures;
  figures.max_error = known.max_error;
  figures.max_index = 0;
  return figures;
}

bool are_figures(const kernels::ErrorSums& sums, std::int64_t n) {
  return std::isfinite(sums.error) && kernels::fits_f32(sums, n);
}

bool is_largest(const ErrorFigures& figures, double error) {
  return figures.max_index < 0 || error > figures.max_error;
}

void add_sums(ErrorFigures& figures, const kernels::ErrorSums& sums, std::int64_t n,
              std::int64_t at) {
  figures.count += n;
  figures.zeros_before += sums.zeros_before;
  figures.zeros_after += sums.zeros_after;
  figures.sum_error += sums.error;
  figures.sum_error_squared += sums.error_squared;
  figures.sum_squared_before += sums.squared_before;
  figures.sum_squared_after += sums.squared_after;
  if (!is_largest(figures, sums.max_error)) return;
  figures.max_error = sums.max_error;
  figures.max_index = at;
}

std::int64_t add_chunk(ErrorFigures& figures, const float* before, const float* after,
                       std::int64_t n, std::int64_t offset) {
  if (n == 0) return -1;
  const kernels::ErrorSums sums = kernels::error_sums(before, after, n);
  if (std::isfinite(sums.error)) {
    std::int64_t at = -1;
    if (is_largest(figures, sums.max_error)) {
      at = offset + kernels::first_error(before, after, n, sums.max_error);
    }
    add_sums(figures, sums, n, at);
    return -1;
  }
  // Rare: something is not finite. Sums again over the rest, as if it were all.
  const FinitePairs pairs(before, after, n);
  const auto finite = static_cast<std::int64_t>(pairs.before.size());
  for (std::size_t i = 0; i < pairs.after.size(); ++i) {
    if (std::isnan(pairs.after[i])) return pairs.index[i];
  }
  figures.non_finite += n - finite;
  const kernels::ErrorSums rest =
      kernels::error_sums(pairs.before.data(), pairs.after.data(), finite);
  if (finite == 0) return -1;
  std::int64_t at = -1;
  if (is_largest(figures, rest.max_error)) {
    const std::int64_t found = kernels::first_error(
        pairs.before.data(), pairs.after.data(), finite, rest.max_error);
    at = offset + pairs.index[static_cast<std::size_t>(found)];
  }
  add_sums(figures, rest, finite, at);
  return -1;
}

Result<ErrorFigures> measure_error(std::span<const float> before,
                                   std::span<const float> after, NonFinite policy) {
  if (before.size() != after.size()) {
    return Status::invalid_argument(
        fmt::format("measure_error: after has {} values, expected {} as before",
                    after.size(), before.size()));
  }
  const auto n = static_cast<std::int64_t>(before.size());
  std::vector<ErrorFigures> pieces(static_cast<std::size_t>(piece_count(n, kErrorPiece)));
  std::vector<std::int64_t> nan_after(pieces.size(), -1);
  parallel_pieces(n, kErrorPiece,
                  [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
                    const auto p = static_cast<std::size_t>(piece);
                    for (std::int64_t i = begin; i < end; i += kErrorChunk) {
                      const std::int64_t nan =
                          add_chunk(pieces[p], before.data() + i, after.data() + i,
                                    std::min(kErrorChunk, end - i), i - begin);
                      if (nan >= 0 && nan_after[p] < 0) nan_after[p] = i + nan;
                    }
                  });
  ErrorFigures total;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    total.merge(pieces[p], static_cast<std::int64_t>(p) * kErrorPiece);
  }
  for (std::int64_t index : nan_after) {
    if (index >= 0) {
      return Status::not_finite(
          fmt::format("measure_error: after[{}] is nan, expected a number", index));
    }
  }
  if (policy == NonFinite::kError && total.non_finite > 0) {
    const auto bad = std::find_if_not(before.begin(), before.end(),
                                      [](float x) { return std::isfinite(x); });
    return Status::not_finite(
        fmt::format("measure_error: before[{}] is {}, expected a finite value",
                    bad - before.begin(), *bad));
  }
  return total;
}

}  // namespace pith
