#include "src/run/unpack.h"

#include <cstring>

#include "pith/tensor/half.h"

namespace pith {
namespace {

// GGUF blocks: an f16 scale, then 32 codes; Q4_0 has code + 8 of element k low and of k + 16 high.
void unpack_blocks(const QuantizedTensor& tensor, std::int64_t row,
                   std::span<std::int8_t> codes, std::span<float> scales) {
  const bool wide = tensor.scheme.bits == 8;
  const std::int64_t size = tensor.scheme.block_size;
  const std::int64_t bytes = 2 + (wide ? size : size / 2);
  const auto blocks = static_cast<std::int64_t>(scales.size());
  const std::byte* block = tensor.codes.data() + row * blocks * bytes;
  for (std::int64_t b = 0; b < blocks; ++b, block += bytes) {
    std::uint16_t scale = 0;
    std::memcpy(&scale, block, sizeof(scale));
    scales[static_cast<std::size_t>(b)] = f16_to_f32(scale);
    std::int8_t* out = codes.data() + b * size;
    if (wide) {
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

std::int64_t group_size(const QuantizedTensor& tensor) {
  switch (tensor.scheme.group) {
    case Group::kTensor:
    case Group::kRow:
      return tensor.shape.cols();
    case Group::kBlock:
    case Group::kFlatBlock:
      return tensor.scheme.block_size;
  }
  return 0;
}

}  // namespace

void unpack_row(const QuantizedTensor& tensor, std::int64_t row,
                std::span<std::int8_t> codes, std::span<float> scales) {
  if (tensor.scheme.layout == Layout::kBlocks)
    return unpack_blocks(tensor, row, codes, scales);
  const std::int64_t cols = tensor.shape.cols();
  const std::int64_t first = row * cols;
  if (tensor.scheme.bits == 8) {
    if (cols > 0) std::memcpy(codes.data(), tensor.codes.data() + first, codes.size());
  } else {
    // Each row begins a byte, but for flat blocks.
    const bool flat = tensor.scheme.group == Group::kFlatBlock;
    const std::int64_t begin = flat ? first : row * ((cols + 1) / 2 * 2);
    for (std::int64_t i = begin; i < begin + cols; ++i) {
      const int both = static_cast<int>(tensor.codes.data()[i / 2]);
      const int nibble = i % 2 == 0 ? both & 15 : both >> 4;
      codes[static_cast<std::size_t>(i - begin)] =
          static_cast<std::int8_t>(nibble < 8 ? nibble : nibble - 16);
    }
  }
  const std::int64_t size = group_size(tensor);
  const auto groups = static_cast<std::int64_t>(scales.size());
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t group =
        tensor.scheme.group == Group::kTensor ? 0 : row * groups + g;
    scales[static_cast<std::size_t>(g)] = tensor.scale(group);
    if (tensor.scheme.symmetric) continue;
    const int zero = tensor.zero_point(group);
    for (std::int64_t c = g * size; c < (g + 1) * size; ++c) {
      auto& code = codes[static_cast<std::size_t>(c)];
      code = static_cast<std::int8_t>(code - zero);
    }
  }
}

}  // namespace pith
