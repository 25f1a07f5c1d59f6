// The weights of a layer in the layout of the kernels (src/kernels/matmul.h), and the
// product of many rows with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/quantize/quantize.h"
#include "pith/tensor/buffer.h"
#include "src/kernels/matmul.h"
#include "src/run/unpack.h"

namespace pith {

/// Whether weights are packed once, or their codes stay where they are and every product
/// packs what it needs of them, piece by piece.
enum class Packing : std::uint8_t { kOnce, kInPlace };

class PackedWeights {
 public:
  /// True if a kernel computes with codes of this scheme as they are.
  [[nodiscard]] static bool takes(const Scheme& scheme, const Shape& shape);

  /// A matrix of codes that takes() accepts, for activations of that kind. With kInPlace the
  /// codes must outlive this.
  PackedWeights(const CodesView& weight, kernels::TileKind kind,
                Packing packing = Packing::kOnce);
  /// Packs [outputs, inputs] floats; activations are kF32.
  PackedWeights(std::span<const float> weight, std::int64_t outputs, std::int64_t inputs);

  [[nodiscard]] std::int64_t outputs() const { return outputs_; }
  [[nodiscard]] std::int64_t inputs() const { return inputs_; }
  [[nodiscard]] kernels::TileKind kind() const { return kind_; }
  /// Of panels and scales.
  [[nodiscard]] std::int64_t bytes() const;
  /// Bytes that products need to pack into: 0 if weights are packed.
  [[nodiscard]] std::int64_t work_bytes() const;

  /// Bytes that `rows` rows of activations need when they are packed.
  [[nodiscard]] std::int64_t tile_bytes(std::int64_t rows) const;
  /// Packs rows: of x for kF32, of codes else.
  void pack_tiles(const float* x, const std::int8_t* codes, std::int64_t rows,
                  std::byte* tiles) const;
  /// y[r][o] = sum * scale of o * x_scale[r] + bias[o], each step rounded; with blocks the
  /// scales are in the sum. `bias` may be empty; kF32 has no x_scale. `work` has
  /// work_bytes().
  void multiply(const std::byte* tiles, const float* x_scale, std::int64_t rows,
                std::span<const float> bias, float* y, std::byte* work) const;

 private:
  // Columns of the matrix, few enough for int32 sums if rows have one scale.
  struct Strip {
    std::int64_t first = 0;
    kernels::PanelShape shape;
    Buffer panels;
    std::vector<std::int32_t> offsets;  // kU7: 64 times the sum of an output's codes
  };

  // Outputs [begin, end) of a product, and rows [first, last) of `rows`.
  struct Piece {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t first;
    std::int64_t last;
    std::int64_t rows;
  };

  void multiply_piece(const std::byte* tiles, const float* x_scale,
                      std::span<const float> bias, float* y, std::byte* work,
                      const Piece& piece) const;
  void add_strip(std::int64_t first, const kernels::PanelShape& shape);
  [[nodiscard]] std::int64_t row_blocks() const;
  // Packs outputs [begin, end) of all strips; `begin` is the first of a panel. `row` has
  // row_bytes().
  template <typename PanelsOf>
  void pack(std::int64_t begin, std::int64_t end, std::byte* row,
            const PanelsOf& panels_of) const;
  [[nodiscard]] std::int64_t row_bytes() const;
  void pack_piece(const Piece& piece, std::byte* work) const;
  // The panels of outputs from `begin` on, wherever they are.
  [[nodiscard]] const std::byte* panels_of(std::size_t strip, std::int64_t begin,
                                           const std::byte* work) const;
  // Of `work`, for each thread.
  [[nodiscard]] std::int64_t thread_bytes() const;
  // Where strip `s` of a piece is packed in the memory of a thread.
  [[nodiscard]] std::int64_t work_before(std::size_t strip) const;
  [[nodiscard]] std::int64_t tiles_before(std::size_t strip, std::int64_t rows) const;
  // One tile of rows times one piece of outputs; `sums` and `y` are [kTileRows][stride].
  void run_strip(const Strip& strip, const std::byte* panels, const std::byte* tile,
                 std::int64_t rows, std::int64_t begin, std::int64_t end,
                 std::int32_t* sums, float* y) const;

  CodesView source_;  // in place
  Packing packing_ = Packing::kOnce;
  kernels::TileKind kind_;
  std::int64_t outputs_ = 0;
  std::int64_t inputs_ = 0;
  std::vector<float> row_scale_;  // empty: scales are in the panels, or there are none
  std::vector<Strip> strips_;
};

}  // namespace pith
