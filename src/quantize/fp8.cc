#include "pith/quantize/fp8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "pith/tensor/half.h"
#include "src/base/checked.h"

namespace pith {
namespace {

struct Type {
  float largest;
  std::uint8_t (*encode)(float, Overflow);
  float (*decode)(std::uint8_t);
};

constexpr Type kE4m3 = {448, f32_to_f8e4m3, f8e4m3_to_f32};
constexpr Type kE5m2 = {57344, f32_to_f8e5m2, f8e5m2_to_f32};

// The f16 scale of a block. A subnormal one is so coarse that rounding it down could cut
// a third off the largest value, or all of it: it is rounded up.
std::uint16_t stored_scale(float largest, float largest_code) {
  constexpr std::uint16_t kSmallestNormal = 0x0400;
  const std::uint16_t bits = f32_to_f16(largest / largest_code);
  const bool short_of = f16_to_f32(bits) * largest_code < largest;
  return bits < kSmallestNormal && short_of ? static_cast<std::uint16_t>(bits + 1) : bits;
}

}  // namespace

Result<Fp8Blocks> quantize_fp8_blocks(std::span<const float> weights,
                                      std::int64_t out_features, std::int64_t in_features,
                                      std::span<const float> factors, DType dtype) {
  if (dtype != DType::kF8E4M3 && dtype != DType::kF8E5M2) {
    return Status::invalid_argument(
        fmt::format("fp8: type is {}, expected f8e4m3 or f8e5m2", to_string(dtype)));
  }
  if (in_features < 0 || factors.size() != static_cast<std::size_t>(in_features)) {
    return Status::invalid_argument(
        fmt::format("fp8: {} factors, expected one for each of {} features",
                    factors.size(), in_features));
  }
  const CheckedSize size =
      CheckedSize::from_signed(out_features) * CheckedSize::from_signed(in_features);
  if (!size.valid() || size.value() != weights.size()) {
    return Status::invalid_argument(fmt::format("fp8: {} weights are not {} rows of {}",
                                                weights.size(), out_features,
                                                in_features));
  }
  if (weights.size() % kFp8Block != 0) {
    return Status::invalid_argument(fmt::format(
        "fp8: {} weights, expected a multiple of {}", weights.size(), kFp8Block));
  }
  const Type& type = dtype == DType::kF8E4M3 ? kE4m3 : kE5m2;
  Fp8Blocks result;
  result.dtype = dtype;
  result.codes.resize(weights.size());
  result.scales.resize(weights.size() / kFp8Block);
  for (std::size_t block = 0; block < result.scales.size(); ++block) {
    std::array<float, kFp8Block> values;
    float largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = block * kFp8Block + i;
      values[i] = weights[at] * factors[at % factors.size()];
      if (!std::isfinite(values[i])) {
        return Status::not_finite(
            fmt::format("fp8: weight {} times its factor is {}", at, values[i]));
      }
      largest = std::max(largest, std::fabs(values[i]));
    }
    result.scales[block] = stored_scale(largest, type.largest);
    const float scale = f16_to_f32(result.scales[block]);
    if (std::isinf(scale)) {
      return Status::invalid_argument(fmt::format(
          "fp8: block {} has magnitude {}, which needs a scale beyond the largest f16",
          block, largest));
    }
    for (std::size_t i = 0; i < values.size() && largest > 0; ++i) {
      result.codes[block * kFp8Block + i] =
          type.encode(values[i] / scale, Overflow::kSaturate);
    }
  }
  return result;
}

Status dequantize(const Fp8Blocks& blocks, std::span<float> out) {
  if (out.size() != blocks.codes.size() ||
      out.size() != blocks.scales.size() * kFp8Block) {
    return Status::invalid_argument(
        fmt::format("fp8: {} codes, {} scales and room for {} values, expected whole "
                    "blocks of {} and as many values",
                    blocks.codes.size(), blocks.scales.size(), out.size(), kFp8Block));
  }
  const Type& type = blocks.dtype == DType::kF8E4M3 ? kE4m3 : kE5m2;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = f16_to_f32(blocks.scales[i / kFp8Block]) * type.decode(blocks.codes[i]);
  }
  return {};
}

}  // namespace pith
