// Where every byte of a file that is to be written goes: one function per format.
//
//   PITH_TRY(FilePlan plan, plan_safetensors(tensors, metadata));
//   plan.size, plan.offsets[i], plan.pieces ...
//
// A plan is complete before the first byte is written: headers, offsets and the size of
// the file follow from names, encodings and shapes alone. Only checksums come later.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/gguf.h"
#include "pith/io/writer.h"

namespace pith {

/// Appends the bytes of `value`, little-endian: how all formats store numbers.
template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Bytes that are known, and their place.
struct FilePiece {
  std::uint64_t offset = 0;
  std::string bytes;
};

struct FilePlan {
  std::uint64_t size = 0;              ///< of the whole file
  std::vector<FilePiece> pieces;       ///< all that is no tensor and not zero
  std::vector<std::uint64_t> offsets;  ///< of each tensor, in the order given
  std::vector<std::uint64_t> bytes;    ///< of each tensor
  /// For formats with checksums: pieces that follow from the CRC-32 of each tensor's
  /// bytes.
  std::function<std::vector<FilePiece>(std::span<const std::uint32_t>)> finish;
  /// Where the values of metadata stand in the file, as JSON text of that length.
  struct Slot {
    std::string key;
    std::uint64_t offset = 0;
    std::size_t length = 0;
  };
  std::vector<Slot> metadata;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Each checks what its format can hold: kInvalidArgument for names and shapes,
// kUnsupported for encodings; messages begin with the tensor or key at fault.

/// One safetensors file, laid out as the format's own library does.
Result<FilePlan> plan_safetensors(std::span<const TensorSpec* const> tensors,
                                  const Metadata& metadata);
Result<FilePlan> plan_gguf(std::span<const TensorSpec* const> tensors,
                           std::span<const GgufKey> keys);
/// Stored, not deflated; every array starts at a multiple of 64.
Result<FilePlan> plan_npz(std::span<const TensorSpec* const> tensors);
/// Exactly one tensor.
Result<FilePlan> plan_npy(std::span<const TensorSpec* const> tensors);

/// Bytes of a tensor; kInvalidArgument if the shape does not fit the encoding: rows that
/// are no whole blocks, a size beyond 2^63.
Result<std::uint64_t> bytes_of(const TensorSpec& tensor);

/// `text` as the inside of a JSON string: the escapes the safetensors library writes.
std::string json_escape(std::string_view text);

/// "tensor 'name'" for messages.
std::string shown_tensor(const TensorSpec& tensor);

}  // namespace pith
