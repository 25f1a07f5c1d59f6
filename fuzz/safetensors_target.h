// What both safetensors targets do with a header.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string_view>

#include "fuzz/check.h"
#include "src/io/reader.h"
#include "src/io/safetensors_header.h"

namespace pith::fuzz {

/// Reads the header of a file of `file_bytes`, of which `start` is the beginning. Tensors of
/// an accepted one cover its data: no byte twice, none left.
inline void run_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes) {
  ByteReader in(start);
  const Result<SafetensorsHeader> header = read_safetensors_header(in, file_bytes);
  if (!header) return check_refusal(header.error());
  __extension__ typedef unsigned __int128 Wide;
  require(header->data_begin <= start.size(), "the header is longer than the file");
  Wide position = header->data_begin;
  std::size_t names = 0;
  std::set<std::string_view> different;
  for (const TensorInfo& tensor : header->tensors) {
    check_shape(tensor);
    require(Wide{tensor.offset} == position, "a hole or an overlap");
    position += static_cast<Wide>(tensor.bytes);
    names += tensor.name.size();
    require(different.insert(tensor.name).second, "a name is there twice");
  }
  require(position == Wide{file_bytes}, "the spans are not the file");
  for (const auto& [key, value] : header->metadata) names += key.size() + value.size();
  require(names <= start.size(), "names are longer than the file");
}

}  // namespace pith::fuzz
