// Which instruction set the kernels use. The environment variable PITH_ISA chooses
// another: sse4, avx2, avx512, avx512vnni or neon. No result depends on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/base/result.h"

namespace pith {

/// The set in use. kInvalidArgument if PITH_ISA names one that cannot run here; kernels
/// then use the best one.
[[nodiscard]] Result<std::string> active_isa();

/// Sets that this build has and this processor can run, the best first.
[[nodiscard]] std::vector<std::string> available_isas();

/// Uses that set from now on, in the whole process; an empty name is the best one. For
/// measuring. kInvalidArgument as active_isa().
Status use_isa(const std::string& name);

/// GB/s at which all threads together read memory, with several streams each: the limit of
/// any product of a matrix with a vector. The best of a few passes over `bytes` bytes,
/// which should be far more than the caches hold.
[[nodiscard]] double read_speed(std::int64_t bytes = std::int64_t{384} << 20);

}  // namespace pith
