#include "src/kernels/error.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/error.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes are eight of either type, in as many vectors as that takes.
using DF = hn::CappedTag<float, 8>;
using DI = hn::RebindToSigned<DF>;
using DD = hn::CappedTag<double, 4>;
using DH = hn::Rebind<float, DD>;  // as many floats as there are doubles in a vector
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VD = hn::Vec<DD>;
constexpr DF kDF;
constexpr DI kDI;
constexpr DD kDD;
constexpr DH kDH;
constexpr auto kFloats = static_cast<std::int64_t>(hn::MaxLanes(DF()));
constexpr auto kDoubles = static_cast<std::int64_t>(hn::MaxLanes(DD()));
constexpr int kVectors = static_cast<int>(8 / kFloats);
constexpr std::int64_t kRun = 64;          // added one after the other
constexpr std::int64_t kBlock = 4 * kRun;  // and these in pairs

// The eight lanes of each sum, in memory.
struct Lanes {
  alignas(32) double error[8];
  alignas(32) double error_squared[8];
  alignas(32) double squared_before[8];
  alignas(32) double squared_after[8];
};

HWY_INLINE double AddLanes(const double (&lanes)[8]) {
  const double a = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double b = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return a + b;
}

HWY_INLINE void Finish(const Lanes& lanes, ErrorSums& sums) {
  sums.error = AddLanes(lanes.error);
  sums.error_squared = AddLanes(lanes.error_squared);
  sums.squared_before = AddLanes(lanes.squared_before);
  sums.squared_after = AddLanes(lanes.squared_after);
}

HWY_INLINE void AddTo(double (&lanes)[8], const VF (&block)[kVectors]) {
  alignas(32) float floats[8];
  for (int v = 0; v < kVectors; ++v) hn::Store(block[v], kDF, floats + v * kFloats);
  for (std::int64_t i = 0; i < 8; i += kDoubles) {
    const VD more = hn::PromoteTo(kDD, hn::Load(kDH, floats + i));
    hn::Store(hn::Add(hn::Load(kDD, lanes + i), more), kDD, lanes + i);
  }
}

// Sums of some lanes over a run.
struct FloatSums {
  VF error;
  VF error_squared;
  VF squared_before;
  VF squared_after;
};

HWY_INLINE FloatSums AddSums(const FloatSums& a, const FloatSums& b) {
  return {hn::Add(a.error, b.error), hn::Add(a.error_squared, b.error_squared),
          hn::Add(a.squared_before, b.squared_before),
          hn::Add(a.squared_after, b.squared_after)};
}

// Largest error and zeros of some lanes over all blocks.
struct Counts {
  VF max_error;
  VI zeros_before;  // -1 for each
  VI zeros_after;
};

HWY_INLINE void AddVector(const float* before, const float* after, FloatSums& sums,
                          Counts& counts) {
  const VF x = hn::LoadU(kDF, before);
  const VF y = hn::LoadU(kDF, after);
  const VF e = hn::Abs(hn::Sub(x, y));
  sums.error = hn::Add(sums.error, e);
  sums.error_squared = hn::Add(sums.error_squared, hn::Mul(e, e));
  sums.squared_before = hn::Add(sums.squared_before, hn::Mul(x, x));
  sums.squared_after = hn::Add(sums.squared_after, hn::Mul(y, y));
  counts.max_error = hn::Max(counts.max_error, e);
  const VF zero = hn::Zero(kDF);
  counts.zeros_before = hn::Add(counts.zeros_before,
                                hn::BitCast(kDI, hn::VecFromMask(kDF, hn::Eq(x, zero))));
  counts.zeros_after = hn::Add(counts.zeros_after,
                               hn::BitCast(kDI, hn::VecFromMask(kDF, hn::Eq(y, zero))));
}

HWY_INLINE FloatSums AddRun(const float* before, const float* after, Counts& counts) {
  const VF zero = hn::Zero(kDF);
  FloatSums sums = {zero, zero, zero, zero};
  // A length that is not known here keeps gcc from unrolling all runs of a block, with more
  // sums under way than there are registers.
  std::int64_t run = kRun;
  __asm__("" : "+r"(run));
  for (std::int64_t i = 0; i < run; i += 16) {
    AddVector(before + i, after + i, sums, counts);
    AddVector(before + i + 8, after + i + 8, sums, counts);
  }
  return sums;
}

HWY_INLINE void AddBlock(const float* before, const float* after,
                         Counts (&counts)[kVectors], Lanes& lanes) {
  VF error[kVectors];
  VF error_squared[kVectors];
  VF squared_before[kVectors];
  VF squared_after[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const float* x = before + v * kFloats;
    const float* y = after + v * kFloats;
    const FloatSums a = AddRun(x, y, counts[v]);
    const FloatSums ab = AddSums(a, AddRun(x + kRun, y + kRun, counts[v]));
    const FloatSums c = AddRun(x + 2 * kRun, y + 2 * kRun, counts[v]);
    const FloatSums cd = AddSums(c, AddRun(x + 3 * kRun, y + 3 * kRun, counts[v]));
    const FloatSums sums = AddSums(ab, cd);
    error[v] = sums.error;
    error_squared[v] = sums.error_squared;
    squared_before[v] = sums.squared_before;
    squared_after[v] = sums.squared_after;
  }
  AddTo(lanes.error, error);
  AddTo(lanes.error_squared, error_squared);
  AddTo(lanes.squared_before, squared_before);
  AddTo(lanes.squared_after, squared_after);
}

ErrorSums ErrorSumsImpl(const float* before, const float* after, std::int64_t n) {
  Lanes lanes = {};
  Counts counts[kVectors];
  for (Counts& count : counts) count = {hn::Zero(kDF), hn::Zero(kDI), hn::Zero(kDI)};
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    AddBlock(before + i, after + i, counts, lanes);
  }
  ErrorSums sums;
  if (i < n) {
    // Zeros behind the end change no sum; they are not counted.
    float x[kBlock] = {};
    float y[kBlock] = {};
    std::memcpy(x, before + i, static_cast<std::size_t>(n - i) * sizeof(float));
    std::memcpy(y, after + i, static_cast<std::size_t>(n - i) * sizeof(float));
    AddBlock(x, y, counts, lanes);
    sums.zeros_before = sums.zeros_after = n - i - kBlock;
  }
  Finish(lanes, sums);
  for (const Counts& count : counts) {
    alignas(32) float errors[kFloats];
    alignas(32) std::int32_t zeros_before[kFloats];
    alignas(32) std::int32_t zeros_after[kFloats];
    hn::Store(count.max_error, kDF, errors);
    hn::Store(count.zeros_before, kDI, zeros_before);
    hn::Store(count.zeros_after, kDI, zeros_after);
    for (std::int64_t lane = 0; lane < kFloats; ++lane) {
      if (errors[lane] > sums.max_error) sums.max_error = errors[lane];
      sums.zeros_before -= zeros_before[lane];
      sums.zeros_after -= zeros_after[lane];
    }
  }
  return sums;
}

std::int64_t FirstErrorImpl(const float* before, const float* after, std::int64_t n,
                            double error) {
  const VF wanted = hn::Set(kDF, static_cast<float>(error));
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    const VF e = hn::Abs(hn::Sub(hn::LoadU(kDF, before + i), hn::LoadU(kDF, after + i)));
    if (!hn::AllFalse(kDF, hn::Eq(e, wanted))) break;
  }
  for (; i < n; ++i) {
    const float e = __builtin_fabsf(before[i] - after[i]);
    if (static_cast<double>(e) == error) return i;
  }
  for (i = 0; i < n; ++i) {
    const double x = before[i];
    const double y = after[i];
    if (__builtin_fabs(x - y) == error) return i;
  }
  return -1;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(ErrorSumsImpl);
PITH_EXPORT(FirstErrorImpl);

ErrorSums error_sums(const float* before, const float* after, std::int64_t n) noexcept {
  const ErrorSums sums = PITH_DISPATCH(ErrorSumsImpl)(before, after, n);
  return fits_f32(sums, n) ? sums : error_sums_in_double(before, after, n);
}

std::int64_t first_error(const float* before, const float* after, std::int64_t n,
                         double error) noexcept {
  return PITH_DISPATCH(FirstErrorImpl)(before, after, n, error);
}

}  // namespace pith::kernels
#endif
