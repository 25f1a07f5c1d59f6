#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/pack_panel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/matmul.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A group has four columns of every output: a transposition of words, 4 x 4 at a time.
void PackPanelS8(const PanelShape& shape, const int8_t* codes, int64_t row_stride,
                 std::byte* panel) {
  const hn::CappedTag<uint32_t, 4> d32;
  const hn::Repartition<uint64_t, decltype(d32)> d64;
  const hn::Repartition<uint8_t, decltype(d32)> d8;
  const auto load = [&](const int8_t* from) HWY_ATTR {
    return hn::BitCast(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(from)));
  };
  const auto store = [&](hn::Vec<decltype(d64)> words, std::byte* to) HWY_ATTR {
    hn::StoreU(hn::BitCast(d8, words), d8, reinterpret_cast<uint8_t*>(to));
  };
  int64_t c = 0;
  for (; c + 16 <= shape.cols; c += 16, panel += 4 * 32) {
    for (int half = 0; half < 2; ++half) {
      const int8_t* from = codes + half * 4 * row_stride + c;
      std::byte* to = panel + half * 16;
      const auto a = load(from);
      const auto b = load(from + row_stride);
      const auto e = load(from + 2 * row_stride);
      const auto f = load(from + 3 * row_stride);
      const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d32, a, b));
      const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
      const auto ef_low = hn::BitCast(d64, hn::InterleaveLower(d32, e, f));
      const auto ef_high = hn::BitCast(d64, hn::InterleaveUpper(d32, e, f));
      store(hn::InterleaveLower(d64, ab_low, ef_low), to);
      store(hn::InterleaveUpper(d64, ab_low, ef_low), to + 32);
      store(hn::InterleaveLower(d64, ab_high, ef_high), to + 64);
      store(hn::InterleaveUpper(d64, ab_high, ef_high), to + 96);
    }
  }
  for (; c < shape.cols; c += 4, panel += 32) {
    const int64_t left = shape.cols - c;
    for (int o = 0; o < kPanelOutputs; ++o) {
      for (int j = 0; j < 4; ++j) {
        panel[4 * o + j] = j < left
                               ? static_cast<std::byte>(codes[o * row_stride + c + j])
                               : std::byte{};
      }
    }
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(PackPanelS8);
void pack_panel_s8(const PanelShape& shape, const std::int8_t* codes,
                   std::int64_t row_stride, std::byte* panel) noexcept {
  PITH_DISPATCH(PackPanelS8)(shape, codes, row_stride, panel);
}
}  // namespace pith::kernels
#endif
