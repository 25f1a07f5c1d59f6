// Blockwise 8-bit codes: consecutive blocks, each with a scale of its own.
//
//   PITH_TRY(pith::BlockwiseCodes c, pith::blockwise_compress(gradient, {.block_size =
//   64}));
//
// scale = largest magnitude / 127 in f32; codes are round(x / scale), ties away from
// zero; the scale is then stored in f16. A block of zeros has codes 0 and scale 1. If the
// scale of any block would lose bits or overflow in f16 (below 2^-14, or 65520 and
// above), all scales of the tensor are stored in f32.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/codec/codec.h"
#include "pith/tensor/dtype.h"

namespace pith {

enum class BlockScales : std::uint8_t {
  kAuto,  ///< f16 if every scale fits, else f32
  kF16,   ///< f16 always, as the reference: tiny scales become 0, large ones infinite
};

struct BlockwiseOptions {
  std::int64_t block_size = 256;  ///< in [1, 2^31)
  BlockScales scales = BlockScales::kAuto;
};

struct BlockwiseCodes {
  std::int64_t block_size = 0;
  DType scale_type = DType::kF16;  ///< kF16 or kF32
  std::vector<std::int8_t> codes;
  std::vector<std::uint16_t> scales_f16;
  std::vector<float> scales_f32;  ///< instead, if scale_type is kF32

  /// Bytes of codes and scales.
  [[nodiscard]] std::int64_t size_bytes() const;
  /// 4 * codes / size_bytes() in f32; 1 for no codes.
  [[nodiscard]] float compression_ratio() const;
};

/// kInvalidArgument if the block size is out of its range; kNotFinite if a value is NaN
/// or infinite. The result does not depend on the number of threads.
Result<BlockwiseCodes> blockwise_compress(std::span<const float> values,
                                          const BlockwiseOptions& options = {});

/// out[i] = code i * scale of its block. kInvalidArgument if the sizes differ, the block
/// size is out of its range, or a block has no scale; surplus scales are passed over.
Status blockwise_decompress(const BlockwiseCodes& codes, std::span<float> out);

class BlockwiseCodec : public Codec {
 public:
  /// kInvalidArgument if the block size is out of its range.
  static Result<std::shared_ptr<const BlockwiseCodec>> make(
      std::int64_t block_size = 256);

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] Result<std::int64_t> max_message_bytes(
      std::int64_t elements) const override;
  Status compress(std::span<const float> values,
                  std::vector<std::byte>& message) const override;

 private:
  explicit BlockwiseCodec(std::int64_t block_size) : block_size_(block_size) {}
  std::int64_t block_size_;
};

}  // namespace pith
