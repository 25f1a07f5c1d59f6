#include "src/kernels/gemv_s8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/gemv_s8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns whose products, 2^14 at most, surely add up to less than 2^31.
constexpr std::int64_t kStretch = 1 << 16;

using D16 = hn::ScalableTag<std::int16_t>;
using D8 = hn::Rebind<std::int8_t, D16>;
using D32 = hn::RepartitionToWide<D16>;

// n <= kStretch. Codes are widened to 16 bits, whose products are added in pairs.
HWY_INLINE std::int32_t Dot(const std::int8_t* HWY_RESTRICT a,
                            const std::int8_t* HWY_RESTRICT b, std::int64_t n) {
  const D16 d16;
  const D8 d8;
  const D32 d32;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d16));
  auto sum0 = hn::Zero(d32);
  auto sum1 = hn::Zero(d32);
  auto sum2 = hn::Zero(d32);
  auto sum3 = hn::Zero(d32);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::ReorderWidenMulAccumulate(d32, hn::PromoteTo(d16, hn::LoadU(d8, a + i)),
                                         hn::PromoteTo(d16, hn::LoadU(d8, b + i)), sum0,
                                         sum1);
    sum2 = hn::ReorderWidenMulAccumulate(
        d32, hn::PromoteTo(d16, hn::LoadU(d8, a + i + lanes)),
        hn::PromoteTo(d16, hn::LoadU(d8, b + i + lanes)), sum2, sum3);
  }
  const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  std::int32_t total = hn::GetLane(hn::SumOfLanes(d32, sum));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

void GemvS8Impl(const GemvS8& args) {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const std::int8_t* const row = args.weight + r * args.cols;
    std::int64_t sum = 0;
    for (std::int64_t c = 0; c < args.cols; c += kStretch) {
      const std::int64_t n = args.cols - c < kStretch ? args.cols - c : kStretch;
      sum += Dot(row + c, args.x + c, n);
    }
    args.y[r] = (static_cast<float>(sum) * args.row_scale[r]) * args.x_scale;
  }
}

// The partial sums are lanes of four (or two) vectors, whatever the width.
void GemvS8F32Impl(const GemvS8F32& args) {
  const hn::CappedTag<float, 8> df;
  const hn::Rebind<std::int32_t, decltype(df)> di;
  const hn::Rebind<std::int8_t, decltype(df)> d8;
  constexpr std::int64_t kLanes = hn::MaxLanes(df);
  constexpr std::int64_t kVectors = kGemvS8F32Sums / kLanes;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const std::int8_t* const row = args.weight + r * args.cols;
    HWY_ALIGN float sums[kGemvS8F32Sums] = {};
    std::int64_t c = 0;
    {
      hn::Vec<decltype(df)> sum[kVectors];
      for (auto& s : sum) s = hn::Zero(df);
      for (; c + kGemvS8F32Sums <= args.cols; c += kGemvS8F32Sums) {
        for (std::int64_t v = 0; v < kVectors; ++v) {
          const std::int64_t at = c + v * kLanes;
          const auto code = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d8, row + at)));
          sum[v] = hn::Add(sum[v], hn::Mul(code, hn::LoadU(df, args.x + at)));
        }
      }
      for (std::int64_t v = 0; v < kVectors; ++v) {
        hn::Store(sum[v], df, sums + v * kLanes);
      }
    }
    for (std::int64_t i = 0; c + i < args.cols; ++i) {
      sums[i] += static_cast<float>(row[c + i]) * args.x[c + i];
    }
    for (std::int64_t half = kGemvS8F32Sums / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    args.y[r] = args.row_scale[args.one_scale ? 0 : r] * sums[0];
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
HWY_EXPORT(GemvS8Impl);
HWY_EXPORT(GemvS8F32Impl);

void gemv_s8(const GemvS8& args) noexcept { PITH_DISPATCH(GemvS8Impl)(args); }
void gemv_s8_f32(const GemvS8F32& args) noexcept { PITH_DISPATCH(GemvS8F32Impl)(args); }

}  // namespace pith::kernels
#endif
