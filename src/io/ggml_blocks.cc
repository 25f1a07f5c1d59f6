#include "src/io/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "pith/tensor/half.h"

namespace pith {
namespace {

constexpr GgmlType plain(std::uint32_t id, std::string_view name, DType dtype,
                         std::int64_t bytes) {
  return {id, {name, 1, bytes, dtype, true}};
}

constexpr GgmlType blocks(std::uint32_t id, std::string_view name, std::int64_t block,
                          std::int64_t bytes, bool decodable = false) {
  return {id, {name, block, bytes, std::nullopt, decodable}};
}

// Ids 4, 5, 31 to 33 and 36 to 38 were removed from the format.
constexpr std::array kTypes = {
    plain(0, "F32", DType::kF32, 4),    plain(1, "F16", DType::kF16, 2),
    blocks(2, "Q4_0", 32, 18, true),    blocks(3, "Q4_1", 32, 20, true),
    blocks(6, "Q5_0", 32, 22, true),    blocks(7, "Q5_1", 32, 24, true),
    blocks(8, "Q8_0", 32, 34, true),    blocks(9, "Q8_1", 32, 36),
    blocks(10, "Q2_K", 256, 84),        blocks(11, "Q3_K", 256, 110),
    blocks(12, "Q4_K", 256, 144, true), blocks(13, "Q5_K", 256, 176),
    blocks(14, "Q6_K", 256, 210, true), blocks(15, "Q8_K", 256, 292),
    blocks(16, "IQ2_XXS", 256, 66),     blocks(17, "IQ2_XS", 256, 74),
    blocks(18, "IQ3_XXS", 256, 98),     blocks(19, "IQ1_S", 256, 50),
    blocks(20, "IQ4_NL", 32, 18),       blocks(21, "IQ3_S", 256, 110),
    blocks(22, "IQ2_S", 256, 82),       blocks(23, "IQ4_XS", 256, 136),
    plain(24, "I8", DType::kI8, 1),     plain(25, "I16", DType::kI16, 2),
    plain(26, "I32", DType::kI32, 4),   plain(27, "I64", DType::kI64, 8),
    plain(28, "F64", DType::kF64, 8),   blocks(29, "IQ1_M", 256, 56),
    plain(30, "BF16", DType::kBF16, 2), blocks(34, "TQ1_0", 256, 54),
    blocks(35, "TQ2_0", 256, 66),       blocks(39, "MXFP4", 32, 17),
    blocks(40, "NVFP4", 64, 36),        blocks(41, "Q1_0", 128, 18),
    blocks(42, "Q2_0", 64, 18),
};

constexpr std::uint32_t kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ4_K = 12,
                        kQ6_K = 14;

// A block is read byte by byte: it need not be aligned.
struct Block {
  const std::uint8_t* bytes;

  [[nodiscard]] std::uint32_t u8(int at) const { return bytes[at]; }
  [[nodiscard]] int i8(int at) const { return static_cast<std::int8_t>(bytes[at]); }
  [[nodiscard]] std::uint16_t u16(int at) const {
    return static_cast<std::uint16_t>(u8(at) | u8(at + 1) << 8);
  }
  [[nodiscard]] std::uint32_t u32(int at) const {
    return u16(at) | static_cast<std::uint32_t>(u16(at + 2)) << 16;
  }
  [[nodiscard]] float f16(int at) const { return f16_to_f32(u16(at)); }
  [[nodiscard]] bool finite_f16(int at) const { return (u16(at) & 0x7c00u) != 0x7c00u; }
};

// Each decoder returns false if a scale or minimum is not finite.

bool decode_q8_0(Block in, float* out) {
  const float d = in.f16(0);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(in.i8(2 + j));
  return in.finite_f16(0);
}

bool decode_q4_0(Block in, float* out) {
  const float d = in.f16(0);
  for (int k = 0; k < 16; ++k) {
    const int pair = static_cast<int>(in.u8(2 + k));
    out[k] = d * static_cast<float>((pair & 15) - 8);
    out[k + 16] = d * static_cast<float>((pair >> 4) - 8);
  }
  return in.finite_f16(0);
}

bool decode_q4_1(Block in, float* out) {
  const float d = in.f16(0);
  const float m = in.f16(2);
  for (int k = 0; k < 16; ++k) {
    const int pair = static_cast<int>(in.u8(4 + k));
    out[k] = d * static_cast<float>(pair & 15) + m;
    out[k + 16] = d * static_cast<float>(pair >> 4) + m;
  }
  return in.finite_f16(0) && in.finite_f16(2);
}

bool decode_q5_0(Block in, float* out) {
  const float d = in.f16(0);
  const std::uint32_t high = in.u32(2);
  for (int k = 0; k < 16; ++k) {
    const std::uint32_t pair = in.u8(6 + k);
    const std::uint32_t low = (pair & 15) | (high >> k & 1) << 4;
    const std::uint32_t up = pair >> 4 | (high >> (k + 16) & 1) << 4;
    out[k] = d * static_cast<float>(static_cast<int>(low) - 16);
    out[k + 16] = d * static_cast<float>(static_cast<int>(up) - 16);
  }
  return in.finite_f16(0);
}

bool decode_q5_1(Block in, float* out) {
  const float d = in.f16(0);
  const float m = in.f16(2);
  const std::uint32_t high = in.u32(4);
  for (int k = 0; k < 16; ++k) {
    const std::uint32_t pair = in.u8(8 + k);
    const std::uint32_t low = (pair & 15) | (high >> k & 1) << 4;
    const std::uint32_t up = pair >> 4 | (high >> (k + 16) & 1) << 4;
    out[k] = d * static_cast<float>(static_cast<int>(low)) + m;
    out[k + 16] = d * static_cast<float>(static_cast<int>(up)) + m;
  }
  return in.finite_f16(0) && in.finite_f16(2);
}

bool decode_q4_k(Block in, float* out) {
  constexpr int kScales = 4, kNibbles = 16;
  const float d = in.f16(0);
  const float dmin = in.f16(2);
  for (int s = 0; s < 8; ++s) {
    // Twelve bytes hold eight 6-bit scales and eight 6-bit minima: the first four of each
    // in the low six bits of a byte, the others in nibbles plus the two bits left over
    // there.
    std::uint32_t scale = 0;
    std::uint32_t minimum = 0;
    if (s < 4) {
      scale = in.u8(kScales + s) & 63;
      minimum = in.u8(kScales + s + 4) & 63;
    } else {
      scale = (in.u8(kScales + s + 4) & 15) | in.u8(kScales + s - 4) >> 6 << 4;
      minimum = in.u8(kScales + s + 4) >> 4 | in.u8(kScales + s) >> 6 << 4;
    }
    const float step = d * static_cast<float>(scale);
    const float base = dmin * static_cast<float>(minimum);
    const int nibbles = kNibbles + s / 2 * 32;
    const int shift = s % 2 * 4;
    for (int l = 0; l < 32; ++l) {
      const std::uint32_t q = in.u8(nibbles + l) >> shift & 15;
      out[s * 32 + l] = step * static_cast<float>(static_cast<int>(q)) - base;
    }
  }
  return in.finite_f16(0) && in.finite_f16(2);
}

bool decode_q6_k(Block in, float* out) {
  constexpr int kHigh = 128, kScales = 192, kScale = 208;
  const float d = in.f16(kScale);
  for (int n = 0; n < 2; ++n) {
    for (int k = 0; k < 4; ++k) {
      const int low_at = 64 * n + 32 * (k & 1);
      const int low_shift = k < 2 ? 0 : 4;
      for (int l = 0; l < 32; ++l) {
        const int i = 128 * n + 32 * k + l;
        const std::uint32_t low = in.u8(low_at + l) >> low_shift & 15;
        const std::uint32_t high = in.u8(kHigh + 32 * n + l) >> (2 * k) & 3;
        const int q = static_cast<int>(low | high << 4) - 32;
        out[i] = d * static_cast<float>(in.i8(kScales + i / 16)) * static_cast<float>(q);
      }
    }
  }
  return in.finite_f16(kScale);
}

template <typename Decoder>
std::optional<std::int64_t> decode_all(const Encoding& encoding, const std::byte* in,
                                       std::int64_t count, float* out, Decoder decoder) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(in);
    if (!decoder(Block{bytes + i * encoding.block_bytes}, out + i * encoding.block)) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::span<const GgmlType> ggml_types() { return kTypes; }

const GgmlType* find_ggml_type(std::uint32_t id) {
  const auto* type = std::lower_bound(
      kTypes.begin(), kTypes.end(), id,
      [](const GgmlType& entry, std::uint32_t wanted) { return entry.id < wanted; });
  return type != kTypes.end() && type->id == id ? &*type : nullptr;
}

const GgmlType* find_ggml_type(std::string_view name) {
  const auto* type =
      std::find_if(kTypes.begin(), kTypes.end(),
                   [&](const GgmlType& entry) { return entry.encoding.name == name; });
  return type != kTypes.end() ? &*type : nullptr;
}

std::optional<std::int64_t> decode_blocks(const GgmlType& type,
                                          std::span<const std::byte> bytes,
                                          std::span<float> out) {
  const Encoding& encoding = type.encoding;
  const std::int64_t count = std::ssize(bytes) / encoding.block_bytes;
  assert(encoding.decodable && !encoding.dtype);
  assert(count * encoding.block_bytes == std::ssize(bytes));
  assert(count * encoding.block == std::ssize(out));
  const auto decode = [&](auto decoder) {
    return decode_all(encoding, bytes.data(), count, out.data(), decoder);
  };
  switch (type.id) {
    case kQ4_0:
      return decode(decode_q4_0);
    case kQ4_1:
      return decode(decode_q4_1);
    case kQ5_0:
      return decode(decode_q5_0);
    case kQ5_1:
      return decode(decode_q5_1);
    case kQ8_0:
      return decode(decode_q8_0);
    case kQ4_K:
      return decode(decode_q4_k);
    case kQ6_K:
      return decode(decode_q6_k);
    default:
      assert(false && "a type that is not decodable");
      return 0;
  }
}

}  // namespace pith
