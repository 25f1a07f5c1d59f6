#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/product_s4.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/panel-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

template <int kHalf, int kRows, int kPanels>
HWY_INLINE void AddHalf(const Streams<kPanels>& codes, const std::byte* HWY_RESTRICT x,
                        Sums<DotI16, kRows, kPanels>& sums) {
  const hn::Repartition<uint16_t, DotU8> du16;
  const auto mask = hn::Set(du8, uint8_t{15});
  hn::Vec<DotU8> w[kPanels][kVectors];
  HWY_UNROLL(8)
  for (int p = 0; p < kPanels; ++p) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const auto both =
          hn::LoadU(du8, reinterpret_cast<const uint8_t*>(codes.v[p]) + v * 4 * kLanes);
      w[p][v] = hn::And(
          kHalf == 0 ? both
                     : hn::BitCast(du8, hn::ShiftRight<4>(hn::BitCast(du16, both))),
          mask);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const auto xr = BroadcastFour(d8, x + r * 8 + kHalf * 4);
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) AddDotPairsU8I8(w[p][v], xr, sums.v[r][p][v]);
    }
  }
}

// 32 columns, summed in int16. Sums start at -8 times the sum of x, which takes the 8 out
// of every code + 8; they may wrap on the way, but not at the end: 8 * 127 * 16 < 2^15.
template <int kRows, int kPanels>
HWY_INLINE void Add32(Streams<kPanels>& codes, const std::byte* HWY_RESTRICT x,
                      const std::byte* HWY_RESTRICT start,
                      Sums<DotI16, kRows, kPanels>& sums) {
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const auto first = BroadcastFour(d16, start + r * 4);
    HWY_UNROLL(8)
    for (auto& panel : sums.v[r]) {
      HWY_UNROLL(8)
      for (auto& sum : panel) sum = first;
    }
  }
  HWY_UNROLL(4)
  for (int g = 0; g < 4; ++g) {
    if (kPrefetches(kRows) && g % 2 == 0) codes.Prefetch();  // each line once
    AddHalf<0>(codes, x, sums);
    Barrier();
    AddHalf<1>(codes, x, sums);
    Barrier();
    codes.Advance(32);
    x += kRows * 8;
  }
}

template <int kRows, int kPanels>
struct OpS4 {
  static HWY_INLINE void Run(const PanelProduct& a, int64_t panel) {
    const auto ones = hn::Set(d16, int16_t{1});
    Streams<kPanels> codes(a, panel);
    Sums<DotI16, kRows, kPanels> sums;
    const int64_t pieces = a.shape.groups() / 4;
    const std::byte* start = a.tile;
    const std::byte* x = a.tile + pieces * kRows * 4;
    if (a.shape.block == 32) {
      const int64_t scale_bytes = a.shape.scale_bytes();
      Tile<decltype(df), kRows, kPanels> y;
      for (int64_t b = 0; b < pieces; ++b, start += kRows * 4, x += kRows * 32) {
        if (kPrefetches(kRows)) codes.Prefetch();
        codes.Advance(scale_bytes);
        Add32(codes, x, start, sums);
        HWY_UNROLL(8)
        for (int p = 0; p < kPanels; ++p) {
          HWY_UNROLL(8)
          for (int v = 0; v < kVectors; ++v) {
            const auto scales =
                LoadScales(codes.v[p] - 128 - scale_bytes, a.shape.half_scales, v);
            HWY_UNROLL(8)
            for (int r = 0; r < kRows; ++r) {
              const auto sum = hn::ConvertTo(df, DotPairsI16(sums.v[r][p][v], ones));
              y.Add(r, p, v, hn::Mul(sum, scales));
            }
          }
        }
        Barrier();
      }
      y.Store(a.y, a.stride, panel);
      return;
    }
    // Larger blocks, or one: int32 sums of their pieces.
    const int64_t block = a.shape.block == 0 ? pieces : a.shape.block / 32;
    Tile<decltype(df), kRows, kPanels> y;
    for (int64_t b = 0; b < pieces; b += block) {
      Streams<kPanels> scales = codes;
      codes.Advance(a.shape.scale_bytes());
      Tile<DotI32, kRows, kPanels> exact;
      for (int64_t i = 0; i < block; ++i, start += kRows * 4, x += kRows * 32) {
        Add32(codes, x, start, sums);
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
          HWY_UNROLL(8)
          for (int p = 0; p < kPanels; ++p) {
            HWY_UNROLL(8)
            for (int v = 0; v < kVectors; ++v) {
              exact.Add(r, p, v, DotPairsI16(sums.v[r][p][v], ones));
            }
          }
        }
        Barrier();
      }
      if (a.shape.block == 0) return exact.Store(a.sums, a.stride, panel);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(8)
        for (int p = 0; p < kPanels; ++p) {
          HWY_UNROLL(8)
          for (int v = 0; v < kVectors; ++v) {
            const auto sum = hn::ConvertTo(df, hn::Load(d32, &exact.v[r][p][v * kLanes]));
            y.Add(r, p, v, hn::Mul(sum, LoadScales(scales.v[p], a.shape.half_scales, v)));
          }
        }
      }
    }
    y.Store(a.y, a.stride, panel);
  }
};

void ProductS4(const PanelProduct& a) { AllRows<OpS4>(a); }

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ProductS4);
void product_s4(const PanelProduct& args) noexcept { PITH_DISPATCH(ProductS4)(args); }
}  // namespace pith::kernels
#endif
