// Quantization of weights: w is stored as a code q, and read as scale * q.
//
//   PITH_TRY(pith::QuantizedTensor q, pith::quantize(weight, pith::Scheme::int8_rows()));
//   std::vector<float> back(q.elements());
//   if (pith::Status s = pith::dequantize(q, back); !s.ok()) return s;
//
// A tensor that does not fit in memory is quantized in parts, into the caller's memory:
//
//   PITH_TRY(pith::Quantizer quantizer, pith::Quantizer::make(scheme, shape, "w"));
//   while (quantizer.needs_scan()) {               // one scale for the whole tensor:
//     for (each part) PITH_OK(quantizer.scan(part, first));   // look at all of it first
//     PITH_OK(quantizer.end_scan());
//   }
//   for (each part) PITH_OK(quantizer.encode(part, first, {codes, scales, {}}));
//
// Symmetric codes never use the most negative value, so -q is always a code and the scale
// of a group is its largest magnitude over 127 (or 7). Rounding is to nearest, ties away
// from zero, on the true quotient w / scale, so every instruction set gives the same
// bytes. Scheme (scheme.h) says all of this, and where a file format wants it otherwise.
//
// A scale stored in f16 or bf16 is rounded first, to nearest; a subnormal one is rounded
// up where nearest would be 0 or too small for the group's largest value. One that would
// be infinite in f16 is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "pith/base/result.h"
#include "pith/quantize/error.h"
#include "pith/quantize/scheme.h"
#include "pith/tensor/buffer.h"
#include "pith/tensor/view.h"

namespace pith {

/// Codes and the scales that give them meaning, laid out as they are stored in a file.
struct QuantizedTensor {
  Scheme scheme;       ///< bits, grouping, scale type: all that decoding needs
  Shape shape;         ///< of the original
  Buffer codes;        ///< scheme.code_bytes(shape): i8, or two i4 per byte, or blocks
  Buffer scales;       ///< one per group, in scheme.scale_type; empty for blocks
  Buffer zero_points;  ///< one i8 per group of an asymmetric scheme

  [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
  /// Bytes of codes, scales and zero points in a file, without names and padding.
  [[nodiscard]] std::int64_t stored_bytes() const;
  /// The code of element `index`, the scale and the zero point of group `group`: slow,
  /// for tests and tools.
  [[nodiscard]] int code(std::int64_t index) const;
  [[nodiscard]] float scale(std::int64_t group) const;
  [[nodiscard]] int zero_point(std::int64_t group) const;
};

struct QuantizeOptions {
  NonFinite non_finite = NonFinite::kError;
  /// If not null, receives the error figures, found while the data is in cache.
  ErrorFigures* figures = nullptr;
};

/// Quantizes an f32, f16 or bf16 tensor. Never changes `weight`.
///
/// kInvalidArgument if the scheme does not fit the shape or an option is out of its
/// range, or a scale is beyond the largest f16; kUnsupported for other element types;
/// kNotFinite if a value is NaN or infinite: the message names the tensor and the index.
/// The result does not depend on the number of threads. Thread-safe.
Result<QuantizedTensor> quantize(TensorView weight, const Scheme& scheme,
                                 const QuantizeOptions& options = {});

/// out[i] = scale of i's group * (code i - zero point). kInvalidArgument if the sizes
/// differ.
Status dequantize(const QuantizedTensor& tensor, std::span<float> out);

/// The scale of `values` as one group: largest magnitude / largest_code, or by
/// kPercentile the percentile of the magnitudes in its place (the largest if that is 0).
/// 0 for no values or zeros only.
///
/// The percentile p of n magnitudes is the one at place max(1, ceil(p * n)) in rising
/// order; up to 2^24 values the product is rounded to f32 first, as the reference does.
/// kInvalidArgument if largest_code is not positive and finite, p is not in [0, 1], or
/// the rule is another; kNotFinite with the index of a NaN or infinity, unless these are
/// to be passed over: then they count as the largest magnitudes of a percentile only.
Result<float> compute_scale(std::span<const float> values, float largest_code,
                            ScaleRule rule = ScaleRule::kAbsmax, double percentile = 1,
                            NonFinite non_finite = NonFinite::kError);

/// The caller's memory for the codes of a part of a tensor: it begins with the part.
struct CodeSpans {
  std::span<std::byte> codes;
  std::span<std::byte> scales = {};       ///< of the part's groups; one for kTensor
  std::span<std::byte> zero_points = {};  ///< likewise
};
struct ConstCodeSpans {
  std::span<const std::byte> codes;
  std::span<const std::byte> scales = {};
  std::span<const std::byte> zero_points = {};
};

/// Quantizes a tensor in parts. A part is a run of elements that begins at a multiple of
/// Scheme::part_alignment() (whole rows always do, but for flat blocks) and ends at
/// another or at the end of the tensor. The bytes are those of quantize(), however the
/// tensor is cut.
class Quantizer {
 public:
  /// A tensor of that shape; the name is for messages. kInvalidArgument as quantize().
  static Result<Quantizer> make(const Scheme& scheme, const Shape& shape,
                                std::string_view name = {},
                                NonFinite non_finite = NonFinite::kError);

  Quantizer(Quantizer&& other) noexcept;
  Quantizer& operator=(Quantizer&& other) noexcept;
  ~Quantizer();

  [[nodiscard]] const Scheme& scheme() const { return scheme_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }

  /// True while another pass over the whole tensor is needed before encode(): once for
  /// one scale per tensor by its largest magnitude, twice by a percentile, else never.
  [[nodiscard]] bool needs_scan() const { return scans_left_ > 0; }
  /// Takes in a part whose first element is `first`, in any order, each element once per
  /// pass. kNotFinite as quantize(). Not thread-safe: it uses all threads by itself.
  Status scan(TensorView part, std::int64_t first);
  /// Ends a pass. kInvalidArgument if it did not see all elements.
  Status end_scan();

  /// In place of a scan, where the largest magnitude of all elements is known already.
  /// kInvalidArgument unless a scan is needed for a symmetric scale by largest magnitude.
  Status set_largest(float magnitude);

  /// Writes the codes of a part and the scales of its groups: code_offset(),
  /// group_offset() of Scheme tell where they belong in the whole. With `figures`, adds
  /// the part's figures to it, as elements from `first` on; of the error against
  /// `originals` if the part has been changed before (pruned, say), as many values.
  /// kInvalidArgument if a scan is missing or the part or the spans do not fit; kNotFinite
  /// as quantize(). Thread-safe.
  Status encode(TensorView part, std::int64_t first, const CodeSpans& out,
                ErrorFigures* figures = nullptr,
                std::span<const float> originals = {}) const;
  /// The same with scales (and zero points) that are already in `out`, positive and
  /// finite or 0, found by another method; layout kBlocks is refused.
  Status encode_with_scales(TensorView part, std::int64_t first, const CodeSpans& out,
                            ErrorFigures* figures = nullptr) const;

 private:
  struct Scan;  // what scans have found

  Quantizer(const Scheme& scheme, const Shape& shape, std::string_view name,
            NonFinite non_finite);
  friend Result<QuantizedTensor> quantize(TensorView weight, const Scheme& scheme,
                                          const QuantizeOptions& options);

  Status check_part(const TensorView& part, std::int64_t first) const;
  Status finish_scan();
  Status scan_whole(const TensorView& tensor);
  Status encode_part(const TensorView& part, std::int64_t first, const CodeSpans& out,
                     bool scales_are_stored, ErrorFigures* figures,
                     std::span<const float> originals) const;
  [[nodiscard]] std::string prefix() const;

  Scheme scheme_;
  Shape shape_;
  std::string name_;
  NonFinite non_finite_;
  int scans_left_ = 0;
  std::unique_ptr<Scan> scan_;
};

/// Decodes the part of a tensor that begins at element `first`, as Quantizer::encode()
/// wrote it, into out.size() values. kInvalidArgument if the part or the spans do not
/// fit.
Status dequantize_part(const Scheme& scheme, const Shape& shape, std::int64_t first,
                       const ConstCodeSpans& in, std::span<float> out);

}  // namespace pith
