// Selection by a sampled bracket.
//
// A sample of about 1.6 n^(2/3) values, taken as whole cache lines at evenly spread but
// jittered places, gives two magnitudes between which rank k lies almost surely. One pass
// counts what is below and collects the few values strictly between them; the search goes
// on among those. Values equal to an end of the bracket are only counted, so ties cannot
// fill the collection. If rank k is outside after all, the next bracket is wider; after
// three tries, or when too much is inside, the histogram of the bits decides, in bounded
// memory.
#include "src/kernels/select.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "src/base/parallel.h"
#include "src/kernels/select_pass.h"

namespace pith::kernels {
namespace {

constexpr std::int64_t kSmall = std::int64_t{1} << 15;  // found digit by digit
constexpr std::int64_t kLine = 16;                      // floats of a cache line
constexpr std::int64_t kPiece = std::int64_t{1} << 18;  // of one thread, in four streams
constexpr int kTries = 3;

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & kMagnitudeMask;
}

// Spreads the sample inside its stretches; any fixed function does.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Few values: digit by digit of their 31 bits, from the top, each time among those that share the
// digits found so far.
MagnitudeRank select_by_digits(std::span<const FloatSpan> spans, std::int64_t k) {
  constexpr int kShifts[] = {20, 9, 0};
  constexpr std::size_t kDigits = 1 << 11;
  MagnitudeRank rank;
  std::uint32_t largest = 0;
  std::vector<float> same;  // those that share the digits
  std::vector<FloatSpan> rest;
  for (const int shift : kShifts) {
    const std::uint32_t digit_mask = shift == 0 ? (1u << 9) - 1 : kDigits - 1;
    // Neighbours count in two tables: a run of equal values would make each increment wait.
    std::uint32_t counts[2][kDigits] = {};
    for (const FloatSpan& span : spans) {
      std::uint32_t table = 0;
      for (const float value : span) {
        const std::uint32_t bits = magnitude(value);
        largest = std::max(largest, bits);
        ++counts[table][bits >> shift & digit_mask];
        table ^= 1;
      }
    }
    std::uint32_t digit = 0;
    std::int64_t equal = 0;
    for (;; ++digit) {
      equal = std::int64_t{counts[0][digit]} + std::int64_t{counts[1][digit]};
      if (rank.below + equal > k) break;
      rank.below += equal;
    }
    rank.bits |= digit << shift;
    rank.equal = equal;
    if (shift == 0) break;
    std::vector<float> next(static_cast<std::size_t>(equal) +
                            1);  // one is written too many
    std::size_t size = 0;
    for (const FloatSpan& span : spans) {
      for (const float value : span) {
        next[size] = value;
        size += magnitude(value) >> shift == rank.bits >> shift ? 1 : 0;
      }
    }
    next.resize(size);
    same = std::move(next);
    rest.assign(1, FloatSpan(same));
    spans = rest;
  }
  rank.largest = largest;
  rank.has_nan = largest > kInfinityBits;
  return rank;
}

MagnitudeRank select_by_histogram(std::span<const FloatSpan> spans, std::int64_t k) {
  MagnitudeHistogram histogram(k);
  do {
    for (const FloatSpan& span : spans) {
      histogram.add(span.data(), static_cast<std::int64_t>(span.size()));
    }
  } while (histogram.next_pass());
  return histogram.result();
}

// Where lines of the sample lie in the concatenation of the spans.
class SampleLines {
 public:
  SampleLines(std::span<const FloatSpan> spans, std::int64_t n, std::int64_t lines)
      : spans_(spans), stretch_(n / lines), lines_(lines) {}

  /// The next line, or nothing behind the last one.
  FloatSpan next() {
    if (line_ == lines_) return {};
    const auto jitter = static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(line_)) %
                                                  static_cast<std::uint64_t>(stretch_));
    const std::int64_t at = line_++ * stretch_ + jitter;
    while (at >= begin_ + static_cast<std::int64_t>(spans_[span_].size())) {
      begin_ += static_cast<std::int64_t>(spans_[span_++].size());
    }
    const auto in_span = static_cast<std::size_t>((at - begin_) / kLine * kLine);
    const std::size_t left = spans_[span_].size() - in_span;
    return spans_[span_].subspan(in_span, std::min<std::size_t>(kLine, left));
  }

 private:
  std::span<const FloatSpan> spans_;
  std::int64_t stretch_;
  std::int64_t lines_;
  std::int64_t line_ = 0;
  std::size_t span_ = 0;
  std::int64_t begin_ = 0;  // of spans_[span_] in the concatenation
};

std::vector<float> take_sample(std::span<const FloatSpan> spans, std::int64_t n,
                               std::int64_t lines) {
  std::vector<float> sample;
  sample.reserve(static_cast<std::size_t>(lines * kLine));
  // Each line is a page of its own: ask for it well before it is read.
  FloatSpan ahead[32];
  SampleLines places(spans, n, lines);
  for (FloatSpan& line : ahead) {
    line = places.next();
    __builtin_prefetch(line.data());
  }
  for (std::int64_t i = 0; i < lines; ++i) {
    FloatSpan& line = ahead[i % std::ssize(ahead)];
    sample.insert(sample.end(), line.begin(), line.end());
    line = places.next();
    __builtin_prefetch(line.data());
  }
  return sample;
}

struct Collected {
  BracketCounts counts;
  std::vector<std::vector<float>> inside;
  bool overflow = false;
};

Collected collect(std::span<const FloatSpan> spans, std::int64_t n,
                  const BracketEstimate& estimate) {
  std::vector<FloatSpan> pieces;
  for (const FloatSpan& span : spans) {
    for (std::size_t begin = 0; begin < span.size(); begin += kPiece) {
      pieces.push_back(
          span.subspan(begin, std::min<std::size_t>(kPiece, span.size() - begin)));
    }
  }
  Collected collected;
  collected.inside.resize(pieces.size());
  std::vector<BracketCounts> counts(pieces.size());
  const std::int64_t limit = n / 4;
  std::atomic<std::int64_t> total = 0;
  parallel_for(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t index) {
    const FloatSpan piece = pieces[static_cast<std::size_t>(index)];
    std::vector<float>& inside = collected.inside[static_cast<std::size_t>(index)];
    inside.reserve(static_cast<std::size_t>(static_cast<double>(piece.size()) *
                                            std::min(1.0, 1.25 * estimate.inside)));
    for_bracket_blocks(
        piece.data(), static_cast<std::int64_t>(piece.size()), estimate.bracket,
        [&](const BracketCounts& found, const float* values) {
          counts[static_cast<std::size_t>(index)].add(found);
          inside.insert(inside.end(), values, values + found.inside);
          return total.fetch_add(found.inside, std::memory_order_relaxed) <= limit;
        });
  });
  collected.overflow = total > limit;
  for (const BracketCounts& found : counts) collected.counts.add(found);
  return collected;
}

}  // namespace

BracketEstimate bracket_of(const std::vector<float>& sample, std::int64_t n,
                           std::int64_t k, double radius) {
  const FloatSpan spans[] = {FloatSpan(sample)};
  const auto size = static_cast<std::int64_t>(sample.size());
  const double share = (static_cast<double>(k) + 0.5) / static_cast<double>(n);
  const double centre = share * static_cast<double>(size);
  const auto first = static_cast<std::int64_t>(std::floor(centre - radius));
  const auto last = static_cast<std::int64_t>(std::ceil(centre + radius));
  BracketEstimate result;
  result.inside = 2 * radius / static_cast<double>(size);
  Bracket& bracket = result.bracket;
  // Where the end of a bracket is a value that occurs often, rank k may be exactly there.
  const std::int64_t often = 1 + size / 4096;
  if (first >= 0) {
    const MagnitudeRank lo = select_magnitude(spans, first);
    bracket.lo = static_cast<std::int32_t>(lo.bits);
    bracket.count_ends = lo.equal > often;
  }
  if (last < size) {
    const MagnitudeRank hi = select_magnitude(spans, last);
    bracket.hi = static_cast<std::int32_t>(hi.bits);
    bracket.count_ends = bracket.count_ends || hi.equal > often;
  } else {
    bracket.count_ends = true;  // a NaN of all ones equals the end
  }
  return result;
}

std::optional<MagnitudeRank> rank_in(const Bracket& bracket, BracketCounts counts,
                                     std::span<const FloatSpan> inside, std::int64_t k) {
  if (bracket.lo == bracket.hi) counts.equal_hi = 0;  // counted at the lower end
  const std::int64_t up_to_inside = counts.up_to_lo + counts.inside;
  MagnitudeRank rank;
  if (k >= counts.up_to_lo && k < up_to_inside) {
    rank = select_magnitude(inside, k - counts.up_to_lo);
    rank.below += counts.up_to_lo;
  } else if (k < counts.up_to_lo && k >= counts.up_to_lo - counts.equal_lo) {
    rank.bits = static_cast<std::uint32_t>(bracket.lo);
    rank.below = counts.up_to_lo - counts.equal_lo;
    rank.equal = counts.equal_lo;
  } else if (k >= up_to_inside && k < up_to_inside + counts.equal_hi) {
    rank.bits = static_cast<std::uint32_t>(bracket.hi);
    rank.below = up_to_inside;
    rank.equal = counts.equal_hi;
  } else {
    return std::nullopt;
  }
  rank.largest = static_cast<std::uint32_t>(counts.largest);
  rank.has_nan = rank.largest > kInfinityBits;
  return rank;
}

MagnitudeRank select_magnitude(std::span<const FloatSpan> spans, std::int64_t k) {
  std::int64_t n = 0;
  for (const FloatSpan& span : spans) n += static_cast<std::int64_t>(span.size());
  assert(0 <= k && k < n);
  if (n <= kSmall) return select_by_digits(spans, k);

  const double ideal = 1.6 * std::pow(static_cast<double>(n), 2.0 / 3);
  const std::int64_t lines =
      std::min<std::int64_t>(static_cast<std::int64_t>(ideal) / kLine, 65536);
  const std::vector<float> sample = take_sample(spans, n, lines);
  const double share = (static_cast<double>(k) + 0.5) / static_cast<double>(n);
  const double deviation =
      std::sqrt(share * (1 - share) * static_cast<double>(sample.size()));
  double spread = 4;
  for (int attempt = 0; attempt < kTries; ++attempt, spread *= 4) {
    BracketEstimate estimate = bracket_of(sample, n, k, spread * (deviation + 1));
    if (attempt > 0) estimate.bracket.count_ends = true;
    const Collected collected = collect(spans, n, estimate);
    if (collected.overflow) break;
    const std::vector<FloatSpan> inside(collected.inside.begin(), collected.inside.end());
    if (const auto rank = rank_in(estimate.bracket, collected.counts, inside, k)) {
      return *rank;
    }
  }
  return select_by_histogram(spans, k);
}

MagnitudeRank select_magnitude(const float* values, std::int64_t n, std::int64_t k) {
  const FloatSpan spans[] = {FloatSpan(values, static_cast<std::size_t>(n))};
  return select_magnitude(spans, k);
}

std::int64_t first_nan(const float* values, std::int64_t n) noexcept {
  // Blocks without a branch inside, which compilers turn into vector code.
  for (std::int64_t begin = 0; begin < n; begin += kBracketBlock) {
    const std::int64_t end = std::min(begin + kBracketBlock, n);
    std::uint32_t largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, magnitude(values[i]));
    }
    if (largest <= kInfinityBits) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (magnitude(values[i]) > kInfinityBits) return i;
    }
  }
  return -1;
}

namespace {

// share = mantissa * 2^-shift exactly, so the product is whole in 128 bits.
std::int64_t exact_share(float share, std::int64_t n, bool up) {
  __extension__ using Wide = unsigned __int128;
  int exponent = 0;
  const auto mantissa =
      static_cast<std::uint64_t>(std::ldexp(std::frexp(share, &exponent), 24));
  const int shift = 24 - exponent;
  const Wide product = Wide{mantissa} * static_cast<std::uint64_t>(n);
  const Wide whole = shift < 128 ? product >> shift : 0;
  const bool rest = shift < 128 ? (whole << shift) != product : product != 0;
  return static_cast<std::int64_t>(whole) + (up && rest ? 1 : 0);
}

constexpr std::int64_t kExactInFloat = std::int64_t{1} << 24;

}  // namespace

std::int64_t share_floor(float share, std::int64_t n) {
  assert(share >= 0 && share <= 1 && n >= 0);
  if (n > kExactInFloat) return exact_share(share, n, false);
  return static_cast<std::int64_t>(std::floor(share * static_cast<float>(n)));
}

std::int64_t share_ceil(float share, std::int64_t n) {
  assert(share >= 0 && share <= 1 && n >= 0);
  if (n > kExactInFloat) return exact_share(share, n, true);
  return static_cast<std::int64_t>(std::ceil(share * static_cast<float>(n)));
}

std::int64_t percentile_rank(float p, std::int64_t n) {
  assert(n > 0);
  return std::clamp<std::int64_t>(share_ceil(p, n), 1, n) - 1;
}

}  // namespace pith::kernels
