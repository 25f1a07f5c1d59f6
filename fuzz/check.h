// What must hold for every input that a reader accepts. All sums here are of 128 bits, and
// owe nothing to the arithmetic that is being tested.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "pith/io/checkpoint.h"

namespace pith::fuzz {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// Numbers of elements and bytes follow from the shape, and do not wrap.
inline void check_shape(const TensorInfo& tensor) {
  __extension__ typedef unsigned __int128 Wide;
  Wide elements = 1;
  for (const std::int64_t extent : tensor.shape.extents()) {
    require(extent >= 0, "an extent is negative");
    elements *= static_cast<Wide>(extent);
    require(elements <= Wide{INT64_MAX}, "a shape overflows");
  }
  require(static_cast<Wide>(tensor.shape.elements()) == elements, "a count is wrong");
  const Encoding& encoding = tensor.encoding;
  const Wide bytes = elements / static_cast<Wide>(encoding.block) *
                     static_cast<Wide>(encoding.block_bytes);
  require(tensor.bytes >= 0 && static_cast<Wide>(tensor.bytes) == bytes,
          "a size is wrong");
}

/// The tensor is in one piece inside a file of `file_bytes`.
inline void check_place(const TensorInfo& tensor, std::uint64_t file_bytes) {
  __extension__ typedef unsigned __int128 Wide;
  require(Wide{tensor.offset} + static_cast<Wide>(tensor.bytes) <= Wide{file_bytes},
          "a tensor is outside its file");
}

/// A refusal is one short line.
inline void check_refusal(const Status& status) {
  require(
      status.code() == StatusCode::kCorrupt || status.code() == StatusCode::kUnsupported,
      "a refusal of another kind");
  require(status.message().size() <= 400, "a long message");
  for (const char c : status.message()) {
    require(static_cast<unsigned char>(c) >= 0x20, "a control byte in a message");
  }
}

/// Reads the tensors of an accepted checkpoint, as far as they are small: rows one by one,
/// all rows, all bytes. Both ways must give the same, or fail.
inline void read_tensors(const Checkpoint& checkpoint) {
  constexpr std::int64_t kMost = 1 << 16;
  for (std::size_t i = 0; i < checkpoint.tensors().size() && i < 16; ++i) {
    const TensorInfo& tensor = checkpoint.tensors()[i];
    check_shape(tensor);
    if (tensor.shape.elements() > kMost || tensor.shape.cols() > kMost) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
    (void)checkpoint.read_bytes(i, 0, bytes);
    if (!tensor.encoding.decodable) continue;
    const std::int64_t rows = tensor.shape.rows();
    const std::int64_t cols = tensor.shape.cols();
    std::vector<float> all(static_cast<std::size_t>(tensor.shape.elements()));
    const Status whole = checkpoint.read_rows(i, 0, rows, all);
    std::vector<float> row(static_cast<std::size_t>(cols));
    for (std::int64_t r = 0; r < rows && r < 64; ++r) {
      const Status one = checkpoint.read_rows(i, r, 1, row);
      require(one.ok() || !whole.ok(), "a row fails that was read before");
      if (!one.ok() || !whole.ok() || cols == 0) continue;
      require(
          std::memcmp(row.data(), all.data() + r * cols, row.size() * sizeof(float)) == 0,
          "a row differs");
    }
  }
}

}  // namespace pith::fuzz
