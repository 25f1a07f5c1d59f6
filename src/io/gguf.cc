#include "src/io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/ggml_blocks.h"
#include "src/io/openers.h"
#include "src/io/stored.h"

namespace pith {
namespace {

constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMinKeyBytes = 14;        // key length, 1 byte, type, 1 byte
constexpr std::uint64_t kMinTensorBytes = 24;     // name length, rank, type, offset
constexpr std::uint64_t kMaxKeyBytes = 65535;     // by the format
constexpr std::uint64_t kMaxStringBytes = 1 << 30;
constexpr std::uint64_t kMaxArray = 1 << 30;
constexpr std::uint32_t kGgufMaxRank = 4;

struct HeaderCounts {
  std::uint64_t tensors = 0;
  std::uint64_t keys = 0;
};

Status read_version(ByteReader& in, GgufHeader& header) {
  PITH_TRY(const std::uint32_t magic, in.u32("magic number"));
  if (magic != kGgufMagic) {
    return Status::corrupt("not a GGUF file: it does not begin with the bytes 'GGUF'");
  }
  PITH_TRY(header.version, in.u32("version"));
  if ((header.version & 0xffffu) == 0 && header.version != 0) {
    return Status::unsupported(
        "a big-endian file: only little-endian GGUF is read; convert it where it was "
        "made");
  }
  if (header.version != 2 && header.version != 3) {
    return Status::unsupported(
        fmt::format("GGUF version {}, expected 2 or 3: convert it with a current tool",
                    header.version));
  }
  return {};
}

Result<HeaderCounts> read_counts(ByteReader& in) {
  HeaderCounts counts;
  PITH_TRY(counts.tensors, in.u64("tensor count"));
  PITH_TRY(counts.keys, in.u64("key count"));
  PITH_TRY(counts.tensors, in.count(counts.tensors, kMinTensorBytes, "list of tensors"));
  PITH_TRY(counts.keys, in.count(counts.keys, kMinKeyBytes, "list of keys"));
  return counts;
}

// Appends the next `count` bytes to `out`; they are known to be there.
Status append(ByteReader& in, std::uint64_t count, std::string_view what,
              std::string& out) {
  PITH_TRY(count, in.count(count, 1, what));
  const std::size_t at = out.size();
  out.resize(at + static_cast<std::size_t>(count));
  return in.bytes(std::as_writable_bytes(std::span(out).subspan(at)), what);
}

template <typename T>
void append_number(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Status append_string(ByteReader& in, std::string& out) {
  PITH_TRY(const std::uint64_t length, in.u64("string length"));
  if (length > kMaxStringBytes) {
    return Status::corrupt(fmt::format(
        "byte {}: a string of {} bytes, but at most {} are allowed and {} are left",
        in.position(), length, kMaxStringBytes, in.remaining()));
  }
  append_number(length, out);
  return append(in, length, "string", out);
}

Status check_bools(std::string_view bytes) {
  const std::size_t bad = bytes.find_first_not_of(std::string_view("\0\1", 2));
  if (bad == std::string_view::npos) return {};
  return Status::corrupt(fmt::format("a bool is {}, expected 0 or 1",
                                     static_cast<unsigned char>(bytes[bad])));
}

Result<GgufType> read_type(ByteReader& in) {
  PITH_TRY(const std::uint32_t id, in.u32("value type"));
  if (id > static_cast<std::uint32_t>(GgufType::kF64)) {
    return Status::corrupt(fmt::format("byte {}: value type {}, expected 0 to 12",
                                       in.position() - sizeof(id), id));
  }
  return static_cast<GgufType>(id);
}

Status append_array(ByteReader& in, std::string& out) {
  PITH_TRY(const GgufType element, read_type(in));
  PITH_TRY(const std::uint64_t count, in.u64("array length"));
  if (element == GgufType::kArray) {
    return Status::unsupported(fmt::format(
        "byte {}: an array of arrays, which no reader of GGUF agrees on", in.position()));
  }
  const std::uint64_t bytes = gguf_type_bytes(element);
  const std::uint64_t least = bytes != 0 ? bytes : sizeof(std::uint64_t);
  PITH_TRY(const std::uint64_t items, in.count(count, least, "array"));
  if (items > kMaxArray) {
    return Status::corrupt(
        fmt::format("byte {}: an array of {} elements, at most {} are allowed",
                    in.position(), items, kMaxArray));
  }
  append_number(static_cast<std::uint32_t>(element), out);
  append_number(items, out);
  if (element == GgufType::kString) {
    for (std::uint64_t i = 0; i < items; ++i) PITH_OK(append_string(in, out));
    return {};
  }
  const std::size_t at = out.size();
  PITH_OK(append(in, (CheckedSize(items) * bytes).value(), "array", out));
  return element == GgufType::kBool ? check_bools(std::string_view(out).substr(at))
                                    : Status();
}

Status read_value(ByteReader& in, GgufKey& key) {
  PITH_TRY(key.type, read_type(in));
  switch (key.type) {
    case GgufType::kString:
      return append_string(in, key.value);
    case GgufType::kArray:
      return append_array(in, key.value);
    default:
      PITH_OK(append(in, gguf_type_bytes(key.type), "value", key.value));
      return key.type == GgufType::kBool ? check_bools(key.value) : Status();
  }
}

Status take_alignment(const GgufKey& key, GgufHeader& header) {
  const std::optional<std::uint32_t> alignment = key.as_u32();
  if (!alignment) {
    return Status::corrupt(
        fmt::format("is of type {}, expected u32", to_string(key.type)));
  }
  if (!std::has_single_bit(*alignment)) {
    return Status::corrupt(fmt::format("is {}, expected a power of two", *alignment));
  }
  header.alignment = *alignment;
  return {};
}

Status read_keys(ByteReader& in, std::uint64_t count, GgufHeader& header) {
  std::vector<std::string_view> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    GgufKey key;
    PITH_TRY(const std::uint64_t length, in.u64("key length"));
    PITH_TRY(key.key, in.string(length, kMaxKeyBytes, "key"));
    if (key.key.empty()) {
      return Status::corrupt(fmt::format("byte {}: key {} is empty", in.position(), i));
    }
    Status status = read_value(in, key);
    if (status.ok() && key.key == "general.alignment")
      status = take_alignment(key, header);
    if (!status.ok()) {
      return status.with_context(fmt::format("key '{}'", printable(key.key)));
    }
    header.keys.push_back(std::move(key));
  }
  keys.reserve(header.keys.size());
  for (const GgufKey& key : header.keys) keys.push_back(key.key);
  if (const auto twice = find_duplicate(std::move(keys))) {
    return Status::corrupt(fmt::format("key '{}' is there twice", printable(*twice)));
  }
  return {};
}

// Rank, extents, type and relative offset of one tensor.
Status read_description(ByteReader& in, TensorInfo& tensor) {
  PITH_TRY(const std::uint32_t rank, in.u32("number of dimensions"));
  if (rank > kGgufMaxRank) {
    return Status::corrupt(
        fmt::format("{} dimensions, at most {} are allowed", rank, kGgufMaxRank));
  }
  std::array<std::int64_t, kGgufMaxRank> extents = {};
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    // The file has the row length first; shapes here have it last.
    PITH_TRY(extents[rank - 1 - axis], in.i64("dimension"));
  }
  PITH_TRY(const std::uint32_t type_id, in.u32("tensor type"));
  PITH_TRY(tensor.offset, in.u64("offset"));

  const Result<Shape> shape = Shape::make(std::span(extents).first(rank));
  if (!shape) return Status::corrupt(shape.error().message());
  tensor.shape = *shape;
  const GgmlType* type = find_ggml_type(type_id);
  if (type == nullptr) {
    return Status::unsupported(
        fmt::format("type {} is unknown or was removed from the format", type_id));
  }
  tensor.encoding = type->encoding;
  const std::int64_t cols = tensor.shape.cols();
  if (cols % type->encoding.block != 0) {
    return Status::corrupt(
        fmt::format("rows of {} elements are not a multiple of {}, the block of {}", cols,
                    type->encoding.block, type->encoding.name));
  }
  const CheckedSize bytes =
      CheckedSize::from_signed(tensor.shape.elements() / type->encoding.block) *
      CheckedSize::from_signed(type->encoding.block_bytes);
  if (!bytes.fits_int64()) {
    return Status::corrupt(fmt::format("shape {} of {}: the size in bytes exceeds 2^63-1",
                                       tensor.shape.to_string(), type->encoding.name));
  }
  tensor.bytes = static_cast<std::int64_t>(bytes.value());
  return {};
}

Status read_tensors(ByteReader& in, std::uint64_t count, GgufHeader& header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    TensorInfo tensor;
    PITH_TRY(const std::uint64_t length, in.u64("length of a tensor name"));
    PITH_TRY(tensor.name, in.string(length, kGgufMaxName, "tensor name"));
    if (Status s = read_description(in, tensor); !s.ok()) {
      return s.with_context(fmt::format("tensor '{}'", printable(tensor.name)));
    }
    header.tensors.push_back(std::move(tensor));
  }
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const TensorInfo& tensor : header.tensors) names.push_back(tensor.name);
  if (const auto twice = find_duplicate(std::move(names))) {
    return Status::corrupt(fmt::format("tensor '{}' is there twice", printable(*twice)));
  }
  return {};
}

// Tensors follow one another, each padded to the alignment, and end inside the file.
// Turns their offsets into offsets in the file.
Status place_tensors(const ByteReader& in, GgufHeader& header) {
  const std::uint64_t file_size = CheckedSize(in.position()).value() + in.remaining();
  CheckedSize data_begin(in.position());
  if (!header.tensors.empty()) data_begin = data_begin.round_up(header.alignment);
  CheckedSize expected(0);
  CheckedSize end = data_begin;
  for (TensorInfo& tensor : header.tensors) {
    if (!expected.valid() || tensor.offset != expected.value()) {
      return Status::corrupt(fmt::format(
          "tensor '{}' is at offset {}, but the tensors before it end at {} (aligned to "
          "{})",
          printable(tensor.name), tensor.offset,
          expected.valid() ? std::to_string(expected.value()) : "more than 2^64-1",
          header.alignment));
    }
    const CheckedSize begin = data_begin + expected;
    end = begin + CheckedSize::from_signed(tensor.bytes);
    if (!end.at_most(file_size)) {
      return Status::corrupt(fmt::format(
          "tensor '{}' of {} bytes at offset {} ends beyond the {} bytes of the "
          "file: it is truncated",
          printable(tensor.name), tensor.bytes, tensor.offset, file_size));
    }
    tensor.offset = begin.value();
    expected =
        (expected + CheckedSize::from_signed(tensor.bytes)).round_up(header.alignment);
  }
  const CheckedSize padded = data_begin + expected;
  if (padded.valid() && padded.value() < file_size) {
    header.warnings.push_back(fmt::format("{} bytes after the last tensor are not read",
                                          file_size - padded.value()));
  }
  return {};
}

void warn_of_split(GgufHeader& header) {
  for (const GgufKey& key : header.keys) {
    if (key.key != "split.count" || key.type != GgufType::kU16) continue;
    if (const std::string count = key.text(); count != "0" && count != "1") {
      header.warnings.push_back(
          fmt::format("one of {} parts of a model: the other parts are not read", count));
    }
  }
}

class GgufCheckpoint : public StoredCheckpoint {
 public:
  GgufCheckpoint(InputFile file, GgufHeader header) : keys_(std::move(header.keys)) {
    add_file(std::move(file));
    tensors_ = std::move(header.tensors);
    warnings_ = std::move(header.warnings);
    metadata_.reserve(keys_.size());
    for (const GgufKey& key : keys_) metadata_.emplace_back(key.key, key.text());
    index_names();
  }

  [[nodiscard]] Format format() const override { return Format::kGguf; }
  [[nodiscard]] std::span<const GgufKey> keys() const { return keys_; }

 protected:
  Status decode(const TensorInfo& tensor, std::int64_t begin,
                std::span<const std::byte> bytes, std::span<float> out) const override {
    if (tensor.encoding.dtype) return StoredCheckpoint::decode(tensor, begin, bytes, out);
    const GgmlType* type = find_ggml_type(tensor.encoding.name);
    const std::optional<std::int64_t> bad = decode_blocks(*type, bytes, out);
    if (!bad) return {};
    const std::int64_t element = begin + *bad * tensor.encoding.block;
    return Status::corrupt(fmt::format(
        "tensor '{}': the scale of the {} block at element {} is infinite or NaN",
        printable(tensor.name), tensor.encoding.name, element));
  }

 private:
  std::vector<GgufKey> keys_;
};

}  // namespace

Result<GgufHeader> parse_gguf(ByteReader in) {
  GgufHeader header;
  PITH_OK(read_version(in, header));
  PITH_TRY(const HeaderCounts counts, read_counts(in));
  PITH_OK(read_keys(in, counts.keys, header));
  PITH_OK(read_tensors(in, counts.tensors, header));
  PITH_OK(place_tensors(in, header));
  warn_of_split(header);
  return header;
}

CheckpointResult open_gguf(InputFile file) {
  Result<GgufHeader> header = parse_gguf(ByteReader(file, 0, file.size()));
  if (!header) return header.error().with_context(file.name());
  return std::unique_ptr<Checkpoint>(
      std::make_unique<GgufCheckpoint>(std::move(file), *std::move(header)));
}

std::span<const GgufKey> gguf_keys(const Checkpoint& checkpoint) {
  const auto* gguf = dynamic_cast<const GgufCheckpoint*>(&checkpoint);
  return gguf != nullptr ? gguf->keys() : std::span<const GgufKey>();
}

}  // namespace pith
