#include "pith/tensor/buffer.h"

#include <new>

namespace pith {

constexpr std::align_val_t kBufferAlignment{64};

Buffer::Buffer(std::int64_t bytes) : size_(bytes) {
  if (bytes > 0) {
    data_.reset(static_cast<std::byte*>(
        ::operator new(static_cast<std::size_t>(bytes), kBufferAlignment)));
  }
}

void Buffer::Free::operator()(std::byte* data) const {
  ::operator delete(data, kBufferAlignment);
}

}  // namespace pith
