#include "src/quantize/group_scale.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "pith/tensor/half.h"

namespace pith {
namespace {

float zero_scale_of(const Scheme& scheme) {
  switch (scheme.zero_group) {
    case ZeroGroup::kZero:
      return 0;
    case ZeroGroup::kOne:
      return 1;
    case ZeroGroup::kEpsilon:
      return scheme.scale_type == DType::kF16    ? 0x1p-10F
             : scheme.scale_type == DType::kBF16 ? 0x1p-7F
                                                 : 0x1p-23F;
  }
  return 0;
}

float denominator_of(const Scheme& scheme) {
  const auto largest = static_cast<float>(scheme.max_code());
  if (!scheme.symmetric) return 2 * largest + 1;
  switch (scheme.rule) {
    case ScaleRule::kAbsmax:
    case ScaleRule::kPercentile:
      return largest;
    case ScaleRule::kGiven:
      return 1;
    case ScaleRule::kHalfRange:
      return largest + 0.5F;
    case ScaleRule::kSignedMax:
      return -(largest + 1);
  }
  return largest;
}

GroupScale one_scale(const Scheme& scheme, kernels::FindScales& args, float extreme) {
  GroupScale result;
  args.extreme = &extreme;
  args.groups = 1;
  args.scales = &result.scale;
  args.divisors = &result.divisor;
  args.stored = result.stored;
  const kernels::ScaleFlags flags = kernels::find_scales(args);
  result.limit = !is_bounded(scheme) || flags.coarse;
  result.inverse = flags.inverse;
  return result;
}

}  // namespace

kernels::FindScales scale_args(const Scheme& scheme) {
  const int steps = scheme.symmetric ? scheme.max_code() : 2 * scheme.max_code() + 1;
  return {.extreme = nullptr,
          .groups = 0,
          .denominator = denominator_of(scheme),
          .reach = static_cast<float>(steps) + 0.5F,
          .zero_scale = zero_scale_of(scheme),
          .type = scheme.scale_type,
          .coding = scheme.coding,
          .scales = nullptr,
          .divisors = nullptr,
          .stored = nullptr,
          .stored_stride = bits_of(scheme.scale_type) / 8};
}

GroupScale symmetric_scale(const Scheme& scheme, float extreme) {
  kernels::FindScales args = scale_args(scheme);
  return one_scale(scheme, args,
                   scheme.rule == ScaleRule::kGiven ? scheme.given_scale : extreme);
}

GroupScale asymmetric_scale(const Scheme& scheme, float smallest, float largest) {
  kernels::FindScales args = scale_args(scheme);
  float width = largest - smallest;
  if (std::isinf(width)) {  // beyond f32, but its steps are not
    width = largest / args.denominator - smallest / args.denominator;
    args.denominator = 1;
  }
  GroupScale result = one_scale(scheme, args, width);
  kernels::find_zero_points({&smallest, &result.divisor, 1, scheme.min_code(),
                             scheme.max_code(), scheme.rounding, &result.zero_point,
                             &result.stored_zero_point});
  return result;
}

GroupScale stored_scale(const Scheme& scheme, float scale, int zero_point) {
  GroupScale result;
  result.scale = result.divisor = scale;
  result.zero_point = static_cast<float>(zero_point);
  result.limit = true;
  if (scheme.coding == Coding::kInverse) {
    result.divisor = std::isinf(1 / scale) ? 0 : 1 / scale;
  } else if (scale == 0) {
    result.divisor = std::numeric_limits<float>::infinity();
  }
  return result;
}

float load_scale(DType type, const std::byte* stored) {
  if (type == DType::kF32) {
    float scale = 0;
    std::memcpy(&scale, stored, sizeof(scale));
    return scale;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, stored, sizeof(bits));
  return type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

kernels::Packing packing_of(const Scheme& scheme) {
  if (scheme.bits == 8) return kernels::Packing::kInt8;
  return scheme.layout == Layout::kBlocks ? kernels::Packing::kInt4Halves
                                          : kernels::Packing::kInt4;
}

std::int64_t group_stride(const Scheme& scheme, std::int64_t size) {
  const std::int64_t codes = scheme.bits == 8 ? size : (size + 1) / 2;
  return scheme.layout == Layout::kBlocks ? codes + bits_of(scheme.scale_type) / 8
                                          : codes;
}

}  // namespace pith
