// Sums of errors, lane by lane; see error.h. Included once per target.
#if defined(PITH_KERNELS_ERROR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_ERROR_INL_H_
#undef PITH_KERNELS_ERROR_INL_H_
#else
#define PITH_KERNELS_ERROR_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "src/kernels/error.h"
#include "src/kernels/round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes are eight of either type, in as many vectors as that takes.
using DD = hn::CappedTag<double, 4>;
using DH = hn::Rebind<float, DD>;  // as many floats as there are doubles in a vector
using VD = hn::Vec<DD>;
constexpr DD kDD;
constexpr DH kDH;
constexpr auto kDoubles = static_cast<std::int64_t>(hn::MaxLanes(DD()));
constexpr int kVectors = static_cast<int>(8 / kLanes);
constexpr std::int64_t kErrorRun = 64;               // added one after the other
constexpr std::int64_t kErrorBlock = 4 * kErrorRun;  // and these in pairs

// The eight lanes of each sum, in memory.
struct DoubleSums {
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

HWY_INLINE void AddTo(double (&lanes)[8], const VF (&block)[kVectors]) {
  alignas(32) float floats[8];
  for (int v = 0; v < kVectors; ++v) hn::Store(block[v], kDF, floats + v * kLanes);
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

  HWY_INLINE FloatSums()
      : error(hn::Zero(kDF)),
        error_squared(hn::Zero(kDF)),
        squared_before(hn::Zero(kDF)),
        squared_after(hn::Zero(kDF)) {}

  HWY_INLINE void Add(const FloatSums& more) {
    error = hn::Add(error, more.error);
    error_squared = hn::Add(error_squared, more.error_squared);
    squared_before = hn::Add(squared_before, more.squared_before);
    squared_after = hn::Add(squared_after, more.squared_after);
  }
};

// Largest error and zeros of some lanes over all blocks.
struct ErrorCounts {
  VF max_error;
  VI zeros_before;  // -1 for each
  VI zeros_after;

  HWY_INLINE ErrorCounts()
      : max_error(hn::Zero(kDF)),
        zeros_before(hn::Zero(kDI)),
        zeros_after(hn::Zero(kDI)) {}
};

template <bool kCountAfter>
HWY_INLINE void AddVector(VF x, VF y, FloatSums& sums, ErrorCounts& counts) {
  const VF e = hn::Abs(hn::Sub(x, y));
  sums.error = hn::Add(sums.error, e);
  sums.error_squared = hn::Add(sums.error_squared, hn::Mul(e, e));
  sums.squared_before = hn::Add(sums.squared_before, hn::Mul(x, x));
  sums.squared_after = hn::Add(sums.squared_after, hn::Mul(y, y));
  counts.max_error = hn::Max(counts.max_error, e);
  const VF zero = hn::Zero(kDF);
  counts.zeros_before = hn::Add(counts.zeros_before,
                                hn::BitCast(kDI, hn::VecFromMask(kDF, hn::Eq(x, zero))));
  if constexpr (kCountAfter) {
    counts.zeros_after = hn::Add(counts.zeros_after,
                                 hn::BitCast(kDI, hn::VecFromMask(kDF, hn::Eq(y, zero))));
  }
}

// A length that is not known to the compiler: else gcc unrolls all runs of a block, with
// more sums under way than there are registers.
HWY_INLINE std::int64_t Unknown(std::int64_t n) {
  __asm__("" : "+r"(n));
  return n;
}

// All sums so far.
struct ErrorTotals {
  DoubleSums sums = {};
  ErrorCounts counts[kVectors];
  std::int64_t more_zeros_after = 0;  // counted elsewhere
  std::int64_t not_counted = 0;       // zeros behind the end

  HWY_INLINE ErrorTotals() {}

  // run(v, r, counts): the sums of lanes [v * kLanes, (v + 1) * kLanes) over run r.
  template <class Run>
  HWY_INLINE void AddBlock(const Run& run) {
    VF error[kVectors];
    VF error_squared[kVectors];
    VF squared_before[kVectors];
    VF squared_after[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      FloatSums ab = run(v, 0, counts[v]);
      ab.Add(run(v, 1, counts[v]));
      FloatSums cd = run(v, 2, counts[v]);
      cd.Add(run(v, 3, counts[v]));
      ab.Add(cd);
      error[v] = ab.error;
      error_squared[v] = ab.error_squared;
      squared_before[v] = ab.squared_before;
      squared_after[v] = ab.squared_after;
    }
    AddTo(sums.error, error);
    AddTo(sums.error_squared, error_squared);
    AddTo(sums.squared_before, squared_before);
    AddTo(sums.squared_after, squared_after);
  }

  // Of values in memory.
  HWY_INLINE void AddValues(const float* before, const float* after) {
    AddBlock([&](int v, int r, ErrorCounts& count) HWY_ATTR {
      const float* x = before + r * kErrorRun + v * kLanes;
      const float* y = after + r * kErrorRun + v * kLanes;
      FloatSums some;
      for (std::int64_t i = 0, n = Unknown(kErrorRun); i < n; i += 16) {
        AddVector<true>(hn::LoadU(kDF, x + i), hn::LoadU(kDF, y + i), some, count);
        AddVector<true>(hn::LoadU(kDF, x + i + 8), hn::LoadU(kDF, y + i + 8), some,
                        count);
      }
      return some;
    });
  }

  // The last n < kErrorBlock of them. Zeros behind the end change no sum; they are not
  // counted.
  HWY_INLINE void AddTail(const float* before, const float* after, std::int64_t n) {
    float x[kErrorBlock] = {};
    float y[kErrorBlock] = {};
    std::memcpy(x, before, static_cast<std::size_t>(n) * sizeof(float));
    std::memcpy(y, after, static_cast<std::size_t>(n) * sizeof(float));
    AddValues(x, y);
    not_counted = kErrorBlock - n;
  }

  HWY_INLINE ErrorSums Finish() const {
    ErrorSums all;
    all.error = AddLanes(sums.error);
    all.error_squared = AddLanes(sums.error_squared);
    all.squared_before = AddLanes(sums.squared_before);
    all.squared_after = AddLanes(sums.squared_after);
    all.zeros_before = -not_counted;
    all.zeros_after = more_zeros_after - not_counted;
    for (const ErrorCounts& count : counts) {
      alignas(32) float errors[kLanes];
      alignas(32) std::int32_t zeros_before[kLanes];
      alignas(32) std::int32_t zeros_after[kLanes];
      hn::Store(count.max_error, kDF, errors);
      hn::Store(count.zeros_before, kDI, zeros_before);
      hn::Store(count.zeros_after, kDI, zeros_after);
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        if (errors[lane] > all.max_error) all.max_error = errors[lane];
        all.zeros_before -= zeros_before[lane];
        all.zeros_after -= zeros_after[lane];
      }
    }
    return all;
  }
};

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_ERROR_INL_H_
