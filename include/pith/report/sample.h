// Pictures of a tensor for its report, from a few thousand of its elements.
//
//   pith::TensorSample sample(shape, {.pruned = true, .scheme = scheme});
//   sample.add_before(first, rows);  // chunk by chunk, in any order
//   sample.add_after(first, rows);
//   sample.add_codes(first, count, codes);
//   sample.describe(report.tensors[i]);
//
// The sampled elements are those at multiples of a stride that depends on the shape alone:
// one that has no divisor in common with the length of a row (all extents but the first),
// so that all columns are seen. Up to 4,096 elements all are taken, of larger tensors about
// a 64th, but not many fewer than 4,096 nor many more than 16,384. Each has its own place in
// memory, so chunks may come from several threads at once, and the pictures depend neither
// on their order nor on where they are cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pith/quantize/scheme.h"
#include "pith/report/report.h"
#include "pith/tensor/shape.h"

namespace pith {

/// What is done to the tensor, and so what is worth a picture.
struct SampleOptions {
  bool pruned = false;                ///< a thumbnail of what is left
  std::optional<Scheme> scheme = {};  ///< a histogram of codes; must fit the shape
};

class TensorSample {
 public:
  explicit TensorSample(const Shape& shape, const SampleOptions& options = {});

  /// Elements [first, first + values.size()) of the source, all within the tensor.
  void add_before(std::int64_t first, std::span<const float> values);
  /// The same after pruning or decoding: only zero or not is asked. Nothing happens if the
  /// tensor is not pruned.
  void add_after(std::int64_t first, std::span<const float> values);
  /// Codes of elements [first, first + count), laid out as QuantizedTensor::codes is from
  /// Scheme::code_offset(shape, first) on; `first` is a multiple of part_alignment().
  /// Nothing happens without a scheme.
  void add_codes(std::int64_t first, std::int64_t count,
                 std::span<const std::byte> codes);

  /// 64 bins over [-a, a], a the largest magnitude sampled. NaN and infinity are left out.
  [[nodiscard]] Histogram weights() const;
  /// A bin per code of 4 bits, or per four codes of 8 bits.
  [[nodiscard]] Histogram codes() const;
  /// A matrix of the first extent by all others, in cells of about a hundred sampled
  /// elements or more, unless all are sampled.
  [[nodiscard]] Thumbnail nonzeros() const;

  /// Puts all three into `tensor`.
  void describe(TensorReport& tensor) const;

  /// Every stride-th element is sampled.
  [[nodiscard]] std::int64_t stride() const { return stride_; }

 private:
  Shape shape_;
  std::optional<Scheme> scheme_;
  std::int64_t stride_ = 1;
  std::vector<float> before_;          // NaN until it is fed
  std::vector<std::uint8_t> nonzero_;  // of a pruned tensor: kUnseen until it is fed
  std::vector<std::int16_t> codes_;    // of a quantized one: kUnseen likewise
};

}  // namespace pith
