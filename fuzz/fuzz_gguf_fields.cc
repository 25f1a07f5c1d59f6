// GGUF files that are right but for a few fields.
#include "fuzz/fields.h"
#include "fuzz/gguf_target.h"
#include "tests/support/byte_builder.h"

namespace pith::fuzz {
namespace {

using testing::ByteBuilder;

void add_value(Fields& fields, ByteBuilder& file, std::uint64_t type, int depth) {
  const std::uint64_t bytes = gguf_type_bytes(static_cast<GgufType>(type));
  if (type == 8) {
    const std::string text = fields.text(12);
    file.u64(fields.mostly(text.size())).text(text);
  } else if (type == 9) {
    const std::uint64_t element = fields.mostly(fields.below(13), 32);
    const std::uint64_t count = fields.below(5);
    file.u32(element).u64(fields.mostly(count, 4));
    if (depth > 2) return;
    for (std::uint64_t i = 0; i < count; ++i) add_value(fields, file, element, depth + 1);
  } else if (type == 7) {
    file.u8(fields.mostly(1));
  } else {
    for (std::uint64_t i = 0; i < bytes; ++i) file.u8(fields.byte());
  }
}

void add_key(Fields& fields, ByteBuilder& file, std::uint64_t& alignment) {
  if (fields.one_in(4)) {
    alignment = fields.mostly(std::uint64_t{1} << fields.below(10));
    file.counted("general.alignment").u32(fields.mostly(4)).u32(alignment);
    return;
  }
  const std::string key = fields.name() + fields.name() + fields.name();
  const std::uint64_t type = fields.mostly(fields.below(13), 32);
  file.u64(fields.mostly(key.size(), 32)).text(key).u32(type);
  add_value(fields, file, type, 0);
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pith;
  fuzz::Fields fields(data, size);
  fuzz::ByteBuilder file;
  const std::uint64_t tensors = fields.below(4);
  const std::uint64_t keys = fields.below(4);
  file.text("GGUF").u32(fields.mostly(3, 64));
  file.u64(fields.mostly(tensors, 32)).u64(fields.mostly(keys, 32));
  std::uint64_t alignment = 32;
  for (std::uint64_t i = 0; i < keys; ++i) fuzz::add_key(fields, file, alignment);
  if (alignment == 0 || alignment > 4096) alignment = 32;

  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::string name = fields.name() + static_cast<char>('0' + i);
    const std::uint64_t rank = fields.below(5);
    const auto types = ggml_types();
    const GgmlType& type = types[static_cast<std::size_t>(fields.below(types.size()))];
    file.u64(fields.mostly(name.size(), 64)).text(name).u32(fields.mostly(rank, 64));
    std::uint64_t elements = 1;
    for (std::uint64_t axis = 0; axis < rank; ++axis) {
      std::uint64_t extent = fields.number();
      // Most borders are multiples of a block already.
      if (axis == 0 && extent < 16)
        extent *= static_cast<std::uint64_t>(type.encoding.block);
      elements *= extent;  // may wrap, as that of a careless writer
      file.u64(extent);
    }
    file.u32(fields.mostly(type.id, 64)).u64(fields.mostly(offset, 8));
    offset += elements / static_cast<std::uint64_t>(type.encoding.block) *
              static_cast<std::uint64_t>(type.encoding.block_bytes);
    offset = (offset + alignment - 1) / alignment * alignment;
  }
  if (tensors != 0) file.pad_to(alignment);
  if (!fields.one_in(8)) file.zeros(std::min<std::uint64_t>(offset, 1 << 16));
  while (!fields.empty()) file.u8(fields.byte());
  fuzz::run_gguf(file.bytes());
  return 0;
}
