// The tensor types of GGUF files: their sizes, and how a block becomes f32.
//
//   const GgmlType* type = find_ggml_type(8);                // Q8_0: 32 elements in 34
//   bytes if (auto bad = decode_blocks(*type, bytes, values)) ...  // block *bad has an
//   infinite scale
//
// A block holds its scale (f16), sometimes a minimum, and small integers; it never
// crosses a row. Products are f32 in the order written in docs/formats/gguf.md, each
// rounded once, so that the values are those of the engines that run these files, bit for
// bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "pith/io/checkpoint.h"

namespace pith {

/// One row of the table of types.
struct GgmlType {
  std::uint32_t id;
  Encoding encoding;
};

/// All types that may stand in a file, by ascending id.
[[nodiscard]] std::span<const GgmlType> ggml_types();

/// The type of that id; null if there is none, or it was removed from the format.
[[nodiscard]] const GgmlType* find_ggml_type(std::uint32_t id);
/// The type of that name ("Q8_0"), or null.
[[nodiscard]] const GgmlType* find_ggml_type(std::string_view name);

/// Decodes whole blocks of a quantized type: `bytes` has n * block_bytes, `out` n * block
/// values. Returns the first block whose scale or minimum is not finite, after which
/// `out` is not filled; none is the rule. Only for types that are decodable and not plain
/// numbers.
[[nodiscard]] std::optional<std::int64_t> decode_blocks(const GgmlType& type,
                                                        std::span<const std::byte> bytes,
                                                        std::span<float> out);

}  // namespace pith
