// The definition of quantization: one value after the other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "pith/tensor/half.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/quantize.h"

namespace pith::kernels {
namespace {

std::int64_t size_of(const Groups& in, std::int64_t group) {
  return group + 1 < in.groups ? in.size : in.last;
}

std::uint32_t bits_of_value(float value) { return std::bit_cast<std::uint32_t>(value); }

float round_to_integer(float t, Rounding rounding, int high) {
  switch (rounding) {
    case Rounding::kHalfAway:
      return std::round(t);
    case Rounding::kHalfEven:
      return std::nearbyint(t);
    case Rounding::kHalfUp: {
      const auto offset = static_cast<float>(high + 1);
      return std::trunc(t + (offset + 0.5F)) - offset;
    }
  }
  return 0;
}

// The value of a group's element in steps of the scale.
float in_steps(const EncodeGroups& args, std::int64_t group, float value) {
  const std::int64_t g = args.one_scale ? 0 : group;
  const float t = args.inverse ? value * args.divisors[g] : value / args.divisors[g];
  return args.zero_points == nullptr ? t : t + args.zero_points[g];
}

void put_code(Packing packing, std::uint8_t* codes, std::int64_t i, int code) {
  const auto nibble =
      static_cast<std::uint8_t>((packing == Packing::kInt4Halves ? code + 8 : code) & 15);
  const auto put_half = [&](std::int64_t byte, bool high) {
    codes[byte] =
        static_cast<std::uint8_t>(high ? (codes[byte] & 15) | nibble << 4 : nibble);
  };
  switch (packing) {
    case Packing::kInt8:
      codes[i] = static_cast<std::uint8_t>(code);
      break;
    case Packing::kInt4:
      put_half(i / 2, i % 2 != 0);
      break;
    case Packing::kInt4Halves:
      put_half(i % 16, i >= 16);
      break;
  }
}

int get_code(Packing packing, const std::uint8_t* codes, std::int64_t i) {
  switch (packing) {
    case Packing::kInt8:
      return static_cast<std::int8_t>(codes[i]);
    case Packing::kInt4:
      return (((codes[i / 2] >> (i % 2 * 4)) & 15) ^ 8) - 8;
    case Packing::kInt4Halves:
      return ((codes[i % 16] >> (i / 16 * 4)) & 15) - 8;
  }
  return 0;
}

// The value of largest magnitude, the first of them if it is `with_sign`.
float extreme_of(const Groups& in, std::int64_t group, bool with_sign) {
  float extreme = 0;
  for (std::int64_t i = 0; i < in.size; ++i) {
    const float value = in.values[group * in.size + i];
    if (std::isnan(value)) return value;
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  return with_sign ? extreme : std::fabs(extreme);
}

// A number type that scales are stored in.
struct Stored {
  std::uint32_t bits;
  float value;
};

Stored to_type(DType type, std::uint32_t bits) {
  switch (type) {
    case DType::kF16:
      return {bits, f16_to_f32(static_cast<std::uint16_t>(bits))};
    case DType::kBF16:
      return {bits, bf16_to_f32(static_cast<std::uint16_t>(bits))};
    default:
      return {bits, std::bit_cast<float>(bits)};
  }
}

Stored round_to_type(DType type, float value) {
  switch (type) {
    case DType::kF16:
      return to_type(type, f32_to_f16(value));
    case DType::kBF16:
      return to_type(type, f32_to_bf16(value));
    default:
      return to_type(type, bits_of_value(value));
  }
}

}  // namespace

void reference_absmax_groups(const Groups& in, std::uint32_t* magnitudes) noexcept {
  for (std::int64_t g = 0; g < in.groups; ++g) {
    magnitudes[g] = 0;
    for (std::int64_t i = 0; i < size_of(in, g); ++i) {
      const std::uint32_t bits = bits_of_value(in.values[g * in.size + i]);
      magnitudes[g] = std::max(magnitudes[g], bits & kMagnitudeMask);
    }
  }
}

void reference_extremes_groups(const Groups& in, std::uint32_t* positive,
                               std::uint32_t* negative) noexcept {
  for (std::int64_t g = 0; g < in.groups; ++g) {
    positive[g] = negative[g] = 0;
    for (std::int64_t i = 0; i < size_of(in, g); ++i) {
      const std::uint32_t bits = bits_of_value(in.values[g * in.size + i]);
      std::uint32_t& extreme = bits > kMagnitudeMask ? negative[g] : positive[g];
      extreme = std::max(extreme, bits & kMagnitudeMask);
    }
  }
}

ScaleFlags reference_find_scales(const FindScales& args) noexcept {
  ScaleFlags flags;
  const float smallest_normal = args.type == DType::kF16 ? 0x1p-14F : 0x1p-126F;
  for (std::int64_t g = 0; g < args.groups; ++g) {
    const float extreme = args.extreme[g];
    const float exact = extreme / args.denominator;
    Stored stored = round_to_type(args.type, exact);
    const bool coarse = extreme != 0 && std::fabs(stored.value) < smallest_normal;
    if (coarse && args.type != DType::kF32 && args.coding != Coding::kInverse &&
        std::fabs(stored.value) * args.reach < std::fabs(extreme)) {
      stored = to_type(args.type, stored.bits + 1);
    }
    float divisor = args.coding == Coding::kExact && !coarse ? exact : stored.value;
    if (stored.value == 0) divisor = std::numeric_limits<float>::infinity();
    if (args.coding == Coding::kInverse) {
      divisor = exact == 0 ? 0 : 1 / exact;
      if (std::isinf(divisor)) {
        divisor = 0;
        flags.inverse = true;
      }
    }
    if (stored.value == 0 && args.zero_scale != 0) {
      stored = round_to_type(args.type, args.zero_scale);
    }
    flags.overflow |= std::isinf(stored.value);
    flags.coarse |= coarse;
    args.scales[g] = std::isinf(stored.value) ? std::fabs(stored.value) : stored.value;
    args.divisors[g] = divisor;
    std::memcpy(args.stored + g * args.stored_stride, &stored.bits,
                static_cast<std::size_t>(pith::bits_of(args.type) / 8));
  }
  return flags;
}

void reference_find_zero_points(const FindZeroPoints& args) noexcept {
  for (std::int64_t g = 0; g < args.groups; ++g) {
    const float exact =
        static_cast<float>(args.low) - args.smallest[g] / args.divisors[g];
    const float limited =
        std::clamp(exact, static_cast<float>(args.low), static_cast<float>(args.high));
    args.zero_points[g] = round_to_integer(limited, args.rounding, args.high);
    args.stored[g] = static_cast<std::int8_t>(args.zero_points[g]);
  }
}

void reference_encode_groups(const EncodeGroups& args) noexcept {
  for (std::int64_t g = 0; g < args.in.groups; ++g) {
    for (std::int64_t i = 0; i < size_of(args.in, g); ++i) {
      float t = in_steps(args, g, args.in.values[g * args.in.size + i]);
      if (args.limit) {
        t = std::clamp(t, static_cast<float>(args.low), static_cast<float>(args.high));
      }
      put_code(args.packing, args.codes + g * args.stride, i,
               static_cast<int>(round_to_integer(t, args.rounding, args.high)));
    }
  }
}

std::int64_t reference_quantize_groups(const QuantizeGroups& args) noexcept {
  const Groups& in = args.codes.in;
  const std::int64_t whole =
      std::max<std::int64_t>(in.groups - (in.last == in.size ? 0 : 1), 0);
  const std::int64_t groups = whole / quantize_batch(in.size) * quantize_batch(in.size);
  std::vector<float> extremes;
  for (std::int64_t g = 0; g < groups; ++g) {
    extremes.push_back(extreme_of(in, g, args.codes.packing == Packing::kInt4Halves));
  }
  std::vector<float> scales(extremes.size());
  std::vector<float> divisors(extremes.size());
  FindScales find = args.scales;
  find.extreme = extremes.data();
  find.groups = groups;
  find.scales = scales.data();
  find.divisors = divisors.data();
  const ScaleFlags flags = reference_find_scales(find);
  for (std::size_t i = 0; i < extremes.size(); ++i) {
    const float scale = std::fabs(scales[i]);
    const bool usual = !flags.coarse && scale >= 0x1p-100F && scale <= 0x1p100F;
    if (extremes[i] != 0 && !usual) return 0;
  }
  if (args.scales.scales != nullptr) {
    std::copy(scales.begin(), scales.end(), args.scales.scales);
    std::copy(divisors.begin(), divisors.end(), args.scales.divisors);
  }
  EncodeGroups encode = args.codes;
  encode.in = {in.values, groups, in.size, in.size};
  encode.divisors = divisors.data();
  reference_encode_groups(encode);
  if (args.bytes == nullptr) return groups;
  for (std::int64_t i = 0; i < groups * in.size; ++i) {
    args.bytes[i] = static_cast<std::int8_t>(get_code(
        encode.packing, encode.codes + i / in.size * encode.stride, i % in.size));
  }
  if (encode.packing == Packing::kInt4Halves) {
    *args.saturated += reference_count_saturated(encode);
  }
  return groups;
}

std::int64_t reference_count_saturated(const EncodeGroups& args) noexcept {
  std::int64_t count = 0;
  for (std::int64_t g = 0; g < args.in.groups; ++g) {
    for (std::int64_t i = 0; i < size_of(args.in, g); ++i) {
      const float t = in_steps(args, g, args.in.values[g * args.in.size + i]);
      if (t > static_cast<float>(args.high) + 0.5F ||
          t < static_cast<float>(args.low) - 0.5F) {
        ++count;
      }
    }
  }
  return count;
}

void reference_decode_groups(const DecodeGroups& args) noexcept {
  for (std::int64_t g = 0; g < args.groups; ++g) {
    const std::int64_t s = args.one_scale ? 0 : g;
    const float zero_point = args.zero_points == nullptr ? 0 : args.zero_points[s];
    const std::int64_t size = g + 1 < args.groups ? args.size : args.last;
    for (std::int64_t i = 0; i < size; ++i) {
      const int code = get_code(args.packing, args.codes + g * args.stride, i);
      args.out[g * args.size + i] =
          args.scales[s] * (static_cast<float>(code) - zero_point);
    }
  }
}

}  // namespace pith::kernels
