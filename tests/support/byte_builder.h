// Files made in code, field by field, for tests of what readers accept and refuse.
//
//   ByteBuilder file;
//   file.text("GGUF").u32(3).u64(0).u64(0);
//   parse(file.bytes());
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace pith::testing {

class ByteBuilder {
 public:
  ByteBuilder& u8(std::uint64_t value) { return number<std::uint8_t>(value); }
  ByteBuilder& u16(std::uint64_t value) { return number<std::uint16_t>(value); }
  ByteBuilder& u32(std::uint64_t value) { return number<std::uint32_t>(value); }
  ByteBuilder& u64(std::uint64_t value) { return number<std::uint64_t>(value); }
  ByteBuilder& f32(float value) { return raw(&value, sizeof(value)); }
  ByteBuilder& f64(double value) { return raw(&value, sizeof(value)); }
  ByteBuilder& text(std::string_view text) { return raw(text.data(), text.size()); }
  /// A u64 length and the bytes.
  ByteBuilder& counted(std::string_view bytes) { return u64(bytes.size()).text(bytes); }
  ByteBuilder& zeros(std::size_t count) {
    data_.append(count, '\0');
    return *this;
  }
  ByteBuilder& pad_to(std::size_t multiple) {
    return zeros((multiple - data_.size() % multiple) % multiple);
  }

  [[nodiscard]] std::size_t size() const { return data_.size(); }
  [[nodiscard]] const std::string& str() const { return data_; }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(data_));
  }
  /// The same bytes without the last `count`.
  [[nodiscard]] std::string without_last(std::size_t count) const {
    return data_.substr(0, data_.size() - count);
  }

 private:
  template <typename T>
  ByteBuilder& number(std::uint64_t value) {
    const T narrow = static_cast<T>(value);
    return raw(&narrow, sizeof(narrow));
  }
  ByteBuilder& raw(const void* bytes, std::size_t count) {
    data_.append(static_cast<const char*>(bytes), count);
    return *this;
  }

  std::string data_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace pith::testing
