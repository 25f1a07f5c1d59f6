#include "src/io/hivemind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/openers.h"
#include "src/io/plain.h"
#include "src/io/stored.h"

namespace pith {
namespace {

constexpr std::uint64_t kCodes = 256;
constexpr std::uint64_t kMessageMaxRank = 64;

enum class Compression : std::uint64_t {
  kNone = 0,
  kMeanStd16Bit = 1,
  kFloat16 = 2,
  kQuantile8Bit = 3,
  kUniform8Bit = 4,
  kBlockwise8Bit = 5,
};

// The fields of the message.
struct Message {
  std::optional<std::uint64_t> buffer_begin;
  std::uint64_t buffer_bytes = 0;
  std::vector<std::int64_t> size;
  std::string dtype;
  Compression compression = Compression::kNone;
  std::uint64_t chunks = 0;
  std::vector<std::string> warnings;
};

Result<std::uint64_t> varint(ByteReader& in, std::string_view what) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    PITH_TRY(const std::uint8_t byte, in.u8(what));
    // The tenth byte has room for one bit.
    if (shift == 63 && byte > 1) break;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return Status::corrupt(
      fmt::format("byte {}: {} is a number of more than 64 bits", in.position(), what));
}

Status add_extent(std::uint64_t extent, Message& message) {
  if (extent > UINT32_MAX) {
    return Status::corrupt(fmt::format("dimension {} exceeds 2^32-1", extent));
  }
  if (message.size.size() == kMessageMaxRank) {
    return Status::corrupt(fmt::format("more than {} dimensions", kMessageMaxRank));
  }
  message.size.push_back(static_cast<std::int64_t>(extent));
  return {};
}

enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

Status skip_field(ByteReader& in, Wire wire, std::uint64_t bytes) {
  switch (wire) {
    case Wire::kVarint:
      return varint(in, "unknown field").status();
    case Wire::kFixed64:
      return in.skip(8, "unknown field");
    case Wire::kBytes:
      return in.skip(bytes, "unknown field");
    case Wire::kFixed32:
      return in.skip(4, "unknown field");
  }
  return Status::corrupt(fmt::format("byte {}: wire type {}, expected 0, 1, 2 or 5",
                                     in.position(), static_cast<std::uint64_t>(wire)));
}

Status read_extents(ByteReader& in, std::uint64_t bytes, Message& message) {
  const std::uint64_t end = in.position() + bytes;  // inside: the length was checked
  while (in.position() < end) {
    PITH_TRY(const std::uint64_t extent, varint(in, "size"));
    PITH_OK(add_extent(extent, message));
  }
  if (in.position() == end) return {};
  return Status::corrupt(
      fmt::format("byte {}: size runs over its length", in.position()));
}

Status twice(std::string_view field) {
  return Status::corrupt(fmt::format("field '{}' is there twice", field));
}

Status read_field(ByteReader& in, std::vector<std::uint64_t>& seen, Message& message) {
  PITH_TRY(const std::uint64_t tag, varint(in, "field tag"));
  const std::uint64_t field = tag >> 3;
  const auto wire = static_cast<Wire>(tag & 7);
  std::uint64_t length = 0;
  if (wire == Wire::kBytes) {
    PITH_TRY(length, varint(in, "field length"));
    PITH_TRY(length, in.count(length, 1, "field"));
  }
  const auto first = [&] {
    const bool is_first = std::find(seen.begin(), seen.end(), field) == seen.end();
    if (is_first) seen.push_back(field);
    return is_first;
  };
  if (field == 1 && wire == Wire::kBytes) {
    if (!first()) return twice("buffer");
    message.buffer_begin = in.position();
    message.buffer_bytes = length;
    return in.skip(length, "buffer");
  }
  if (field == 2 && wire == Wire::kBytes) return read_extents(in, length, message);
  if (field == 2 && wire == Wire::kVarint) {
    PITH_TRY(const std::uint64_t extent, varint(in, "size"));
    return add_extent(extent, message);
  }
  if (field == 3 && wire == Wire::kVarint) return varint(in, "requires_grad").status();
  if (field == 4 && wire == Wire::kBytes) {
    if (!first()) return twice("dtype");
    PITH_TRY(message.dtype, in.string(length, 64, "dtype"));
    return {};
  }
  if (field == 5 && wire == Wire::kVarint) {
    if (!first()) return twice("compression");
    PITH_TRY(const std::uint64_t compression, varint(in, "compression"));
    message.compression = static_cast<Compression>(compression);
    return {};
  }
  if (field == 6 && wire == Wire::kVarint) {
    if (!first()) return twice("chunks");
    PITH_TRY(message.chunks, varint(in, "chunks"));
    return {};
  }
  if (field == 0 || field <= 6) {
    return Status::corrupt(fmt::format("byte {}: field {} of wire type {}", in.position(),
                                       field, static_cast<std::uint64_t>(wire)));
  }
  if (message.warnings.empty()) {
    message.warnings.push_back(fmt::format("field {} is not known and not read", field));
  }
  return skip_field(in, wire, length);
}

Result<Message> read_message(ByteReader& in) {
  Message message;
  std::vector<std::uint64_t> seen;
  while (in.remaining() != 0) PITH_OK(read_field(in, seen, message));
  if (message.dtype.empty()) {
    return Status::corrupt(
        "no field 'dtype': not a hivemind tensor, or not its first part");
  }
  if (message.chunks > 1) {
    return Status::unsupported(
        fmt::format("the first of {} parts of a tensor: join the parts", message.chunks));
  }
  return message;
}

// Plain numbers that fill the buffer.
Status place_plain(const Message& message, DType dtype, std::string_view name,
                   HivemindTensor& result) {
  const CheckedSize bytes = CheckedSize::from_signed(result.tensor.shape.elements()) *
                            static_cast<std::uint64_t>(bits_of(dtype) / 8);
  if (!bytes.fits_int64() || bytes.value() != message.buffer_bytes) {
    return Status::corrupt(fmt::format(
        "a buffer of {} bytes does not hold shape {} of {}", message.buffer_bytes,
        result.tensor.shape.to_string(), to_string(dtype)));
  }
  result.tensor.encoding = plain_encoding(dtype, name);
  result.tensor.bytes = static_cast<std::int64_t>(bytes.value());
  result.tensor.offset = message.buffer_begin.value_or(0);
  return {};
}

Status place_uncompressed(const Message& message, HivemindTensor& result) {
  const std::int64_t elements = result.tensor.shape.elements();
  if (message.dtype == "bfloat16") {
    // Older versions send them as f32: the size tells.
    const CheckedSize wide = CheckedSize::from_signed(elements) * 4;
    const bool is_wide = wide.valid() && wide.value() == message.buffer_bytes;
    return place_plain(message, is_wide ? DType::kF32 : DType::kBF16, "bfloat16", result);
  }
  struct Name {
    std::string_view name;
    DType dtype;
  };
  constexpr std::array kNames = {
      Name{"float32", DType::kF32}, Name{"float16", DType::kF16},
      Name{"float64", DType::kF64}, Name{"int64", DType::kI64},
      Name{"int32", DType::kI32},   Name{"int16", DType::kI16},
      Name{"int8", DType::kI8},     Name{"uint8", DType::kU8},
      Name{"bool", DType::kBool},
  };
  for (const Name& known : kNames) {
    if (message.dtype == known.name) {
      return place_plain(message, known.dtype, known.name, result);
    }
  }
  return Status::unsupported(
      fmt::format("dtype '{}' is not known", printable(message.dtype)));
}

Status read_floats(ByteReader& in, std::uint64_t count, std::string_view what,
                   std::vector<float>& out) {
  PITH_TRY(count, in.count(count, sizeof(float), what));
  out.resize(static_cast<std::size_t>(count));
  PITH_OK(in.bytes(std::as_writable_bytes(std::span(out)), what));
  for (const float value : out) {
    if (!std::isfinite(value)) {
      return Status::corrupt(fmt::format("{} has a value that is not finite", what));
    }
  }
  return {};
}

// i64 A (blockwise only), i64 C, f32 absmax[A], f32 code[C], u8 q[n]
Status place_codes(const Message& message, ByteReader in, HivemindTensor& result) {
  const bool blockwise = message.compression == Compression::kBlockwise8Bit;
  const std::int64_t elements = result.tensor.shape.elements();
  PITH_OK(in.skip(message.buffer_begin.value_or(0), "buffer"));
  const std::uint64_t begin = in.position();
  if (message.buffer_bytes < (blockwise ? 16 : 8)) {
    return Status::corrupt(fmt::format("a buffer of {} bytes has no room for its tables",
                                       message.buffer_bytes));
  }
  std::int64_t maxima = 0;
  const std::int64_t expected =
      elements / kHivemindBlock + (elements % kHivemindBlock != 0);
  if (blockwise) {
    PITH_TRY(maxima, in.i64("number of block maxima"));
    if (maxima != expected) {
      return Status::corrupt(
          fmt::format("{} block maxima, but {} elements in blocks of {} have {}", maxima,
                      elements, kHivemindBlock, expected));
    }
  }
  PITH_TRY(const std::uint64_t codes, in.u64("number of codes"));
  if (codes != kCodes) {
    return Status::corrupt(fmt::format("{} codes, expected {}", codes, kCodes));
  }
  PITH_OK(
      read_floats(in, static_cast<std::uint64_t>(maxima), "block maxima", result.absmax));
  PITH_OK(read_floats(in, codes, "codes", result.code));
  const CheckedSize whole =
      CheckedSize(in.position()) - begin + CheckedSize::from_signed(elements);
  if (!whole.valid() || whole.value() != message.buffer_bytes) {
    return Status::corrupt(fmt::format(
        "a buffer of {} bytes, but {} elements with their "
        "tables need {}",
        message.buffer_bytes, elements, whole.valid() ? whole.value() : UINT64_MAX));
  }
  result.tensor.encoding = {blockwise ? "BLOCKWISE_8BIT"
                            : message.compression == Compression::kUniform8Bit
                                ? "UNIFORM_8BIT"
                                : "QUANTILE_8BIT",
                            1, 1, std::nullopt, true};
  result.tensor.bytes = elements;
  result.tensor.offset = in.position();
  return {};
}

class HivemindCheckpoint : public StoredCheckpoint {
 public:
  HivemindCheckpoint(InputFile file, HivemindTensor message)
      : code_(std::move(message.code)), absmax_(std::move(message.absmax)) {
    add_file(std::move(file));
    tensors_.push_back(std::move(message.tensor));
    warnings_ = std::move(message.warnings);
    index_names();
  }

  [[nodiscard]] Format format() const override { return Format::kHivemind; }

 protected:
  Status decode(const TensorInfo& tensor, std::int64_t begin,
                std::span<const std::byte> bytes, std::span<float> out) const override {
    if (code_.empty()) return StoredCheckpoint::decode(tensor, begin, bytes, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float value = code_[static_cast<std::size_t>(bytes[i])];
      const auto block = static_cast<std::size_t>((begin + static_cast<std::int64_t>(i)) /
                                                  kHivemindBlock);
      out[i] = absmax_.empty() ? value : value * absmax_[block];
    }
    return {};
  }

 private:
  std::vector<float> code_;
  std::vector<float> absmax_;
};

}  // namespace

Result<HivemindTensor> parse_hivemind(ByteReader in, ByteReader again) {
  PITH_TRY(Message message, read_message(in));
  HivemindTensor result;
  const Result<Shape> shape = Shape::make(message.size);
  if (!shape) return Status::corrupt(shape.error().message());
  result.tensor.shape = *shape;
  result.warnings = std::move(message.warnings);
  Status status;
  switch (message.compression) {
    case Compression::kNone:
      status = place_uncompressed(message, result);
      break;
    case Compression::kFloat16:
      status = place_plain(message, DType::kF16, "FLOAT16", result);
      break;
    case Compression::kQuantile8Bit:
    case Compression::kUniform8Bit:
    case Compression::kBlockwise8Bit:
      status = place_codes(message, std::move(again), result);
      break;
    default:
      status = Status::unsupported(
          fmt::format("compression {}, expected 0, 2, 3, 4 or 5",
                      static_cast<std::uint64_t>(message.compression)));
  }
  if (!status.ok()) return status;
  return result;
}

CheckpointResult open_hivemind(InputFile file) {
  Result<HivemindTensor> message =
      parse_hivemind(ByteReader(file, 0, file.size()), ByteReader(file, 0, file.size()));
  if (!message) return message.error().with_context(file.name());
  return std::unique_ptr<Checkpoint>(
      std::make_unique<HivemindCheckpoint>(std::move(file), *std::move(message)));
}

}  // namespace pith
