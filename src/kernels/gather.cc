// Bytes are gathered eight at a time, by a table that has the order of each byte of a mask.
// Wider elements are stored one by one, each over the one before unless that is kept: no
// branch depends on the mask, which is as good as random.
#include "src/kernels/gather.h"

#include <array>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/gather.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

#ifndef PITH_KERNELS_GATHER_ONCE_
#define PITH_KERNELS_GATHER_ONCE_
namespace pith::kernels {

struct GatherOrder {
  std::uint8_t place[8];
};

// Of each byte of a mask, the places of its ones; the rest is never looked at.
constexpr std::array<GatherOrder, 256> make_gather_orders() {
  std::array<GatherOrder, 256> orders = {};
  for (unsigned bits = 0; bits < 256; ++bits) {
    unsigned next = 0;
    for (std::uint8_t i = 0; i < 8; ++i) {
      if ((bits >> i & 1) != 0) orders[bits].place[next++] = i;
    }
  }
  return orders;
}
alignas(64) inline constexpr std::array<GatherOrder, 256> kGatherOrders =
    make_gather_orders();

template <typename T>
std::int64_t gather_singly(const T* in, const std::uint8_t* mask, std::int64_t n,
                           T* out) {
  T* const first = out;
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const unsigned bits = mask[i / 8];
    for (unsigned k = 0; k < 8; ++k) {
      *out = in[i + k];
      out += bits >> k & 1;
    }
  }
  for (; i < n; ++i) {
    *out = in[i];
    out += mask[i / 8] >> (i % 8) & 1;
  }
  return out - first;
}

}  // namespace pith::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::int64_t GatherBytesImpl(const std::uint8_t* in, const std::uint8_t* mask,
                             std::int64_t n, std::uint8_t* out) {
  constexpr hn::Full64<std::uint8_t> d;
  std::uint8_t* const first = out;
  const std::int64_t whole = n / 8;
  for (std::int64_t i = 0; i < whole; ++i) {
    const std::uint8_t bits = mask[i];
    const auto order = hn::Load(d, kGatherOrders[bits].place);
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, in + i * 8), order), d, out);
    out += std::popcount(bits);
  }
  out += gather_singly(in + whole * 8, mask + whole, n - whole * 8, out);
  return out - first;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(GatherBytesImpl);

std::int64_t gather(const std::uint8_t* in, const std::uint8_t* mask, std::int64_t n,
                    std::uint8_t* out) noexcept {
  return PITH_DISPATCH(GatherBytesImpl)(in, mask, n, out);
}

std::int64_t gather(const std::uint16_t* in, const std::uint8_t* mask, std::int64_t n,
                    std::uint16_t* out) noexcept {
  return gather_singly(in, mask, n, out);
}

std::int64_t gather(const std::uint32_t* in, const std::uint8_t* mask, std::int64_t n,
                    std::uint32_t* out) noexcept {
  return gather_singly(in, mask, n, out);
}

}  // namespace pith::kernels
#endif
