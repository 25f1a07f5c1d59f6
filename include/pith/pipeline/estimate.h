// What a pipeline would make of a model, from names and shapes alone.
//
//   PITH_TRY(pith::Estimate e, pith::estimate(pipeline, specs));
//   fmt::print("{} -> {} bytes\n", e.bytes_before, e.stored_bytes);
//
// The sizes are those of a run, to the byte: both come from Stage::storage.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/base/result.h"
#include "pith/pipeline/pipeline.h"

namespace pith {

struct Estimate {
  std::int64_t bytes_before = 0;  ///< 4 per parameter
  std::int64_t code_bytes = 0;    ///< Storage::code_bytes after the last stage
  std::int64_t stored_bytes = 0;  ///< Storage::stored_bytes after the last stage

  [[nodiscard]] double ratio() const { return ratio_of(bytes_before, stored_bytes); }
};

/// A pipeline without stages leaves the model as it is, and a model without tensors has 0
/// bytes. kInvalidArgument if an option is out of its range or a tensor does not fit a
/// stage, as run() would refuse it.
Result<Estimate> estimate(const Pipeline& pipeline,
                          std::span<const TensorHeader> tensors);

}  // namespace pith
