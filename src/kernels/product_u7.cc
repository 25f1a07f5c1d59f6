#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/product_u7.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/panel-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

template <int kRows, int kPanels>
HWY_INLINE void AddGroup(Streams<kPanels>& codes, const std::byte* HWY_RESTRICT& x,
                         hn::Vec<DotI16> ones, Sums<DotI32, kRows, kPanels>& sums) {
  hn::Vec<DotI8> w[kPanels][kVectors];
  HWY_UNROLL(8)
  for (int p = 0; p < kPanels; ++p) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      w[p][v] =
          hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes.v[p]) + v * 4 * kLanes);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const auto xr = BroadcastFour(du8, x + r * 4);
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) {
        AddDotQuadsU8I8(xr, w[p][v], ones, sums.v[r][p][v]);
      }
    }
  }
  codes.Advance(32);
  x += kRows * 4;
}

template <int kRows, int kPanels>
struct OpU7 {
  static HWY_INLINE void Run(const PanelProduct& a, int64_t panel) {
    const auto ones = hn::Set(d16, int16_t{1});
    Streams<kPanels> codes(a, panel);
    Sums<DotI32, kRows, kPanels> sums;
    sums.Clear();
    const std::byte* x = a.tile;
    const int64_t groups = a.shape.groups();
    int64_t g = 0;
    if constexpr (kPrefetches(kRows)) {
      for (; g + 2 <= groups; g += 2) {
        codes.Prefetch();
        AddGroup(codes, x, ones, sums);
        AddGroup(codes, x, ones, sums);
      }
    }
    for (; g < groups; ++g) AddGroup(codes, x, ones, sums);
    sums.Store(a.sums, a.stride, panel);
  }
};

void ProductU7(const PanelProduct& a) { AllRows<OpU7>(a); }

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ProductU7);
void product_u7(const PanelProduct& args) noexcept { PITH_DISPATCH(ProductU7)(args); }
}  // namespace pith::kernels
#endif
