// Codes of groups of values, in three steps that each run over values in cache:
//
//   absmax_groups / extremes_groups   what is the largest value of each group?
//   find_scales                       the scale of each group, as it is stored
//   encode_groups                     the code of each value
//
// and back: decode_groups. Groups follow each other without gaps. Every step gives the
// same bits as its reference on every instruction set. Values are finite: the first step
// shows if they are not.
#pragma once

#include <cstdint>

#include "pith/quantize/scheme.h"
#include "pith/tensor/dtype.h"

namespace pith::kernels {

// Groups of `size` values each, the last of `last` <= size values.
struct Groups {
  const float* values;
  std::int64_t groups;
  std::int64_t size;
  std::int64_t last;
};

// magnitudes[g] = bits of the largest |value| of group g, NaN above infinity; 0 for none.
void absmax_groups(const Groups& in, std::uint32_t* magnitudes) noexcept;
void reference_absmax_groups(const Groups& in, std::uint32_t* magnitudes) noexcept;

// The largest magnitude among values without and with the sign bit, apart: bits without
// the sign, 0 for none.
void extremes_groups(const Groups& in, std::uint32_t* positive,
                     std::uint32_t* negative) noexcept;
void reference_extremes_groups(const Groups& in, std::uint32_t* positive,
                               std::uint32_t* negative) noexcept;

// Scales from the extremes of groups. A scale is extreme / denominator, rounded to `type`
// to nearest even. In f16 and bf16, unless the coding is kInverse, a subnormal scale is
// raised by one unit if it times reach is below |extreme|: no group that is not zero
// decodes to zeros. A scale that is 0 is replaced by zero_scale; one that overflows is
// +infinity in `scales`.
struct FindScales {
  const float* extreme;  // [groups], signed for kSignedMax
  std::int64_t groups;
  float denominator;  // Q, Q + 0.5, -(Q + 1), or 1 for a given scale
  float reach;        // the outermost code and half a step: Q + 0.5
  float zero_scale;   // 0, or a positive value of `type`
  DType type;         // f32, f16 or bf16
  Coding coding;
  float* scales;         // [groups] as stored, in f32
  float* divisors;       // [groups] what values are divided by (kInverse: multiplied
                         // with); such that codes are 0 if the scale is
  std::uint8_t* stored;  // in `type`, stored_stride bytes apart; of any alignment
  std::int64_t stored_stride;
};
// What the groups have met.
struct ScaleFlags {
  bool overflow = false;  // a scale is infinite in `type`: only scales[] is right then
  bool coarse = false;    // a scale is subnormal: codes may reach beyond Q
  bool inverse = false;   // 1 / scale is infinite, and the divisor 0 instead
};
ScaleFlags find_scales(const FindScales& args) noexcept;
ScaleFlags reference_find_scales(const FindScales& args) noexcept;

// The same for asymmetric groups: extreme is largest - smallest, and the zero point is
// low - smallest / scale, rounded and limited to [low, high].
struct FindZeroPoints {
  const float* smallest;  // [groups], at most 0
  const float* divisors;  // [groups] of find_scales
  std::int64_t groups;
  int low;
  int high;
  Rounding rounding;    // not kHalfUp
  float* zero_points;   // [groups]
  std::int8_t* stored;  // [groups]
};
void find_zero_points(const FindZeroPoints& args) noexcept;
void reference_find_zero_points(const FindZeroPoints& args) noexcept;

// How codes lie in bytes.
enum class Packing : std::uint8_t {
  kInt8,
  kInt4,        // two per byte, the first in the low half; a group begins a byte
  kInt4Halves,  // code + 8; byte k has elements k (low) and k + 16: Q4_0's, groups of 32
};

// Codes of groups: t = value / divisor (kInverse: value * divisor) + zero point, limited
// to [low, high] if `limit`, rounded.
struct EncodeGroups {
  Groups in;
  const float* divisors;     // [groups]; all groups have the first one if `one_scale`
  const float* zero_points;  // [groups], or null for zeros; likewise
  bool one_scale;
  bool inverse;
  bool limit;  // needed if a code could lie outside [low, high]
  int low;
  int high;
  Rounding rounding;
  Packing packing;
  std::uint8_t* codes;  // group g begins at codes + g * stride
  std::int64_t stride;
  bool stream = false;  // stores bypass the caches, where alignment permits
};
void encode_groups(const EncodeGroups& args) noexcept;
void reference_encode_groups(const EncodeGroups& args) noexcept;

// Codes of one group that need not fit a cache, in kInt8 or kInt4 without zero points, and
// in the same pass the bits of its largest magnitude, NaN above infinity: codes mean
// nothing if that shows a value that is not finite. `stride` is for the alignment alone.
std::uint32_t encode_one_scale(const EncodeGroups& args) noexcept;

// All three steps in one, for ordinary groups: those of zeros, and those whose scale is
// normal in its type and from 2^-100 to 2^100. Returns how many groups are done, the rest
// is for the steps above: all but a shorter last one and the last few that make no batch,
// or none if one of these is not ordinary.
struct QuantizeGroups {
  FindScales scales;   // neither `extreme` nor `groups` is read; `scales` and `divisors`
                       // may both be null
  EncodeGroups codes;  // size: a multiple of 32; no zero points, and `divisors` is not
                       // read. kInt4Halves: extremes are signed, codes are limited
  std::uint32_t largest =
      0;  // bits of the largest magnitude if there is but one group of
          // more than 256 values and it is known; else 0
  // For figures of 4-bit codes: the codes once more, as bytes, without gaps between
  // groups, and what count_saturated() says of those of kInt4Halves is added. May both be
  // null.
  std::int8_t* bytes = nullptr;
  std::int64_t* saturated = nullptr;
};
std::int64_t quantize_groups(const QuantizeGroups& args) noexcept;
std::int64_t reference_quantize_groups(const QuantizeGroups& args) noexcept;

// Groups of a batch.
constexpr std::int64_t quantize_batch(std::int64_t size) { return size <= 256 ? 8 : 1; }

// Values with t, before it is limited, more than half a step outside [low, high].
std::int64_t count_saturated(const EncodeGroups& args) noexcept;
std::int64_t reference_count_saturated(const EncodeGroups& args) noexcept;

// out = scale * (code - zero point): the product of f32 values, rounded once.
struct DecodeGroups {
  const std::uint8_t* codes;  // group g begins at codes + g * stride
  std::int64_t stride;
  Packing packing;
  const float* scales;       // [groups]; all groups have the first one if `one_scale`
  const float* zero_points;  // [groups], or null for zeros; likewise
  bool one_scale;
  float* out;
  std::int64_t groups;
  std::int64_t size;
  std::int64_t last;
  bool stream = false;  // stores bypass the caches; finish_streams() ends them
};
void decode_groups(const DecodeGroups& args) noexcept;
void reference_decode_groups(const DecodeGroups& args) noexcept;

// What this thread has stored with `stream` is there for others from now on.
void finish_streams() noexcept;

}  // namespace pith::kernels
