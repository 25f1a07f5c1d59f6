// Compresses one tensor: passes over its values first, if stages or the scheme need them,
// then piece by piece.
//
//   TensorRun run(plan, tensor, writer, options, meeting);
//   PITH_OK(run.prepare(progress, workers));  // passes
//   for (each piece, by any thread, in order) PITH_OK(run.encode(worker, piece));
//   PITH_OK(run.finish());                    // checksums and figures are known
//
// A piece has some strips. A strip is read, changed and coded by one thread while it is in
// its cache; what it is stored as is written with that of the whole piece. What
// depends on the order of pieces (pruning ties by index, places of kept codes, checksums,
// sums of errors) is done one after the other: a thread that is early goes on with another
// piece, and whoever comes to it finishes this one.
#pragma once

#include <xxhash.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "pith/io/writer.h"
#include "pith/quantize/quantize.h"
#include "pith/report/sample.h"
#include "src/io/pieces.h"
#include "src/pipeline/compress_plan.h"
#include "src/pipeline/ordered.h"

namespace pith {

/// What a piece becomes, until it is written.
struct PieceBuffers {
  std::atomic<bool> used = false;
  Buffer codes;
  Buffer scales;
  Buffer zero_points;
  Buffer mask;
  Buffer out;  ///< codes in another layout
};

/// Buffers of a thread, which are used again by the next piece.
struct CompressWorker {
  CompressWorker(const Checkpoint& source, std::int64_t max_memory)
      : reader(source, PieceReader::room_within(max_memory)) {}

  PieceReader reader;
  Buffer values;  ///< that stages change
  Buffer decoded;
  std::array<PieceBuffers, PieceList::kHeldPieces> pieces;
};

/// Memory of a run, which all tensors use again: fresh memory is slow.
class CompressWorkers {
 public:
  CompressWorkers(const Checkpoint& source, std::int64_t max_memory)
      : source_(source), max_memory_(max_memory) {}

  /// One that nobody has; it is given back when it is let go. Thread-safe.
  std::shared_ptr<CompressWorker> take();
  /// Of the passes that all threads make together.
  Buffer& scratch() { return scratch_; }

 private:
  const Checkpoint& source_;
  std::int64_t max_memory_;
  Buffer scratch_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<CompressWorker>> workers_;
};

/// Bytes of a buffer as f32.
[[nodiscard]] std::span<float> as_floats(std::span<std::byte> bytes);
/// `count` values of a part of a tensor.
Result<TensorView> part_view(DType dtype, std::int64_t count,
                             std::span<const std::byte> bytes);

class TensorRun {
 public:
  TensorRun(const CompressPlan& plan, const TensorPlan& tensor, CheckpointWriter& writer,
            const CompressOptions& options, Meeting& meeting);
  ~TensorRun();

  /// Pieces begin at multiples of it.
  [[nodiscard]] std::int64_t alignment() const;
  /// Strips that a piece may have; after prepare().
  [[nodiscard]] std::int64_t strips() const;
  /// Makes streams and the quantizer, and runs their passes with all threads. `progress` is
  /// told of bytes read. `joint` is the part of the first stage, if its tensors compete.
  Status prepare(const std::function<Status(std::int64_t)>& progress,
                 CompressWorkers& workers, std::unique_ptr<StageStream> joint = nullptr);
  /// All values once, in the order of the tensor.
  using Take = std::function<Status(std::span<float>, std::int64_t)>;
  Status read_all(const std::function<Status(std::int64_t)>& progress,
                  CompressWorkers& workers, const Take& take) {
    return run_pass(0, workers, progress, take);
  }
  /// True if prepare() reads the tensor.
  [[nodiscard]] bool needs_passes() const;
  /// Values that passes have in memory at once.
  [[nodiscard]] static std::int64_t pass_elements(std::int64_t max_memory);

  /// kCancelled if another piece failed meanwhile; an error may be that of another piece
  /// of the tensor.
  Status encode(CompressWorker& worker, const Piece& piece);
  Status finish();

  // After finish().
  [[nodiscard]] const TensorPlan& plan() const { return tensor_; }
  [[nodiscard]] const ErrorFigures& figures() const { return figures_; }
  /// Checksums of parts, in their order.
  [[nodiscard]] const std::vector<std::uint64_t>& checksums() const { return checksums_; }
  /// Non-zero values after each of the plan's stages.
  [[nodiscard]] const std::vector<std::int64_t>& nonzero() const { return nonzero_; }
  [[nodiscard]] const std::optional<TensorSample>& sample() const { return sample_; }

 private:
  struct Part;  // one stored tensor: its checksum so far, and its place in the output
  struct PieceWork;  // what is known of a piece on its way

  Status make_streams(std::unique_ptr<StageStream> joint);
  Status load_whole();
  Status apply_whole(const Stage& stage, std::span<float> values);
  void take_column_scale(const StageStream& stream);
  Status run_pass(std::size_t streams, CompressWorkers& workers,
                  const std::function<Status(std::int64_t)>& progress, const Take& take);
  Status feed_apart(StageStream& stream, CompressWorkers& workers,
                    const std::function<Status(std::int64_t)>& progress);
  Status preview();
  Status scan_by_stages();
  Status copy(CompressWorker& worker, const Piece& piece);
  [[nodiscard]] bool reads_halves() const;
  Result<TensorView> read(CompressWorker& worker, const Piece& piece,
                          std::span<const float>& values);
  Status change(CompressWorker& worker, const Piece& piece, const Piece& strip,
                PieceWork& work);
  [[nodiscard]] std::int64_t kept_bytes() const;
  [[nodiscard]] std::span<std::byte> mask_of(const Piece& piece, const Piece& strip,
                                             const PieceWork& work) const;
  Status clean(std::span<float> values, std::int64_t first,
               std::atomic<std::int64_t>* zeroed = nullptr) const;
  void make_room(PieceBuffers& buffers, const Piece& piece, PieceWork& work) const;
  Status store_values(CompressWorker& worker, const Piece& piece, const Piece& strip,
                      PieceWork& work);
  Status store_codes(CompressWorker& worker, const Piece& piece, const Piece& strip,
                     PieceWork& work);
  void add_figures(const Piece& strip, std::span<const float> before,
                   std::span<const float> after, PieceWork& work) const;
  void undo_column_scale(const Piece& strip, std::span<float> values) const;
  void pack_words(std::span<const std::byte> codes, std::span<std::byte> words) const;
  void gather(const Piece& piece, const Piece& strip, std::span<const std::byte> from,
              PieceWork& work) const;
  Status finish_piece(const Piece& piece, PieceWork& work);
  /// Adds to a part, in the order of its bytes; small pieces wait until they are many, or
  /// the last.
  Status append(std::size_t part, std::span<const std::byte> bytes, bool last);
  void add_sample(const TensorView& source, std::int64_t first);

  const CompressPlan& plan_;
  const TensorPlan& tensor_;
  const TensorInfo& info_;
  CheckpointWriter& writer_;
  const CompressOptions& options_;

  std::vector<std::unique_ptr<StageStream>> streams_;
  std::vector<float> column_scale_;       // of stages that scale columns
  Buffer whole_;                          // all values, if a stage cannot work row by row
  bool checked_ = false;                  // a pass has found all values finite
  std::atomic<std::int64_t> zeroed_ = 0;  // values that were not finite
  std::optional<Quantizer> quantizer_;
  std::vector<Part> parts_;
  bool apart_ = false;  // streams take pieces in any order
  Meeting& meeting_;
  Turns change_turns_;
  Handover finishing_;
  std::int64_t kept_ = 0;       // of a sparse tensor, in the pieces that had their turn
  std::uint8_t half_byte_ = 0;  // a code of 4 bits that waits for its neighbour
  std::vector<std::int64_t> nonzero_;
  ErrorFigures figures_;
  std::atomic<double> known_error_ = -1;  // the largest of pieces that had their turn
  std::vector<std::uint64_t> checksums_;
  std::optional<TensorSample> sample_;
};

}  // namespace pith
