// The header of a safetensors file. docs/formats/safetensors.md has the layout:
//
//   u64 N | N bytes of JSON, padded with white space | data
//   {"__metadata__": {"key": "text"}, "NAME": {"dtype": "F32", "shape": [2, 2],
//    "data_offsets": [0, 16]}, ...}
//
// A header is accepted only if its tensors cover the data exactly: no hole, no overlap,
// no byte before, between or after them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/tensor/dtype.h"
#include "src/io/reader.h"

namespace pith {

/// Bytes of JSON a header may have.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Extents of a tensor and keys of `__metadata__`: no model comes near, and hostile
/// headers cost no more memory than they are long.
inline constexpr std::uint32_t kMaxSafetensorsRank = 64;
inline constexpr std::size_t kMaxSafetensorsMetadata = 100'000;

/// "F32", "BF16", ...; empty for Pith's own kI4, which the format does not know.
[[nodiscard]] std::string_view safetensors_name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_safetensors(std::string_view name);

struct SafetensorsHeader {
  std::uint64_t data_begin = 0;     ///< 8 + N
  std::vector<TensorInfo> tensors;  ///< sorted by their place in the file
  std::vector<std::pair<std::string, std::string>>
      metadata;  ///< in the order of the file
  std::vector<std::string> warnings;
};

/// Reads and checks the header of a file of `file_size` bytes, whose first byte is the
/// next one of `in`. Data is not touched. kCorrupt names the tensor or byte and what was
/// expected. The memory a refusal takes is that of the names and numbers of the header,
/// packed; the text itself is never held.
Result<SafetensorsHeader> read_safetensors_header(ByteReader& in,
                                                  std::uint64_t file_size);

}  // namespace pith
