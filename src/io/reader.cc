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

Status ByteReader::fill() {
  if (position_ - window_begin_ < window_.size()) return {};
  buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, remaining())));
  PITH_OK(file_->read_exact(position_, buffer_));
  window_ = buffer_;
  window_begin_ = position_;
  return {};
}

Result<std::span<const std::byte>> ByteReader::piece(std::size_t at_most) {
  if (remaining() == 0) return std::span<const std::byte>();
  PITH_OK(fill());
  const std::span<const std::byte> ready =
      window_.subspan(static_cast<std::size_t>(position_ - window_begin_));
  const std::span<const std::byte> out = ready.first(std::min(at_most, ready.size()));
  position_ += out.size();
  return out;
}

Status ByteReader::bytes(std::span<std::byte> out, std::string_view what) {
  PITH_OK(need(out.size(), what));
  while (!out.empty()) {
    const bool in_window = position_ - window_begin_ < window_.size();
    if (!in_window && out.size() >= kWindow) {  // the window would only be a detour
      PITH_OK(file_->read_exact(position_, out));
      position_ += out.size();
      return {};
    }
    PITH_TRY(const std::span<const std::byte> ready, piece(out.size()));
    std::memcpy(out.data(), ready.data(), ready.size());
    out = out.subspan(ready.size());
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

Result<ByteReader> ByteReader::part(std::uint64_t bytes, std::string_view what) {
  const std::uint64_t begin = position_;
  PITH_OK(skip(bytes, what));
  if (file_ != nullptr) return ByteReader(*file_, begin, position_);
  return ByteReader(window_.subspan(static_cast<std::size_t>(begin - window_begin_),
                                    static_cast<std::size_t>(bytes)),
                    begin);
}

Status ByteReader::skip(std::uint64_t bytes, std::string_view what) {
  if (!is_planted(2)) PITH_OK(need(bytes, what));
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
  if (CheckedSize::array(count, item_bytes).at_most(remaining())) return count;
  return Status::corrupt(fmt::format(
      "byte {}: {} of {} items needs at least {} bytes each, but only {} are left",
      position_, what, count, item_bytes, remaining()));
}

}  // namespace pith
