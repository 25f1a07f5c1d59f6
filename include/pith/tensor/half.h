// Small floating-point types, one value at a time: the definition that every kernel must
// equal.
//
// Rounding is to nearest, ties to even; subnormals are kept; NaN stays NaN: quiet, with
// the upper bits of its payload, as the F16C instructions give it.
#pragma once

#include <cstdint>

namespace pith {

/// What becomes of a value beyond the largest finite one.
enum class Overflow : std::uint8_t {
  kInfinity,  ///< infinity, or NaN where there is none (PyTorch's cast)
  kSaturate,  ///< the largest finite value, for infinity too (quantized checkpoints)
};

[[nodiscard]] std::uint16_t f32_to_f16(float value);
[[nodiscard]] float f16_to_f32(std::uint16_t bits);

/// Rounds once: through f32 some values would be rounded twice.
[[nodiscard]] std::uint16_t f64_to_f16(double value);
[[nodiscard]] std::uint16_t f64_to_bf16(double value);

[[nodiscard]] std::uint16_t f32_to_bf16(float value);
[[nodiscard]] float bf16_to_f32(std::uint16_t bits);

[[nodiscard]] std::uint8_t f32_to_f8e4m3(float value,
                                         Overflow overflow = Overflow::kSaturate);
[[nodiscard]] float f8e4m3_to_f32(std::uint8_t bits);

[[nodiscard]] std::uint8_t f32_to_f8e5m2(float value,
                                         Overflow overflow = Overflow::kSaturate);
[[nodiscard]] float f8e5m2_to_f32(std::uint8_t bits);

}  // namespace pith
