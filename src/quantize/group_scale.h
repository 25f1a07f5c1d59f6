// The scale of one group, from the values that are largest in it.
#pragma once

#include <cstdint>

#include "pith/quantize/scheme.h"
#include "src/kernels/quantize.h"

namespace pith {

struct GroupScale {
  float scale = 0;    ///< as stored; +infinity if it overflows its type
  float divisor = 0;  ///< what find_scales gives
  float zero_point = 0;
  bool limit = false;           ///< codes could lie outside their range
  bool inverse = false;         ///< 1 / scale is infinite
  std::uint8_t stored[4] = {};  ///< in scale_type
  std::int8_t stored_zero_point = 0;
};

/// The scale of a symmetric group: `extreme` is its largest magnitude, percentile, or
/// value of largest magnitude, as the rule has it. A given scale needs none.
GroupScale symmetric_scale(const Scheme& scheme, float extreme);

/// The scale and zero point of an asymmetric group; smallest <= 0 <= largest.
GroupScale asymmetric_scale(const Scheme& scheme, float smallest, float largest);

/// A scale that is there: `scale` in f32.
GroupScale stored_scale(const Scheme& scheme, float scale, int zero_point);

/// What find_scales has to know of a scheme; the caller fills in groups and memory.
kernels::FindScales scale_args(const Scheme& scheme);

/// True if codes reach beyond their range only where a scale is coarse.
inline bool is_bounded(const Scheme& scheme) {
  return scheme.symmetric && scheme.rule == ScaleRule::kAbsmax;
}

/// One scale of scheme.scale_type, of any alignment.
float load_scale(DType type, const std::byte* stored);

/// How the codes of a scheme lie in bytes, and the bytes from one group to the next.
kernels::Packing packing_of(const Scheme& scheme);
std::int64_t group_stride(const Scheme& scheme, std::int64_t size);

}  // namespace pith
