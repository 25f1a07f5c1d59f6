// Matrix products with packed integer weights.
//
// Weights are packed once into panels of 8 outputs (rows of W), in which neighbouring
// columns of an output stand together. One layout serves a vector and a batch, and
// instructions that multiply pairs (SSE, AVX2) as well as quadruples (VNNI, NEON dot
// products).
//
//   bits 8: groups of 4 columns, 32 bytes: byte 4 o + j is output o, column 4 g + j
//   bits 4: groups of 8 columns, 32 bytes: byte 4 o + j has column 8 g + j in its low
//   half and column
//           8 g + 4 + j in its high half, each as code + 8
//   bits 32: a column, 32 bytes: float o is output o; no blocks
//   block > 0: before the groups of a block stand the scales of its 8 outputs, f16 or f32
//
// Outputs and columns that are not there have code 0. Panels lie `stride` bytes apart, a
// little more than their size: streams a power of two apart fight for the same cache
// sets.
//
// A product takes a tile of up to 6 rows of quantized activations, packed likewise.
// Inside a block sums are exact integers; blocks are added in their order as float(sum) *
// scale, each rounded once. So every instruction set, tile and number of threads gives
// the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pith::kernels {

inline constexpr std::int64_t kPanelOutputs = 8;
/// Rows of a full tile.
inline constexpr std::int64_t kTileRows = 6;
/// Columns for which an int32 holds every sum of products of codes in [-127, 127].
inline constexpr std::int64_t kMaxExactCols = 131072;
/// What is added to 7-bit activations to make them unsigned.
inline constexpr int kU7Offset = 64;

struct PanelShape {
  int bits = 8;              ///< 8, 4 or 32
  std::int64_t outputs = 0;  ///< rows of W
  std::int64_t cols = 0;     ///< at most kMaxExactCols if block is 0
  /// Columns that share a scale, a divisor of cols and a multiple of 4 (bits 4: of 32),
  /// or 0: the sums come without scales.
  std::int64_t block = 0;
  bool half_scales = false;  ///< scales of blocks are f16, else f32

  [[nodiscard]] std::int64_t panels() const {
    return (outputs + kPanelOutputs - 1) / kPanelOutputs;
  }
  /// Columns of a group.
  [[nodiscard]] std::int64_t depth() const { return bits == 8 ? 4 : bits == 4 ? 8 : 1; }
  /// Groups of a panel; for bits 4 a multiple of 4, so that it is made of 32 columns.
  [[nodiscard]] std::int64_t groups() const {
    if (bits == 32) return cols;
    return bits == 8 ? (cols + 3) / 4 : (cols + 31) / 32 * 4;
  }
  [[nodiscard]] std::int64_t scale_bytes() const {
    return block == 0 ? 0 : kPanelOutputs * (half_scales ? 2 : 4);
  }
  [[nodiscard]] std::int64_t panel_bytes() const {
    return groups() * 32 + (block == 0 ? 0 : cols / block * scale_bytes());
  }
  [[nodiscard]] std::int64_t stride() const {
    return (panel_bytes() + 63) / 64 * 64 + 256;
  }
  [[nodiscard]] std::int64_t bytes() const { return panels() * stride(); }
};

/// Puts the codes of one output, [cols] in [-127, 127] or [-8, 7], and the scales of its
/// blocks into its panel. `panels` has shape.bytes() and was cleared by clear_panels.
void pack_output(const PanelShape& shape, std::int64_t output, const std::int8_t* codes,
                 const float* scales, std::byte* panels) noexcept;
/// What pack_output makes of the 8 outputs of a panel of bits 8 and block 0; their codes
/// lie row_stride apart. Fast enough to be done again in every product.
void pack_panel_s8(const PanelShape& shape, const std::int8_t* codes,
                   std::int64_t row_stride, std::byte* panel) noexcept;
/// The same as pack_output for bits 32.
void pack_output_f32(const PanelShape& shape, std::int64_t output, const float* values,
                     std::byte* panels) noexcept;
/// Code 0 everywhere.
void clear_panels(const PanelShape& shape, std::byte* panels) noexcept;

/// How activations are given to a product.
enum class TileKind : std::uint8_t {
  kS16,  ///< for bits 8: int16, quadruples of a row as columns 0, 2, 1, 3
  kU7,   ///< for bits 8, block 0: uint8, code + 64 of codes in [-63, 63]
  kS8,   ///< for bits 4: int8
  kF32,  ///< for all: float
};
/// Bytes of a packed tile.
std::int64_t tile_bytes(TileKind kind, std::int64_t rows, std::int64_t cols);
/// Packs rows of floats for kF32: [groups][rows][depth].
void pack_tile_f32(const PanelShape& shape, const float* x, std::int64_t row_stride,
                   std::int64_t rows, std::byte* tile) noexcept;
/// Packs `rows` rows of codes [rows][cols] in [-127, 127] (kU7: [-63, 63]): [cols / 4 or
/// 8][rows][4 or 8]. For kS8 it begins with what sums start at: per 32 columns and row,
/// twice an int16 of -8 times the sum of its columns j with j mod 4 in {0, 1}, and in {2,
/// 3}.
void pack_tile(TileKind kind, const std::int8_t* codes, std::int64_t row_stride,
               std::int64_t rows, std::int64_t cols, std::byte* tile) noexcept;

/// The product of one tile with panels [first, last).
struct PanelProduct {
  PanelShape shape;
  const std::byte* panels = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
  const std::byte* tile = nullptr;
  std::int64_t rows = 0;         ///< of the tile, in [1, kTileRows]
  std::int32_t* sums = nullptr;  ///< block 0: [rows][stride], exact
  float* y = nullptr;            ///< block > 0: [rows][stride]
  std::int64_t stride = 0;       ///< at least panels() * 8
};

void product_s8(const PanelProduct& args) noexcept;  ///< bits 8, tile kS16
/// bits 8, block 0, tile kU7: sums of (code + 64) * weight; the caller takes out 64 times
/// the sum of weights.
void product_u7(const PanelProduct& args) noexcept;
void product_s4(const PanelProduct& args) noexcept;  ///< bits 4, tile kS8

/// Activations that are not quantized, tile kF32. Sums are floats: four of them per output, column c goes to
/// sum c mod 4; at the end of a block each is multiplied with the scale and added to the total of
/// its number; y = (t0 + t1) + (t2 + t3). With block 0 `y` has the sums of code * x.
/// Bits 32: columns are added one by one to a sum, which every kDenseBlock columns is added
/// to the total and begins again.
void product_f32(const PanelProduct& args) noexcept;
void product_dense(const PanelProduct& args) noexcept;  ///< its part for bits 32
inline constexpr std::int64_t kDenseBlock = 512;

/// The one of these that takes tiles of a kind.
inline void product(TileKind kind, const PanelProduct& args) noexcept {
  switch (kind) {
    case TileKind::kS16:
      return product_s8(args);
    case TileKind::kU7:
      return product_u7(args);
    case TileKind::kS8:
      return product_s4(args);
    case TileKind::kF32:
      return product_f32(args);
  }
}

/// The definition of all.
void reference_product(TileKind kind, const PanelProduct& args) noexcept;

}  // namespace pith::kernels
