#include "src/io/views.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/io/plain.h"
#include "src/io/stored.h"

namespace pith {
namespace {

// Bytes that are read before they are decoded. Elements in row-major order: what stays in
// the cache of one core. Others: what makes rows of a transposed matrix worth a read.
constexpr std::int64_t kViewPiece = 128 << 10;
constexpr std::int64_t kStridedPiece = 4 << 20;

template <typename T>
void swap_all(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    std::reverse(bytes.data() + i, bytes.data() + i + sizeof(T));
  }
}

void swap_bytes(std::int64_t item_bytes, std::span<std::byte> bytes) {
  switch (item_bytes) {
    case 2:
      return swap_all<std::uint16_t>(bytes);
    case 4:
      return swap_all<std::uint32_t>(bytes);
    case 8:
      return swap_all<std::uint64_t>(bytes);
    default:
      return;
  }
}

}  // namespace

Status in_file(const Status& status, const std::string& name) {
  return name.empty() || status.message().starts_with(name) ? status
                                                            : status.with_context(name);
}

void ViewCheckpoint::set_file(std::filesystem::path path, std::string name) {
  files_.clear();
  files_.push_back(std::move(path));
  name_ = std::move(name);
}

void ViewCheckpoint::add_tensor(TensorInfo info, TensorBytes bytes) {
  bytes.row_major = is_row_major(bytes.view);
  info.bytes = info.shape.elements() * bytes.view.item_bytes;
  tensors_.push_back(std::move(info));
  places_.push_back(std::move(bytes));
}

Status ViewCheckpoint::read_elements(std::size_t tensor, std::int64_t first,
                                     std::int64_t count, std::span<std::byte> out) const {
  const TensorBytes& place = places_[tensor];
  const StridedView& view = place.view;
  Status status;
  if (place.row_major) {
    if (count > 0) {
      status = view.source->read(
          view.begin + static_cast<std::uint64_t>(first * view.item_bytes), out);
    }
  } else {
    status = read_strided(view, first, count, out);
  }
  if (!status.ok()) return in_file(status, name_);
  if (place.big_endian) swap_bytes(view.item_bytes, out);
  return {};
}

Status ViewCheckpoint::read_rows(std::size_t tensor, std::int64_t first,
                                 std::int64_t rows, std::span<float> out) const {
  PITH_OK(check_rows(*this, tensor, first, rows, out.size()));
  const TensorInfo& info = tensors_[tensor];
  const std::int64_t item = places_[tensor].view.item_bytes;
  std::int64_t element = first * info.shape.cols();
  if (info.encoding.dtype == DType::kF32) {
    return read_elements(tensor, element, std::ssize(out), std::as_writable_bytes(out));
  }
  const std::int64_t piece =
      (places_[tensor].row_major ? kViewPiece : kStridedPiece) / item;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min(piece, std::ssize(out)) * item));
  while (!out.empty()) {
    const std::int64_t n = std::min(piece, std::ssize(out));
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(n * item));
    PITH_OK(read_elements(tensor, element, n, bytes));
    decode_plain(*info.encoding.dtype, bytes, out.first(static_cast<std::size_t>(n)));
    out = out.subspan(static_cast<std::size_t>(n));
    element += n;
  }
  return {};
}

Status ViewCheckpoint::read_bytes(std::size_t tensor, std::int64_t offset,
                                  std::span<std::byte> out) const {
  PITH_OK(check_bytes(*this, tensor, offset, out.size()));
  const std::int64_t item = places_[tensor].view.item_bytes;
  // An element of which only a part is asked for, at either end, goes through `whole`.
  std::array<std::byte, sizeof(std::uint64_t)> whole = {};
  const auto element = std::span(whole).first(static_cast<std::size_t>(item));
  while (!out.empty()) {
    const std::int64_t skip = offset % item;
    if (skip == 0 && std::ssize(out) >= item) {
      const std::int64_t n = std::ssize(out) / item;
      const auto bytes = out.first(static_cast<std::size_t>(n * item));
      PITH_OK(read_elements(tensor, offset / item, n, bytes));
      out = out.subspan(bytes.size());
      offset += std::ssize(bytes);
      continue;
    }
    PITH_OK(read_elements(tensor, offset / item, 1, element));
    const std::int64_t n = std::min(item - skip, std::ssize(out));
    std::memcpy(out.data(), whole.data() + skip, static_cast<std::size_t>(n));
    out = out.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return {};
}

}  // namespace pith
