// Codes of 4 bits as bytes. Included once per target.
#if defined(PITH_KERNELS_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_UNPACK_INL_H_
#undef PITH_KERNELS_UNPACK_INL_H_
#else
#define PITH_KERNELS_UNPACK_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "src/kernels/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kUnpacked = 32;  // codes of 4 bits that are unpacked at a time

using D16 = hn::Full128<std::int8_t>;
using V16 = hn::Vec<D16>;

// Two vectors of codes, from halves of bytes.
struct Unpacked {
  V16 first;
  V16 second;
};

template <Packing kPacking>
HWY_INLINE Unpacked Unpack(const std::uint8_t* packed) {
  constexpr D16 d;
  constexpr hn::Full128<std::uint16_t> d16;
  const V16 mask = hn::Set(d, std::int8_t{0x0f});
  const V16 pairs = hn::LoadU(d, reinterpret_cast<const std::int8_t*>(packed));
  const V16 low = hn::And(pairs, mask);
  const V16 high =
      hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), mask);
  if constexpr (kPacking == Packing::kInt4Halves) {
    const V16 eight = hn::Set(d, std::int8_t{8});
    return {hn::Sub(low, eight), hn::Sub(high, eight)};
  } else {
    alignas(16) static constexpr std::int8_t kSigned[16] = {
        0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    const V16 table = hn::Load(d, kSigned);
    const V16 even = hn::TableLookupBytes(table, low);
    const V16 odd = hn::TableLookupBytes(table, high);
    return {hn::InterleaveLower(d, even, odd), hn::InterleaveUpper(d, even, odd)};
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_UNPACK_INL_H_
