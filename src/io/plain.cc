#include "src/io/plain.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "pith/tensor/half.h"

namespace pith {
namespace {

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T, typename F>
void each(std::span<const std::byte> bytes, std::span<float> out, F to_float) {
  assert(bytes.size() == out.size() * sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = to_float(load<T>(bytes.data() + i * sizeof(T)));
  }
}

template <typename T>
void cast(std::span<const std::byte> bytes, std::span<float> out) {
  each<T>(bytes, out, [](T value) { return static_cast<float>(value); });
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
    case DType::kBool:
      return each<std::uint8_t>(bytes, out,
                                [](std::uint8_t b) { return b != 0 ? 1.0F : 0.0F; });
    case DType::kU8:
      return cast<std::uint8_t>(bytes, out);
    case DType::kI8:
      return cast<std::int8_t>(bytes, out);
    case DType::kF8E5M2:
      return each<std::uint8_t>(bytes, out, f8e5m2_to_f32);
    case DType::kF8E4M3:
      return each<std::uint8_t>(bytes, out, f8e4m3_to_f32);
    case DType::kF8E8M0:
      return each<std::uint8_t>(bytes, out, f8e8m0_to_f32);
    case DType::kF8E4M3Fnuz:
      return each<std::uint8_t>(bytes, out,
                                [](std::uint8_t b) { return fnuz_to_f32(b, 3, 8); });
    case DType::kF8E5M2Fnuz:
      return each<std::uint8_t>(bytes, out,
                                [](std::uint8_t b) { return fnuz_to_f32(b, 2, 16); });
    case DType::kI16:
      return cast<std::int16_t>(bytes, out);
    case DType::kU16:
      return cast<std::uint16_t>(bytes, out);
    case DType::kF16:
      return each<std::uint16_t>(bytes, out, f16_to_f32);
    case DType::kBF16:
      return each<std::uint16_t>(bytes, out, bf16_to_f32);
    case DType::kI32:
      return cast<std::int32_t>(bytes, out);
    case DType::kU32:
      return cast<std::uint32_t>(bytes, out);
    case DType::kF32:
      assert(bytes.size() == out.size_bytes());
      if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case DType::kF64:
      return cast<double>(bytes, out);
    case DType::kI64:
      return cast<std::int64_t>(bytes, out);
    case DType::kU64:
      return cast<std::uint64_t>(bytes, out);
    case DType::kI4:
      return decode_i4(bytes, out);
    case DType::kF4:
    case DType::kF6E2M3:
    case DType::kF6E3M2:
    case DType::kC64:
      assert(!"not decodable");
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
