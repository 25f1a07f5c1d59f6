// What the products of packed panels share; included once per target.
#if defined(PITH_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_PANEL_INL_H_
#undef PITH_KERNELS_PANEL_INL_H_
#else
#define PITH_KERNELS_PANEL_INL_H_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/kernels/dot-inl.h"
#include "src/kernels/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

constexpr DotU8 du8;
constexpr DotI8 d8;
constexpr DotI16 d16;
constexpr DotI32 d32;
constexpr hn::RebindToFloat<DotI32> df;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(d32));
// Vectors that hold a group.
constexpr int kVectors = static_cast<int>(kPanelOutputs) / kLanes;
// Panels that a full tile takes at once: 6 x 2 vectors of sums stay in registers.
constexpr int kTilePanels = 2 / kVectors;
// Ahead of each of several streams; with eight of them farther is slower.
constexpr int64_t kPrefetch = 256;

// One vector of sums per row, panel and part of a panel.
template <class D, int kRows, int kPanels>
struct Sums {
  hn::Vec<D> v[kRows][kPanels][kVectors];

  HWY_INLINE void Clear() {
    HWY_UNROLL(8)
    for (auto& row : v) {
      HWY_UNROLL(8)
      for (auto& panel : row) {
        HWY_UNROLL(8)
        for (auto& sum : panel) sum = hn::Zero(D());
      }
    }
  }
  HWY_INLINE void Store(hn::TFromD<D>* out, int64_t stride, int64_t panel) const {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(8)
      for (int p = 0; p < kPanels; ++p) {
        auto* to = out + r * stride + (panel + p) * kPanelOutputs;
        HWY_UNROLL(8)
        for (int part = 0; part < kVectors; ++part) {
          hn::StoreU(v[r][p][part], D(), to + part * kLanes);
        }
      }
    }
  }
};

// Four bytes, in all lanes.
template <class D>
HWY_INLINE hn::Vec<D> BroadcastFour(D d, const std::byte* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof(four));
  return hn::BitCast(d, hn::Set(d32, four));
}

HWY_INLINE hn::Vec<decltype(df)> LoadScales(const std::byte* scales, bool half, int v) {
  if (half) {
    const hn::Rebind<hwy::float16_t, decltype(df)> dh;
    return hn::PromoteTo(
        df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(scales) + v * kLanes));
  }
  return hn::LoadU(df, reinterpret_cast<const float*>(scales) + v * kLanes);
}

// A tile of results, in memory: in registers it would push out sums.
template <class D, int kRows, int kPanels>
struct Tile {
  using T = hn::TFromD<D>;
  HWY_ALIGN T v[kRows][kPanels][kPanelOutputs] = {};

  HWY_INLINE void Add(int r, int p, int part, hn::Vec<D> value) {
    T* place = &v[r][p][part * kLanes];
    hn::Store(hn::Add(hn::Load(D(), place), value), D(), place);
  }
  HWY_INLINE void Store(T* out, int64_t stride, int64_t panel) const {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(8)
      for (int p = 0; p < kPanels; ++p) {
        T* to = out + r * stride + (panel + p) * kPanelOutputs;
        HWY_UNROLL(8)
        for (int part = 0; part < kVectors; ++part) {
          hn::StoreU(hn::Load(D(), &v[r][p][part * kLanes]), D(), to + part * kLanes);
        }
      }
    }
  }
};

// Where the panels of a product begin.
template <int kPanels>
struct Streams {
  const std::byte* v[kPanels];

  HWY_INLINE Streams(const PanelProduct& a, int64_t panel) {
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) v[p] = a.panels + (panel + p) * a.shape.stride();
  }
  HWY_INLINE void Advance(int64_t bytes) {
    HWY_UNROLL(8)
    for (auto& stream : v) stream += bytes;
  }
  HWY_INLINE void Prefetch(int64_t ahead = kPrefetch) const {
    HWY_UNROLL(8)
    for (auto& stream : v) hwy::Prefetch(stream + ahead);
  }
};

// With few rows memory is the limit, and lines are asked for before their turn: each once,
// two groups at a time, as a second request costs as much as the products of a group.
constexpr bool kPrefetches(int rows) { return rows <= 4; }

// Op<kRows, kPanels>(a, panel) for all panels. One row is bound by memory: eight streams
// reach its speed, one or four do not.
template <template <int, int> class Op, int kRows, int kPanels>
HWY_INLINE void AllPanels(const PanelProduct& a) {
  int64_t panel = a.first;
  for (; panel + kPanels <= a.last; panel += kPanels) {
    if (kPrefetches(kRows)) {
      // The first lines of the panels that come next, which no stream runs into; beyond the
      // last panel a prefetch does nothing.
      const Streams<kPanels> next(a, panel + kPanels);
      for (int64_t ahead = 0; ahead < kPrefetch; ahead += 64) next.Prefetch(ahead);
    }
    Op<kRows, kPanels>::Run(a, panel);
  }
  if constexpr (kPanels > 1) {
    for (; panel < a.last; ++panel) Op<kRows, 1>::Run(a, panel);
  }
}

template <template <int, int> class Op>
HWY_INLINE void AllRows(const PanelProduct& a) {
  switch (a.rows) {
    case 1:
      return AllPanels<Op, 1, 8 / kVectors>(a);
    case 2:
      return AllPanels<Op, 2, 2 * kTilePanels>(a);
    case 3:
      return AllPanels<Op, 3, 2 * kTilePanels>(a);
    case 4:
      return AllPanels<Op, 4, kTilePanels>(a);
    case 5:
      return AllPanels<Op, 5, kTilePanels>(a);
    default:
      return AllPanels<Op, 6, kTilePanels>(a);
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_PANEL_INL_H_
