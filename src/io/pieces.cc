#include "src/io/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "src/base/parallel.h"
#include "src/base/text.h"
#include "src/io/plain.h"
#include "src/kernels/convert.h"

namespace pith {
namespace {

// Plain numbers can be read from any element on; blocks only by rows.
bool is_plain(const TensorInfo& tensor) { return tensor.encoding.dtype.has_value(); }

constexpr std::int64_t kLineBytes = 64;  // of a cache

}  // namespace

bool reads_forward(Format format) {
  return format == Format::kNpz || format == Format::kPytorch;
}

std::span<std::byte> use_buffer(Buffer& buffer, std::int64_t bytes, std::int64_t place) {
  const std::int64_t first = place % kLineBytes;
  if (buffer.size() < first + bytes) buffer = Buffer(kLineBytes + bytes);
  return buffer.bytes().subspan(static_cast<std::size_t>(first),
                                static_cast<std::size_t>(bytes));
}

PieceList::PieceList(const Checkpoint& checkpoint, std::int64_t max_memory)
    : checkpoint_(&checkpoint), max_memory_(std::max(max_memory, kLeastMemory)) {
  threads_ = std::clamp<std::int64_t>(max_memory_ / kThreadBytes, 1, most_threads());
  // A multiple of every block: 256 elements are the largest.
  elements_ = std::min(kElements, max_memory_ / 32 / 256 * 256);
}

Status PieceList::add(std::size_t tensor) {
  const TensorInfo& info = checkpoint_->tensors()[tensor];
  std::int64_t step = elements_;
  if (!is_plain(info)) {
    const std::int64_t cols = std::max<std::int64_t>(1, info.shape.cols());
    step = std::max<std::int64_t>(1, elements_ / cols) * cols;
    // As stored (at most 4 bytes for a value), as f32 and as written.
    if (step > max_memory_ / 12) {
      return {StatusCode::kNoSpace,
              fmt::format("tensor '{}': a row of {} values needs {} bytes, more than the "
                          "limit of {}",
                          printable(info.name), cols, cols * 12, max_memory_)};
    }
    if (step > elements_) {
      threads_ = std::clamp<std::int64_t>(max_memory_ / (step * 12), 1, threads_);
    }
  }
  add_pieces(tensor, step);
  return {};
}

std::int64_t PieceList::strip(std::int64_t alignment) {
  return std::max<std::int64_t>(1, kElements / alignment) * alignment;
}

Status PieceList::add_aligned(std::size_t tensor, std::int64_t alignment,
                              std::int64_t strips) {
  const TensorInfo& info = checkpoint_->tensors()[tensor];
  const std::int64_t step = strip(alignment);
  // As stored, as f32 twice and as written; of further strips only what is written is
  // held.
  constexpr std::int64_t kWritten = 4 * kHeldPieces;
  constexpr std::int64_t kBytes = 4 + 4 + 4 + kWritten;
  if (step > max_memory_ / kBytes && info.shape.elements() > max_memory_ / kBytes) {
    return {StatusCode::kNoSpace,
            fmt::format("tensor '{}': {} values that belong together need {} bytes, more "
                        "than the limit of {}",
                        printable(info.name), step, step * kBytes, max_memory_)};
  }
  threads_ = std::clamp<std::int64_t>(max_memory_ / (step * kBytes), 1, threads_);
  const std::int64_t room = max_memory_ / threads_ / step - kBytes;
  add_pieces(tensor, step * std::clamp<std::int64_t>(room / kWritten, 1, strips));
  return {};
}

void PieceList::add_pieces(std::size_t tensor, std::int64_t step) {
  const TensorInfo& info = checkpoint_->tensors()[tensor];
  const std::int64_t elements = info.shape.elements();
  const std::size_t first = pieces_.size();
  for (std::int64_t begin = 0; begin < elements; begin += step) {
    pieces_.push_back({tensor, begin, std::min(step, elements - begin), begin / step});
    if (!reads_forward(checkpoint_->format())) {
      items_.push_back({pieces_.size() - 1, pieces_.size()});
    }
  }
  if (reads_forward(checkpoint_->format()) && pieces_.size() > first) {
    items_.push_back({first, pieces_.size()});
  }
  total_bytes_ += info.bytes;
}

Status for_each_piece(const PieceList& list, const PieceOptions& options,
                      const std::function<PieceFunction()>& make_worker) {
  const std::vector<TensorInfo>& tensors = list.checkpoint().tensors();
  const auto items = static_cast<std::int64_t>(list.items().size());
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;  // of what follows
  Status first_error;
  std::size_t first_failed = list.pieces().size();
  std::int64_t done = 0;

  const auto work = [&](const PieceFunction& body, std::size_t number) {
    const Piece& piece = list.pieces()[number];
    Status status = check_cancelled(options.cancel);
    if (status.ok()) status = body(piece);
    const std::lock_guard lock(mutex);
    if (!status.ok()) {
      failed = true;
      if (number < first_failed) {
        first_failed = number;
        first_error = std::move(status);
      }
      return false;
    }
    if (options.progress != nullptr && *options.progress) {
      const TensorInfo& info = tensors[piece.tensor];
      // As if every element had as many bytes as the average: the sum is the tensor's.
      const double share =
          static_cast<double>(info.bytes) / static_cast<double>(info.shape.elements());
      const auto at = [&](std::int64_t element) {
        return static_cast<std::int64_t>(share * static_cast<double>(element));
      };
      done += at(piece.begin + piece.count) - at(piece.begin);
      (*options.progress)({info.name, done, list.total_bytes()});
    }
    return true;
  };
  parallel_for(std::min(list.threads(), items), [&](std::int64_t) {
    const PieceFunction body = make_worker();
    isolated([&] {
      while (!failed) {
        const std::int64_t item = next++;
        if (item >= items) return;
        const PieceList::Item range = list.items()[static_cast<std::size_t>(item)];
        for (std::size_t i = range.first; i < range.last; ++i) {
          if (failed || !work(body, i)) return;
        }
      }
    });
  });
  return first_error;
}

std::int64_t PieceReader::room_within(std::int64_t max_memory) {
  return std::min(kRoom, max_memory / 16 / most_threads());
}

// Processors that copy by an instruction of their own (Zen 3, Zen 4) take four times as long
// for memory that lies less than 32 bytes behind what is copied, in their pages: a store
// then seems to change what is loaded next. Where a file's header makes it so, a line is
// left out.
std::span<std::byte> PieceReader::place_for(std::size_t tensor, std::int64_t begin,
                                            std::int64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t place =
      checkpoint_->tensors()[tensor].offset + static_cast<std::uint64_t>(begin);
  const std::int64_t lines = (bytes + kLineBytes - 1) / kLineBytes + 1;
  if (next_ + lines * kLineBytes > room_) next_ = 0;
  const std::span<std::byte> out = use_buffer(bytes_, std::max(room_, lines * kLineBytes))
                                       .subspan(static_cast<std::size_t>(next_));
  next_ += lines * kLineBytes;
  const std::uint64_t behind =
      (reinterpret_cast<std::uintptr_t>(out.data()) - place) % kPage;
  const bool close = behind > 0 && behind < std::uint64_t{kLineBytes};
  return out.subspan(close ? kLineBytes : 0, static_cast<std::size_t>(bytes));
}

Result<std::span<const std::byte>> PieceReader::bytes(const Piece& piece) {
  const Encoding& encoding = checkpoint_->tensors()[piece.tensor].encoding;
  const auto place = [&](std::int64_t element) {
    return element / encoding.block * encoding.block_bytes;
  };
  const std::int64_t begin = place(piece.begin);
  const std::span<std::byte> out =
      place_for(piece.tensor, begin, place(piece.begin + piece.count) - begin);
  PITH_OK(checkpoint_->read_bytes(piece.tensor, begin, out));
  return std::span<const std::byte>(out);
}

Result<std::span<const float>> PieceReader::values(const Piece& piece, bool to_odd) {
  const TensorInfo& info = checkpoint_->tensors()[piece.tensor];
  const auto count = static_cast<std::size_t>(piece.count);
  if (info.encoding.dtype == DType::kF32) {
    PITH_TRY(const std::span<const std::byte> stored, bytes(piece));
    return std::span(reinterpret_cast<const float*>(stored.data()), count);
  }
  const std::span out(
      reinterpret_cast<float*>(use_buffer(values_, piece.count * 4).data()), count);
  if (!is_plain(info)) {
    const std::int64_t cols = std::max<std::int64_t>(1, info.shape.cols());
    PITH_OK(checkpoint_->read_rows(piece.tensor, piece.begin / cols, piece.count / cols,
                                   out));
    return std::span<const float>(out);
  }
  const DType dtype = *info.encoding.dtype;
  if (!is_decodable(dtype)) {
    return Status::unsupported(fmt::format(
        "tensor '{}': values of type {} cannot be decoded, only copied as they are",
        printable(info.name), info.encoding.name));
  }
  PITH_TRY(const std::span<const std::byte> stored, bytes(piece));
  if (kernels::converts_to_f32(dtype)) {
    kernels::to_f32({.from = dtype,
                     .in = stored.data(),
                     .out = out.data(),
                     .count = piece.count,
                     .to_odd = to_odd});
  } else {
    decode_plain(dtype, stored, out);
  }
  return std::span<const float>(out);
}

}  // namespace pith
