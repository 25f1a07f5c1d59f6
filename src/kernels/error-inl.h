// Sums of errors, lane by lane; see error.h. Included once per target.
#if defined(PITH_KERNELS_ERROR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_ERROR_INL_H_
#undef PITH_KERNELS_ERROR_INL_H_
#else
#define PITH_KERNELS_ERROR_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "src/kernels/error.h"
#include "src/kernels/round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums of doubles have four lanes, in as many vectors as that takes.
using DD = hn::CappedTag<double, 4>;
using DH = hn::Rebind<float, DD>;  // as many floats as there are doubles in a vector
constexpr DD kDD;
constexpr DH kDH;
constexpr auto kDoubles = static_cast<std::int64_t>(hn::MaxLanes(DD()));
using D4 = hn::Full128<float>;
using V4 = hn::Vec<D4>;
constexpr int kVectors = static_cast<int>(8 / kLanes);
constexpr std::int64_t kErrorBlock = 512;  // summed in f32
constexpr std::int64_t kSlice = 32;        // values at a time

// The four lanes of a sum, in memory.
struct DoubleSum {
  alignas(32) double lanes[4] = {};

  HWY_INLINE DoubleSum() {}

  template <class V>
  HWY_INLINE void Add(V more) {
    if constexpr (kDoubles == 4) {
      hn::Store(hn::Add(hn::Load(kDD, lanes), hn::PromoteTo(kDD, more)), kDD, lanes);
    } else {
      alignas(16) float floats[4];
      hn::Store(more, D4(), floats);
      for (std::int64_t i = 0; i < 4; i += kDoubles) {
        const auto some = hn::PromoteTo(kDD, hn::Load(kDH, floats + i));
        hn::Store(hn::Add(hn::Load(kDD, lanes + i), some), kDD, lanes + i);
      }
    }
  }
  [[nodiscard]] HWY_INLINE double Total() const {
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  }
};

// Sums of some lanes over a block.
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
};

// Lanes i and i + 4 of a sum.
template <class Sums>
HWY_INLINE V4 Folded(const Sums (&sums)[1], VF Sums::*sum) {
  return hn::Add(hn::LowerHalf(D4(), sums[0].*sum), hn::UpperHalf(D4(), sums[0].*sum));
}
template <class Sums>
HWY_INLINE V4 Folded(const Sums (&sums)[2], VF Sums::*sum) {
  return hn::Add(sums[0].*sum, sums[1].*sum);
}

// What is known of some lanes over all blocks.
struct ErrorExtremes {
  VI max_error;
  VI least_square;  // of the values before: above 0 if none of them is 0

  HWY_INLINE ErrorExtremes()
      : max_error(hn::Zero(kDI)), least_square(hn::BitCast(kDI, hn::Set(kDF, 1))) {}
};

// Adds two vectors of each, eight values apart. kLargest: max_error is wanted; kLeast:
// least_square is. Extremes are found among the bits of numbers that are not negative:
// processors have twice as many units for that as for the extremes of f32, which the sums
// need.
template <bool kLargest, bool kLeast = true>
HWY_INLINE void AddPair(VF x0, VF y0, VF x1, VF y1, FloatSums& sums,
                        ErrorExtremes& extremes) {
  const VF e0 = hn::Abs(hn::Sub(x0, y0));
  const VF e1 = hn::Abs(hn::Sub(x1, y1));
  sums.error = hn::Add(sums.error, hn::Add(e0, e1));
  if constexpr (kLargest) {
    extremes.max_error =
        hn::Max(extremes.max_error, hn::Max(hn::BitCast(kDI, e0), hn::BitCast(kDI, e1)));
  }
  sums.error_squared =
      hn::Add(sums.error_squared, hn::Add(hn::Mul(e0, e0), hn::Mul(e1, e1)));
  sums.squared_after =
      hn::Add(sums.squared_after, hn::Add(hn::Mul(y0, y0), hn::Mul(y1, y1)));
  const VF square0 = hn::Mul(x0, x0);
  const VF square1 = hn::Mul(x1, x1);
  sums.squared_before = hn::Add(sums.squared_before, hn::Add(square0, square1));
  if constexpr (kLeast) {
    extremes.least_square =
        hn::Min(extremes.least_square,
                hn::Min(hn::BitCast(kDI, square0), hn::BitCast(kDI, square1)));
  }
  // One pair after the other: with two under way there are not enough registers.
  sums.error = Fixed(sums.error);
  sums.error_squared = Fixed(sums.error_squared);
  sums.squared_after = Fixed(sums.squared_after);
  sums.squared_before = Fixed(sums.squared_before);
}

// Zeros among values.
HWY_INLINE std::int64_t CountZeros(const float* values, std::int64_t n) {
  VI zeros = hn::Zero(kDI);  // -1 for each
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto is_zero = hn::Eq(hn::LoadU(kDF, values + i), hn::Zero(kDF));
    zeros = hn::Add(zeros, hn::BitCast(kDI, hn::VecFromMask(kDF, is_zero)));
  }
  std::int64_t count =
      -static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(kDI, zeros)));
  for (; i < n; ++i) count += values[i] == 0 ? 1 : 0;
  return count;
}

// A slice of values and their codes, bytes or integers, of one scale.
template <class Code>
struct CodeSlice {
  const float* before;
  const Code* codes;
  VF scale;

  [[nodiscard]] HWY_INLINE VF Before(std::int64_t i) const {
    return hn::LoadU(kDF, before + i);
  }
  [[nodiscard]] HWY_INLINE VF After(std::int64_t i) const {
    const auto some = hn::LoadU(hn::Rebind<Code, DF>(), codes + i);
    if constexpr (sizeof(Code) == sizeof(float)) {
      return hn::Mul(scale, hn::ConvertTo(kDF, some));
    } else {
      return hn::Mul(scale, hn::ConvertTo(kDF, hn::PromoteTo(kDI, some)));
    }
  }
};

// Zeros among the codes of kMostSlices at most, as bytes: that is faster than among values.
class CodeZeros {
 public:
  using D8 = hn::Repartition<std::int8_t, DF>;
  static constexpr auto kBytes = static_cast<std::int64_t>(hn::MaxLanes(D8()));
  static constexpr std::int64_t kMostSlices = 128;  // a byte counts so many

  HWY_INLINE CodeZeros() {
    for (hn::Vec<D8>& zeros : zeros_) zeros = hn::Zero(D8());
  }

  // kBytes codes of a slice, from the one at `at` on.
  HWY_INLINE void Add(std::int64_t at, hn::Vec<D8> codes) {
    hn::Vec<D8>& zeros = zeros_[at / kBytes];
    zeros = hn::Add(zeros, hn::VecFromMask(D8(), hn::Eq(codes, hn::Zero(D8()))));
  }

  [[nodiscard]] HWY_INLINE std::int64_t Total() const {
    constexpr hn::Repartition<std::uint64_t, DF> du64;
    constexpr hn::Repartition<std::uint8_t, DF> du8;
    auto sums = hn::Zero(du64);
    for (const hn::Vec<D8>& zeros : zeros_) {
      sums = hn::Add(sums, hn::SumsOf8(hn::BitCast(du8, hn::Neg(zeros))));
    }
    return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(du64, sums)));
  }

 private:
  hn::Vec<D8> zeros_[kSlice / kBytes];  // -1 for each
};

// A length that is not known to the compiler: else gcc unrolls all slices of a block, with
// more sums under way than there are registers.
HWY_INLINE std::int64_t Unknown(std::int64_t n) {
  __asm__("" : "+r"(n));
  return n;
}

// All sums so far.
struct ErrorTotals {
  DoubleSum error;
  DoubleSum error_squared;
  DoubleSum squared_before;
  DoubleSum squared_after;
  ErrorExtremes extremes[kVectors];

  HWY_INLINE ErrorTotals() {}

  // A block, or the last n < kErrorBlock values. slices.Next(): the next slice, with
  // Before(i) and After(i), vectors of its values from i on.
  template <bool kLargest, bool kLeast = true, class Slices>
  HWY_INLINE void AddBlock(Slices& slices, std::int64_t n) {
    FloatSums sums[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      Slices some = slices;
      FloatSums block;
      ErrorExtremes extreme = extremes[v];
      for (std::int64_t k = 0, end = Unknown(n); k < end; k += kSlice) {
        const auto slice = some.Next();
        for (std::int64_t i = v * kLanes; i < kSlice; i += 16) {
          AddPair<kLargest, kLeast>(slice.Before(i), slice.After(i), slice.Before(i + 8),
                                    slice.After(i + 8), block, extreme);
        }
      }
      extremes[v] = extreme;
      sums[v] = block;
      if (v + 1 == kVectors) slices = some;
    }
    AddSums(sums);
  }

  // Those of a block: of lanes [v * kLanes, (v + 1) * kLanes) each.
  HWY_INLINE void AddSums(const FloatSums (&sums)[kVectors]) {
    error.Add(Folded(sums, &FloatSums::error));
    error_squared.Add(Folded(sums, &FloatSums::error_squared));
    squared_before.Add(Folded(sums, &FloatSums::squared_before));
    squared_after.Add(Folded(sums, &FloatSums::squared_after));
  }

  // Of values in memory: a multiple of kSlice.
  HWY_INLINE void AddValues(const float* before, const float* after, std::int64_t n) {
    struct Slice {
      const float* before;
      const float* after;
      [[nodiscard]] HWY_INLINE VF Before(std::int64_t i) const {
        return hn::LoadU(kDF, before + i);
      }
      [[nodiscard]] HWY_INLINE VF After(std::int64_t i) const {
        return hn::LoadU(kDF, after + i);
      }
    };
    struct Slices {
      Slice next;
      HWY_INLINE Slice Next() {
        const Slice slice = next;
        next = {next.before + kSlice, next.after + kSlice};
        return slice;
      }
    };
    Slices slices = {{before, after}};
    AddBlock<true>(slices, n);
  }

  // The last n < kErrorBlock of them. Zeros behind the end change no sum.
  HWY_INLINE void AddTail(const float* before, const float* after, std::int64_t n) {
    float x[kErrorBlock] = {};
    float y[kErrorBlock] = {};
    std::memcpy(x, before, static_cast<std::size_t>(n) * sizeof(float));
    std::memcpy(y, after, static_cast<std::size_t>(n) * sizeof(float));
    AddValues(x, y, (n + kSlice - 1) / kSlice * kSlice);
  }

  // There is a zero before: for blocks that do not look for it.
  HWY_INLINE void SetZeros() { extremes[0].least_square = hn::Zero(kDI); }

  // All but zeros_after. count(): zeros before, if there are any.
  template <class Count>
  HWY_INLINE ErrorSums Finish(const Count& count) const {
    ErrorSums all;
    all.error = error.Total();
    all.error_squared = error_squared.Total();
    all.squared_before = squared_before.Total();
    all.squared_after = squared_after.Total();
    bool no_zeros = all.squared_before < std::numeric_limits<double>::infinity();
    for (const ErrorExtremes& extreme : extremes) {
      alignas(32) float errors[kLanes];
      alignas(32) float squares[kLanes];
      hn::Store(hn::BitCast(kDF, extreme.max_error), kDF, errors);
      hn::Store(hn::BitCast(kDF, extreme.least_square), kDF, squares);
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        if (errors[lane] > all.max_error) all.max_error = errors[lane];
        no_zeros = no_zeros && squares[lane] > 0;
      }
    }
    all.zeros_before = no_zeros ? 0 : count();
    return all;
  }
};

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_ERROR_INL_H_
