// A stage of compression: what it does to a tensor, and how the tensor is stored
// afterwards.
//
//   auto half = pith::prune_stage({.sparsity = 0.5f});
//   auto int8 = pith::quantize_stage(pith::Scheme::int8_rows());
//
// A stage of one's own says its name, checks its options and changes values in place:
//
//   class Round : public pith::Stage {
//    public:
//     std::string_view name() const override { return "round"; }
//     pith::Status validate() const override { return {}; }
//     pith::Status apply(const pith::TensorHeader&, std::span<float> v) const override {
//       for (float& x : v) x = std::round(x);
//       return {};
//     }
//   };
//
// Stages are immutable and thread-safe: tensors are worked on in parallel. Values are f32
// between stages; a stage that quantizes leaves the values that its codes decode to, and
// notes the codes in the Storage. So sizes come from one place, whatever the order of
// stages, and an estimate is what a run gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/calibrate/observer.h"
#include "pith/prune/prune.h"
#include "pith/quantize/scheme.h"
#include "pith/quantize/smooth.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/shape.h"

namespace pith {

/// A tensor before any of its values is read.
struct TensorHeader {
  std::string name;
  Shape shape;
};

/// How a tensor is stored: plain numbers, or codes and scales.
struct Storage {
  DType dtype = DType::kF32;     ///< of plain numbers
  std::optional<Scheme> scheme;  ///< instead
  bool column_scale = false;     ///< and an f32 per column, to multiply it by

  /// Bytes of the codes (or of the plain numbers) alone, which is how the reference
  /// counts.
  [[nodiscard]] std::int64_t code_bytes(const Shape& shape) const;
  /// All bytes: codes, scales and zero points; without names and padding.
  [[nodiscard]] std::int64_t stored_bytes(const Shape& shape) const;

  friend bool operator==(const Storage&, const Storage&) = default;
};

/// A tensor in memory that a stage changes in place.
struct StageTensor {
  const TensorHeader& spec;
  std::span<float> values;
};

/// What a stage does to tensors that are read row by row:
///
///   stream.preview(sample, run);              // optional: may save a pass
///   while (stream.needs_pass()) {
///     for (each chunk) PITH_OK(stream.feed(chunk));
///     PITH_OK(stream.end_pass());
///   }
///   for (each chunk) PITH_OK(stream.apply(chunk));
///
/// Chunks are whole rows, consecutive, tensor after tensor; their sizes may differ from
/// pass to pass. The result is that of Stage::apply on the whole tensor, bit for bit, and
/// it is the same each time after a rewind(): later stages have passes of their own.
class StageStream {
 public:
  virtual ~StageStream() = default;

  /// Values from all over the tensor, in runs of `run` neighbours, before the first pass.
  virtual void preview(std::span<const float> sample, std::int64_t run);
  /// True while all values must be fed once more.
  [[nodiscard]] virtual bool needs_pass() const { return false; }
  /// Bytes that it holds at most, if they are many: for plans.
  [[nodiscard]] virtual std::int64_t memory_bytes() const { return 0; }
  virtual Status feed(std::span<const float> values);
  virtual Status end_pass();
  virtual Status apply(std::span<float> values) = 0;
  /// True if chunks of whole rows may come in any order and from several threads at once:
  /// by feed_apart() while a pass is needed, by apply_apart() afterwards. `first` is the
  /// first element of a chunk.
  [[nodiscard]] virtual bool works_apart() const { return false; }
  virtual Status feed_apart(std::span<const float> values, std::int64_t first);
  /// Leaves the values as they are and writes to `out`, which may be where they are.
  /// `mask` as in apply_with_mask(), or empty. Returns how many values are not zero.
  virtual Result<std::int64_t> apply_apart(std::span<const float> values,
                                           std::int64_t first, std::span<float> out,
                                           std::span<std::byte> mask);
  /// What each column must be multiplied by to be as it was, if the stage scales columns
  /// (Storage::column_scale); after the passes.
  [[nodiscard]] virtual std::span<const float> column_scale() const { return {}; }
  /// The largest magnitude that apply() leaves, if passes have told it.
  [[nodiscard]] virtual std::optional<float> largest() const { return std::nullopt; }
  /// Goes back to the first chunk: apply() is to begin anew.
  virtual Status rewind() { return {}; }
  /// Of a stage whose tensors compete, after the passes over all of them: what it does to
  /// one, apart from the others. kUnsupported if it cannot.
  [[nodiscard]] virtual Result<std::unique_ptr<StageStream>> part(
      std::size_t tensor) const;
  /// apply() that also tells what is kept, in the bytes of those rows as in BitMask.
  /// kUnsupported unless the stage makes masks (Stage::kept).
  virtual Status apply_with_mask(std::span<float> values, std::span<std::byte> mask);
};

class Stage {
 public:
  virtual ~Stage() = default;

  /// As in recipes and reports: "prune", "quantize", ...
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// With its options, for people: "prune 0.5 l1", "int8 row f32"; by default the name.
  [[nodiscard]] virtual std::string describe() const;

  /// Checks all options; kInvalidArgument names option, value and range. Called before
  /// any tensor is touched, and by estimates.
  [[nodiscard]] virtual Status validate() const = 0;

  /// Why the stage leaves this tensor as it is ("not two-dimensional"); empty if it takes
  /// it.
  [[nodiscard]] virtual std::string skip_reason(const TensorHeader& tensor) const;

  /// Fails where apply() would fail by the shape alone.
  [[nodiscard]] virtual Status fits(const TensorHeader& tensor) const;

  /// How many weights the stage keeps and all others zeroes, if it makes masks and the
  /// shape alone tells it.
  [[nodiscard]] virtual std::optional<std::int64_t> kept(
      const TensorHeader& tensor) const;

  /// True if tensors compete with each other, so that all of them are needed at once.
  [[nodiscard]] virtual bool joint() const { return false; }

  /// True for a stage that ends a chain: it tells how values are stored.
  [[nodiscard]] virtual bool stores() const { return false; }

  /// How a tensor that was stored as `before` is stored after this stage.
  [[nodiscard]] virtual Storage storage(const Storage& before) const { return before; }
  /// True if it multiplies columns, by factors that are stored beside them.
  [[nodiscard]] bool scales_columns() const { return storage({}).column_scale; }

  /// Of the data that the stage has beside its options, so that a run is only continued
  /// with the same; 0 if there is none.
  [[nodiscard]] virtual std::uint64_t data_hash() const { return 0; }

  /// Changes the values of one tensor. The message of an error names the tensor.
  virtual Status apply(const TensorHeader& tensor, std::span<float> values) const = 0;

  /// Changes all tensors that the stage takes: in parallel by apply(), unless they
  /// compete with each other. The error is that of the first tensor that has one.
  virtual Status apply_all(std::span<const StageTensor> tensors) const;

  /// For one tensor with elements that the stage takes, or for all of them where they
  /// compete. kUnsupported if the stage cannot work row by row: the tensor must then fit
  /// in memory.
  [[nodiscard]] virtual Result<std::unique_ptr<StageStream>> stream(
      std::span<const TensorHeader> tensors) const;
};

using StagePtr = std::shared_ptr<const Stage>;

/// Zeroes the least important weights (prune.h). Tensors without elements, and those
/// that are not two-dimensional where rows, columns or blocks are pruned, are left as
/// they are. Importance::kWanda needs statistics and is refused by validate().
StagePtr prune_stage(const PruneOptions& options);

/// Zeroes the smallest magnitudes up to a percentile in (0, 1] (clip.h).
StagePtr clip_stage(float percentile);

/// Draws magnitudes above a percentile in (0, 1] back to it (clip.h).
StagePtr limit_stage(float percentile);

/// Multiplies the columns of weights by SmoothQuant factors (smooth.h), found from the
/// statistics of their input (Observer::input_of) and their own largest magnitudes. The
/// inverse factors are stored beside the weight (Storage::column_scale): reading it back
/// multiplies by them, and a layer that runs divides its input instead (Linear). Weights
/// without statistics are left as they are.
StagePtr smooth_stage(std::shared_ptr<const Observer> statistics,
                      const SmoothOptions& options = {});

/// Quantizes (quantize.h). Tensors that the scheme does not fit are an error.
StagePtr quantize_stage(const Scheme& scheme);

/// Rounds to f16, bf16 or f32. A value beyond the largest finite one is an error that
/// names it, unless overflow is allowed; then it becomes infinite.
StagePtr convert_stage(DType dtype, bool allow_overflow = false);

}  // namespace pith
