// Two passes over the 31 bits of a magnitude: the upper 16, then the lower 15 of those
// values whose upper 16 are the answer's. Neighbours count in two tables, because a run
// of equal values would make each increment wait for the one before. The tables are 32
// bits wide, to stay in cache, and are added to wide ones before they can overflow.
#include <algorithm>
#include <bit>
#include <cstddef>

#include "src/kernels/select.h"

namespace pith::kernels {
namespace {

constexpr int kLowBits = 15;
constexpr std::size_t kBins = std::size_t{1} << (31 - kLowBits);
constexpr std::uint32_t kLowMask = (1u << kLowBits) - 1;
constexpr std::int64_t kFlushAt = std::int64_t{1} << 31;

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & kMagnitudeMask;
}

}  // namespace

MagnitudeHistogram::MagnitudeHistogram(std::int64_t k)
    : k_(k), narrow_(2 * kBins), wide_(kBins) {}

void MagnitudeHistogram::add(const float* values, std::int64_t n) {
  std::uint32_t* const even = narrow_.data();
  std::uint32_t* const odd = even + kBins;
  while (n > 0) {
    if (unflushed_ == kFlushAt) flush();
    const std::int64_t part = n < kFlushAt - unflushed_ ? n : kFlushAt - unflushed_;
    std::int64_t i = 0;
    if (pass_ == 0) {
      std::uint32_t top = largest_;
      for (; i + 1 < part; i += 2) {
        const std::uint32_t a = magnitude(values[i]);
        const std::uint32_t b = magnitude(values[i + 1]);
        top = std::max(top, std::max(a, b));
        ++even[a >> kLowBits];
        ++odd[b >> kLowBits];
      }
      if (i < part) {
        const std::uint32_t a = magnitude(values[i]);
        top = std::max(top, a);
        ++even[a >> kLowBits];
      }
      largest_ = top;
    } else {
      // A value with other upper bits adds nothing to the bin it falls into.
      for (; i + 1 < part; i += 2) {
        const std::uint32_t a = magnitude(values[i]);
        const std::uint32_t b = magnitude(values[i + 1]);
        even[a & kLowMask] += static_cast<std::uint32_t>(a >> kLowBits == high_);
        odd[b & kLowMask] += static_cast<std::uint32_t>(b >> kLowBits == high_);
      }
      if (i < part) {
        const std::uint32_t a = magnitude(values[i]);
        even[a & kLowMask] += static_cast<std::uint32_t>(a >> kLowBits == high_);
      }
    }
    unflushed_ += part;
    seen_ += part;
    values += part;
    n -= part;
  }
}

void MagnitudeHistogram::flush() {
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    wide_[bin] += std::int64_t{narrow_[bin]} + std::int64_t{narrow_[kBins + bin]};
    narrow_[bin] = 0;
    narrow_[kBins + bin] = 0;
  }
  unflushed_ = 0;
}

void MagnitudeHistogram::merge(const MagnitudeHistogram& other) {
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    wide_[bin] += other.wide_[bin] + std::int64_t{other.narrow_[bin]} +
                  std::int64_t{other.narrow_[kBins + bin]};
  }
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
  result_.has_nan = largest_ > kInfinityBits;
  return false;
}

}  // namespace pith::kernels
