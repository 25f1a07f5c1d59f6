// Which instruction set the kernels use. The environment variable PITH_ISA chooses
// another: sse4, avx2, avx512 or neon. No result depends on it.
#pragma once

#include <string>
#include <vector>

#include "pith/base/result.h"

namespace pith {

/// The set in use. kInvalidArgument if PITH_ISA names one that cannot run here; kernels
/// then use the best one.
[[nodiscard]] Result<std::string> active_isa();

/// Sets that this build has and this processor can run, the best first.
[[nodiscard]] std::vector<std::string> available_isas();

}  // namespace pith
