// The header of .npy files (versions 1.0, 2.0, 3.0). docs/formats/npy.md has the layout.
//
//   PITH_TRY(NpyHeader header, parse_npy(first_bytes, file_size));
//
// The header is a Python literal; it is read by a grammar of its own, and nothing in it
// is ever evaluated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "src/io/views.h"

namespace pith {

/// Longest header that is read, as in NumPy for files that are not trusted.
inline constexpr std::size_t kNpyMaxHeader = 10000;
/// Bytes from which every header can be parsed: magic, version, length, header.
inline constexpr std::size_t kNpyMaxStart = 12 + kNpyMaxHeader;

struct NpyHeader {
  Encoding encoding;
  Shape shape;
  bool big_endian = false;
  bool fortran_order = false;
  std::uint64_t data_begin = 0;
};

/// Parses the start of a file (or zip entry) of `total` bytes; `start` holds all of them
/// or at least kNpyMaxStart. kCorrupt for what breaks the format, bytes that are missing
/// or too many included; kUnsupported for arrays of Python objects, strings, records and
/// dates.
Result<NpyHeader> parse_npy(std::span<const std::byte> start, std::uint64_t total);

/// The tensor that a header describes, in `source`, which must outlive it.
[[nodiscard]] TensorBytes npy_tensor_bytes(const NpyHeader& header,
                                           const ByteSource& source);

}  // namespace pith
