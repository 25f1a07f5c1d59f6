#include <array>
#include <cstring>

#include "pith/tensor/half.h"
#include "src/kernels/matmul.h"

namespace pith::kernels {
namespace {

// Four codes of an output in a group of either width, as one word of the panel.
std::uint32_t word_of(const std::int8_t* codes) {
  std::uint32_t word = 0;
  std::memcpy(&word, codes, sizeof(word));
  return word;
}

// Four nibbles of code + 8, in the low half of each byte.
std::uint32_t nibbles_of(const std::int8_t* codes) {
  return (word_of(codes) & 0x0f0f0f0fu) ^ 0x08080808u;
}

std::uint32_t group_word(int bits, const std::int8_t* codes) {
  return bits == 8 ? word_of(codes) : nibbles_of(codes) | nibbles_of(codes + 4) << 4;
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
  std::byte* place = panels + output / kPanelOutputs * shape.stride();
  const std::int64_t depth = shape.depth();
  const std::int64_t block = shape.block == 0 ? shape.cols : shape.block;
  for (std::int64_t begin = 0; begin < shape.cols; begin += block) {
    if (shape.half_scales && shape.block > 0) {
      const std::uint16_t half = f32_to_f16(*scales++);
      std::memcpy(place + 2 * o, &half, sizeof(half));
    } else if (shape.block > 0) {
      std::memcpy(place + 4 * o, scales++, sizeof(float));
    }
    place += shape.scale_bytes();
    std::int64_t c = begin;
    for (; c + depth <= begin + block; c += depth, place += 32) {
      const std::uint32_t word = group_word(shape.bits, codes + c);
      std::memcpy(place + 4 * o, &word, sizeof(word));
    }
    if (c < begin + block) {  // columns that are not there have code 0
      std::array<std::int8_t, 8> last = {};
      std::memcpy(last.data(), codes + c, static_cast<std::size_t>(begin + block - c));
      const std::uint32_t word = group_word(shape.bits, last.data());
      std::memcpy(place + 4 * o, &word, sizeof(word));
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
