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
using VD = hn::Vec<DD>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr DD kDD;
constexpr DH kDH;
constexpr DF kDF;
constexpr DI kDI;
constexpr std::int64_t kDoubles = hn::MaxLanes(kDD);
constexpr std::int64_t kFloats = hn::MaxLanes(kDF);
constexpr int kDoubleVectors = static_cast<int>(kStep / kDoubles);
constexpr int kFloatVectors = static_cast<int>(kStep / kFloats);

// Lanes of all sums.
struct Lanes {
  double sums[PowerSums::kPowers][PowerSums::kLanes];
};

// Sums, extremes and zeros of whole steps, as if there were nothing but finite values.
HWY_INLINE void AddSteps(const float* HWY_RESTRICT in, std::int64_t count, Lanes& lanes,
                         PowerSums& result) {
  VD sums[PowerSums::kPowers][kDoubleVectors];
  for (auto& power : sums) {
    for (VD& v : power) v = hn::Zero(kDD);
  }
  VF min[kFloatVectors];
  VF max[kFloatVectors];
  VI zeros[kFloatVectors];
  for (int v = 0; v < kFloatVectors; ++v) {
    min[v] = hn::Set(kDF, result.min);
    max[v] = hn::Set(kDF, result.max);
    zeros[v] = hn::Zero(kDI);
  }
  for (std::int64_t i = 0; i < count; i += kStep) {
    for (int v = 0; v < kDoubleVectors; ++v) {
      const VD x = hn::PromoteTo(kDD, hn::LoadU(kDH, in + i + v * kDoubles));
      const VD square = hn::Mul(x, x);
      sums[0][v] = hn::Add(sums[0][v], x);
      // The square of an f32 is exact in double, so a fused multiply-add gives the same
      // bits as two instructions; it frees the adders, which are the bottleneck.
      sums[1][v] = hn::MulAdd(x, x, sums[1][v]);
      sums[2][v] = hn::Add(sums[2][v], hn::Mul(square, x));
      sums[3][v] = hn::Add(sums[3][v], hn::Mul(square, square));
    }
    for (int v = 0; v < kFloatVectors; ++v) {
      const VF x = hn::LoadU(kDF, in + i + v * kFloats);
      min[v] = hn::Min(min[v], x);
      max[v] = hn::Max(max[v], x);
      zeros[v] = hn::Sub(
          zeros[v], hn::VecFromMask(kDI, hn::RebindMask(kDI, hn::Eq(x, hn::Zero(kDF)))));
    }
  }
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    for (int v = 0; v < kDoubleVectors; ++v) {
      hn::StoreU(sums[power][v], kDD, lanes.sums[power] + v * kDoubles);
    }
  }
  for (int v = 0; v < kFloatVectors; ++v) {
    result.min =
        hn::GetLane(hn::MinOfLanes(kDF, hn::Min(min[v], hn::Set(kDF, result.min))));
    result.max =
        hn::GetLane(hn::MaxOfLanes(kDF, hn::Max(max[v], hn::Set(kDF, result.max))));
    result.zeros += hn::GetLane(hn::SumOfLanes(kDI, zeros[v]));
  }
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
  std::int64_t i = count / kStep * kStep;
  AddSteps(in, i, lanes, result);
  double squares = 0;
  for (int lane = 0; lane < PowerSums::kLanes; ++lane) squares += lanes.sums[1][lane];
  if (squares - squares != 0) {
    // Any NaN or infinity shows here; squares of finite values cannot overflow a double.
    result = PowerSums();
    lanes = {};
    i = 0;
  }
  for (; i < count; ++i) AddValue(in[i], i, lanes, result);
  // The sign of a zero would depend on the order of comparisons.
  result.min += 0.0F;
  result.max += 0.0F;
  for (int power = 0; power < PowerSums::kPowers; ++power) {
    const double* lane = lanes.sums[power];
    result.sums[power] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                         ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
  return result;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

HWY_EXPORT(PowerSumsImpl);

PowerSums power_sums(const float* in, std::int64_t count) noexcept {
  return PITH_DISPATCH(PowerSumsImpl)(in, count);
}

}  // namespace pith::kernels
#endif
