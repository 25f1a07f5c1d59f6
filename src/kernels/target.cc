#include "src/kernels/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdlib>

namespace pith::kernels {
namespace {

struct Name {
  const char* name;
  std::int64_t target;
};

constexpr Name kNames[] = {
#if HWY_ARCH_X86
    {"avx512vnni", HWY_AVX3_DL},
    {"avx512", HWY_AVX3},
    {"avx2", HWY_AVX2},
    {"sse4", HWY_SSE4},
#elif HWY_ARCH_ARM
    {"neon", HWY_NEON},
#else
    {"scalar", HWY_STATIC_TARGET},
#endif
};

bool runs_here(const Name& entry) {
  static const std::int64_t supported = hwy::SupportedTargets();
  return (supported & HWY_TARGETS & entry.target) != 0;
}

const Status& environment_status() {
  static const Status status = [] {
    const char* name = std::getenv("PITH_ISA");
    return name == nullptr || *name == '\0'
               ? Status()
               : set_target(name).with_context("environment variable PITH_ISA");
  }();
  return status;
}

}  // namespace

void use_environment_target() { environment_status(); }

std::vector<std::string> available_targets() {
  std::vector<std::string> names;
  for (const Name& entry : kNames) {
    if (runs_here(entry)) names.emplace_back(entry.name);
  }
  return names;
}

Status set_target(const std::string& name) {
  std::int64_t target = 0;
  if (!name.empty()) {
    for (const Name& entry : kNames) {
      if (name == entry.name && runs_here(entry)) target = entry.target;
    }
    if (target == 0) {
      return Status::invalid_argument(fmt::format(
          "instruction set '{}' is unknown or cannot run here; this processor and build "
          "have: {}",
          name, fmt::join(available_targets(), ", ")));
    }
  }
  runs_here(kNames[0]);  // remember the real set before it is narrowed
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return {};
}

Result<std::string> active_target() {
  if (!environment_status().ok()) return environment_status();
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  for (const Name& entry : kNames) {
    if ((targets & entry.target) != 0) return std::string(entry.name);
  }
  return std::string("scalar");
}

}  // namespace pith::kernels
