#include <cstring>

#include "pith/tensor/half.h"
#include "src/kernels/matmul.h"

namespace pith::kernels {
namespace {

int weight(const PanelShape& shape, const std::byte* group, std::int64_t o,
           std::int64_t j) {
  const std::byte byte = group[4 * o + j % 4];
  if (shape.bits == 8) return static_cast<std::int8_t>(byte);
  return static_cast<int>(j < 4 ? byte & std::byte{15} : byte >> 4) - 8;
}

int activation(TileKind kind, const PanelProduct& args, std::int64_t r, std::int64_t c) {
  const std::int64_t rows = args.rows;
  switch (kind) {
    case TileKind::kS16: {
      constexpr int kPlace[4] = {0, 2, 1, 3};
      std::int16_t code = 0;
      std::memcpy(&code, args.tile + ((c / 4 * rows + r) * 4 + kPlace[c % 4]) * 2,
                  sizeof(code));
      return code;
    }
    case TileKind::kU7:
      return static_cast<int>(args.tile[(c / 4 * rows + r) * 4 + c % 4]);
    case TileKind::kS8: {
      const std::byte* codes = args.tile + (args.shape.cols + 31) / 32 * rows * 4;
      return static_cast<std::int8_t>(codes[(c / 8 * rows + r) * 8 + c % 8]);
    }
    case TileKind::kF32:
      break;
  }
  return 0;
}

float scale_of(const PanelShape& shape, const std::byte* scales, std::int64_t o) {
  if (shape.half_scales) {
    std::uint16_t half = 0;
    std::memcpy(&half, scales + 2 * o, sizeof(half));
    return f16_to_f32(half);
  }
  float scale = 0;
  std::memcpy(&scale, scales + 4 * o, sizeof(scale));
  return scale;
}

void reference_product_dense(const PanelProduct& args) {
  const auto* x = reinterpret_cast<const float*>(args.tile);
  for (std::int64_t p = args.first; p < args.last; ++p) {
    const auto* panel =
        reinterpret_cast<const float*>(args.panels + p * args.shape.stride());
    for (std::int64_t o = 0; o < kPanelOutputs; ++o) {
      for (std::int64_t r = 0; r < args.rows; ++r) {
        float total = 0;
        float sum = 0;
        for (std::int64_t c = 0; c < args.shape.cols; ++c) {
          if (c % kDenseBlock == 0) {
            total += sum;
            sum = 0;
          }
          sum += panel[c * kPanelOutputs + o] * x[c * args.rows + r];
        }
        args.y[r * args.stride + p * kPanelOutputs + o] = total + sum;
      }
    }
  }
}

// See product_f32.
void reference_product_f32(const PanelProduct& args) {
  if (args.shape.bits == 32) return reference_product_dense(args);
  const PanelShape& shape = args.shape;
  const std::int64_t depth = shape.depth();
  const std::int64_t block = shape.block == 0 ? shape.groups() * depth : shape.block;
  const auto* x = reinterpret_cast<const float*>(args.tile);
  for (std::int64_t p = args.first; p < args.last; ++p) {
    for (std::int64_t o = 0; o < kPanelOutputs; ++o) {
      for (std::int64_t r = 0; r < args.rows; ++r) {
        const std::byte* place = args.panels + p * shape.stride();
        float totals[4] = {};
        for (std::int64_t begin = 0; begin < shape.groups() * depth; begin += block) {
          const float scale = shape.block == 0 ? 1.0f : scale_of(shape, place, o);
          place += shape.scale_bytes();
          float sums[4] = {};
          for (std::int64_t c = begin; c < begin + block; ++c) {
            const int code = weight(shape, place, o, c % depth);
            sums[c % 4] += static_cast<float>(code) *
                           x[(c / depth * args.rows + r) * depth + c % depth];
            if (c % depth == depth - 1) place += 32;
          }
          for (int j = 0; j < 4; ++j) totals[j] += sums[j] * scale;
        }
        args.y[r * args.stride + p * kPanelOutputs + o] =
            (totals[0] + totals[1]) + (totals[2] + totals[3]);
      }
    }
  }
}

}  // namespace

void reference_product(TileKind kind, const PanelProduct& args) noexcept {
  if (kind == TileKind::kF32) return reference_product_f32(args);
  const PanelShape& shape = args.shape;
  const std::int64_t depth = shape.depth();
  const std::int64_t block = shape.block == 0 ? shape.cols : shape.block;
  for (std::int64_t p = args.first; p < args.last; ++p) {
    for (std::int64_t o = 0; o < kPanelOutputs; ++o) {
      for (std::int64_t r = 0; r < args.rows; ++r) {
        const std::int64_t index = r * args.stride + p * kPanelOutputs + o;
        const std::byte* place = args.panels + p * shape.stride();
        float y = 0;
        std::int32_t sum = 0;
        for (std::int64_t c = 0; c < shape.cols; ++c) {
          if (c % block == 0) place += shape.scale_bytes();
          sum += weight(shape, place, o, c % depth) * activation(kind, args, r, c);
          if (c % depth == depth - 1) place += 32;
          if (shape.block > 0 && c % block == block - 1) {
            const std::byte* scales = place - block / depth * 32 - shape.scale_bytes();
            y += static_cast<float>(sum) * scale_of(shape, scales, o);
            sum = 0;
          }
        }
        if (shape.block > 0) {
          args.y[index] = y;
        } else {
          args.sums[index] = sum;
        }
      }
    }
  }
}

}  // namespace pith::kernels
