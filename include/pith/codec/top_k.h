// Top-k: the values of largest magnitude with their indices; all others become 0.
//
//   PITH_TRY(auto codec, pith::TopKCodec::make(0.01));   // one value in a hundred
//
// k = truncate(n * fraction) and at least 1 unless the fraction is 0; of equal magnitudes
// those of lower index are kept. A message stores indices in rising order, in the
// shortest of three forms: distances, a bit mask, or all values. So it is never larger
// than the floats but for its header.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/codec/codec.h"

namespace pith {

/// What was kept of a tensor, by falling magnitude, equal ones by rising index.
struct TopKValues {
  std::int64_t elements = 0;  ///< of the original
  std::vector<std::int64_t> indices;
  std::vector<float> values;

  /// Bytes with indices and values of four bytes each: the reference's measure. A message
  /// is smaller.
  [[nodiscard]] std::int64_t size_bytes() const;
  /// 4 * elements / size_bytes() in f32; 1 for no bytes.
  [[nodiscard]] float compression_ratio() const;
};

/// How many of n values a fraction keeps. Up to 2^24 the product is taken in f32, as the
/// reference does. kInvalidArgument if the fraction is NaN or below 0; above 1 keeps all.
Result<std::int64_t> top_k_count(std::int64_t n, double fraction);

/// Infinities are the largest magnitudes. kInvalidArgument as above; kNotFinite if a
/// value is NaN, unless all are kept.
Result<TopKValues> top_k_compress(std::span<const float> values, double fraction);

/// Zeros, and each value at its index. kInvalidArgument if the sizes differ, an index is
/// out of range or occurs twice.
Status top_k_decompress(const TopKValues& kept, std::span<float> out);

class TopKCodec : public Codec {
 public:
  /// kInvalidArgument if the fraction is not in [0, 1].
  static Result<std::shared_ptr<const TopKCodec>> make(double fraction);

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] Result<std::int64_t> max_message_bytes(
      std::int64_t elements) const override;
  Status compress(std::span<const float> values,
                  std::vector<std::byte>& message) const override;

 private:
  explicit TopKCodec(double fraction) : fraction_(fraction) {}
  double fraction_;
};

}  // namespace pith
