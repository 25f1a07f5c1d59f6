// The envelope of a message: a header of 40 bytes, then the payload. docs/formats/wire.md
// has it byte by byte.
//
//    0  magic "PTHW"     4  version   5  kind   6  form   7  0
//    8  elements        16  parameter: block size, or values kept
//   24  payload bytes   32  checksum
//
// Numbers are little-endian. The checksum is XXH3-64 of the payload, seeded with XXH3-64 of
// the 32 bytes before it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pith/base/result.h"
#include "pith/codec/codec.h"

namespace pith::wire {

static_assert(std::endian::native == std::endian::little,
              "floats and scales are copied to the wire as they are");

inline constexpr std::size_t kHeaderBytes = 40;

/// How a payload is laid out; numbers are those of the wire.
enum class Form : std::uint8_t {
  kScalesF16 = 0,  ///< blockwise
  kScalesF32 = 1,
  kDistances = 0,  ///< top-k
  kMask = 1,
  kDense = 2,
};

struct Header {
  MessageKind kind = MessageKind::kBlockwise;
  Form form = Form::kScalesF16;
  std::int64_t elements = 0;
  std::int64_t parameter = 0;
  std::int64_t payload_bytes = 0;
};

/// Writes the header in front of a payload that is complete.
void seal(const Header& header, std::span<std::byte> message);

/// The header of a message, if it fits its length and its own numbers. Does not look at
/// the payload.
Result<Header> parse(std::span<const std::byte> message);

/// kCorrupt if the checksum is not that of the message.
Status check_sum(std::span<const std::byte> message);

/// Decoders of the payload; the header has passed parse() and out has its elements.
Status decode_blockwise(const Header& header, std::span<const std::byte> payload,
                        std::span<float> out);
Status decode_top_k(const Header& header, std::span<const std::byte> payload,
                    std::span<float> out);

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace pith::wire
