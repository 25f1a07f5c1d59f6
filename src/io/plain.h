// Plain numbers of any type as f32.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "pith/io/checkpoint.h"
#include "pith/tensor/dtype.h"

namespace pith {

/// True if decode_plain knows the type: all but complex numbers, F4 and F6, whose order
/// inside a byte no format defines.
[[nodiscard]] bool is_decodable(DType dtype);

/// out[i] = element i of little-endian `bytes`, which need no alignment and hold exactly
/// out.size() elements of a decodable type of whole bytes (or kI4). f64 and wide integers
/// are rounded to nearest even; a bool is 0 or 1.
void decode_plain(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

/// The encoding of plain numbers under the name their format gives them, which must live
/// as long as the program. Types of less than a byte are blocks of whole bytes.
[[nodiscard]] Encoding plain_encoding(DType dtype, std::string_view name);

}  // namespace pith
