// Tensors that live elsewhere.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "pith/base/result.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/shape.h"

namespace pith {

/// A tensor in somebody else's memory, row-major, without gaps. The name is for messages.
///
///   PITH_TRY(pith::TensorView w, pith::TensorView::of(weights, shape,
///   "layers.0.weight"));
class TensorView {
 public:
  TensorView() = default;

  /// kInvalidArgument if the bytes are not those of `shape` in `dtype`.
  static Result<TensorView> make(DType dtype, Shape shape,
                                 std::span<const std::byte> bytes,
                                 std::string_view name = {});
  static Result<TensorView> of(std::span<const float> values, Shape shape,
                               std::string_view name = {}) {
    return make(DType::kF32, std::move(shape), std::as_bytes(values), name);
  }

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view name() const { return name_; }
  /// The values of an f32 tensor.
  [[nodiscard]] std::span<const float> f32() const {
    return {reinterpret_cast<const float*>(bytes_.data()), bytes_.size() / sizeof(float)};
  }

 private:
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::span<const std::byte> bytes_;
  std::string_view name_;
};

/// Bytes of `shape` in `dtype`; kInvalidArgument if they exceed an int64 or are no whole
/// number (three elements of four bits).
Result<std::int64_t> bytes_of(DType dtype, const Shape& shape);

}  // namespace pith
