// What both GGUF targets do with a file.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/check.h"
#include "src/io/ggml_blocks.h"
#include "src/io/gguf.h"
#include "src/io/plain.h"

namespace pith::fuzz {

/// Parses a file, and decodes the tensors of an accepted one.
inline void run_gguf(std::span<const std::byte> file) {
  const Result<GgufHeader> header = parse_gguf(ByteReader(file));
  if (!header) return check_refusal(header.error());
  std::uint64_t key_bytes = 0;
  std::set<std::string_view> keys;
  for (const GgufKey& key : header->keys) {
    require(key.text().size() <= 500, "a long text");
    require(keys.insert(key.key).second, "a key is there twice");
    key_bytes += key.key.size() + key.value.size();
  }
  require(key_bytes <= file.size(), "keys are larger than the file");
  std::uint64_t last_end = 0;
  std::set<std::string_view> names;
  for (const TensorInfo& tensor : header->tensors) {
    require(names.insert(tensor.name).second, "a name is there twice");
    check_shape(tensor);
    check_place(tensor, file.size());
    require(tensor.offset % header->alignment == 0, "a tensor is not aligned");
    require(tensor.offset >= last_end, "tensors overlap");
    last_end = tensor.offset + static_cast<std::uint64_t>(tensor.bytes);
    if (!tensor.encoding.decodable) continue;
    const auto bytes = file.subspan(static_cast<std::size_t>(tensor.offset),
                                    static_cast<std::size_t>(tensor.bytes));
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
    if (tensor.encoding.dtype) {
      decode_plain(*tensor.encoding.dtype, bytes, values);
    } else {
      (void)decode_blocks(*find_ggml_type(tensor.encoding.name), bytes, values);
    }
  }
}

}  // namespace pith::fuzz
