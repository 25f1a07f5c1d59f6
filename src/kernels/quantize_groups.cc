// Scales and codes of groups in one go. While groups are encoded, the values that come
// next are scanned for their extremes: so memory is asked for values all the time, and
// codes are made of what the first-level cache holds. Memory gives several streams at once
// more than one: short groups are taken from four places in turns.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/quantize_groups.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/block_coder-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/quantize_batch-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// ---- short groups

// Bytes of n codes.
template <class Coder>
constexpr std::int64_t CodeBytes(std::int64_t n) {
  return Coder::kPacking == Packing::kInt4 ? n / 2 : n;
}

constexpr std::int64_t kGroups = quantize_batch(kBlock);
constexpr std::int64_t kFetch = 256;  // values ahead of those that are scanned
// Longer streams would be no faster.
constexpr std::int64_t kMostVisits = 511;

template <class Lanes>
HWY_INLINE Lanes Scanned(const float* values, std::int64_t size,
                         const typename Lanes::Mask& mask) {
  Lanes lanes;
  lanes.Begin(values, mask);
  for (std::int64_t i = kBlock; i < size; i += kBlock) lanes.Add(values + i, mask);
  return lanes;
}

// Groups from `first` on, as many as are done in so many visits of each stream. kSize: of
// a group, or 0 if it is known only here. False if a group is not ordinary.
template <class Lanes, class Coder, bool kStream, std::int64_t kSize>
bool QuantizeStreams(const QuantizeGroups& args, std::int64_t first,
                     std::int64_t visits) {
  constexpr std::int64_t kEach = kGroups / kStreams;  // groups of a visit to a stream
  const EncodeGroups& codes = args.codes;
  const std::int64_t size = kSize != 0 ? kSize : codes.in.size;
  const std::int64_t stride = codes.stride;
  const std::int64_t apart = visits * kEach;
  Coder coder(args);
  const typename Lanes::Mask mask;
  Batch<kGroups, kEach> ring[2];
  for (std::int64_t visit = 0; visit < 2 && visit < visits; ++visit) {
    Batch<kGroups, kEach>& batch = ring[visit];
    batch.first = first + visit * kEach;
    batch.apart = apart;
    for (std::int64_t k = 0; k < kGroups; ++k) {
      const float* values = codes.in.values + batch.Group(k) * size;
      batch.Scanned(k, Scanned<Lanes>(values, size, mask));
    }
  }
  if (!FindBatch<Lanes>(args, ring[0])) return false;
  for (std::int64_t visit = 0; visit < visits; ++visit) {
    // The scales of the next visit are found while this one is encoded and the one after
    // next, if there is one, is scanned.
    if (visit + 1 < visits && !FindBatch<Lanes>(args, ring[(visit + 1) & 1])) {
      return false;
    }
    Batch<kGroups, kEach>& batch = ring[visit & 1];
    const std::int64_t ahead = visit + 2 < visits ? 2 * kEach : 0;
    StoreScales(args.scales, batch);
    const float* values = codes.in.values + batch.first * size;
    std::uint8_t* out = codes.codes + batch.first * stride;
    for (std::int64_t k = 0; k < kGroups; k += kEach) {
      for (std::int64_t e = 0; e < kEach; ++e) {
        const float* from = values + e * size;
        const float* later = from + ahead * size;
        std::uint8_t* to = out + e * stride;
        const VF factor = hn::Set(kDF, batch.factors[k + e]);
        Lanes lanes;
        for (std::int64_t i = 0; i < size; i += kBlock) {
          if (HWY_LIKELY(ahead > 0)) {
            hwy::Prefetch(later + i + kFetch);
            hwy::Prefetch(later + i + kFetch + 16);
            if (i == 0) {
              lanes.Begin(later, mask);
            } else {
              lanes.Add(later + i, mask);
            }
          }
          coder.template Encode<kStream>(from + i, factor, batch.divisors + k + e,
                                         to + CodeBytes<Coder>(i));
        }
        batch.Scanned(k + e, lanes);
      }
      values += apart * size;
      out += apart * stride;
    }
    batch.first += ahead;
  }
  if (coder.bytes != nullptr) {
    *args.saturated += static_cast<std::int64_t>(coder.saturated);
  }
  return true;
}

template <class Lanes, class Coder, bool kStream, std::int64_t kSize>
std::int64_t QuantizeShort(const QuantizeGroups& args, std::int64_t groups) {
  std::int64_t done = 0;
  while (groups - done >= kGroups) {
    // If they are many, an odd number: streams that are a power of two apart meet in the
    // caches.
    const std::int64_t most = HWY_MIN(kMostVisits, (groups - done) / kGroups);
    const std::int64_t visits = most - (most > 32 && most % 2 == 0 ? 1 : 0);
    if (!QuantizeStreams<Lanes, Coder, kStream, kSize>(args, done, visits)) {
      return 0;
    }
    done += visits * kGroups;
  }
  return done;
}

// ---- long groups

// Fetches a block while the one at `i` is scanned: of the next 32 KiB, the lines of eight
// pages in turns.
HWY_INLINE void Fetch(const float* first, std::int64_t at) {
  constexpr std::uint64_t kPage = 1024;
  constexpr std::uint64_t kPages = 8;
  const auto i = static_cast<std::uint64_t>(at);  // shifts, not divisions
  const std::uint64_t page = i / kBlock % kPages;
  const std::uint64_t block = i / (kPages * kBlock) % (kPage / kBlock);
  const float* lines = first + (i / (kPages * kPage) + 1) * (kPages * kPage) +
                       page * kPage + block * kBlock;
  hwy::Prefetch(lines);
  hwy::Prefetch(lines + 16);
}

// One after the other; the next one is scanned while one is encoded.
template <class Lanes, class Coder, bool kStream>
std::int64_t QuantizeLong(const QuantizeGroups& args, std::int64_t groups) {
  const EncodeGroups& codes = args.codes;
  const std::int64_t size = codes.in.size;
  const float* const first = codes.in.values;
  Coder coder(args);
  Batch<1, 1> batch;
  batch.apart = 0;
  const typename Lanes::Mask mask;
  Lanes lanes;
  if (args.largest != 0) {
    lanes.Set(args.largest);
  } else {
    lanes = Scanned<Lanes>(first, size, mask);
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    batch.first = g;
    batch.Scanned(0, lanes);
    if (!FindBatch<Lanes>(args, batch)) return 0;
    StoreScales(args.scales, batch);
    const VF factor = hn::Set(kDF, batch.factors[0]);
    const float* values = first + g * size;
    std::uint8_t* out = codes.codes + g * codes.stride;
    const auto encode = [&](std::int64_t i) HWY_ATTR {
      coder.template Encode<kStream>(values + i, factor, batch.divisors,
                                     out + CodeBytes<Coder>(i));
    };
    if (g + 1 == groups) {
      for (std::int64_t i = 0; i < size; i += kBlock) encode(i);
      break;
    }
    lanes = Lanes();
    for (std::int64_t i = 0; i < size; i += kBlock) {
      Fetch(first, (g + 1) * size + i);
      lanes.Add(values + size + i, mask);
      encode(i);
    }
  }
  return groups;
}

// ---- the choice

template <class Lanes, class Coder, bool kStream>
HWY_INLINE std::int64_t BySize(const QuantizeGroups& args, std::int64_t groups) {
  // With a constant size the loops over a group unroll.
  const std::int64_t size = args.codes.in.size;
  if (size == 32) {
    return QuantizeShort<Lanes, Coder, kStream, 32>(args, groups);
  }
  if (size == 64) {
    return QuantizeShort<Lanes, Coder, kStream, 64>(args, groups);
  }
  return quantize_batch(size) == 1
             ? QuantizeLong<Lanes, Coder, kStream>(args, groups)
             : QuantizeShort<Lanes, Coder, kStream, 0>(args, groups);
}

template <Packing kPacking, bool kLimit>
HWY_INLINE std::int64_t ByStores(const QuantizeGroups& args, std::int64_t groups) {
  using Coder = BlockCoder<kPacking, kLimit>;
  return MayStream<kPacking>(args.codes)
             ? BySize<MagnitudeLanes, Coder, true>(args, groups)
             : BySize<MagnitudeLanes, Coder, false>(args, groups);
}

HWY_INLINE std::int64_t ByPacking(const QuantizeGroups& args, std::int64_t groups) {
  const bool limit = args.codes.limit;
  switch (args.codes.packing) {
    case Packing::kInt8:
      if (ProductCoder::Knows(args.codes) && args.codes.in.size == 32) {
        return QuantizeShort<MagnitudeLanes, ProductCoder, false, 32>(args, groups);
      }
      return limit ? ByStores<Packing::kInt8, true>(args, groups)
                   : ByStores<Packing::kInt8, false>(args, groups);
    case Packing::kInt4:
      return limit ? ByStores<Packing::kInt4, true>(args, groups)
                   : ByStores<Packing::kInt4, false>(args, groups);
    case Packing::kInt4Halves:
      return QuantizeShort<SignedLanes, BlockCoder<Packing::kInt4Halves, true>, false,
                           32>(args, groups);
  }
  return 0;
}

std::int64_t QuantizeGroupsImpl(const QuantizeGroups& args) {
  const Groups& in = args.codes.in;
  const std::int64_t groups = in.groups - (in.last == in.size ? 0 : 1);
  const std::int64_t done = groups <= 0 ? 0 : ByPacking(args, groups);
  if (args.codes.stream) hwy::FlushStream();
  return done;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(QuantizeGroupsImpl);

std::int64_t quantize_groups(const QuantizeGroups& args) noexcept {
  return PITH_DISPATCH(QuantizeGroupsImpl)(args);
}

}  // namespace pith::kernels
#endif
