#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/product_f32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/panel-inl.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

using VF = hn::Vec<decltype(df)>;
// Vectors of four sums per output: one for each column modulo 4.
constexpr int kParts = 4 * kVectors;

template <int kRows>
struct FourSums {
  VF v[kRows][kParts];

  HWY_INLINE void Clear() {
    HWY_UNROLL(8)
    for (auto& row : v) {
      HWY_UNROLL(8)
      for (VF& sum : row) sum = hn::Zero(df);
    }
  }
};

// One vector of codes as floats: kLanes / 4 outputs x 4 columns.
template <int kBits>
HWY_INLINE VF LoadCodes(const std::byte* group, int part, int half) {
  const hn::Rebind<int8_t, DotI32> d8quarter;
  const hn::Rebind<uint8_t, DotI32> du8quarter;
  const std::byte* from = group + part * kLanes;
  if constexpr (kBits == 8) {
    return hn::ConvertTo(
        df,
        hn::PromoteTo(d32, hn::LoadU(d8quarter, reinterpret_cast<const int8_t*>(from))));
  } else {
    auto both =
        hn::PromoteTo(d32, hn::LoadU(du8quarter, reinterpret_cast<const uint8_t*>(from)));
    if (half == 1) both = hn::ShiftRight<4>(both);
    const auto code = hn::And(both, hn::Set(d32, 15));
    return hn::ConvertTo(df, hn::Sub(code, hn::Set(d32, 8)));
  }
}

template <int kBits, int kRows>
HWY_INLINE void AddGroups(const std::byte* codes, const float* HWY_RESTRICT x,
                          int64_t x_stride, int64_t groups, FourSums<kRows>& sums) {
  constexpr int kHalves = kBits == 8 ? 1 : 2;
  for (int64_t g = 0; g < groups; ++g, codes += 32, x += x_stride) {
    if (g % 2 == 0) hwy::Prefetch(codes + 2 * kPrefetch);  // each line once
    for (int half = 0; half < kHalves; ++half) {
      VF xr[kRows];
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        xr[r] = hn::LoadDup128(df, x + r * 4 * kHalves + half * 4);
      }
      HWY_UNROLL(8)
      for (int part = 0; part < kParts; ++part) {
        const VF w = LoadCodes<kBits>(codes, part, half);
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
          sums.v[r][part] = hn::Add(sums.v[r][part], hn::Mul(w, xr[r]));
        }
      }
    }
  }
}

// The scales of the outputs of a vector of sums, each four times.
HWY_INLINE VF ScalesOf(const std::byte* scales, bool half, int part) {
  HWY_ALIGN int32_t lanes[kLanes];
  const int first = part * (kLanes / 4);
  for (int i = 0; i < kLanes; ++i) lanes[i] = (first + i / 4) % kLanes;
  return hn::TableLookupLanes(LoadScales(scales, half, first / kLanes),
                              hn::SetTableIndices(df, lanes));
}

template <int kBits, int kRows>
HWY_INLINE void OnePanel(const PanelProduct& a, int64_t panel, int64_t first_row) {
  const PanelShape& shape = a.shape;
  const std::byte* codes = a.panels + panel * shape.stride();
  const float* x = reinterpret_cast<const float*>(a.tile) + first_row * shape.depth();
  const int64_t x_stride = a.rows * shape.depth();
  FourSums<kRows> total;
  if (shape.block == 0) {
    total.Clear();
    AddGroups<kBits>(codes, x, x_stride, shape.groups(), total);
  } else {
    const int64_t groups = shape.block / shape.depth();
    total.Clear();
    for (int64_t b = 0; b < shape.cols / shape.block; ++b) {
      const std::byte* scales = codes;
      codes += shape.scale_bytes();
      FourSums<kRows> sums;
      sums.Clear();
      AddGroups<kBits>(codes, x, x_stride, groups, sums);
      codes += groups * 32;
      x += groups * x_stride;
      HWY_UNROLL(8)
      for (int part = 0; part < kParts; ++part) {
        const VF scale = ScalesOf(scales, shape.half_scales, part);
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
          total.v[r][part] = hn::Add(total.v[r][part], hn::Mul(sums.v[r][part], scale));
        }
      }
    }
  }
  HWY_ALIGN float four[kPanelOutputs * 4];
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int part = 0; part < kParts; ++part) {
      hn::Store(total.v[r][part], df, four + part * kLanes);
    }
    float* y = a.y + (first_row + r) * a.stride + panel * kPanelOutputs;
    for (int o = 0; o < kPanelOutputs; ++o) {
      y[o] = (four[4 * o] + four[4 * o + 1]) + (four[4 * o + 2] + four[4 * o + 3]);
    }
  }
}

template <int kBits>
HWY_INLINE void AllPanels(const PanelProduct& a) {
  for (int64_t panel = a.first; panel < a.last; ++panel) {
    int64_t r = 0;
    for (; r + 2 <= a.rows; r += 2) OnePanel<kBits, 2>(a, panel, r);
    if (r < a.rows) OnePanel<kBits, 1>(a, panel, r);
  }
}

void ProductF32(const PanelProduct& a) {
  a.shape.bits == 8 ? AllPanels<8>(a) : AllPanels<4>(a);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ProductF32);
void product_f32(const PanelProduct& args) noexcept {
  if (args.shape.bits == 32) return product_dense(args);
  PITH_DISPATCH(ProductF32)(args);
}
}  // namespace pith::kernels
#endif
