#include "src/run/unpack.h"

#include <cstring>

#include "pith/tensor/half.h"

namespace pith {
namespace {

std::uint16_t load_half(const std::byte* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

// GGUF: an f16 scale, then the codes of a block.
std::int64_t block_bytes(const Scheme& scheme) {
  return 2 + scheme.block_size * scheme.bits / 8;
}

// Blocks of a row; Q4_0 has code + 8 of element k low and of k + 16 high.
void unpack_blocks(const CodesView& tensor, std::int64_t row,
                   std::span<std::int8_t> codes) {
  const std::int64_t size = tensor.scheme.block_size;
  const std::int64_t bytes = block_bytes(tensor.scheme);
  const std::int64_t blocks = tensor.shape.cols() / size;
  const std::byte* block = tensor.parts.codes.data() + row * blocks * bytes;
  std::int8_t* out = codes.data();
  for (std::int64_t b = 0; b < blocks; ++b, block += bytes, out += size) {
    if (tensor.scheme.bits == 8) {
      std::memcpy(out, block + 2, static_cast<std::size_t>(size));
      continue;
    }
    for (std::int64_t k = 0; k < size / 2; ++k) {
      const int both = static_cast<int>(block[2 + k]);
      out[k] = static_cast<std::int8_t>((both & 15) - 8);
      out[k + size / 2] = static_cast<std::int8_t>((both >> 4) - 8);
    }
  }
}

// Two codes per byte; each row begins a byte, but for flat blocks.
void unpack_nibbles(const CodesView& tensor, std::int64_t row,
                    std::span<std::int8_t> codes) {
  const std::int64_t cols = tensor.shape.cols();
  const bool flat = tensor.scheme.group == Group::kFlatBlock;
  const std::int64_t begin = row * (flat ? cols : (cols + 1) / 2 * 2);
  const std::byte* bytes = tensor.parts.codes.data();
  for (std::int64_t i = begin; i < begin + cols; ++i) {
    const int both = static_cast<int>(bytes[i / 2]);
    const int nibble = i % 2 == 0 ? both & 15 : both >> 4;
    codes[static_cast<std::size_t>(i - begin)] =
        static_cast<std::int8_t>((nibble ^ 8) - 8);
  }
}

float scale_at(const CodesView& tensor, std::int64_t group) {
  const std::byte* scales = tensor.parts.scales.data();
  switch (tensor.scheme.scale_type) {
    case DType::kF16:
      return f16_to_f32(load_half(scales + 2 * group));
    case DType::kBF16:
      return bf16_to_f32(load_half(scales + 2 * group));
    default: {
      float scale = 0;
      std::memcpy(&scale, scales + 4 * group, sizeof(scale));
      return scale;
    }
  }
}

std::int64_t first_group(const CodesView& tensor, std::int64_t row, std::int64_t groups) {
  return tensor.scheme.group == Group::kTensor ? 0 : row * groups;
}

}  // namespace

const std::int8_t* CodesView::plain_row(std::int64_t row) const {
  if (scheme.bits != 8 || !scheme.symmetric || scheme.layout == Layout::kBlocks) {
    return nullptr;
  }
  return reinterpret_cast<const std::int8_t*>(parts.codes.data()) + row * shape.cols();
}

void unpack_scales(const CodesView& tensor, std::int64_t row, std::span<float> scales) {
  const auto groups = static_cast<std::int64_t>(scales.size());
  if (tensor.scheme.layout == Layout::kBlocks) {
    const std::int64_t bytes = block_bytes(tensor.scheme);
    const std::byte* block = tensor.parts.codes.data() + row * groups * bytes;
    for (float& scale : scales) {
      scale = f16_to_f32(load_half(block));
      block += bytes;
    }
    return;
  }
  const std::int64_t first = first_group(tensor, row, groups);
  for (std::int64_t g = 0; g < groups; ++g) {
    scales[static_cast<std::size_t>(g)] = scale_at(tensor, first + g);
  }
}

void unpack_row(const CodesView& tensor, std::int64_t row, std::span<std::int8_t> codes,
                std::span<float> scales) {
  unpack_scales(tensor, row, scales);
  const std::int64_t cols = tensor.shape.cols();
  if (cols == 0) return;
  if (tensor.scheme.layout == Layout::kBlocks) return unpack_blocks(tensor, row, codes);
  if (tensor.scheme.bits == 8) {
    std::memcpy(codes.data(), tensor.parts.codes.data() + row * cols, codes.size());
  } else {
    unpack_nibbles(tensor, row, codes);
  }
  if (tensor.scheme.symmetric) return;
  const auto groups = static_cast<std::int64_t>(scales.size());
  const std::int64_t size = cols / groups;
  const auto* zeros =
      reinterpret_cast<const std::int8_t*>(tensor.parts.zero_points.data());
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int8_t zero = zeros[first_group(tensor, row, groups) + g];
    for (std::int64_t c = g * size; c < (g + 1) * size; ++c) {
      std::int8_t& code = codes[static_cast<std::size_t>(c)];
      code = static_cast<std::int8_t>(code - zero);
    }
  }
}

}  // namespace pith
