// Pickles made in code, opcode by opcode, as PyTorch writes them.
//
//   PickleBuilder pickle;
//   pickle.begin().op("}(").text("w").tensor({...}).op("u.");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/byte_builder.h"

namespace pith::testing {

/// A view of a storage, as _rebuild_tensor_v2 takes it.
struct PickleTensor {
  std::string storage_class = "FloatStorage";
  std::string key = "0";
  std::int64_t elements = 6;  ///< of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
};

class PickleBuilder {
 public:
  PickleBuilder& begin(std::uint8_t protocol = 2) {
    out_.u8(0x80).u8(protocol);
    return *this;
  }
  /// Bytes as they are.
  PickleBuilder& op(std::string_view bytes) {
    out_.text(bytes);
    return *this;
  }
  PickleBuilder& byte(std::uint8_t value) {
    out_.u8(value);
    return *this;
  }
  PickleBuilder& global(std::string_view module, std::string_view name) {
    return op("c").op(module).op("\n").op(name).op("\n");
  }
  PickleBuilder& text(std::string_view text) {
    out_.u8('X').u32(text.size()).text(text);
    return *this;
  }
  /// The shortest opcode that holds it.
  PickleBuilder& integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      out_.u8('K').u8(static_cast<std::uint64_t>(value));
    } else if (value >= 0 && value < 65536) {
      out_.u8('M').u16(static_cast<std::uint64_t>(value));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_.u8('J').u32(static_cast<std::uint64_t>(value));
    } else {
      out_.u8(0x8a).u8(8).u64(static_cast<std::uint64_t>(value));
    }
    return *this;
  }
  PickleBuilder& tuple(const std::vector<std::int64_t>& values) {
    op("(");
    for (const std::int64_t value : values) integer(value);
    return op("t");
  }
  PickleBuilder& storage(const PickleTensor& tensor) {
    op("(").text("storage").global("torch", tensor.storage_class).text(tensor.key);
    return text("cpu").integer(tensor.elements).op("tQ");
  }
  PickleBuilder& ordered_dict() { return global("collections", "OrderedDict").op(")R"); }
  PickleBuilder& tensor(const PickleTensor& tensor = {}) {
    global("torch._utils", "_rebuild_tensor_v2").op("(").storage(tensor);
    integer(tensor.offset).tuple(tensor.sizes).tuple(tensor.strides);
    return byte(0x89).ordered_dict().op("tR");
  }

  [[nodiscard]] const std::string& str() const { return out_.str(); }

 private:
  ByteBuilder out_;
};

}  // namespace pith::testing
