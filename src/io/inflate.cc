#include "src/io/inflate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace pith {
namespace {

constexpr std::uint64_t kInput = 64 << 10;
constexpr std::uint64_t kSkip = 64 << 10;
constexpr std::uint64_t kPlaces = 32;
constexpr std::uint64_t kMinSpacing = 1 << 20;
constexpr int kRawDeflate = -15;  // no zlib header, a window of 32 KiB

}  // namespace

void InflateStream::State::End::operator()(z_stream* stream) const {
  inflateEnd(stream);
  delete stream;
}

InflateStream::InflateStream(const ByteSource& file, std::uint64_t begin,
                             std::uint64_t compressed, std::uint64_t uncompressed,
                             std::uint32_t crc)
    : file_(file),
      begin_(begin),
      compressed_(compressed),
      uncompressed_(uncompressed),
      crc_(crc),
      spacing_(std::max(kMinSpacing, uncompressed / kPlaces + 1)) {}

void InflateStream::start(State& state) {
  state = State();
  state.z.reset(new z_stream());
  if (inflateInit2(state.z.get(), kRawDeflate) != Z_OK) throw std::bad_alloc();
}

void InflateStream::copy(const State& from, State& to) {
  to.z.reset(new z_stream());
  if (inflateCopy(to.z.get(), from.z.get()) != Z_OK) throw std::bad_alloc();
  to.in = from.in;
  to.out = from.out;
  to.crc = from.crc;
}

Status InflateStream::read(std::uint64_t offset, std::span<std::byte> out) {
  PITH_OK(failed_);
  if (!(CheckedSize(offset) + out.size()).at_most(uncompressed_)) {
    return Status::corrupt(fmt::format("{} bytes from byte {} on are beyond the end, {}",
                                       out.size(), offset, uncompressed_));
  }
  Status status = seek(offset);
  if (status.ok()) status = inflate_next(out);
  if (status.ok() && state_.out == uncompressed_) status = finish();
  failed_ = status;
  return status;
}

Status InflateStream::seek(std::uint64_t offset) {
  const auto after = std::upper_bound(
      places_.begin(), places_.end(), offset,
      [](std::uint64_t wanted, const State& place) { return wanted < place.out; });
  const State* nearest = after == places_.begin() ? nullptr : &*(after - 1);
  const bool behind = state_.z == nullptr || offset < state_.out;
  if (nearest != nullptr && (behind || nearest->out > state_.out)) {
    copy(*nearest, state_);
  } else if (behind) {
    start(state_);
  }
  std::vector<std::byte> unused(
      static_cast<std::size_t>(std::min(kSkip, offset - state_.out)));
  while (state_.out < offset) {
    const auto n = static_cast<std::size_t>(
        std::min<std::uint64_t>(unused.size(), offset - state_.out));
    PITH_OK(inflate_next(std::span(unused).first(n)));
  }
  return {};
}

Status InflateStream::refill() {
  z_stream& z = *state_.z;
  if (state_.in < input_begin_ || state_.in - input_begin_ >= input_.size()) {
    const std::uint64_t left = compressed_ - state_.in;
    input_.resize(static_cast<std::size_t>(std::min(kInput, left)));
    if (Status s = file_.read(begin_ + state_.in, input_); !s.ok()) {
      input_.clear();
      return s;
    }
    input_begin_ = state_.in;
  }
  const auto at = static_cast<std::size_t>(state_.in - input_begin_);
  z.next_in = reinterpret_cast<Bytef*>(input_.data() + at);
  z.avail_in = static_cast<uInt>(input_.size() - at);
  return {};
}

Status InflateStream::inflate_next(std::span<std::byte> out) {
  while (!out.empty()) {
    PITH_OK(refill());
    z_stream& z = *state_.z;
    // Stops at the next place where the state is to be kept.
    const std::uint64_t next_place = (places_.size() + 1) * spacing_;
    std::uint64_t n = std::min<std::uint64_t>(out.size(), 1 << 30);
    if (next_place > state_.out) n = std::min(n, next_place - state_.out);
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(n);
    const uInt had = z.avail_in;
    const int code = inflate(&z, Z_NO_FLUSH);
    const std::uint64_t used = had - z.avail_in;
    const std::uint64_t made = n - z.avail_out;
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      if (code == Z_MEM_ERROR) throw std::bad_alloc();
      return Status::corrupt(fmt::format("deflated data is broken at byte {}: {}",
                                         state_.in,
                                         z.msg != nullptr ? z.msg : "unknown error"));
    }
    state_.crc = static_cast<std::uint32_t>(
        crc32_z(state_.crc, reinterpret_cast<const Bytef*>(out.data()),
                static_cast<std::size_t>(made)));
    state_.in += used;
    state_.out += made;
    out = out.subspan(static_cast<std::size_t>(made));
    const bool stuck = used == 0 && made == 0;
    if (!out.empty() && (code == Z_STREAM_END || stuck)) {
      return Status::corrupt(fmt::format("deflated data ends after {} of {} bytes",
                                         state_.out, uncompressed_));
    }
    if (state_.out == next_place && state_.out < uncompressed_) {
      places_.emplace_back();
      copy(state_, places_.back());
    }
  }
  return {};
}

// The content is complete: nothing may come after it, and its checksum must be right.
Status InflateStream::finish() {
  z_stream& z = *state_.z;
  std::byte extra{};
  while (true) {
    PITH_OK(refill());
    z.next_out = reinterpret_cast<Bytef*>(&extra);
    z.avail_out = 1;
    const uInt had = z.avail_in;
    const int code = inflate(&z, Z_NO_FLUSH);
    const std::uint64_t used = had - z.avail_in;
    state_.in += used;
    if (z.avail_out == 0) {
      return Status::corrupt(fmt::format(
          "deflated data has more than the {} bytes it is said to have", uncompressed_));
    }
    if (code == Z_STREAM_END) break;
    if (code != Z_OK && code != Z_BUF_ERROR) {
      return Status::corrupt(
          fmt::format("deflated data is broken at byte {}", state_.in));
    }
    if (used == 0) return Status::corrupt("deflated data has no end: it is truncated");
  }
  if (state_.in != compressed_) {
    return Status::corrupt(fmt::format("{} bytes behind the end of the deflated data",
                                       compressed_ - state_.in));
  }
  if (state_.crc != crc_) {
    return Status::corrupt(fmt::format(
        "CRC-32 is {:08x}, expected {:08x}: the data is damaged", state_.crc, crc_));
  }
  return {};
}

}  // namespace pith
