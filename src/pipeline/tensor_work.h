// What TensorRun keeps of a part of its output, and of a piece on its way.
#pragma once

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same by the best instructions of the processor
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/pipeline/tensor_run.h"

namespace pith {

inline Status gave_up() { return {StatusCode::kCancelled, "another piece failed"}; }

struct TensorRun::Part {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  PartRole role = PartRole::kValues;
  std::size_t written = 0;         // index in the layout
  std::int64_t place = 0;          // in its file
  std::int64_t bytes = 0;          // hashed so far
  std::vector<std::byte> waiting;  // the last of these: too few to be written
  std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};

  void add(std::span<const std::byte> some) {
    XXH3_64bits_update(hash.get(), some.data(), some.size());
    bytes += static_cast<std::int64_t>(some.size());
  }
};

struct TensorRun::PieceWork {
  // Of the strip that is worked on.
  TensorView source;              // in any of three types
  std::span<const float> before;  // the same as f32, if it was needed
  std::span<const float> after;   // what is to be stored, if stages changed it

  // Of the strips so far.
  std::span<std::byte> codes;  // codes, or values in a shorter type
  std::span<std::byte> scales;
  std::span<std::byte> zero_points;
  std::span<std::byte> words;         // codes packed anew
  std::span<const std::byte> out;     // what is written: one of these, or values
  std::vector<ErrorFigures> figures;  // of each strip
  ErrorFigures known;                 // the largest error before the next strip
  std::vector<std::int64_t> nonzero;  // after each stage
  // Of sparse tensors.
  std::span<std::byte> mask;
  std::span<std::byte> gathered;  // what is kept, with room for all and eight more
  std::vector<std::int64_t> row_offsets;  // from the first value of the piece
  std::int64_t kept = 0;
};

}  // namespace pith
