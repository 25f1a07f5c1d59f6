#include "bench/limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/parallel.h"
#include "src/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limits.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef BENCH_LIMITS_ONCE
#define BENCH_LIMITS_ONCE
namespace pith::bench {

// Lines of a cache that one unit of work reads and writes.
struct Lines {
  std::string_view name;
  int read;
  int write;
};
inline constexpr Lines kLines[kTrafficCount] = {
    {"read", 4, 0},           {"copy", 1, 1},           {"update in place", 1, 1},
    {"read 4 write 2", 2, 1}, {"read 4 write 1", 4, 1}, {"read 4 write 1/2", 8, 1},
    {"read 2 write 4", 1, 2}, {"read 1 write 4", 1, 4}, {"read 1/2 write 4", 1, 8}};

inline thread_local std::uint64_t g_sink;  // so that no read is left out

}  // namespace pith::bench
#endif

HWY_BEFORE_NAMESPACE();
namespace pith::bench::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kAhead = 512;
// Streams of a thread are 260 lines apart: over 16 KiB, and no power of two, which would
// make them compete for the same places in the caches.
constexpr std::int64_t kApart = 260;

constexpr hn::ScalableTag<std::uint64_t> kD;
using V = hn::Vec<decltype(kD)>;

// A unit reads kRead lines and writes kWrite lines. Every byte read has a part in what is
// written, or in the sum.
template <int kRead, int kWrite, bool kPrefetch, bool kStreamStore>
HWY_INLINE V Unit(const std::uint8_t* in, std::uint8_t* out, V sum) {
  const std::int64_t step = static_cast<std::int64_t>(hn::Lanes(kD) * 8);
  if (kPrefetch) {
    for (int line = 0; line < kRead; ++line) hwy::Prefetch(in + line * kLine + kAhead);
  }
  // Line after line: streaming stores to half a line are slow.
  for (int line = 0; line < (kWrite > 0 ? kWrite : 1); ++line) {
    for (std::int64_t at = 0; at < kLine; at += step) {
      V v = hn::LoadU(kD, reinterpret_cast<const std::uint64_t*>(in + at));
      for (int i = 1; i < kRead; ++i) {
        v = hn::Xor(
            v,
            hn::LoadU(kD, reinterpret_cast<const std::uint64_t*>(in + i * kLine + at)));
      }
      auto* to = reinterpret_cast<std::uint64_t*>(out + line * kLine + at);
      if (kWrite == 0) {
        sum = hn::Xor(sum, v);
      } else if (kStreamStore) {
        hn::Stream(hn::Xor(v, sum), kD, to);
      } else {
        hn::StoreU(hn::Xor(v, sum), kD, to);
      }
    }
  }
  return sum;
}

template <int kRead, int kWrite, int kStreams, bool kPrefetch, bool kStreamStore>
void Move(const std::uint8_t* in, std::uint8_t* out, std::int64_t units) {
  constexpr std::int64_t kIn = kRead * kLine;
  constexpr std::int64_t kOut = kWrite * kLine;
  V sum = hn::Set(kD, 0x9e3779b97f4a7c15u);
  std::int64_t unit = 0;
  for (; unit + kStreams * kApart <= units; unit += kStreams * kApart) {
    for (std::int64_t i = unit; i < unit + kApart; ++i) {
      for (int s = 0; s < kStreams; ++s) {
        const std::int64_t at = i + s * kApart;
        sum = Unit<kRead, kWrite, kPrefetch, kStreamStore>(in + at * kIn, out + at * kOut,
                                                           sum);
      }
    }
  }
  for (; unit < units; ++unit) {
    sum =
        Unit<kRead, kWrite, false, kStreamStore>(in + unit * kIn, out + unit * kOut, sum);
  }
  if (kStreamStore) hwy::FlushStream();
  g_sink = hn::GetLane(sum);
}

template <int kRead, int kWrite, int kStreams>
void MoveBy(const Variant& v, const std::uint8_t* in, std::uint8_t* out,
            std::int64_t units) {
  if (v.prefetch && v.stream_store) {
    Move<kRead, kWrite, kStreams, true, true>(in, out, units);
  } else if (v.prefetch) {
    Move<kRead, kWrite, kStreams, true, false>(in, out, units);
  } else if (v.stream_store) {
    Move<kRead, kWrite, kStreams, false, true>(in, out, units);
  } else {
    Move<kRead, kWrite, kStreams, false, false>(in, out, units);
  }
}

template <Traffic kTraffic>
void MoveAs(const Variant& v, const std::uint8_t* in, std::uint8_t* out,
            std::int64_t units) {
  constexpr Lines kOf = kLines[static_cast<int>(kTraffic)];
  if (v.streams == 1) MoveBy<kOf.read, kOf.write, 1>(v, in, out, units);
  if (v.streams == 4) MoveBy<kOf.read, kOf.write, 4>(v, in, out, units);
  if (v.streams == 8) MoveBy<kOf.read, kOf.write, 8>(v, in, out, units);
}

}  // namespace

void MoveImpl(const Variant& v, const std::uint8_t* in, std::uint8_t* out,
              std::int64_t units) {
  switch (v.traffic) {
    case Traffic::kRead:
      return MoveAs<Traffic::kRead>(v, in, out, units);
    case Traffic::kCopy:
      return MoveAs<Traffic::kCopy>(v, in, out, units);
    case Traffic::kUpdate:
      return MoveAs<Traffic::kUpdate>(v, in, out, units);
    case Traffic::kRead4Write2:
      return MoveAs<Traffic::kRead4Write2>(v, in, out, units);
    case Traffic::kRead4Write1:
      return MoveAs<Traffic::kRead4Write1>(v, in, out, units);
    case Traffic::kRead4WriteHalf:
      return MoveAs<Traffic::kRead4WriteHalf>(v, in, out, units);
    case Traffic::kRead2Write4:
      return MoveAs<Traffic::kRead2Write4>(v, in, out, units);
    case Traffic::kRead1Write4:
      return MoveAs<Traffic::kRead1Write4>(v, in, out, units);
    case Traffic::kReadHalfWrite4:
      return MoveAs<Traffic::kReadHalfWrite4>(v, in, out, units);
  }
}

}  // namespace pith::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::bench {

PITH_EXPORT(MoveImpl);

namespace {
const Lines& lines_of(Traffic traffic) { return kLines[static_cast<int>(traffic)]; }
}  // namespace

std::string_view to_string(Traffic traffic) { return lines_of(traffic).name; }

std::string Variant::name() const {
  return fmt::format("{}, {} stream{}{}{}", to_string(traffic), streams,
                     streams == 1 ? "" : "s", prefetch ? ", prefetch" : "",
                     stream_store ? ", streaming stores" : "");
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (int traffic = 0; traffic < kTrafficCount; ++traffic) {
    for (const int streams : {1, 4, 8}) {
      for (const bool prefetch : {false, true}) {
        for (const bool stream_store : {false, true}) {
          if (stream_store && kLines[traffic].write == 0) continue;
          all.push_back({static_cast<Traffic>(traffic), streams, prefetch, stream_store});
        }
      }
    }
  }
  return all;
}

void move(const Variant& variant, const std::byte* in, std::byte* out,
          std::int64_t count) {
  const Lines& lines = lines_of(variant.traffic);
  const std::int64_t unit_bytes = std::int64_t{64} * std::max(lines.read, lines.write);
  // Pieces of 4 MiB: so many that threads end together, so large that they cost nothing.
  const std::int64_t piece = (std::int64_t{4} << 20) / unit_bytes;
  const auto* from = reinterpret_cast<const std::uint8_t*>(
      variant.traffic == Traffic::kUpdate ? out : in);
  auto* to = reinterpret_cast<std::uint8_t*>(out);
  parallel_pieces(count * 4 / unit_bytes, piece,
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    PITH_DISPATCH(MoveImpl)
                    (variant, from + begin * 64 * lines.read,
                     to + begin * 64 * lines.write, end - begin);
                  });
}

}  // namespace pith::bench
#endif
