// Options of pruning, in cases of prune and of pipeline.
#pragma once

#include "pith/prune/prune.h"
#include "tests/golden/encoding.h"

namespace pith::golden {

[[nodiscard]] PruneOptions prune_options_of(const Json& config);

}  // namespace pith::golden
