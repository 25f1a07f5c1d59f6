#include "pith/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pith/tensor/view.h"
#include "src/base/checked.h"

namespace pith {

Result<Shape> Shape::make(std::span<const std::int64_t> extents) {
  CheckedSize nonzero_product(1);
  bool empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) {
      return Status::invalid_argument(fmt::format("shape [{}]: extent {} is negative",
                                                  fmt::join(extents, ", "), extent));
    }
    empty = empty || extent == 0;
    if (extent != 0) nonzero_product = nonzero_product * CheckedSize::from_signed(extent);
  }
  if (!nonzero_product.fits_int64()) {
    return Status::invalid_argument(fmt::format(
        "shape [{}]: the number of elements exceeds 2^63-1", fmt::join(extents, ", ")));
  }
  Shape shape;
  shape.extents_.assign(extents.begin(), extents.end());
  shape.elements_ = empty ? 0 : static_cast<std::int64_t>(nonzero_product.value());
  return shape;
}

std::int64_t Shape::rows() const {
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < extents_.size(); ++axis) rows *= extents_[axis];
  return rows;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(extents_, ", "));
}

Result<std::int64_t> bytes_of(DType dtype, const Shape& shape) {
  const CheckedSize bits =
      CheckedSize::array(static_cast<std::uint64_t>(shape.elements()),
                         static_cast<std::uint64_t>(bits_of(dtype)));
  if (!bits.valid()) {
    return Status::invalid_argument(
        fmt::format("shape {} of {}: the size in bits exceeds 2^64-1", shape.to_string(),
                    to_string(dtype)));
  }
  if (bits.value() % 8 != 0) {
    return Status::invalid_argument(
        fmt::format("shape {} of {} is no whole number of bytes", shape.to_string(),
                    to_string(dtype)));
  }
  return static_cast<std::int64_t>(bits.value() / 8);
}

Result<TensorView> TensorView::make(DType dtype, Shape shape,
                                    std::span<const std::byte> bytes,
                                    std::string_view name) {
  PITH_TRY(const std::int64_t expected, bytes_of(dtype, shape));
  if (static_cast<std::uint64_t>(expected) != bytes.size()) {
    return Status::invalid_argument(
        fmt::format("tensor '{}': {} bytes given, but shape {} of {} has {}", name,
                    bytes.size(), shape.to_string(), to_string(dtype), expected));
  }
  TensorView view;
  view.dtype_ = dtype;
  view.shape_ = std::move(shape);
  view.bytes_ = bytes;
  view.name_ = name;
  return view;
}

}  // namespace pith
