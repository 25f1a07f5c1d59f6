#include "src/io/plain.h"

#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/kernels/convert.h"

namespace pith {
namespace {

template <typename F>
void each_byte(std::span<const std::byte> bytes, std::span<float> out, F to_float) {
  assert(bytes.size() == out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = to_float(static_cast<std::uint8_t>(bytes[i]));
  }
}

// 2^(bits - 127); FF is NaN. There is no zero.
float f8e8m0_to_f32(std::uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, static_cast<int>(bits) - 127);
}

// The FNUZ types have one NaN (80, where -0 would be), no infinity, and a bias larger by
// one than that of the OCP types.
float fnuz_to_f32(std::uint8_t bits, int mantissa_bits, int bias) {
  if (bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  const float value = std::ldexp(static_cast<float>(significand), power);
  return (bits & 0x80) != 0 ? -value : value;
}

void decode_i4(std::span<const std::byte> bytes, std::span<float> out) {
  assert(bytes.size() == (out.size() + 1) / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int code = static_cast<int>(bytes[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15;
    out[i] = static_cast<float>(code < 8 ? code : code - 16);
  }
}

}  // namespace

bool is_decodable(DType dtype) {
  switch (dtype) {
    case DType::kF4:
    case DType::kF6E2M3:
    case DType::kF6E3M2:
    case DType::kC64:
      return false;
    default:
      return true;
  }
}

void decode_plain(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  switch (dtype) {
    case DType::kF8E8M0:
      return each_byte(bytes, out, f8e8m0_to_f32);
    case DType::kF8E4M3Fnuz:
      return each_byte(bytes, out, [](std::uint8_t b) { return fnuz_to_f32(b, 3, 8); });
    case DType::kF8E5M2Fnuz:
      return each_byte(bytes, out, [](std::uint8_t b) { return fnuz_to_f32(b, 2, 16); });
    case DType::kI4:
      return decode_i4(bytes, out);
    default:
      assert(kernels::converts_to_f32(dtype));
      assert(bytes.size() == out.size() * static_cast<std::size_t>(bits_of(dtype) / 8));
      kernels::to_f32(
          {dtype, bytes.data(), out.data(), static_cast<std::int64_t>(out.size())});
  }
}

Encoding plain_encoding(DType dtype, std::string_view name) {
  Encoding encoding;
  encoding.name = name;
  encoding.dtype = dtype;
  encoding.decodable = is_decodable(dtype);
  switch (bits_of(dtype)) {
    case 4:
      encoding.block = 2;
      encoding.block_bytes = 1;
      break;
    case 6:
      encoding.block = 4;
      encoding.block_bytes = 3;
      break;
    default:
      encoding.block_bytes = bits_of(dtype) / 8;
  }
  return encoding;
}

}  // namespace pith
