#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/product_s8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/panel-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// A group as int16 has two columns per output in each half: 0 and 2, or 1 and 3. Products
// of the pairs add up to one sum per output, without a step across lanes.
template <int kHalf, int kRows, int kPanels>
HWY_INLINE void AddHalf(const Streams<kPanels>& codes, const std::byte* HWY_RESTRICT x,
                        Sums<DotI32, kRows, kPanels>& sums) {
  hn::Vec<DotI16> w[kPanels][kVectors];
  HWY_UNROLL(8)
  for (int p = 0; p < kPanels; ++p) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const auto both =
          hn::LoadU(d16, reinterpret_cast<const int16_t*>(codes.v[p]) + v * 2 * kLanes);
      w[p][v] = hn::ShiftRight<8>(kHalf == 0 ? hn::ShiftLeft<8>(both) : both);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const auto xr = BroadcastFour(d16, x + r * 8 + kHalf * 4);
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) AddDotPairsI16(w[p][v], xr, sums.v[r][p][v]);
    }
  }
}

// The same for both halves of one or two rows, whose sums leave registers free: weights are
// loaded once.
template <int kRows, int kPanels>
HWY_INLINE void AddWhole(const Streams<kPanels>& codes, const std::byte* HWY_RESTRICT x,
                         Sums<DotI32, kRows, kPanels>& sums) {
  hn::Vec<DotI16> xr[kRows][2];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    xr[r][0] = BroadcastFour(d16, x + r * 8);
    xr[r][1] = BroadcastFour(d16, x + r * 8 + 4);
  }
  HWY_UNROLL(8)
  for (int p = 0; p < kPanels; ++p) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const auto both =
          hn::LoadU(d16, reinterpret_cast<const int16_t*>(codes.v[p]) + v * 2 * kLanes);
      const auto even = hn::ShiftRight<8>(hn::ShiftLeft<8>(both));
      const auto odd = hn::ShiftRight<8>(both);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        AddDotPairsI16(even, xr[r][0], sums.v[r][p][v]);
        AddDotPairsI16(odd, xr[r][1], sums.v[r][p][v]);
      }
    }
  }
}

template <int kRows, int kPanels>
HWY_INLINE void AddGroup(Streams<kPanels>& codes, const std::byte* HWY_RESTRICT& x,
                         Sums<DotI32, kRows, kPanels>& sums) {
  if constexpr (kRows <= 2) {
    AddWhole(codes, x, sums);
  } else {
    AddHalf<0>(codes, x, sums);
    Barrier();  // the second half loads its weights again: kept, they would push out sums
    AddHalf<1>(codes, x, sums);
  }
  codes.Advance(32);
  x += kRows * 8;
}

template <int kRows, int kPanels>
HWY_INLINE void AddGroups(Streams<kPanels>& codes, const std::byte* HWY_RESTRICT x,
                          int64_t groups, Sums<DotI32, kRows, kPanels>& sums) {
  int64_t g = 0;
  if constexpr (kPrefetches(kRows)) {
    for (; g + 2 <= groups; g += 2) {
      codes.Prefetch();
      AddGroup(codes, x, sums);
      AddGroup(codes, x, sums);
    }
  }
  for (; g < groups; ++g) AddGroup(codes, x, sums);
}

template <int kRows, int kPanels>
struct OpS8 {
  static HWY_INLINE void Run(const PanelProduct& a, int64_t panel) {
    Streams<kPanels> codes(a, panel);
    Sums<DotI32, kRows, kPanels> sums;
    if (a.shape.block == 0) {
      sums.Clear();
      AddGroups(codes, a.tile, a.shape.groups(), sums);
      sums.Store(a.sums, a.stride, panel);
      return;
    }
    const int64_t groups = a.shape.block / 4;
    const int64_t scale_bytes = a.shape.scale_bytes();
    const std::byte* x = a.tile;
    Tile<decltype(df), kRows, kPanels> y;
    for (int64_t b = 0; b < a.shape.cols / a.shape.block; ++b) {
      if (kPrefetches(kRows)) codes.Prefetch();
      codes.Advance(scale_bytes);
      sums.Clear();
      AddGroups(codes, x, groups, sums);
      HWY_UNROLL(8)
      for (int p = 0; p < kPanels; ++p) {
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) {
          const auto scales =
              LoadScales(codes.v[p] - groups * 32 - scale_bytes, a.shape.half_scales, v);
          HWY_UNROLL(8)
          for (int r = 0; r < kRows; ++r) {
            y.Add(r, p, v, hn::Mul(hn::ConvertTo(df, sums.v[r][p][v]), scales));
          }
        }
      }
      x += groups * kRows * 8;
      Barrier();
    }
    y.Store(a.y, a.stride, panel);
  }
};

void ProductS8(const PanelProduct& a) { AllRows<OpS8>(a); }

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ProductS8);
void product_s8(const PanelProduct& args) noexcept { PITH_DISPATCH(ProductS8)(args); }
}  // namespace pith::kernels
#endif
