// Whole checkpoints in pieces: how every long run over tensors goes.
//
//   PieceList list(checkpoint);
//   for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i) list.add(i);
//   Status s = for_each_piece(list, {.cancel = stop, .progress = show}, [&] {
//     return [&, reader = PieceReader(checkpoint)](const Piece& piece) mutable -> Status
//     {
//       PITH_TRY(std::span<const float> values, reader.values(piece));
//       ...
//     };
//   });
//
// Pieces are cut by the sizes of tensors alone. Threads take them in the order of the
// file, each with buffers of its own that it uses again and again, so that memory does
// not grow with a tensor and every piece is worked on while it is in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pith/base/cancel.h"
#include "pith/base/progress.h"
#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/tensor/buffer.h"

namespace pith {

/// Elements of one tensor that are worked on at once.
struct Piece {
  std::size_t tensor = 0;
  std::int64_t begin = 0;   ///< first element
  std::int64_t count = 0;   ///< elements
  std::int64_t number = 0;  ///< of this piece in its tensor
};

class PieceList {
 public:
  /// Values of a piece: 256 KiB as f32, so that input and output stay in the cache of a
  /// core.
  static constexpr std::int64_t kElements = 64 << 10;
  /// Bytes of buffers that a thread needs for one piece of plain numbers: as stored, as
  /// f32 and as written, at most 8 bytes each.
  static constexpr std::int64_t kThreadBytes = 3 * 8 * kElements;

  static constexpr std::int64_t kLeastMemory = 1 << 20;
  /// Pieces of a thread that may wait to be written, with the one it works on.
  static constexpr std::int64_t kHeldPieces = 2;

  /// `max_memory` bounds the buffers of all threads together; at least kLeastMemory.
  PieceList(const Checkpoint& checkpoint, std::int64_t max_memory);

  /// Appends the pieces of a tensor. kNoSpace if it can only be decoded by rows, and one
  /// row is larger than the memory.
  Status add(std::size_t tensor);

  /// The same cut at multiples of `alignment` elements, whatever the memory; kNoSpace if so
  /// many do not fit in it. A piece has up to `strips` times strip(alignment) elements, as
  /// the memory allows.
  Status add_aligned(std::size_t tensor, std::int64_t alignment, std::int64_t strips = 1);

  /// About kElements: what is worked on at once where pieces begin at such multiples.
  [[nodiscard]] static std::int64_t strip(std::int64_t alignment);

  [[nodiscard]] const Checkpoint& checkpoint() const { return *checkpoint_; }
  /// Pieces of one item are worked on in order by one thread.
  struct Item {
    std::size_t first = 0;  ///< index into pieces()
    std::size_t last = 0;   ///< one behind the last
  };
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  [[nodiscard]] std::int64_t threads() const { return threads_; }
  /// Bytes of all tensors added, as stored.
  [[nodiscard]] std::int64_t total_bytes() const { return total_bytes_; }

 private:
  void add_pieces(std::size_t tensor, std::int64_t step);

  const Checkpoint* checkpoint_;
  std::int64_t max_memory_;
  std::int64_t threads_;
  std::int64_t elements_;  // of a piece
  std::int64_t total_bytes_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Item> items_;
};

struct PieceOptions {
  const CancelToken* cancel = nullptr;
  const ProgressFunction* progress = nullptr;
};

using PieceFunction = std::function<Status(const Piece&)>;

/// Calls make_worker() once per thread, and what it returns for every piece. The first
/// error in the order of the pieces is the result; after one, no new piece is begun.
/// kCancelled.
Status for_each_piece(const PieceList& list, const PieceOptions& options,
                      const std::function<PieceFunction()>& make_worker);

/// Reads pieces into memory that is used again: a span is good until the next is read.
class PieceReader {
 public:
  /// What a reader goes round in: more than the cache of a core, as processors copy a fifth
  /// faster to memory that is not in there.
  static constexpr std::int64_t kRoom = 2 << 20;
  /// As much of it as a sixteenth of the memory allows, if all threads have a reader.
  [[nodiscard]] static std::int64_t room_within(std::int64_t max_memory);

  /// `room`: bytes to go round in; without, all pieces are read to one place.
  explicit PieceReader(const Checkpoint& checkpoint, std::int64_t room = 0)
      : checkpoint_(&checkpoint), room_(room) {}

  /// As stored. Fails as Checkpoint::read_bytes.
  Result<std::span<const std::byte>> bytes(const Piece& piece);
  /// As f32. `to_odd`: what f32 cannot hold is rounded so that rounding it once more to a
  /// shorter type is as good as rounding once. Fails as Checkpoint::read_rows.
  Result<std::span<const float>> values(const Piece& piece, bool to_odd = false);

 private:
  /// Memory for bytes of a tensor from byte `begin` on.
  std::span<std::byte> place_for(std::size_t tensor, std::int64_t begin,
                                 std::int64_t bytes);

  const Checkpoint* checkpoint_;
  std::int64_t room_;
  std::int64_t next_ = 0;  // byte of bytes_
  Buffer bytes_;           // as they are read
  Buffer values_;          // as they are decoded
};

/// Archives may be compressed: their tensors are read from the beginning to the end.
[[nodiscard]] bool reads_forward(Format format);

/// `bytes` of `buffer`, which grows if it must and is never smaller again. They are aligned
/// to 64, unless they go to byte `place` of a file: then they lie in their line of 64 bytes
/// as that does, and the system copies them by whole lines, a fifth faster. Formats put
/// numbers at multiples of their size, so they are aligned there as well.
std::span<std::byte> use_buffer(Buffer& buffer, std::int64_t bytes,
                                std::int64_t place = 0);

}  // namespace pith
