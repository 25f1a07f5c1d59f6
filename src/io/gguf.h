// The GGUF reader (versions 2 and 3). docs/formats/gguf.md has the layout.
//
//   PITH_TRY(GgufHeader header, parse_gguf(ByteReader(bytes)));
//
// Parsing takes a reader over the whole file, from memory or from disk, and touches no
// tensor data. Memory is proportional to the bytes read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/io/gguf.h"
#include "src/io/reader.h"

namespace pith {

/// Longest tensor name.
inline constexpr std::uint64_t kGgufMaxName = 63;
inline constexpr std::uint64_t kGgufDefaultAlignment = 32;

/// Everything in a file before its data.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = kGgufDefaultAlignment;
  std::vector<GgufKey> keys;
  std::vector<TensorInfo> tensors;  ///< offsets are those in the file
  std::vector<std::string> warnings;
};

/// kCorrupt or kUnsupported with one line that begins with the byte, key or tensor at
/// fault. `in` must begin at byte 0 of the file and end at its end.
Result<GgufHeader> parse_gguf(ByteReader in);

/// Bytes of a value of fixed size; 0 for strings, arrays and numbers that are no type.
[[nodiscard]] std::uint64_t gguf_type_bytes(GgufType type);

}  // namespace pith
