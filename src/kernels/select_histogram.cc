// Two passes over the 31 bits of a magnitude: the upper 16, then the lower 15 of those values
// whose upper 16 are the answer's; those are few and are found by a bracket around them.
//
// Several threads count in tables of their own. Neighbours count in two tables, because a run of
// equal values would make each increment wait for the one before. The tables are 32 bits wide,
// to stay in cache, and are added to a wide one before they can overflow.
#include <algorithm>
#include <bit>
#include <cstddef>

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

}  // namespace

MagnitudeHistogram::MagnitudeHistogram(std::int64_t k)
    : k_(k), narrow_(2 * kBins), wide_(kBins) {}

void MagnitudeHistogram::add(const float* values, std::int64_t n) {
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
    for (const std::uint32_t of_part : largest) largest_ = std::max(largest_, of_part);
    unflushed_ += size;
    seen_ += size;
    values += size;
    n -= size;
  }
}

void MagnitudeHistogram::flush() {
  for (std::size_t at = 0; at < narrow_.size(); ++at) {
    wide_[at % kBins] += narrow_[at];
    narrow_[at] = 0;
  }
  unflushed_ = 0;
}

void MagnitudeHistogram::merge(const MagnitudeHistogram& other) {
  for (std::size_t bin = 0; bin < kBins; ++bin) wide_[bin] += other.wide_[bin];
  for (std::size_t at = 0; at < narrow_.size(); ++at)
    wide_[at % kBins] += other.narrow_[at];
  seen_ += other.seen_;
  largest_ = std::max(largest_, other.largest_);
}

bool MagnitudeHistogram::next_pass() {
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
