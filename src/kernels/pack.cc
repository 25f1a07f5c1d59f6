#include <array>
#include <cstring>

#include "pith/tensor/half.h"
#include "src/kernels/matmul.h"

namespace pith::kernels {
namespace {

// Where group g of a panel begins; scales of the blocks before it and of its own come
// first.
std::int64_t group_offset(const PanelShape& shape, std::int64_t g) {
  const std::int64_t blocks = shape.block == 0 ? 0 : g * shape.depth() / shape.block + 1;
  return g * 32 + blocks * shape.scale_bytes();
}

}  // namespace

void clear_panels(const PanelShape& shape, std::byte* panels) noexcept {
  if (shape.bytes() == 0) return;
  // Code 0 is byte 0, or two nibbles of 8.
  std::memset(panels, shape.bits == 4 ? 0x88 : 0,
              static_cast<std::size_t>(shape.bytes()));
  if (shape.block == 0) return;
  const std::int64_t block_bytes = shape.block / shape.depth() * 32 + shape.scale_bytes();
  for (std::int64_t p = 0; p < shape.panels(); ++p) {
    for (std::int64_t b = 0; b < shape.cols / shape.block; ++b) {
      std::memset(panels + p * shape.stride() + b * block_bytes, 0,
                  static_cast<std::size_t>(shape.scale_bytes()));
    }
  }
}

void pack_output(const PanelShape& shape, std::int64_t output, const std::int8_t* codes,
                 const float* scales, std::byte* panels) noexcept {
  const std::int64_t o = output % kPanelOutputs;
  std::byte* panel = panels + output / kPanelOutputs * shape.stride();
  const std::int64_t depth = shape.depth();
  for (std::int64_t g = 0; g * depth < shape.cols; ++g) {
    std::byte* group = panel + group_offset(shape, g) + 4 * o;
    for (std::int64_t j = 0; j < depth && g * depth + j < shape.cols; ++j) {
      const int code = codes[g * depth + j];
      if (shape.bits == 8) {
        group[j] = static_cast<std::byte>(code);
      } else {
        const auto nibble = static_cast<std::byte>(code + 8);
        std::byte& both = group[j % 4];
        both = j < 4 ? (both & std::byte{0xf0}) | nibble
                     : (both & std::byte{0x0f}) | nibble << 4;
      }
    }
  }
  if (shape.block == 0) return;
  const std::int64_t block_bytes = shape.block / depth * 32 + shape.scale_bytes();
  for (std::int64_t b = 0; b < shape.cols / shape.block; ++b) {
    std::byte* place = panel + b * block_bytes + o * (shape.half_scales ? 2 : 4);
    if (shape.half_scales) {
      const std::uint16_t half = f32_to_f16(scales[b]);
      std::memcpy(place, &half, sizeof(half));
    } else {
      std::memcpy(place, &scales[b], sizeof(float));
    }
  }
}

void pack_output_f32(const PanelShape& shape, std::int64_t output, const float* values,
                     std::byte* panels) noexcept {
  auto* panel =
      reinterpret_cast<float*>(panels + output / kPanelOutputs * shape.stride());
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    panel[c * kPanelOutputs + output % kPanelOutputs] = values[c];
  }
}

std::int64_t tile_bytes(TileKind kind, std::int64_t rows, std::int64_t cols) {
  switch (kind) {
    case TileKind::kS16:
      return (cols + 3) / 4 * rows * 8;
    case TileKind::kU7:
      return (cols + 3) / 4 * rows * 4;
    case TileKind::kS8:
      return (cols + 31) / 32 * rows * (4 + 32);
    case TileKind::kF32:  // whole groups of either width
      return (cols + 31) / 32 * 32 * rows * 4;
  }
  return 0;
}

namespace {

// Up to `size` codes from column c on; those beyond the last are 0.
template <int kSize>
std::array<std::int8_t, kSize> load_codes(const std::int8_t* row, std::int64_t c,
                                          std::int64_t cols) {
  std::array<std::int8_t, kSize> codes = {};
  const std::int64_t n = cols - c < kSize ? cols - c : kSize;
  if (n == kSize) {
    std::memcpy(codes.data(), row + c, kSize);
  } else if (n > 0) {
    std::memcpy(codes.data(), row + c, static_cast<std::size_t>(n));
  }
  return codes;
}

void pack_s16(const std::int8_t* codes, std::int64_t row_stride, std::int64_t rows,
              std::int64_t cols, std::byte* tile) {
  auto* out = reinterpret_cast<std::int16_t*>(tile);
  for (std::int64_t c = 0; c < cols; c += 4) {
    for (std::int64_t r = 0; r < rows; ++r, out += 4) {
      const auto four = load_codes<4>(codes + r * row_stride, c, cols);
      out[0] = four[0];
      out[1] = four[2];
      out[2] = four[1];
      out[3] = four[3];
    }
  }
}

void pack_u7(const std::int8_t* codes, std::int64_t row_stride, std::int64_t rows,
             std::int64_t cols, std::byte* tile) {
  auto* out = reinterpret_cast<std::uint8_t*>(tile);
  for (std::int64_t c = 0; c < cols; c += 4) {
    for (std::int64_t r = 0; r < rows; ++r, out += 4) {
      const auto four = load_codes<4>(codes + r * row_stride, c, cols);
      for (std::size_t j = 0; j < 4; ++j) {
        out[j] = static_cast<std::uint8_t>(four[j] + kU7Offset);
      }
    }
  }
}

void pack_s8(const std::int8_t* codes, std::int64_t row_stride, std::int64_t rows,
             std::int64_t cols, std::byte* tile) {
  auto* start = reinterpret_cast<std::int16_t*>(tile);
  auto* out = reinterpret_cast<std::int8_t*>(tile + (cols + 31) / 32 * rows * 4);
  for (std::int64_t c = 0; c < cols; c += 32) {
    for (std::int64_t r = 0; r < rows; ++r, start += 2) {
      const auto piece = load_codes<32>(codes + r * row_stride, c, cols);
      int sums[2] = {0, 0};
      for (std::size_t j = 0; j < 32; j += 4) {
        sums[0] += piece[j] + piece[j + 1];
        sums[1] += piece[j + 2] + piece[j + 3];
      }
      for (std::int64_t g = 0; g < 4; ++g) {
        std::memcpy(out + (g * rows + r) * 8, piece.data() + 8 * g, 8);
      }
      start[0] = static_cast<std::int16_t>(-8 * sums[0]);
      start[1] = static_cast<std::int16_t>(-8 * sums[1]);
    }
    out += 32 * rows;
  }
}

}  // namespace

void pack_tile_f32(const PanelShape& shape, const float* x, std::int64_t row_stride,
                   std::int64_t rows, std::byte* tile) noexcept {
  auto* out = reinterpret_cast<float*>(tile);
  const std::int64_t depth = shape.depth();
  for (std::int64_t g = 0; g < shape.groups(); ++g) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = g * depth; c < (g + 1) * depth; ++c) {
        *out++ = c < shape.cols ? x[r * row_stride + c] : 0.0f;
      }
    }
  }
}

void pack_tile(TileKind kind, const std::int8_t* codes, std::int64_t row_stride,
               std::int64_t rows, std::int64_t cols, std::byte* tile) noexcept {
  switch (kind) {
    case TileKind::kS16:
      return pack_s16(codes, row_stride, rows, cols, tile);
    case TileKind::kU7:
      return pack_u7(codes, row_stride, rows, cols, tile);
    case TileKind::kS8:
      return pack_s8(codes, row_stride, rows, cols, tile);
    case TileKind::kF32:
      return;  // pack_tile_f32
  }
}

}  // namespace pith::kernels
