// Scores of consecutive elements, made where they are needed and never stored for a whole
// tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pith/base/status.h"
#include "pith/prune/importance.h"

namespace pith {

/// The random state after `steps` advances.
[[nodiscard]] std::uint64_t advance_random(std::uint64_t state, std::uint64_t steps);

/// A draw in [0, 1) for a row, column or block: a hash, because draws of a congruential
/// generator from neighbouring seeds differ by a constant.
[[nodiscard]] double random_unit_score(std::uint64_t seed, std::int64_t unit);

/// True if pruning orders elements by |w| alone: w * w orders them the same way wherever
/// it neither overflows nor underflows, and better where it does.
[[nodiscard]] constexpr bool orders_by_magnitude(Importance importance) {
  return importance == Importance::kL1 || importance == Importance::kL2 ||
         importance == Importance::kTaylorProxy;
}

/// out[i] = the score of values[i], which is element `first` + i of the tensor (of all
/// tensors where they compete) and stands in column (col + i) % norms.size().
void fill_scores(const ImportanceOptions& options, std::span<const float> values,
                 std::int64_t first, std::int64_t col, float* out);

/// kInvalidArgument unless there are `cols` norms, each finite and >= 0, where the
/// importance needs them.
Status check_norms(Importance importance, std::span<const float> norms, std::int64_t cols,
                   std::string_view where);

/// kNotFinite if a value is NaN; `first` is the index of values[0] in its tensor.
Status check_no_nan(std::span<const float> values, std::int64_t first,
                    std::string_view where);

/// "prune: tensor 'NAME'", or "prune" without a name.
[[nodiscard]] std::string describe(std::string_view operation, std::string_view name);

}  // namespace pith
