// Selection by a sampled bracket.
//
// A sample of about 3 n^(2/3) values, taken as whole cache lines at evenly spread but
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
#include <cstring>
#include <memory>

#include "src/base/parallel.h"
#include "src/kernels/select_pass.h"

namespace pith::kernels {
namespace {

constexpr std::int64_t kSmall = 512;   // found directly
constexpr std::int64_t kLine = 16;     // floats of a cache line
constexpr std::int64_t kBlock = 4096;  // collected on the stack, then appended
constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // of one thread
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

MagnitudeRank select_small(std::span<const FloatSpan> spans, std::int64_t k) {
  std::uint32_t sorted[kSmall] = {};
  std::size_t n = 0;
  std::uint32_t largest = 0;
  for (const FloatSpan& span : spans) {
    for (const float value : span) {
      sorted[n] = magnitude(value);
      largest = std::max(largest, sorted[n++]);
    }
  }
  std::nth_element(sorted, sorted + k, sorted + n);
  MagnitudeRank rank;
  rank.bits = sorted[k];
  for (std::size_t i = 0; i < n; ++i) {
    rank.below += sorted[i] < rank.bits ? 1 : 0;
    rank.equal += sorted[i] == rank.bits ? 1 : 0;
  }
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

std::vector<float> take_sample(std::span<const FloatSpan> spans, std::int64_t n,
                               std::int64_t lines) {
  std::vector<float> sample;
  sample.reserve(static_cast<std::size_t>(lines * kLine));
  std::size_t span = 0;
  std::int64_t span_begin = 0;  // of `span` in the concatenation
  const std::int64_t stretch = n / lines;
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t jitter = static_cast<std::int64_t>(
        mix(static_cast<std::uint64_t>(line)) % static_cast<std::uint64_t>(stretch));
    const std::int64_t at = line * stretch + jitter;
    while (at >= span_begin + static_cast<std::int64_t>(spans[span].size())) {
      span_begin += static_cast<std::int64_t>(spans[span++].size());
    }
    const auto size = static_cast<std::int64_t>(spans[span].size());
    const std::int64_t begin = (at - span_begin) / kLine * kLine;
    const float* from = spans[span].data() + begin;
    sample.insert(sample.end(), from, from + std::min(kLine, size - begin));
  }
  return sample;
}

// The bracket around rank k of n: `spread` deviations of the sample's rank to both sides.
Bracket make_bracket(const std::vector<float>& sample, std::int64_t n, std::int64_t k,
                     double spread) {
  const FloatSpan spans[] = {FloatSpan(sample)};
  const auto size = static_cast<std::int64_t>(sample.size());
  const double share = (static_cast<double>(k) + 0.5) / static_cast<double>(n);
  const double centre = share * static_cast<double>(size);
  const double radius = spread * std::sqrt(centre * (1 - share)) + spread;
  const auto first = static_cast<std::int64_t>(std::floor(centre - radius));
  const auto last = static_cast<std::int64_t>(std::ceil(centre + radius));
  Bracket bracket;
  // Where the end of a bracket is a value that occurs often, rank k may be exactly there.
  const std::int64_t often = 1 + size / 4096;
  bracket.count_ends = false;
  if (first >= 0) {
    const MagnitudeRank lo = select_magnitude(spans, first);
    bracket.lo = static_cast<std::int32_t>(lo.bits);
    bracket.count_ends = bracket.count_ends || lo.equal > often;
  }
  if (last < size) {
    const MagnitudeRank hi = select_magnitude(spans, last);
    bracket.hi = static_cast<std::int32_t>(hi.bits);
    bracket.count_ends = bracket.count_ends || hi.equal > often;
  } else {
    bracket.count_ends = true;  // a NaN of all ones equals the end
  }
  return bracket;
}

struct Collected {
  BracketCounts counts;
  std::vector<float> inside;
  bool overflow = false;
};

Collected collect(std::span<const FloatSpan> spans, std::int64_t n,
                  const Bracket& bracket) {
  struct Piece {
    FloatSpan values;
    BracketCounts counts;
    std::vector<float> inside;
  };
  std::vector<Piece> pieces;
  for (const FloatSpan& span : spans) {
    for (std::size_t begin = 0; begin < span.size(); begin += kPiece) {
      pieces.push_back(
          {span.subspan(begin, std::min<std::size_t>(kPiece, span.size() - begin)),
           {},
           {}});
    }
  }
  const std::int64_t limit = n / 16 + kBlock;
  std::atomic<std::int64_t> inside = 0;
  parallel_for(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t index) {
    Piece& piece = pieces[static_cast<std::size_t>(index)];
    float block[kBlock];
    const auto size = static_cast<std::int64_t>(piece.values.size());
    for (std::int64_t begin = 0; begin < size; begin += kBlock) {
      const BracketCounts counts = bracket_pass(
          piece.values.data() + begin, std::min(kBlock, size - begin), bracket, block);
      piece.counts.add(counts);
      if (counts.inside == 0) continue;
      if (inside.fetch_add(counts.inside, std::memory_order_relaxed) + counts.inside >
          limit) {
        return;
      }
      piece.inside.insert(piece.inside.end(), block, block + counts.inside);
    }
  });
  Collected collected;
  collected.overflow = inside > limit;
  if (collected.overflow) return collected;
  for (const Piece& piece : pieces) {
    collected.counts.add(piece.counts);
    collected.inside.insert(collected.inside.end(), piece.inside.begin(),
                            piece.inside.end());
  }
  if (bracket.lo == bracket.hi)
    collected.counts.equal_hi = 0;  // counted at the lower end
  return collected;
}

}  // namespace

MagnitudeRank select_magnitude(std::span<const FloatSpan> spans, std::int64_t k) {
  std::int64_t n = 0;
  for (const FloatSpan& span : spans) n += static_cast<std::int64_t>(span.size());
  assert(0 <= k && k < n);
  if (n <= kSmall) return select_small(spans, k);

  const double ideal = 3 * std::pow(static_cast<double>(n), 2.0 / 3);
  const std::int64_t lines =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(ideal) / kLine, 8, 65536);
  const std::vector<float> sample = take_sample(spans, n, lines);
  double spread = 5;
  for (int attempt = 0; attempt < kTries; ++attempt, spread *= 4) {
    Bracket bracket = make_bracket(sample, n, k, spread);
    bracket.count_ends = bracket.count_ends || attempt > 0;
    const Collected collected = collect(spans, n, bracket);
    if (collected.overflow) break;
    const BracketCounts& counts = collected.counts;
    MagnitudeRank rank;
    if (k >= counts.up_to_lo && k < counts.up_to_lo + counts.inside) {
      const FloatSpan inside[] = {FloatSpan(collected.inside)};
      rank = select_magnitude(inside, k - counts.up_to_lo);
      rank.below += counts.up_to_lo;
    } else if (k < counts.up_to_lo && k >= counts.up_to_lo - counts.equal_lo) {
      rank.bits = static_cast<std::uint32_t>(bracket.lo);
      rank.below = counts.up_to_lo - counts.equal_lo;
      rank.equal = counts.equal_lo;
    } else if (k >= counts.up_to_lo + counts.inside &&
               k < counts.up_to_lo + counts.inside + counts.equal_hi) {
      rank.bits = static_cast<std::uint32_t>(bracket.hi);
      rank.below = counts.up_to_lo + counts.inside;
      rank.equal = counts.equal_hi;
    } else {
      continue;
    }
    rank.has_nan = static_cast<std::uint32_t>(counts.largest) > kInfinityBits;
    return rank;
  }
  return select_by_histogram(spans, k);
}

MagnitudeRank select_magnitude(const float* values, std::int64_t n, std::int64_t k) {
  const FloatSpan spans[] = {FloatSpan(values, static_cast<std::size_t>(n))};
  return select_magnitude(spans, k);
}

std::int64_t first_nan(const float* values, std::int64_t n) noexcept {
  // Blocks without a branch inside, which compilers turn into vector code.
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, n);
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
