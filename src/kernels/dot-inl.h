// Products of small integers, added in pairs: the one place with raw intrinsics, one
// short function per target that has an instruction for it. Included once per target (see
// hwy/foreach_target.h).
#if defined(PITH_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_KERNELS_DOT_INL_H_
#undef PITH_KERNELS_DOT_INL_H_
#else
#define PITH_KERNELS_DOT_INL_H_
#endif

#include "hwy/highway.h"

// One instruction multiplies and adds to the sum: pairs of int16 or quadruples of bytes, both
// exact. In x86 as AVX-512 encodes it: what AVX-VNNI calls the same is another instruction,
// which not all that have the first have. On Arm it is not part of every processor: only
// builds for those that have it use it.
#undef PITH_DOT_VNNI
#undef PITH_DOT_NEON
#define PITH_DOT_VNNI (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL)
#if HWY_TARGET == HWY_NEON && defined(__ARM_FEATURE_DOTPROD)
#define PITH_DOT_NEON 1
#else
#define PITH_DOT_NEON 0
#endif

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 32 bytes: that is what weights are packed for.
using DotI8 = hn::CappedTag<int8_t, 32>;
using DotU8 = hn::CappedTag<uint8_t, 32>;
using DotI16 = hn::CappedTag<int16_t, 16>;
using DotI32 = hn::CappedTag<int32_t, 8>;
using DotF32 = hn::CappedTag<float, 8>;

// Lane i = a[2i] * b[2i] + a[2i+1] * b[2i+1]; exact unless all four are -32768.
HWY_INLINE hn::Vec<DotI32> DotPairsI16(hn::Vec<DotI16> a, hn::Vec<DotI16> b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Vec<DotI32>{_mm256_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4
  return hn::Vec<DotI32>{_mm_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_NEON
  return hn::Vec<DotI32>{
      vpaddq_s32(vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)),
                 vmull_s16(vget_high_s16(a.raw), vget_high_s16(b.raw)))};
#else
#error "DotPairsI16 lacks this target"
#endif
}

// Lane i = a[2i] * b[2i] + a[2i+1] * b[2i+1] of unsigned a, signed b. The sum must fit an
// int16: it does for a <= 15 (3810) and a <= 127 (32258) with b in [-127, 127].
HWY_INLINE hn::Vec<DotI16> DotPairsU8I8(hn::Vec<DotU8> a, hn::Vec<DotI8> b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Vec<DotI16>{_mm256_maddubs_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4
  return hn::Vec<DotI16>{_mm_maddubs_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_NEON
  const int16x8_t low = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a.raw))),
                                  vmovl_s8(vget_low_s8(b.raw)));
  const int16x8_t high = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(a.raw))),
                                   vmovl_s8(vget_high_s8(b.raw)));
  return hn::Vec<DotI16>{vpaddq_s16(low, high)};
#else
#error "DotPairsU8I8 lacks this target"
#endif
}

// sum += DotPairsI16(a, b).
HWY_INLINE void AddDotPairsI16(hn::Vec<DotI16> a, hn::Vec<DotI16> b,
                               hn::Vec<DotI32>& sum) {
#if PITH_DOT_VNNI
  asm("%{evex%} vpdpwssd %[b], %[a], %[sum]"
      : [sum] "+x"(sum.raw)
      : [a] "x"(a.raw), [b] "x"(b.raw));
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // As intrinsics, gcc 12 computes all products first and spills most sums of a tile
  // of 12.
  __m256i product;
  asm("vpmaddwd %[b], %[a], %[product]\n\tvpaddd %[product], %[sum], %[sum]"
      : [sum] "+x"(sum.raw), [product] "=&x"(product)
      : [a] "x"(a.raw), [b] "x"(b.raw));
#else
  sum = hn::Add(sum, DotPairsI16(a, b));
#endif
}

// sum += DotPairsU8I8(a, b), modulo 2^16.
HWY_INLINE void AddDotPairsU8I8(hn::Vec<DotU8> a, hn::Vec<DotI8> b,
                                hn::Vec<DotI16>& sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  __m256i product;
  asm("vpmaddubsw %[b], %[a], %[product]\n\tvpaddw %[product], %[sum], %[sum]"
      : [sum] "+x"(sum.raw), [product] "=&x"(product)
      : [a] "x"(a.raw), [b] "x"(b.raw));
#else
  sum = hn::Add(sum, DotPairsU8I8(a, b));
#endif
}

// sum += the sums of four neighbouring products of unsigned a <= 127, signed b, pairs of
// which fit an int16; `ones` is a vector of 1.
HWY_INLINE void AddDotQuadsU8I8(hn::Vec<DotU8> a, hn::Vec<DotI8> b,
                                [[maybe_unused]] hn::Vec<DotI16> ones,
                                hn::Vec<DotI32>& sum) {
#if PITH_DOT_VNNI
  asm("%{evex%} vpdpbusd %[b], %[a], %[sum]"
      : [sum] "+x"(sum.raw)
      : [a] "x"(a.raw), [b] "x"(b.raw));
#elif PITH_DOT_NEON
  sum.raw = vdotq_s32(sum.raw, vreinterpretq_s8_u8(a.raw), b.raw);
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  __m256i product;
  asm("vpmaddubsw %[b], %[a], %[product]\n\t"
      "vpmaddwd %[ones], %[product], %[product]\n\t"
      "vpaddd %[product], %[sum], %[sum]"
      : [sum] "+x"(sum.raw), [product] "=&x"(product)
      : [a] "x"(a.raw), [b] "x"(b.raw), [ones] "x"(ones.raw));
#else
  sum = hn::Add(sum, DotPairsI16(DotPairsU8I8(a, b), ones));
#endif
}

// sum += a * b, the product rounded first.
HWY_INLINE void AddProduct(hn::Vec<DotF32> a, hn::Vec<DotF32> b, hn::Vec<DotF32>& sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  __m256 product;
  asm("vmulps %[b], %[a], %[product]\n\tvaddps %[product], %[sum], %[sum]"
      : [sum] "+x"(sum.raw), [product] "=&x"(product)
      : [a] "x"(a.raw), [b] "x"(b.raw));
#else
  sum = hn::Add(sum, hn::Mul(a, b));
#endif
}

// The compiler may not carry values of memory across: it would keep them in registers
// that sums need.
HWY_INLINE void Barrier() { asm volatile("" ::: "memory"); }

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PITH_KERNELS_DOT_INL_H_
