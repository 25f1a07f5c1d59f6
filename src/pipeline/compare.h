// Two checkpoints side by side.
#pragma once

#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/pipeline/verify.h"

namespace pith {

/// Every tensor of `a` with the one of its name in `b`, in the order of `a`; those that are
/// in `b` only come last. Values that can be decoded on both sides are compared as f32.
/// Errors of reading only.
Result<std::vector<ComparedTensor>> compare_checkpoints(const Checkpoint& a,
                                                        const Checkpoint& b,
                                                        const VerifyOptions& options);

}  // namespace pith
