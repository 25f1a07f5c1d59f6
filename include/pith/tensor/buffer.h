// Owned memory for tensors and codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace pith {

/// Bytes aligned to 64, not initialized: a page is touched first by the one who fills it.
/// Movable.
class Buffer {
 public:
  Buffer() = default;
  /// std::bad_alloc if there is no memory.
  explicit Buffer(std::int64_t bytes);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() {
    return {data(), static_cast<std::size_t>(size_)};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {data(), static_cast<std::size_t>(size_)};
  }
  /// The bytes as elements of a trivial type.
  template <typename T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(data()), static_cast<std::size_t>(size_) / sizeof(T)};
  }
  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data()),
            static_cast<std::size_t>(size_) / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace pith
