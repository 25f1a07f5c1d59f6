#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "src/kernels/convert.h"

namespace pith::kernels {
namespace {

std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// Toward zero, with the last bit set if anything was cut off.
float f64_to_f32_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (nearest == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

float u64_to_f32_odd(std::uint64_t value) {
  const int drop = 40 - std::countl_zero(value);  // an f32 holds 24 bits
  if (drop <= 0) return static_cast<float>(value);
  const std::uint64_t rest = value & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t kept = (value >> drop) | (rest != 0 ? 1u : 0u);
  return static_cast<float>(kept) * static_cast<float>(std::uint64_t{1} << drop);
}

float i64_to_f32_odd(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? -u64_to_f32_odd(0 - bits) : u64_to_f32_odd(bits);
}

template <typename In, typename Out, typename Convert>
std::uint32_t each(const void* in, void* out, std::int64_t count, Convert convert) {
  const auto* from = static_cast<const unsigned char*>(in);
  auto* to = static_cast<unsigned char*>(out);
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    In value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof(In)), sizeof(In));
    const Out result = convert(value);
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(Out)), &result, sizeof(Out));
    std::uint32_t magnitude = 0;
    if constexpr (std::is_same_v<Out, float>) {
      magnitude = magnitude_bits(result);
    } else {
      magnitude = magnitude_bits(value);
    }
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

template <typename In, typename Convert>
std::uint32_t each_to_f32(const ToF32& args, Convert convert) {
  return each<In, float>(args.in, args.out, args.count, convert);
}

template <typename In>
std::uint32_t each_number(const ToF32& args) {
  return each_to_f32<In>(args, [](In x) { return static_cast<float>(x); });
}

}  // namespace

std::uint32_t reference_to_f32(const ToF32& args) noexcept {
  switch (args.from) {
    case DType::kBool:
      return each_to_f32<std::uint8_t>(args, [](auto x) { return x != 0 ? 1.0f : 0.0f; });
    case DType::kU8:
      return each_number<std::uint8_t>(args);
    case DType::kI8:
      return each_number<std::int8_t>(args);
    case DType::kF8E5M2:
      return each_to_f32<std::uint8_t>(args, f8e5m2_to_f32);
    case DType::kF8E4M3:
      return each_to_f32<std::uint8_t>(args, f8e4m3_to_f32);
    case DType::kI16:
      return each_number<std::int16_t>(args);
    case DType::kU16:
      return each_number<std::uint16_t>(args);
    case DType::kF16:
      return each_to_f32<std::uint16_t>(args, f16_to_f32);
    case DType::kBF16:
      return each_to_f32<std::uint16_t>(args, bf16_to_f32);
    case DType::kI32:
      if (args.to_odd) return each_to_f32<std::int32_t>(args, i64_to_f32_odd);
      return each_number<std::int32_t>(args);
    case DType::kU32:
      if (args.to_odd) return each_to_f32<std::uint32_t>(args, u64_to_f32_odd);
      return each_number<std::uint32_t>(args);
    case DType::kF32:
      return each_to_f32<float>(args, [](float x) { return x; });
    case DType::kF64:
      if (args.to_odd) return each_to_f32<double>(args, f64_to_f32_odd);
      return each_number<double>(args);
    case DType::kI64:
      if (args.to_odd) return each_to_f32<std::int64_t>(args, i64_to_f32_odd);
      return each_number<std::int64_t>(args);
    case DType::kU64:
      if (args.to_odd) return each_to_f32<std::uint64_t>(args, u64_to_f32_odd);
      return each_number<std::uint64_t>(args);
    default:
      return 0;
  }
}

std::uint32_t reference_from_f32(const FromF32& args) noexcept {
  const auto run = [&]<typename Out>(Out (*convert)(float)) {
    return each<float, Out>(args.in, args.out, args.count, convert);
  };
  switch (args.to) {
    case DType::kF8E5M2:
      return each<float, std::uint8_t>(args.in, args.out, args.count, [&](float x) {
        return f32_to_f8e5m2(x, args.overflow);
      });
    case DType::kF8E4M3:
      return each<float, std::uint8_t>(args.in, args.out, args.count, [&](float x) {
        return f32_to_f8e4m3(x, args.overflow);
      });
    case DType::kF16:
      return run(f32_to_f16);
    case DType::kBF16:
      return run(f32_to_bf16);
    case DType::kF32:
      return run(+[](float x) { return x; });
    default:
      return 0;
  }
}

}  // namespace pith::kernels
