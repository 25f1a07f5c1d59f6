#include "src/io/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/plain.h"

namespace pith {
namespace {

// Bytes read before they are decoded: they stay in the cache of one core.
constexpr std::int64_t kStoredPiece = 128 << 10;

// One per thread, for its life: the first touch of fresh memory costs 20 times what
// reading it does.
std::span<std::byte> piece_buffer() {
  thread_local const std::unique_ptr<std::byte[]> buffer(new std::byte[kStoredPiece]);
  return {buffer.get(), static_cast<std::size_t>(kStoredPiece)};
}

Status check_tensor(const Checkpoint& checkpoint, std::size_t tensor) {
  if (tensor < checkpoint.tensors().size()) return {};
  return Status::invalid_argument(fmt::format("tensor {} is asked for, but there are {}",
                                              tensor, checkpoint.tensors().size()));
}

}  // namespace

Status check_rows(const Checkpoint& checkpoint, std::size_t tensor, std::int64_t first,
                  std::int64_t rows, std::size_t out_size) {
  PITH_OK(check_tensor(checkpoint, tensor));
  const TensorInfo& info = checkpoint.tensors()[tensor];
  const std::int64_t all = info.shape.rows();
  if (first < 0 || rows < 0 || first > all || rows > all - first) {
    return Status::invalid_argument(
        fmt::format("tensor '{}': {} rows from row {} on are asked for, but it has {}",
                    printable(info.name), rows, first, all));
  }
  const auto elements = static_cast<std::uint64_t>(rows * info.shape.cols());
  if (out_size != elements) {
    return Status::invalid_argument(
        fmt::format("tensor '{}': room for {} values is given, but {} rows have {}",
                    printable(info.name), out_size, rows, elements));
  }
  if (!info.encoding.decodable) {
    return Status::unsupported(fmt::format(
        "tensor '{}': values of type {} cannot be decoded, only copied as they are",
        printable(info.name), info.encoding.name));
  }
  return {};
}

Status check_bytes(const Checkpoint& checkpoint, std::size_t tensor, std::int64_t offset,
                   std::size_t out_size) {
  PITH_OK(check_tensor(checkpoint, tensor));
  const TensorInfo& info = checkpoint.tensors()[tensor];
  const CheckedSize end = CheckedSize::from_signed(offset) + out_size;
  if (end.at_most(static_cast<std::uint64_t>(info.bytes))) return {};
  return Status::invalid_argument(
      fmt::format("tensor '{}': {} bytes from byte {} on are asked for, but it has {}",
                  printable(info.name), out_size, offset, info.bytes));
}

void StoredCheckpoint::add_file(InputFile file) {
  files_.push_back(file.path());
  inputs_.push_back(std::move(file));
}

Status StoredCheckpoint::decode(const TensorInfo& tensor, std::int64_t /*begin*/,
                                std::span<const std::byte> bytes,
                                std::span<float> out) const {
  decode_plain(*tensor.encoding.dtype, bytes, out);
  return {};
}

Status StoredCheckpoint::read_rows(std::size_t tensor, std::int64_t first,
                                   std::int64_t rows, std::span<float> out) const {
  PITH_OK(check_rows(*this, tensor, first, rows, out.size()));
  const TensorInfo& info = tensors_[tensor];
  const Encoding& encoding = info.encoding;
  std::int64_t element = first * info.shape.cols();
  // Within the file's size, which was checked when it was opened.
  std::uint64_t offset =
      info.offset +
      static_cast<std::uint64_t>(element / encoding.block * encoding.block_bytes);
  const InputFile& file = inputs_[info.file];
  if (encoding.dtype == DType::kF32) {
    return file.read_exact(offset, std::as_writable_bytes(out));
  }
  const std::int64_t piece_blocks =
      std::max<std::int64_t>(1, kStoredPiece / encoding.block_bytes);
  const std::span<std::byte> buffer = piece_buffer();
  while (!out.empty()) {
    const auto left = static_cast<std::int64_t>(out.size());
    const std::int64_t n = std::min(left, piece_blocks * encoding.block);
    const std::span<std::byte> bytes =
        buffer.first(static_cast<std::size_t>(n / encoding.block * encoding.block_bytes));
    PITH_OK(file.read_exact(offset, bytes));
    const std::span<float> values = out.first(static_cast<std::size_t>(n));
    if (Status s = decode(info, element, bytes, values); !s.ok()) {
      return s.with_context(file.name());
    }
    out = out.subspan(static_cast<std::size_t>(n));
    offset += bytes.size();
    element += n;
  }
  return {};
}

Status StoredCheckpoint::read_bytes(std::size_t tensor, std::int64_t offset,
                                    std::span<std::byte> out) const {
  PITH_OK(check_bytes(*this, tensor, offset, out.size()));
  const TensorInfo& info = tensors_[tensor];
  return inputs_[info.file].read_exact(info.offset + static_cast<std::uint64_t>(offset),
                                       out);
}

}  // namespace pith
