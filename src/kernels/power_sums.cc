#include "src/kernels/power_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/power_sums.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kStep = PowerSums::kLanes;  // values of one step of the loop
using DD = hn::CappedTag<double, PowerSums::kLanes>;
using DH = hn::Rebind<float, DD>;  // as many floats as there are doubles in a vector
using DF = hn::CappedTag<float, PowerSums::kLanes>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr DD kDD;
constexpr DH kDH;
constexpr DF kDF;
constexpr DI kDI;
constexpr std::int64_t kDoubles = hn::MaxLanes(kDD);
constexpr std::int64_t kFloats = hn::MaxLanes(kDF);
constexpr int kVectors = static_cast<int>(kStep / kFloats);

// Lanes of all sums.
struct Lanes {
  double sums[PowerSums::kPowers][PowerSums::kLanes];
};

// Adds the lanes of a block.
HWY_INLINE void AddLanes(const VF (&sums)[PowerSums::kPowers][kVectors], Lanes& lanes) {
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    HWY_ALIGN float block[PowerSums::kLanes];
    for (int v = 0; v < kVectors; ++v)
      hn::Store(sums[power][v], kDF, block + v * kFloats);
    for (std::int64_t i = 0; i < kStep; i += kDoubles) {
      double* to = lanes.sums[power] + i;
      const auto more = hn::PromoteTo(kDD, hn::LoadU(kDH, block + i));
      hn::StoreU(hn::Add(hn::LoadU(kDD, to), more), kDD, to);
    }
  }
}

// Sums, extremes and zeros of whole blocks, as if there were nothing but values whose
// powers f32 can hold.
HWY_INLINE void AddBlocks(const float* HWY_RESTRICT in, std::int64_t count, Lanes& lanes,
                          PowerSums& result) {
  // One of each is enough: comparisons are not what the loop waits for.
  VF min = hn::Set(kDF, result.min);
  VF max = hn::Set(kDF, result.max);
  VI zeros = hn::Zero(kDI);
  for (const float* end = in + count; in != end;) {
    VF sums[PowerSums::kPowers][kVectors];
    for (auto& power : sums) {
      for (VF& v : power) v = hn::Zero(kDF);
    }
    for (int step = 0; step < PowerSums::kBlock / PowerSums::kLanes; ++step) {
      for (int v = 0; v < kVectors; ++v, in += kFloats) {
        const VF x = hn::LoadU(kDF, in);
        const VF square = hn::Mul(x, x);
        sums[0][v] = hn::Add(sums[0][v], x);
        sums[1][v] = hn::Add(sums[1][v], square);
        sums[2][v] = hn::Add(sums[2][v], hn::Mul(square, x));
        sums[3][v] = hn::Add(sums[3][v], hn::Mul(square, square));
        min = hn::Min(min, x);
        max = hn::Max(max, x);
        zeros = hn::Sub(
            zeros, hn::VecFromMask(kDI, hn::RebindMask(kDI, hn::Eq(x, hn::Zero(kDF)))));
      }
    }
    AddLanes(sums, lanes);
  }
  result.min = hn::GetLane(hn::MinOfLanes(kDF, min));
  result.max = hn::GetLane(hn::MaxOfLanes(kDF, max));
  result.zeros += hn::GetLane(hn::SumOfLanes(kDI, zeros));
}

// Whether that was so. NaN and infinity stay in the sum of squares; so does what is too
// large for it.
HWY_INLINE bool PowersFitF32(const Lanes& lanes, const PowerSums& result) {
  double squares = 0;
  for (int lane = 0; lane < PowerSums::kLanes; ++lane) squares += lanes.sums[1][lane];
  const float largest = result.max > -result.min ? result.max : -result.min;
  return squares - squares == 0 &&
         (largest == 0 || (largest >= PowerSums::kLeast && largest <= PowerSums::kMost));
}

// One value at a time: for what is left over, and for values with NaN and infinity among
// them.
HWY_INLINE void AddValue(float value, std::int64_t i, Lanes& lanes, PowerSums& result) {
  const double x = value;
  if (x != x) {
    ++result.nan;
    return;
  }
  if (x - x != 0) {
    ++result.infinite;
    return;
  }
  if (value == 0) ++result.zeros;
  if (value < result.min) result.min = value;
  if (value > result.max) result.max = value;
  const std::int64_t lane = i % PowerSums::kLanes;
  const double square = x * x;
  lanes.sums[0][lane] += x;
  lanes.sums[1][lane] += square;
  lanes.sums[2][lane] += square * x;
  lanes.sums[3][lane] += square * square;
}

PowerSums PowerSumsImpl(const float* HWY_RESTRICT in, std::int64_t count) {
  PowerSums result;
  Lanes lanes = {};
  std::int64_t i = count / PowerSums::kBlock * PowerSums::kBlock;
  if (i > 0) {
    AddBlocks(in, i, lanes, result);
    if (!PowersFitF32(lanes, result)) {
      result = PowerSums();
      lanes = {};
      i = 0;
    }
  }
  for (; i < count; ++i) AddValue(in[i], i, lanes, result);
  // The sign of a zero would depend on the order of comparisons.
  result.min += 0.0F;
  result.max += 0.0F;
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    double* lane = lanes.sums[power];
    for (int half = PowerSums::kLanes / 2; half > 0; half /= 2) {
      for (int n = 0; n < half; ++n) lane[n] += lane[n + half];
    }
    result.sums[power] = lane[0];
  }
  return result;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(PowerSumsImpl);

PowerSums power_sums(const float* in, std::int64_t count) noexcept {
  return PITH_DISPATCH(PowerSumsImpl)(in, count);
}

}  // namespace pith::kernels
#endif
