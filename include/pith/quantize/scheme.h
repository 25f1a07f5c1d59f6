// One struct says every scheme of quantization; nothing has a code path of its own above
// the kernels.
//
//   pith::Scheme s = pith::Scheme::int8_rows();
//   s.scale_type = pith::DType::kF16;
//
// A weight w of a group with scale s (and zero point z) is stored as the code q nearest
// to w / s (+ z) and read as s * q (or s * (q - z)). docs/numerics.md defines every step.
#pragma once

#include <cstdint>
#include <string>

#include "pith/base/status.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/shape.h"

namespace pith {

/// Which weights share a scale.
enum class Group : std::uint8_t {
  kTensor,     ///< all
  kRow,        ///< those of a row
  kBlock,      ///< block_size consecutive ones of a row, which block_size must divide
  kFlatBlock,  ///< block_size consecutive ones of the whole tensor; the last block may be
               ///< shorter
};

/// How the scale of a group is found. Q is the largest code: 127 or 7. An asymmetric
/// scheme takes (largest - smallest) / (2 Q + 1), both widened to include 0, by kAbsmax
/// or kHalfRange.
enum class ScaleRule : std::uint8_t {
  kAbsmax,      ///< largest magnitude / Q
  kPercentile,  ///< the percentile of the magnitudes / Q; the largest magnitude where
                ///< that is 0
  kGiven,       ///< given_scale for every group
  kHalfRange,   ///< largest magnitude / (Q + 0.5): compressed-tensors
  kSignedMax,   ///< the first value of largest magnitude / -(Q + 1): GGUF Q4_0; blocks
};

/// Which codes a symmetric scheme uses. An asymmetric one always uses all.
enum class Range : std::uint8_t {
  kSymmetric,  ///< [-Q, Q]: -q is always a code
  kFull,       ///< [-Q-1, Q]
};

enum class Rounding : std::uint8_t {
  kHalfAway,  ///< ties away from zero: the reference
  kHalfEven,  ///< ties to even: compressed-tensors
  kHalfUp,    ///< trunc(t + Q + 1.5) - Q - 1, ties upward: GGUF Q4_0
};

/// What codes are computed with.
enum class Coding : std::uint8_t {
  kStored,   ///< w / scale as stored: rounded to scale_type first
  kExact,    ///< w / scale before it is rounded to scale_type: the reference's blockwise
             ///< codec
  kInverse,  ///< w * (1 / scale), scale before rounding: GGUF
};

/// The scale of a group of zeros, whose codes are 0 whatever it is.
enum class ZeroGroup : std::uint8_t {
  kZero,     ///< 0; -0 for kSignedMax, as in GGUF
  kOne,      ///< 1: the reference's blockwise codec
  kEpsilon,  ///< the distance from 1 to the next number of scale_type: compressed-tensors
};

/// Where the scales are.
enum class Layout : std::uint8_t {
  kSplit,   ///< codes in one array, scales in another
  kBlocks,  ///< each block is its scale, then its codes, for q8_0() and q4_0() only: GGUF
};

struct Scheme {
  int bits = 8;  ///< 8 or 4
  bool symmetric = true;
  Group group = Group::kTensor;
  std::int64_t block_size = 0;     ///< for blocks: in [1, 2^31); even for 4 bits
  DType scale_type = DType::kF32;  ///< kF32, kF16 or kBF16
  ScaleRule rule = ScaleRule::kAbsmax;
  double percentile = 1;  ///< for kPercentile: in [0, 1]; 0 is the smallest magnitude
  float given_scale = 0;  ///< for kGiven: finite and above 0
  Range range = Range::kSymmetric;
  Rounding rounding = Rounding::kHalfAway;
  Coding coding = Coding::kStored;
  ZeroGroup zero_group = ZeroGroup::kZero;
  Layout layout = Layout::kSplit;

  static Scheme int8_tensor();
  static Scheme int8_rows();
  static Scheme int8_blocks(std::int64_t block_size);  ///< f16 scales
  static Scheme int8_flat_blocks(
      std::int64_t block_size);  ///< f16 scales, the reference's codes
  static Scheme int4_tensor();
  static Scheme int4_rows();
  static Scheme int4_blocks(std::int64_t block_size);  ///< f16 scales
  static Scheme q8_0();
  static Scheme q4_0();
  static Scheme w8a8();                                ///< compressed-tensors, per row
  static Scheme w4a16(std::int64_t block_size = 128);  ///< compressed-tensors
  static Scheme w4a16_asymmetric(std::int64_t block_size = 128);

  /// kInvalidArgument names the field, its value and its range. With a shape, also if the
  /// scheme does not fit it: a block that does not divide a row, rows of a scalar.
  [[nodiscard]] Status validate() const;
  [[nodiscard]] Status validate(const Shape& shape) const;

  [[nodiscard]] int max_code() const { return (1 << (bits - 1)) - 1; }  ///< Q
  [[nodiscard]] int min_code() const;

  /// Groups of a tensor of that shape, which the scheme fits.
  [[nodiscard]] std::int64_t groups(const Shape& shape) const;
  /// Elements of a group; the last of flat blocks may have fewer.
  [[nodiscard]] std::int64_t group_size(const Shape& shape) const;
  /// Bytes of the codes (kBlocks: and scales), of the scales, of the zero points (one per
  /// group of an asymmetric scheme). Codes of 4 bits lie two per byte, the first in the
  /// low half; each row begins a byte. Only flat blocks run through all rows: with them
  /// only the tensor begins a byte.
  [[nodiscard]] std::int64_t code_bytes(const Shape& shape) const;
  [[nodiscard]] std::int64_t scale_bytes(const Shape& shape) const;
  [[nodiscard]] std::int64_t zero_point_bytes(const Shape& shape) const;

  /// A tensor can be quantized in parts (quantize.h) that begin at a multiple of so many
  /// elements: a row, or a flat block. Never 0.
  [[nodiscard]] std::int64_t part_alignment(const Shape& shape) const;
  /// Where the part that begins at element `first` begins: in the bytes of the codes, and
  /// in the groups. `first` is a multiple of part_alignment() or the end of the tensor.
  [[nodiscard]] std::int64_t code_offset(const Shape& shape, std::int64_t first) const;
  [[nodiscard]] std::int64_t group_offset(const Shape& shape, std::int64_t first) const;

  /// "int8 row f32", "int4 block(32) f16", "q4_0", ...
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Scheme&, const Scheme&) = default;
};

}  // namespace pith
