#include "pith/run/matvec.h"

#include <fmt/format.h>

#include "pith/quantize/dynamic.h"
#include "src/base/checked.h"
#include "src/run/packed_weights.h"

namespace pith {
namespace {

using kernels::TileKind;

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

// One row of activations times codes where they are.
Status multiply(std::span<const std::int8_t> weight, std::span<const float> scales,
                std::int64_t rows, std::int64_t cols, TileKind kind, const float* x,
                const std::int8_t* codes, const float* x_scale, float* y) {
  PITH_TRY(const Shape shape, Shape::make({rows, cols}));
  const Scheme scheme = scales.size() == 1 ? Scheme::int8_tensor() : Scheme::int8_rows();
  const PackedWeights packed(
      CodesView(scheme, shape, {std::as_bytes(weight), std::as_bytes(scales)}), kind,
      Packing::kInPlace);
  std::vector<std::byte> tile(static_cast<std::size_t>(packed.tile_bytes(1)));
  std::vector<std::byte> work(static_cast<std::size_t>(packed.work_bytes()));
  packed.pack_tiles(x, codes, 1, tile.data());
  packed.multiply(tile.data(), x_scale, 1, {}, y, work.data());
  return {};
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
  return multiply(weight, row_scale, rows, cols, TileKind::kS16, x.data(),
                  scratch.codes.data(), &scratch.scale, y.data());
}

Status int8_matvec(std::span<const std::int8_t> codes, std::span<const float> scales,
                   std::int64_t rows, std::int64_t cols, std::span<const float> x,
                   std::span<float> y) {
  PITH_OK(check_matrix(codes.size(), rows, cols, x.size(), y.size()));
  if (scales.size() != 1) {
    PITH_OK(expect("scales", scales.size(), CheckedSize::from_signed(rows)));
  }
  return multiply(codes, scales, rows, cols, TileKind::kF32, x.data(), nullptr, nullptr,
                  y.data());
}

}  // namespace pith
