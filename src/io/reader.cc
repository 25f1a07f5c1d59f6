#include "src/io/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/checked.h"

namespace pith {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kWindow = 64 << 10;

}  // namespace

ByteReader::ByteReader(const InputFile& file, std::uint64_t begin, std::uint64_t end)
    : file_(&file),
      window_begin_(begin),
      position_(begin),
      end_(std::max(begin, std::min(end, file.size()))) {}

Status ByteReader::need(std::uint64_t bytes, std::string_view what) const {
  if (bytes <= remaining()) return {};
  return Status::corrupt(fmt::format("byte {}: {} needs {} bytes, but only {} are left",
                                     position_, what, bytes, remaining()));
}

Status ByteReader::bytes(std::span<std::byte> out, std::string_view what) {
  PITH_OK(need(out.size(), what));
  while (!out.empty()) {
    const std::uint64_t into = position_ - window_begin_;
    if (into >= window_.size()) {
      if (out.size() >= kWindow) {  // larger than the window: straight from the file
        PITH_OK(file_->read_exact(position_, out));
        position_ += out.size();
        return {};
      }
      buffer_.resize(
          static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, remaining())));
      PITH_OK(file_->read_exact(position_, buffer_));
      window_ = buffer_;
      window_begin_ = position_;
      continue;
    }
    const std::span<const std::byte> ready =
        window_.subspan(static_cast<std::size_t>(into));
    const std::size_t n = std::min(ready.size(), out.size());
    std::memcpy(out.data(), ready.data(), n);
    out = out.subspan(n);
    position_ += n;
  }
  return {};
}

Result<std::string> ByteReader::string(std::uint64_t length, std::uint64_t limit,
                                       std::string_view what) {
  PITH_OK(need(length, what));
  if (length > limit) {
    return Status::corrupt(fmt::format("byte {}: {} has {} bytes, at most {} are allowed",
                                       position_, what, length, limit));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  PITH_OK(bytes(std::as_writable_bytes(std::span(text)), what));
  return text;
}

Status ByteReader::skip(std::uint64_t bytes, std::string_view what) {
  PITH_OK(need(bytes, what));
  position_ += bytes;
  return {};
}

Status ByteReader::align(std::uint64_t alignment, std::string_view what) {
  const CheckedSize next = CheckedSize(position_).round_up(alignment);
  if (!next.at_most(end_)) {
    return Status::corrupt(
        fmt::format("byte {}: {} up to a multiple of {} is beyond the end", position_,
                    what, alignment));
  }
  position_ = next.value();
  return {};
}

Result<std::uint64_t> ByteReader::count(std::uint64_t count, std::uint64_t item_bytes,
                                        std::string_view what) const {
  if ((CheckedSize(count) * item_bytes).at_most(remaining())) return count;
  return Status::corrupt(fmt::format(
      "byte {}: {} of {} items needs at least {} bytes each, but only {} are left",
      position_, what, count, item_bytes, remaining()));
}

}  // namespace pith
