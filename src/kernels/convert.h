// Element types to f32 and back, many values at once.
//
// Every result equals the definition in pith/tensor/half.h in every bit, payloads of NaN
// included, on every instruction set.
#pragma once

#include <cstdint>

#include "pith/tensor/dtype.h"
#include "pith/tensor/half.h"
#include "src/kernels/float_bits.h"

namespace pith::kernels {

// Bits of the smallest f32 magnitude that `to` rounds beyond its largest finite value;
// those of infinity where that is no narrower than f32.
constexpr std::uint32_t overflow_bits(DType to) {
  switch (to) {
    case DType::kF8E5M2:
      return 0x47700000;
    case DType::kF8E4M3:
      return 0x43e80001;
    case DType::kF16:
      return 0x477ff000;
    case DType::kBF16:
      return 0x7f7f8000;
    default:
      return kInfinityBits;
  }
}

// Values of a type as f32.
struct ToF32 {
  DType from;
  const void* in;  // [count] of `from`, of any alignment
  void* out;       // [count] f32, of any alignment; aliases nothing
  std::int64_t count;
  // How what f32 cannot hold is rounded: to nearest even, or toward zero with the last
  // bit set ("to odd"). The second is for results that are rounded again to a shorter
  // type: then the two roundings are as good as one.
  bool to_odd = false;
  bool stream = false;  // stores bypass the caches: for outputs larger than these
};

// f32 values as a type with fewer bits.
struct FromF32 {
  const void* in;  // [count] f32, of any alignment
  DType to;
  void* out;  // [count] of `to`, of any alignment; aliases nothing
  std::int64_t count;
  Overflow overflow = Overflow::kInfinity;  // of 8-bit types; 16-bit ones have infinity
  bool stream = false;
};

// bool, f8e5m2, f8e4m3, f16, bf16, f32, f64 and integers of 8 to 64 bits.
[[nodiscard]] bool converts_to_f32(DType from);
// f8e5m2, f8e4m3, f16, bf16, f32.
[[nodiscard]] bool converts_from_f32(DType to);

// Both return the bits of the largest magnitude among the f32 values (of `out`, of `in`):
// kInfinityBits or more tells that some are not finite, overflow_bits() or more that some
// do not fit. Only for types that convert.
std::uint32_t to_f32(const ToF32& args) noexcept;
std::uint32_t from_f32(const FromF32& args) noexcept;
std::uint32_t reference_to_f32(const ToF32& args) noexcept;
std::uint32_t reference_from_f32(const FromF32& args) noexcept;

}  // namespace pith::kernels
