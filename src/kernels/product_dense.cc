#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/product_dense.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/panel-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// Products and sums are rounded apart: not every instruction set can fuse them.
template <int kRows, int kPanels>
HWY_INLINE void AddColumn(Streams<kPanels>& weights, const float* HWY_RESTRICT& x,
                          Sums<DotF32, kRows, kPanels>& sums) {
  hn::Vec<DotF32> w[kPanels][kVectors];
  HWY_UNROLL(8)
  for (int p = 0; p < kPanels; ++p) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      w[p][v] = hn::LoadU(df, reinterpret_cast<const float*>(weights.v[p]) + v * kLanes);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const auto xr = hn::Set(df, x[r]);
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) AddProduct(w[p][v], xr, sums.v[r][p][v]);
    }
  }
  weights.Advance(32);
  x += kRows;
}

template <int kRows, int kPanels>
struct OpDense {
  static HWY_INLINE void Run(const PanelProduct& a, int64_t panel) {
    using D = decltype(df);
    Streams<kPanels> weights(a, panel);
    Tile<D, kRows, kPanels> total;
    const float* HWY_RESTRICT x = reinterpret_cast<const float*>(a.tile);
    for (int64_t begin = 0; begin < a.shape.cols; begin += kDenseBlock) {
      const int64_t left = a.shape.cols - begin;
      const int64_t n = left < kDenseBlock ? left : kDenseBlock;
      Sums<DotF32, kRows, kPanels> sums;
      sums.Clear();
      int64_t c = 0;
      if constexpr (kPrefetches(kRows)) {
        for (; c + 2 <= n; c += 2) {
          weights.Prefetch();
          AddColumn(weights, x, sums);
          AddColumn(weights, x, sums);
        }
      }
      for (; c < n; ++c) AddColumn(weights, x, sums);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(8)
        for (int p = 0; p < kPanels; ++p) {
          HWY_UNROLL(8)
          for (int v = 0; v < kVectors; ++v) total.Add(r, p, v, sums.v[r][p][v]);
        }
      }
    }
    total.Store(a.y, a.stride, panel);
  }
};

void ProductDense(const PanelProduct& a) { AllRows<OpDense>(a); }

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ProductDense);
void product_dense(const PanelProduct& args) noexcept {
  PITH_DISPATCH(ProductDense)(args);
}
}  // namespace pith::kernels
#endif
