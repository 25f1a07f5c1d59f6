// Gradients and weights on the wire: a codec turns floats into a message, and any message
// back into floats.
//
//   PITH_TRY(auto codec, pith::BlockwiseCodec::make(256));
//   pith::ErrorFeedback sender(codec);
//   std::vector<std::byte> message;
//   PITH_OK(sender.compress(gradient, message));      // what is lost goes into the next
//   one
//   ...
//   PITH_OK(pith::decompress(message, received));     // refuses bytes that are not whole
//
// A message says what it is: magic, version, kind, sizes and a checksum over all of it
// (docs/formats/wire.md). Decoding needs no codec, allocates nothing and never trusts a
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"

namespace pith {

class Codec {
 public:
  virtual ~Codec() = default;

  /// "blockwise(256)", "top_k(0.01)"
  [[nodiscard]] virtual std::string name() const = 0;

  /// Bytes that a message of `elements` values has at most, header included;
  /// kInvalidArgument if that exceeds an int64.
  [[nodiscard]] virtual Result<std::int64_t> max_message_bytes(
      std::int64_t elements) const = 0;

  /// Replaces the content of `message`, whose memory is reused. kNotFinite if a value is
  /// NaN or infinite: the error names the index, and the content is undefined. Thread-safe
  /// for different messages.
  virtual Status compress(std::span<const float> values,
                          std::vector<std::byte>& message) const = 0;
};

/// What a message holds.
enum class MessageKind : std::uint8_t { kBlockwise = 1, kTopK = 2 };

/// The header of a message, checked against its length.
struct MessageInfo {
  MessageKind kind = MessageKind::kBlockwise;
  std::int64_t elements = 0;       ///< floats it decodes to
  std::int64_t stored = 0;         ///< floats it has codes or values for
  std::int64_t message_bytes = 0;  ///< header and payload
  /// 4 * elements / message_bytes; below 1 if the message is larger than the floats.
  [[nodiscard]] double ratio() const;
};

/// Reads the header only. kCorrupt if it is not one of a message of this length,
/// kUnsupported if its version is unknown.
Result<MessageInfo> message_info(std::span<const std::byte> message);

/// Decodes a message of any kind. kCorrupt if a byte is missing, changed or surplus;
/// kInvalidArgument if `out` has another size than the message has elements. `out` is
/// undefined then.
Status decompress(std::span<const std::byte> message, std::span<float> out);

/// The same with allocation; kInvalidArgument if the message has more than max_elements
/// elements, which a short top-k message may well have.
Result<std::vector<float>> decompress(std::span<const std::byte> message,
                                      std::int64_t max_elements);

/// Adds what the last messages lost to the next one, so that nothing is lost in the sum:
/// sum of inputs = sum of decoded messages + residual, up to f32 rounding.
class ErrorFeedback {
 public:
  explicit ErrorFeedback(std::shared_ptr<const Codec> codec) : codec_(std::move(codec)) {}

  /// Compresses values + residual. The first call sets the number of values;
  /// kInvalidArgument if a later one differs. On an error the residual is unchanged.
  Status compress(std::span<const float> values, std::vector<std::byte>& message);

  /// What has been given to compress() and is in no message yet.
  [[nodiscard]] std::span<const float> residual() const { return residual_; }
  void reset() { residual_.clear(); }

 private:
  std::shared_ptr<const Codec> codec_;
  std::vector<float> residual_;
  std::vector<float> target_;  // values + residual
  std::vector<float> decoded_;
};

}  // namespace pith
