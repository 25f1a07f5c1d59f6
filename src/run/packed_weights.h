// The weights of a layer in the layout of the kernels (src/kernels/matmul.h), and the
// product of many rows with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/quantize/quantize.h"
#include "pith/tensor/buffer.h"
#include "src/kernels/matmul.h"

namespace pith {

class PackedWeights {
 public:
  /// True if a kernel computes with codes of this scheme as they are.
  [[nodiscard]] static bool takes(const Scheme& scheme, const Shape& shape);

  /// Packs a matrix of codes that takes() accepts for activations of that kind.
  PackedWeights(const QuantizedTensor& weight, kernels::TileKind kind);
  /// Packs [outputs, inputs] floats; activations are kF32.
  PackedWeights(std::span<const float> weight, std::int64_t outputs, std::int64_t inputs);

  [[nodiscard]] std::int64_t outputs() const { return outputs_; }
  [[nodiscard]] std::int64_t inputs() const { return inputs_; }
  [[nodiscard]] kernels::TileKind kind() const { return kind_; }
  /// Of panels and scales.
  [[nodiscard]] std::int64_t bytes() const;

  /// Bytes that `rows` rows of activations need when they are packed.
  [[nodiscard]] std::int64_t tile_bytes(std::int64_t rows) const;
  /// Packs rows: of x for kF32, of codes else.
  void pack_tiles(const float* x, const std::int8_t* codes, std::int64_t rows,
                  std::byte* tiles) const;
  /// y[r][o] = sum * scale of o * x_scale[r] + bias[o], each step rounded; with blocks the
  /// scales are in the sum. `bias` may be empty; kF32 has no x_scale.
  void multiply(const std::byte* tiles, const float* x_scale, std::int64_t rows,
                std::span<const float> bias, float* y) const;

 private:
  // Columns of the matrix, few enough for int32 sums if rows have one scale.
  struct Strip {
    std::int64_t first = 0;
    kernels::PanelShape shape;
    Buffer panels;
    std::vector<std::int32_t> offsets;  // kU7: 64 times the sum of an output's codes
  };

  // multiply() for rows [first, last) of `rows`.
  void multiply_chunk(const std::byte* tiles, const float* x_scale, std::int64_t rows,
                      std::int64_t first, std::int64_t last, std::span<const float> bias,
                      float* y) const;
  void add_strip(std::int64_t first, const kernels::PanelShape& shape);
  [[nodiscard]] std::int64_t tiles_before(std::size_t strip, std::int64_t rows) const;
  // One tile of rows times one piece of outputs; `sums` and `y` are [kTileRows][stride].
  void run_strip(const Strip& strip, const std::byte* tile, std::int64_t rows,
                 std::int64_t begin, std::int64_t end, std::int32_t* sums,
                 float* y) const;

  kernels::TileKind kind_;
  std::int64_t outputs_ = 0;
  std::int64_t inputs_ = 0;
  std::vector<float> row_scale_;  // empty: scales are in the panels, or there are none
  std::vector<Strip> strips_;
};

}  // namespace pith
