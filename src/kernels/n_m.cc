// Groups of 4 and 8, the ones processors have instructions for, are ranked by comparing each value
// with all others of its group: three shuffles of a vector of four reach them all. Other groups
// use the selection.
#include "src/kernels/n_m.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/n_m.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D4 = hn::FixedTag<std::int32_t, 4>;
using V4 = hn::Vec<D4>;

HWY_INLINE V4 load(D4 d, const float* values) {
  const V4 bits = hn::BitCast(d, hn::LoadU(hn::RebindToFloat<D4>(), values));
  return hn::And(bits, hn::Set(d, static_cast<std::int32_t>(kMagnitudeMask)));
}

// Value j goes before value i if it is smaller, or equal and earlier: m_j < m_i + (j < i). The
// partners of lane i are lanes i ^ 1, i ^ 2 and i ^ 3; the first is earlier in lanes 1 and 3, the
// others in lanes 2 and 3.
HWY_INLINE V4 earlier_by1(D4 d) { return hn::And(hn::Iota(d, 0), hn::Set(d, 1)); }
HWY_INLINE V4 earlier_by2(D4 d) { return hn::ShiftRight<1>(hn::Iota(d, 0)); }

// The number of values of its own four that go before each, negated.
HWY_INLINE V4 before_within(D4 d, V4 v) {
  const V4 up1 = hn::Add(v, earlier_by1(d));
  const V4 up2 = hn::Add(v, earlier_by2(d));
  const V4 a = hn::VecFromMask(d, hn::Gt(up1, hn::Shuffle2301(v)));
  const V4 b = hn::VecFromMask(d, hn::Gt(up2, hn::Shuffle1032(v)));
  const V4 c = hn::VecFromMask(d, hn::Gt(up2, hn::Shuffle0123(v)));
  return hn::Add(a, hn::Add(b, c));
}

// The number of values of another four that are smaller than each, negated.
HWY_INLINE V4 before_across(D4 d, V4 v, V4 other) {
  const V4 a = hn::VecFromMask(d, hn::Gt(v, other));
  const V4 b = hn::VecFromMask(d, hn::Gt(v, hn::Shuffle2301(other)));
  const V4 c = hn::VecFromMask(d, hn::Gt(v, hn::Shuffle1032(other)));
  const V4 e = hn::VecFromMask(d, hn::Gt(v, hn::Shuffle0123(other)));
  return hn::Add(hn::Add(a, b), hn::Add(c, e));
}

HWY_INLINE std::uint8_t byte_of(D4 d, hn::Mask<D4> low, hn::Mask<D4> high) {
  std::uint8_t bits[2][8];
  hn::StoreMaskBits(d, low, bits[0]);
  hn::StoreMaskBits(d, high, bits[1]);
  return static_cast<std::uint8_t>(bits[0][0] | bits[1][0] << 4);
}

// `count` is a multiple of 8.
void MaskGroups(const float* HWY_RESTRICT values, std::int64_t count, std::int64_t n,
                std::int64_t m, std::uint8_t* HWY_RESTRICT mask) {
  const D4 d;
  // Kept where at least m - n go before: the negated number is below this.
  const V4 limit = hn::Set(d, static_cast<std::int32_t>(1 - (m - n)));
  if (m == 4) {
    for (std::int64_t i = 0; i < count; i += 8) {
      const V4 low = before_within(d, load(d, values + i));
      const V4 high = before_within(d, load(d, values + i + 4));
      mask[i / 8] = byte_of(d, hn::Gt(limit, low), hn::Gt(limit, high));
    }
    return;
  }
  for (std::int64_t i = 0; i < count; i += 8) {
    const V4 low = load(d, values + i);
    const V4 high = load(d, values + i + 4);
    const V4 next = hn::Add(high, hn::Set(d, 1));  // all of the lower four are earlier
    const V4 before_low = hn::Add(before_within(d, low), before_across(d, low, high));
    const V4 before_high = hn::Add(before_within(d, high), before_across(d, next, low));
    mask[i / 8] = byte_of(d, hn::Gt(limit, before_low), hn::Gt(limit, before_high));
  }
}

}  // namespace
}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <bit>

#include "src/kernels/select.h"

namespace pith::kernels {
namespace {

PITH_EXPORT(MaskGroups);

// ceil(n * size / m); n and size are at most m, which may be as large as a row.
std::int64_t share(std::int64_t n, std::int64_t size, std::int64_t m) {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>((Wide{n} * size + m - 1) / m);
}

// Sets the bits of the kept values of a group that begins at bit `begin`.
std::int64_t mask_group(const float* group, std::int64_t size, std::int64_t keep,
                        std::int64_t begin, std::uint8_t* mask) {
  const std::int64_t drop = size - keep;
  MagnitudeRank rank;  // of the last one that goes
  if (drop > 0) rank = select_magnitude(group, size, drop - 1);
  std::int64_t ties = drop - rank.below;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(group[i]) & kMagnitudeMask;
    const bool tie = bits == rank.bits && ties > 0;
    if (tie) --ties;
    if (drop > 0 && (bits < rank.bits || tie)) continue;
    const std::int64_t at = begin + i;
    mask[at / 8] = static_cast<std::uint8_t>(mask[at / 8] | 1 << (at % 8));
  }
  return keep;
}

}  // namespace

std::int64_t mask_n_m(const float* values, std::int64_t count, std::int64_t n,
                      std::int64_t m, std::uint8_t* mask) {
  std::int64_t done = 0;
  std::int64_t kept = 0;
  if (m == 4 || m == 8) {
    done = count / 8 * 8;
    PITH_DISPATCH(MaskGroups)(values, done, n, m, mask);
    kept = done / m * n;
  }
  std::fill_n(mask + done / 8, (count + 7) / 8 - done / 8, std::uint8_t{0});
  while (done < count) {
    const std::int64_t size = std::min(m, count - done);
    kept += mask_group(values + done, size, share(n, size, m), done, mask);
    done += size;
  }
  return kept;
}

}  // namespace pith::kernels
#endif
