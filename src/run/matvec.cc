#include "pith/run/matvec.h"

#include <fmt/format.h>

#include <algorithm>

#include "pith/quantize/dynamic.h"
#include "src/base/checked.h"
#include "src/base/parallel.h"
#include "src/kernels/gemv_s8.h"

namespace pith {
namespace {

constexpr std::int64_t kPiece = 1 << 16;  // weights per task

Status expect(std::string_view what, std::size_t found, CheckedSize expected) {
  if (expected.fits_int64() && expected.value() == found) return {};
  return Status::invalid_argument(
      expected.fits_int64()
          ? fmt::format("matvec: {} {}, expected {}", found, what, expected.value())
          : fmt::format("matvec: {} {}, but rows times columns is no valid size", found,
                        what));
}

Status check_matrix(std::size_t weights, std::int64_t rows, std::int64_t cols,
                    std::size_t x, std::size_t y) {
  PITH_OK(expect("values of x", x, CheckedSize::from_signed(cols)));
  PITH_OK(expect("weights", weights,
                 CheckedSize::from_signed(rows) * CheckedSize::from_signed(cols)));
  return expect("values of y", y, CheckedSize::from_signed(rows));
}

std::int64_t rows_per_piece(std::int64_t cols) {
  return std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, cols));
}

}  // namespace

Status w8a8_matvec(std::span<const std::int8_t> weight, std::span<const float> row_scale,
                   std::int64_t rows, std::int64_t cols, std::span<const float> x,
                   std::span<float> y, MatvecScratch& scratch) {
  if (x.empty()) {
    return Status::invalid_argument("matvec: x is empty, expected at least one value");
  }
  PITH_OK(check_matrix(weight.size(), rows, cols, x.size(), y.size()));
  PITH_OK(expect("row scales", row_scale.size(), CheckedSize::from_signed(rows)));
  scratch.codes.resize(x.size());
  PITH_TRY(scratch.scale, dynamic_quantize(x, {}, scratch.codes));
  parallel_pieces(rows, rows_per_piece(cols),
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    kernels::gemv_s8({weight.data() + begin * cols, scratch.codes.data(),
                                      row_scale.data() + begin, scratch.scale,
                                      end - begin, cols, y.data() + begin});
                  });
  return {};
}

Status int8_matvec(std::span<const std::int8_t> codes, std::span<const float> scales,
                   std::int64_t rows, std::int64_t cols, std::span<const float> x,
                   std::span<float> y) {
  PITH_OK(check_matrix(codes.size(), rows, cols, x.size(), y.size()));
  const bool one_scale = scales.size() == 1;
  if (!one_scale) {
    PITH_OK(expect("scales", scales.size(), CheckedSize::from_signed(rows)));
  }
  parallel_pieces(
      rows, rows_per_piece(cols),
      [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        kernels::gemv_s8_f32({codes.data() + begin * cols, x.data(),
                              scales.data() + (one_scale ? 0 : begin), one_scale,
                              end - begin, cols, y.data() + begin});
      });
  return {};
}

}  // namespace pith
