// Vectors of the kernels that make codes, and how they are rounded to integers.
#if defined(PITH_KERNELS_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_ROUND_INL_H_
#undef PITH_KERNELS_ROUND_INL_H_
#else
#define PITH_KERNELS_ROUND_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "pith/quantize/scheme.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

// Eight lanes at most: a step of four vectors is a block of 32, and memory is the limit.
using DF = hwy::HWY_NAMESPACE::CappedTag<float, 8>;
using DI = hwy::HWY_NAMESPACE::RebindToSigned<DF>;
using DU = hwy::HWY_NAMESPACE::RebindToUnsigned<DF>;
using VF = hwy::HWY_NAMESPACE::Vec<DF>;
using VI = hwy::HWY_NAMESPACE::Vec<DI>;
using VU = hwy::HWY_NAMESPACE::Vec<DU>;
constexpr DF kDF;
constexpr DI kDI;
constexpr DU kDU;
constexpr std::int64_t kLanes =
    static_cast<std::int64_t>(hwy::HWY_NAMESPACE::MaxLanes(DF()));

// A constant that stays in a register: behind a branch, gcc makes it anew each time, in
// three instructions.
template <class V>
HWY_INLINE V Fixed(V v) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC
  __asm__("" : "+x"(v.raw));
#endif
  return v;
}

// The nearest integer, as f32. kHalfUp knows the largest code.
template <Rounding kRounding>
HWY_INLINE VF RoundToInteger(VF t, int high) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kRounding == Rounding::kHalfEven) {
    return hn::Round(t);
  } else if constexpr (kRounding == Rounding::kHalfAway) {
    // The largest number below 0.5: with 0.5 itself the sum of 0.49999997 and it would
    // round up to 1.
    return hn::Trunc(hn::Add(t, hn::CopySign(hn::Set(kDF, 0.49999997F), t)));
  } else {
    const VF offset = hn::Set(kDF, static_cast<float>(high + 1));
    return hn::Sub(hn::Trunc(hn::Add(t, hn::Add(offset, hn::Set(kDF, 0.5F)))), offset);
  }
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_ROUND_INL_H_
