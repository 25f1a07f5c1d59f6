// Pruning tensors that are read row by row, in memory that does not grow with them.
//
//   PITH_TRY(pith::PruneStream stream, pith::PruneStream::make(options, {{name,
//   shape}})); while (stream.needs_pass()) {
//     for (each chunk of whole rows) if (auto s = stream.feed(chunk); !s.ok()) return s;
//     if (auto s = stream.end_pass(); !s.ok()) return s;
//   }
//   for (each chunk) if (auto s = stream.apply(chunk, mask_bytes); !s.ok()) return s;
//
// Chunks are whole rows, consecutive, tensor after tensor; their sizes may differ from
// pass to pass. The result is that of prune() or, with PruneScope::kGlobal, of
// prune_model() on the same tensors, bit for bit. Passes: two for elements, as a rule one
// after a preview; one for rows, columns and blocks, none for n:m and PruneScope::kRow.
// Memory: 2.6 MB, or 19 MB after a preview (twice 2.6 for kRandom and kWanda); 16 bytes
// per row, column or block; none where there are no passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/prune/prune.h"
#include "pith/tensor/shape.h"

namespace pith {

/// A tensor to come.
struct PruneStreamTensor {
  std::string name;
  Shape shape;
  std::vector<float> column_norms = {};  ///< of Importance::kWanda
};

class PruneStream {
 public:
  /// One tensor, or several with PruneScope::kGlobal. Errors as prune(); with kGlobal
  /// tensors without elements are allowed and no chunk comes of them. `split`: part() will
  /// be asked for, which may take one more pass.
  static Result<PruneStream> make(const PruneOptions& options,
                                  std::vector<PruneStreamTensor> tensors,
                                  bool split = false);
  ~PruneStream();
  PruneStream(PruneStream&&) noexcept;
  PruneStream& operator=(PruneStream&&) noexcept;

  /// Bytes that its passes hold at most, if they are many: those of a preview counted.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Values from all over the tensors, in runs of `run` neighbours, before the first pass;
  /// of use where elements are pruned by magnitude.
  void preview(std::span<const float> sample, std::int64_t run);
  /// True while the values must be fed once more.
  [[nodiscard]] bool needs_pass() const;
  /// The next whole rows of the current tensor. kInvalidArgument if they are no whole
  /// rows or more than the tensors have; kNotFinite if a value is NaN: tensor and index
  /// are named.
  Status feed(std::span<const float> rows);
  /// kInvalidArgument if rows are missing.
  Status end_pass();

  /// Prunes the next whole rows, when no pass is needed any more. `mask` has the bytes of
  /// those rows as in BitMask (row_bytes each), or none. Errors as feed(); where no pass
  /// was needed NaN is found here.
  Status apply(std::span<float> rows, std::span<std::byte> mask = {});

  /// True if rows may come in any order and from several threads at once, by
  /// feed_apart() while a pass is needed and by apply_apart() afterwards: one tensor, and
  /// what goes does not depend on the rows before.
  [[nodiscard]] bool works_apart() const;
  /// feed() of rows that begin at element `first`.
  Status feed_apart(std::span<const float> rows, std::int64_t first);
  /// apply() likewise, which leaves them as they are, writes to `out` and returns how many
  /// values there are not zero.
  Result<std::int64_t> apply_apart(std::span<const float> rows, std::int64_t first,
                                   std::span<float> out, std::span<std::byte> mask = {});

  /// The largest magnitude of what is kept, if passes have told it.
  [[nodiscard]] std::optional<float> largest() const;

  /// Goes back to the first row: the same is applied once more.
  void rewind();

  /// After the passes of a stream that is to be split: what it does to one tensor, apart
  /// from all others. kUnsupported unless elements compete by magnitude.
  [[nodiscard]] Result<PruneStream> part(std::size_t tensor) const;

  /// Elements zeroed, and the sparsity, of what was applied so far.
  [[nodiscard]] std::int64_t pruned() const;
  [[nodiscard]] Sparsity after() const;

 private:
  struct Impl;
  Status check_apply(std::size_t values, std::size_t mask) const;
  explicit PruneStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pith
