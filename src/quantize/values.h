// The values of a tensor as f32, a chunk at a time: f32 where they lie, 16-bit types
// converted into a small buffer of the caller. Nothing is cloned.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "pith/tensor/view.h"
#include "src/kernels/convert.h"

namespace pith {

class Values {
 public:
  /// `view` is f32, f16 or bf16 and outlives this.
  explicit Values(const TensorView& view)
      : type_(view.dtype()),
        bytes_(view.bytes().data()),
        count_(view.shape().elements()) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] bool is_f32() const { return type_ == DType::kF32; }
  [[nodiscard]] DType type() const { return type_; }
  /// Values from `first` on as they are.
  [[nodiscard]] const std::byte* stored(std::int64_t first) const {
    return bytes_ + first * (is_f32() ? 4 : 2);
  }

  /// Values [first, first + n); `scratch` has room for n if they are not f32. `largest`:
  /// where to leave the bits of their largest magnitude, if converting them tells it.
  const float* read(std::int64_t first, std::int64_t n, float* scratch,
                    std::uint32_t* largest = nullptr) const {
    if (is_f32()) return reinterpret_cast<const float*>(bytes_) + first;
    const std::uint32_t bits = kernels::to_f32({type_, bytes_ + first * 2, scratch, n});
    if (largest != nullptr) *largest = bits;
    return scratch;
  }

  /// The first of values [first, first + n) that is not finite, or -1.
  [[nodiscard]] std::int64_t first_non_finite(std::int64_t first, std::int64_t n) const {
    float chunk[256];
    for (std::int64_t i = first; i < first + n; i += 256) {
      const std::int64_t some = std::min<std::int64_t>(256, first + n - i);
      const float* values = read(i, some, chunk);
      for (std::int64_t k = 0; k < some; ++k) {
        if (!std::isfinite(values[k])) return i + k;
      }
    }
    return -1;
  }

 private:
  DType type_;
  const std::byte* bytes_;
  std::int64_t count_;
};

}  // namespace pith
