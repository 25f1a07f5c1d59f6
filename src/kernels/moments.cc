#include "src/kernels/moments.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/moments.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void ChunkRangeImpl(const float* HWY_RESTRICT x, std::int64_t n, ChunkRange& range) {
  const hn::ScalableTag<std::uint32_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  const hn::RebindToFloat<decltype(du)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const auto magnitude_mask = hn::Set(du, 0x7fffffffu);
  const auto infinity = hn::Set(du, 0x7f800000u);
  const auto zero = hn::Zero(du);
  const auto one = hn::Set(du, 1);

  auto min_key = hn::Set(di, range.min_key);
  auto max_key = hn::Set(di, range.max_key);
  auto smallest =
      hn::Set(du, range.smallest - 1);  // less 1, so that 0 becomes the largest
  auto largest = hn::Set(du, range.largest);
  auto zeros = hn::Zero(du);
  auto nonfinite = hn::Zero(du);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::BitCast(du, hn::LoadU(df, x + i));
    const auto magnitude = hn::And(bits, magnitude_mask);
    const auto finite = hn::Lt(hn::BitCast(di, magnitude), hn::BitCast(di, infinity));
    const auto finite_bits = hn::VecFromMask(du, hn::RebindMask(du, finite));
    const auto sign = hn::BitCast(du, hn::ShiftRight<31>(hn::BitCast(di, bits)));
    const auto key = hn::BitCast(di, hn::Xor(bits, hn::ShiftRight<1>(sign)));
    min_key = hn::Min(min_key, hn::IfThenElse(finite, key, hn::Set(di, INT32_MAX)));
    max_key = hn::Max(max_key, hn::IfThenElse(finite, key, hn::Set(di, INT32_MIN)));
    largest = hn::Max(largest, hn::And(magnitude, finite_bits));
    // Not finite: all bits set, which no finite magnitude exceeds.
    smallest = hn::Min(
        smallest, hn::OrAnd(hn::Not(finite_bits), hn::Sub(magnitude, one), finite_bits));
    zeros = hn::Sub(zeros, hn::VecFromMask(du, hn::Eq(magnitude, zero)));
    nonfinite = hn::Add(nonfinite, hn::AndNot(finite_bits, one));
  }
  range.min_key = hn::GetLane(hn::MinOfLanes(di, min_key));
  range.max_key = hn::GetLane(hn::MaxOfLanes(di, max_key));
  range.smallest = hn::GetLane(hn::MinOfLanes(du, smallest)) + 1;
  range.largest = hn::GetLane(hn::MaxOfLanes(du, largest));
  range.zeros += hn::GetLane(hn::SumOfLanes(du, zeros));
  range.nonfinite += hn::GetLane(hn::SumOfLanes(du, nonfinite));
  reference_chunk_range(x + i, n - i, range);
}

// Floats of a half vector, 0 where they are outside the window, as doubles.
template <class D, class V32>
HWY_INLINE hn::Vec<D> InWindow(D d, V32 x, const Window& window) {
  const hn::Rebind<float, D> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto magnitude = hn::And(hn::BitCast(di, x), hn::Set(di, 0x7fffffff));
  const auto outside =
      hn::Or(hn::Lt(magnitude, hn::Set(di, static_cast<std::int32_t>(window.low))),
             hn::Gt(magnitude, hn::Set(di, static_cast<std::int32_t>(window.high))));
  return hn::PromoteTo(d, hn::IfThenZeroElse(hn::RebindMask(df, outside), x));
}

WindowSums WindowSumsImpl(const float* HWY_RESTRICT x, std::int64_t n,
                          const Window& window) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto magic = hn::Set(d, window.magic);
  auto sum = hn::Zero(d);
  auto sum_abs = hn::Zero(d);
  auto squares_high = hn::Zero(d);
  auto squares_low = hn::Zero(d);
  const auto step = [&](hn::Vec<decltype(df)> floats) HWY_ATTR {
    const auto value = InWindow(d, floats, window);
    const auto square = hn::Mul(value, value);
    const auto high = hn::Sub(hn::Add(square, magic), magic);
    sum = hn::Add(sum, value);
    sum_abs = hn::Add(sum_abs, hn::Abs(value));
    squares_high = hn::Add(squares_high, high);
    squares_low = hn::Add(squares_low, hn::Sub(square, high));
  };
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(hn::LoadU(df, x + i));
  if (i < n) {
    HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
    for (std::int64_t j = 0; i + j < n; ++j) rest[j] = x[i + j];
    step(hn::Load(df, rest));
  }
  WindowSums sums;
  sums.sum = hn::GetLane(hn::SumOfLanes(d, sum));
  sums.sum_abs = hn::GetLane(hn::SumOfLanes(d, sum_abs));
  sums.squares_high = hn::GetLane(hn::SumOfLanes(d, squares_high));
  sums.squares_low = hn::GetLane(hn::SumOfLanes(d, squares_low));
  return sums;
}

// Columns are summed a few rows at a time: one load and store of the sums serves them all,
// and rows that lie a multiple of 4 KiB apart do not push each other out of the cache.
constexpr std::int64_t kRowsAtOnce = 4;

template <std::int64_t kRows>
HWY_INLINE void AddSquares(const float* HWY_RESTRICT x, std::int64_t cols,
                           std::int64_t stride, const Window& window,
                           double* HWY_RESTRICT high, double* HWY_RESTRICT low) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto magic = hn::Set(d, window.magic);
  std::int64_t j = 0;
  for (; j + lanes <= cols; j += lanes) {
    auto sum_high = hn::LoadU(d, high + j);
    auto sum_low = hn::LoadU(d, low + j);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto value = InWindow(d, hn::LoadU(df, x + r * stride + j), window);
      const auto square = hn::Mul(value, value);
      const auto cut = hn::Sub(hn::Add(square, magic), magic);
      sum_high = hn::Add(sum_high, cut);
      sum_low = hn::Add(sum_low, hn::Sub(square, cut));
    }
    hn::StoreU(sum_high, d, high + j);
    hn::StoreU(sum_low, d, low + j);
  }
  reference_column_squares(x + j, kRows, cols - j, stride, window, high + j, low + j);
}

void ColumnSquaresImpl(const float* HWY_RESTRICT x, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, const Window& window,
                       double* HWY_RESTRICT high, double* HWY_RESTRICT low) {
  std::int64_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
    AddSquares<kRowsAtOnce>(x + r * stride, cols, stride, window, high, low);
  }
  for (; r < rows; ++r) AddSquares<1>(x + r * stride, cols, stride, window, high, low);
}

template <std::int64_t kRows>
HWY_INLINE void TakeAbsmax(const float* HWY_RESTRICT x, std::int64_t cols,
                           std::int64_t stride, float* HWY_RESTRICT absmax) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto infinity = hn::Set(di, 0x7f800000);
  std::int64_t j = 0;
  for (; j + lanes <= cols; j += lanes) {
    // Magnitudes have the order of their bits.
    auto largest = hn::BitCast(di, hn::LoadU(df, absmax + j));
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto bits = hn::BitCast(di, hn::LoadU(df, x + r * stride + j));
      const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
      largest =
          hn::Max(largest, hn::IfThenElseZero(hn::Lt(magnitude, infinity), magnitude));
    }
    hn::StoreU(hn::BitCast(df, largest), df, absmax + j);
  }
  reference_column_absmax(x + j, kRows, cols - j, stride, absmax + j);
}

void ColumnAbsmaxImpl(const float* HWY_RESTRICT x, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride, float* HWY_RESTRICT absmax) {
  std::int64_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
    TakeAbsmax<kRowsAtOnce>(x + r * stride, cols, stride, absmax);
  }
  for (; r < rows; ++r) TakeAbsmax<1>(x + r * stride, cols, stride, absmax);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ChunkRangeImpl);
PITH_EXPORT(WindowSumsImpl);
PITH_EXPORT(ColumnSquaresImpl);
PITH_EXPORT(ColumnAbsmaxImpl);

void chunk_range(const float* x, std::int64_t n, ChunkRange& range) noexcept {
  PITH_DISPATCH(ChunkRangeImpl)(x, n, range);
}
WindowSums window_sums(const float* x, std::int64_t n, const Window& window) noexcept {
  return PITH_DISPATCH(WindowSumsImpl)(x, n, window);
}
void column_squares(const float* x, std::int64_t rows, std::int64_t cols,
                    std::int64_t stride, const Window& window, double* high,
                    double* low) noexcept {
  PITH_DISPATCH(ColumnSquaresImpl)(x, rows, cols, stride, window, high, low);
}
void column_absmax(const float* x, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride, float* absmax) noexcept {
  PITH_DISPATCH(ColumnAbsmaxImpl)(x, rows, cols, stride, absmax);
}

}  // namespace pith::kernels
#endif
