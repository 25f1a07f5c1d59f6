// Two passes over the 31 bits of a magnitude: the upper 16, then the lower 15 of those values
// whose upper 16 are the answer's; those are few and are found by a bracket around them.
//
// Several threads count in tables of their own. Neighbours count in two tables, because a run of
// equal values would make each increment wait for the one before. The tables are 32 bits wide,
// to stay in cache, and are added to a wide one before they can overflow.
//
// After a preview the first pass is one with a bracket, as in select.cc. The sample is made of
// runs, whose values may have more in common than with others (rows differ in size): how much the
// runs differ tells how wide the bracket must be.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "src/base/parallel.h"
#include "src/kernels/select.h"
#include "src/kernels/select_pass.h"

namespace pith::kernels {
namespace {

constexpr int kLowBits = 15;
constexpr std::size_t kBins = std::size_t{1} << (31 - kLowBits);
constexpr std::uint32_t kLowMask = (1u << kLowBits) - 1;
constexpr std::int64_t kFlushAt = std::int64_t{1} << 30;
constexpr std::int64_t kParts = 4;                     // that count at the same time
constexpr std::int64_t kPart = std::int64_t{1} << 14;  // values that are worth a thread

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & kMagnitudeMask;
}

// Counts upper bits; returns the largest magnitude.
std::uint32_t count_high(const float* values, std::int64_t n, std::uint32_t* table) {
  std::uint32_t* const other = table + kBins;
  std::uint32_t largest = 0;
  std::int64_t i = 0;
  for (; i + 1 < n; i += 2) {
    const std::uint32_t a = magnitude(values[i]);
    const std::uint32_t b = magnitude(values[i + 1]);
    largest = std::max(largest, std::max(a, b));
    ++table[a >> kLowBits];
    ++other[b >> kLowBits];
  }
  if (i < n) {
    largest = std::max(largest, magnitude(values[i]));
    ++table[magnitude(values[i]) >> kLowBits];
  }
  return largest;
}

// Counts lower bits of the values whose upper bits are `high`.
void count_low(const float* values, std::int64_t n, std::uint32_t high,
               std::uint32_t* table) {
  Bracket bracket;
  bracket.lo = static_cast<std::int32_t>(high << kLowBits) - 1;
  if (high + 1 < kBins) {
    bracket.hi = static_cast<std::int32_t>((high + 1) << kLowBits);
  } else {
    bracket.count_ends = true;  // the end is itself a magnitude with these upper bits
  }
  std::uint32_t* const other = table + kBins;
  for_bracket_blocks(values, n, bracket,
                     [&](const BracketCounts& counts, const float* inside) {
                       std::int64_t i = 0;
                       for (; i + 1 < counts.inside; i += 2) {
                         ++table[magnitude(inside[i]) & kLowMask];
                         ++other[magnitude(inside[i + 1]) & kLowMask];
                       }
                       if (i < counts.inside) ++table[magnitude(inside[i]) & kLowMask];
                       table[kLowMask] += static_cast<std::uint32_t>(counts.equal_hi);
                       return true;
                     });
}

// How far rank k of all values may be from its place in the sample.
double radius_of(const std::vector<float>& sample, std::int64_t run, double share) {
  constexpr double kDeviations = 6;
  const auto size = static_cast<double>(sample.size());
  const FloatSpan spans[] = {FloatSpan(sample)};
  const auto rank = static_cast<std::int64_t>(share * (size - 1));
  const std::uint32_t middle = select_magnitude(spans, rank).bits;
  double squares = size * share * (1 - share);  // if all were independent
  double between = 0;
  for (std::size_t begin = 0; begin < sample.size();
       begin += static_cast<std::size_t>(run)) {
    const std::size_t end =
        std::min(sample.size(), begin + static_cast<std::size_t>(run));
    std::int64_t below = 0;
    for (std::size_t i = begin; i < end; ++i) {
      below += magnitude(sample[i]) < middle ? 1 : 0;
    }
    const double more =
        static_cast<double>(below) - share * static_cast<double>(end - begin);
    between += more * more;
  }
  squares = std::max(squares, between);
  return kDeviations * (std::sqrt(squares) + 1);
}

}  // namespace

struct MagnitudeHistogram::Inside {
  static constexpr std::size_t kMost = std::size_t{1} << 22;

  Bracket bracket;
  std::mutex mutex;  // of what follows
  BracketCounts counts;
  std::vector<float> values;
  bool too_many = false;
};

MagnitudeHistogram::MagnitudeHistogram(std::int64_t k)
    : k_(k), narrow_(2 * kBins), wide_(kBins) {}
MagnitudeHistogram::~MagnitudeHistogram() = default;
MagnitudeHistogram::MagnitudeHistogram(MagnitudeHistogram&&) noexcept = default;
MagnitudeHistogram& MagnitudeHistogram::operator=(MagnitudeHistogram&&) noexcept =
    default;

void MagnitudeHistogram::preview(std::span<const float> sample, std::int64_t run,
                                 std::int64_t n) {
  if (pass_ != 0 || seen_ != 0 || sample.empty()) return;
  const std::vector<float> values(sample.begin(), sample.end());
  const double share = (static_cast<double>(k_) + 0.5) / static_cast<double>(n);
  const BracketEstimate estimate =
      bracket_of(values, n, k_, radius_of(values, run, share));
  const double inside = estimate.inside * static_cast<double>(n);
  if (inside > 0.75 * Inside::kMost) return;
  inside_ = std::make_unique<Inside>();
  inside_->values.reserve(static_cast<std::size_t>(1.25 * inside));
  inside_->bracket = estimate.bracket;
  inside_->bracket.count_ends = true;
}

bool MagnitudeHistogram::add_bracketed(const float* values, std::int64_t n) {
  Inside& inside = *inside_;
  std::atomic<bool> has_nan = false;
  parallel_pieces(
      n, std::max(4 * kPart, piece_count(n, kParts)),
      [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        BracketCounts counts;
        std::vector<float> kept;
        kept.reserve(static_cast<std::size_t>((end - begin) / 32));
        for_bracket_blocks(values + begin, end - begin, inside.bracket,
                           [&](const BracketCounts& found, const float* some) {
                             counts.add(found);
                             kept.insert(kept.end(), some, some + found.inside);
                             return kept.size() <= Inside::kMost;
                           });
        if (static_cast<std::uint32_t>(counts.largest) > kInfinityBits) has_nan = true;
        const std::lock_guard lock(inside.mutex);
        inside.counts.add(counts);
        inside.too_many =
            inside.too_many || inside.values.size() + kept.size() > Inside::kMost;
        if (!inside.too_many) {
          inside.values.insert(inside.values.end(), kept.begin(), kept.end());
        }
      });
  const std::lock_guard lock(inside.mutex);
  largest_ = static_cast<std::uint32_t>(inside.counts.largest);
  seen_ += n;
  return has_nan;
}

bool MagnitudeHistogram::add(const float* values, std::int64_t n) {
  if (inside_) return add_bracketed(values, n);
  bool has_nan = false;
  while (n > 0) {
    if (unflushed_ == kFlushAt) flush();
    const std::int64_t size = std::min(n, kFlushAt - unflushed_);
    const std::int64_t part = std::max(kPart, piece_count(size, kParts));
    const auto tables = static_cast<std::size_t>(piece_count(size, part)) * 2 * kBins;
    if (narrow_.size() < tables) narrow_.resize(tables);
    std::uint32_t largest[kParts] = {};
    parallel_pieces(size, part,
                    [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
                      std::uint32_t* const table =
                          narrow_.data() + static_cast<std::size_t>(i) * 2 * kBins;
                      if (pass_ == 0) {
                        largest[i] = count_high(values + begin, end - begin, table);
                      } else {
                        count_low(values + begin, end - begin, high_, table);
                      }
                    });
    for (const std::uint32_t of_part : largest) {
      largest_ = std::max(largest_, of_part);
      has_nan = has_nan || of_part > kInfinityBits;
    }
    unflushed_ += size;
    seen_ += size;
    values += size;
    n -= size;
  }
  return has_nan;
}

void MagnitudeHistogram::flush() {
  for (std::size_t at = 0; at < narrow_.size(); ++at) {
    wide_[at % kBins] += narrow_[at];
    narrow_[at] = 0;
  }
  unflushed_ = 0;
}

bool MagnitudeHistogram::next_pass() {
  if (inside_) {
    const std::unique_ptr<Inside> inside = std::move(inside_);
    const FloatSpan spans[] = {inside->values};
    const auto rank = inside->too_many
                          ? std::nullopt
                          : rank_in(inside->bracket, inside->counts, spans, k_);
    if (rank) result_ = *rank;
    if (!rank) seen_ = 0;
    return !rank;
  }
  flush();
  std::size_t bin = 0;
  while (bin + 1 < kBins && below_ + wide_[bin] <= k_) below_ += wide_[bin++];
  if (pass_ == 0) {
    high_ = static_cast<std::uint32_t>(bin);
    pass_ = 1;
    for (std::int64_t& count : wide_) count = 0;
    seen_ = 0;
    return true;
  }
  result_.bits = (high_ << kLowBits) | static_cast<std::uint32_t>(bin);
  result_.below = below_;
  result_.equal = wide_[bin];
  result_.largest = largest_;
  result_.has_nan = largest_ > kInfinityBits;
  return false;
}

}  // namespace pith::kernels
