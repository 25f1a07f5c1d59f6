#include "pith/tensor/half.h"

#include <bit>

namespace pith {
namespace {

// The layout of a small binary format: sign, exponent, mantissa.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  std::uint32_t max_finite;  // bits of the largest finite value
  std::uint32_t overflow;    // bits of what larger values become: infinity, or NaN
};

constexpr Layout kF16 = {5, 10, 15, 0x7bff, 0x7c00};
constexpr Layout kBF16 = {8, 7, 127, 0x7f7f, 0x7f80};
constexpr Layout kF8E4M3 = {4, 3, 7, 0x7e, 0x7f};
constexpr Layout kF8E5M2 = {5, 2, 15, 0x7b, 0x7c};

// Magnitude bits of a finite non-negative double, rounded once to nearest even. The
// result may be one past the largest finite value, or more: the caller decides what
// becomes of it.
std::uint64_t round_magnitude(double magnitude, const Layout& layout) {
  const auto bits = std::bit_cast<std::uint64_t>(magnitude);
  if (bits == 0) return 0;
  int exponent = static_cast<int>(bits >> 52);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 0) {
    return 0;  // below 2^-1022: zero in every format here
  }
  mantissa |= std::uint64_t{1} << 52;
  int target = exponent - 1023 + layout.bias;
  int drop = 52 - layout.mantissa_bits;
  if (target < 1) {  // subnormal in the target
    drop += 1 - target;
    target = 1;
  }
  if (drop > 54) return 0;
  const std::uint64_t kept = mantissa >> drop;
  const std::uint64_t rest = mantissa & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t rounded =
      kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
  // The implicit bit of `rounded` adds 1 to an exponent field that is one too small; a
  // carry out of the mantissa, and the step from subnormal to normal, come out right by
  // themselves.
  return (static_cast<std::uint64_t>(target - 1) << layout.mantissa_bits) + rounded;
}

std::uint32_t encode(double value, const Layout& layout, Overflow overflow) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int width = 1 + layout.exponent_bits + layout.mantissa_bits;
  const auto sign = static_cast<std::uint32_t>(bits >> 63) << (width - 1);
  const double magnitude = std::bit_cast<double>(bits & ~(std::uint64_t{1} << 63));
  const bool infinite = magnitude == std::bit_cast<double>(std::uint64_t{0x7ff} << 52);
  const std::uint64_t rounded =
      infinite ? UINT64_MAX : round_magnitude(magnitude, layout);
  if (rounded <= layout.max_finite) return sign | static_cast<std::uint32_t>(rounded);
  return sign | (overflow == Overflow::kSaturate ? layout.max_finite : layout.overflow);
}

float decode(std::uint32_t bits, const Layout& layout) {
  const int width = 1 + layout.exponent_bits + layout.mantissa_bits;
  const std::uint32_t sign = (bits >> (width - 1)) << 31;
  const std::uint32_t exponent =
      (bits >> layout.mantissa_bits) & ((std::uint32_t{1} << layout.exponent_bits) - 1);
  const std::uint32_t mantissa = bits & ((std::uint32_t{1} << layout.mantissa_bits) - 1);
  float magnitude = 0;
  if (exponent == 0) {
    magnitude =
        static_cast<float>(mantissa) *
        std::bit_cast<float>(
            static_cast<std::uint32_t>(128 - layout.bias - layout.mantissa_bits) << 23);
  } else {
    magnitude = std::bit_cast<float>(
        ((exponent + 127 - static_cast<std::uint32_t>(layout.bias)) << 23) |
        (mantissa << (23 - layout.mantissa_bits)));
  }
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

}  // namespace

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (is_nan(bits)) {
    return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | 0x7e00u |
                                      ((bits >> 13) & 0x3ffu));
  }
  return static_cast<std::uint16_t>(encode(value, kF16, Overflow::kInfinity));
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t mantissa = bits & 0x3ffu;
  if ((bits & 0x7c00u) == 0x7c00u) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(((bits & 0x8000u) << 16) | 0x7f800000u | quiet |
                                (mantissa << 13));
  }
  return decode(bits, kF16);
}

std::uint16_t f64_to_f16(double value) {
  if (value != value) return f32_to_f16(static_cast<float>(value));
  return static_cast<std::uint16_t>(encode(value, kF16, Overflow::kInfinity));
}

std::uint16_t f64_to_bf16(double value) {
  if (value != value) return f32_to_bf16(static_cast<float>(value));
  return static_cast<std::uint16_t>(encode(value, kBF16, Overflow::kInfinity));
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (is_nan(bits)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint8_t f32_to_f8e4m3(float value, Overflow overflow) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (is_nan(bits)) return static_cast<std::uint8_t>(((bits >> 24) & 0x80u) | 0x7fu);
  return static_cast<std::uint8_t>(encode(value, kF8E4M3, overflow));
}

float f8e4m3_to_f32(std::uint8_t bits) {
  if ((bits & 0x7fu) == 0x7fu) {
    return std::bit_cast<float>(((bits & 0x80u) << 24) | 0x7fc00000u);
  }
  return decode(bits, kF8E4M3);
}

std::uint8_t f32_to_f8e5m2(float value, Overflow overflow) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (is_nan(bits)) return static_cast<std::uint8_t>(((bits >> 24) & 0x80u) | 0x7fu);
  return static_cast<std::uint8_t>(encode(value, kF8E5M2, overflow));
}

float f8e5m2_to_f32(std::uint8_t bits) {
  return f16_to_f32(static_cast<std::uint16_t>(bits << 8));
}

}  // namespace pith
