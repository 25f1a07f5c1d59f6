// Which instruction set the kernels use.
//
// The best one this processor has, unless the environment variable PITH_ISA names
// another: sse4, avx2, avx512, avx512vnni or neon. It is read once, before the first
// kernel runs.
//
// A kernel is compiled by Highway for every set, and called through a table:
//
//   #if HWY_ONCE
//   PITH_EXPORT(SumImpl);
//   float sum(const float* x, std::int64_t n) { return PITH_DISPATCH(SumImpl)(x, n); }
//   #endif
//
// Highway has such tables too, but in a library that measures clocks when it is loaded:
// 4 ms of every start.
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

/// The place of the set in use in the tables of PITH_EXPORT.
std::size_t target_index() noexcept;

}  // namespace pith::kernels

// In the order of the names in target.cc; what was not compiled is null, and the last one
// is what the compiler may use anyway.
#if defined(__x86_64__)
#define PITH_TARGETS(function)                                                        \
  HWY_CHOOSE_AVX3_DL(function), HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function), \
      HWY_CHOOSE_SSE4(function), &HWY_STATIC_DISPATCH(function)
#elif defined(__aarch64__)
#define PITH_TARGETS(function) HWY_CHOOSE_NEON(function), &HWY_STATIC_DISPATCH(function)
#else
#define PITH_TARGETS(function) &HWY_STATIC_DISPATCH(function)
#endif

/// The table of a function that has a variant for each set.
#define PITH_EXPORT(function)                     \
  static decltype(&HWY_STATIC_DISPATCH(function)) \
      const function##Variants[] = {PITH_TARGETS(function)}

/// The variant of the set in use.
#define PITH_DISPATCH(function) (*function##Variants[::pith::kernels::target_index()])
