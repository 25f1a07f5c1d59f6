// Which instruction set the kernels use.
//
// The best one this processor has, unless the environment variable PITH_ISA names
// another: sse4, avx2, avx512, avx512vnni or neon. It is read once, before the first
// kernel runs.
#pragma once

#include <string>
#include <vector>

#include "pith/base/result.h"

namespace pith::kernels {

/// Names of the sets that were compiled in and run here, the best first.
std::vector<std::string> available_targets();

/// The name of the set in use; kInvalidArgument if PITH_ISA names one that cannot run
/// here. Kernels then use the best one.
Result<std::string> active_target();

/// Changes the set from now on; for tests that compare sets. kInvalidArgument as above;
/// an empty name goes back to the best one.
Status set_target(const std::string& name);

/// Applies PITH_ISA, once; see PITH_DISPATCH.
void use_environment_target();

}  // namespace pith::kernels

/// Calls the best compiled variant of a function exported by HWY_EXPORT. Only through
/// this macro, so that PITH_ISA has been read whichever kernel runs first.
#define PITH_DISPATCH(function) \
  (::pith::kernels::use_environment_target(), HWY_DYNAMIC_DISPATCH(function))
