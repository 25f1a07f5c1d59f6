// Tensors whose elements do not follow one another in row-major order: Fortran order,
// transposes and slices of a shared storage.
//
//   StridedView view{&source, 4, 0, {3, 2}, {1, 3}};   // the transpose of a 2 x 3 matrix
//   PITH_OK(read_strided(view, 0, 6, bytes));
//
// Elements are gathered by reads that go forward in the source and fetch neighbours
// together; memory is bounded by a window of 256 KiB, whatever the tensor. Asking for
// many rows at once is much faster than row by row: a transposed matrix costs at least
// one read per column and call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/status.h"
#include "src/io/source.h"

namespace pith {

/// Element (i, j, ...) is at byte `begin` + item_bytes * (i * strides[0] + j * strides[1]
/// +
/// ...) of the source. Extents and strides are not negative, and every element is inside
/// the source: see view_fits.
struct StridedView {
  const ByteSource* source = nullptr;
  std::int64_t item_bytes = 0;  ///< 1, 2, 4 or 8
  std::uint64_t begin = 0;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;  ///< in elements
};

/// Strides of a tensor without gaps whose last index (or first, in Fortran order) is the
/// fastest. Extents have a product that fits an int64.
[[nodiscard]] std::vector<std::int64_t> row_major_strides(
    std::span<const std::int64_t> extents);
[[nodiscard]] std::vector<std::int64_t> fortran_strides(
    std::span<const std::int64_t> extents);

/// True if elements follow one another in row-major order. Extents of 1 have any stride.
[[nodiscard]] bool is_row_major(const StridedView& view);

/// True if all elements are among `count` elements from element `offset` on: offset plus
/// the sum of (extent - 1) * stride is less than count. A view without elements fits.
[[nodiscard]] bool view_fits(std::int64_t offset, std::span<const std::int64_t> extents,
                             std::span<const std::int64_t> strides, std::int64_t count);

/// Elements [first, first + count) in row-major order; `out` has their bytes.
Status read_strided(const StridedView& view, std::int64_t first, std::int64_t count,
                    std::span<std::byte> out);

}  // namespace pith
