// Types of tensor elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pith {

/// The order is that of the safetensors format, which sorts tensors by it; kI4 is Pith's
/// own.
enum class DType : std::uint8_t {
  kBool,
  kF4,      ///< E2M1, two per byte
  kF6E2M3,  ///< carried through, never decoded
  kF6E3M2,  ///< carried through, never decoded
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,  ///< the "fn" variant: no infinity
  kF8E8M0,  ///< powers of two
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,  ///< two f32
  kF64,
  kI64,
  kU64,
  kI4,  ///< signed, two per byte, the first in the low half
};

inline constexpr int kDTypeCount = static_cast<int>(DType::kI4) + 1;

/// Bits of one element.
[[nodiscard]] int bits_of(DType dtype);

/// "f32", "bf16", "f8e4m3", ...: the name in messages, recipes and Python.
[[nodiscard]] std::string_view to_string(DType dtype);

/// The type of that name, if there is one.
[[nodiscard]] std::optional<DType> dtype_from_string(std::string_view name);

}  // namespace pith
