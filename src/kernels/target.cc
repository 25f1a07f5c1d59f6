#include "src/kernels/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/highway.h>

#include <atomic>
#include <cstdlib>

#include "src/kernels/processor.h"

namespace pith::kernels {
namespace {

struct Name {
  const char* name;
  std::int64_t target;
  bool (*runs)();  // on this processor
};

// In the order of PITH_TARGETS.
constexpr Name kNames[] = {
#if HWY_ARCH_X86
    {"avx512vnni", HWY_AVX3_DL, has_avx512_vnni},
    {"avx512", HWY_AVX3, has_avx512},
    {"avx2", HWY_AVX2, has_avx2},
    {"sse4", HWY_SSE4, [] { return true; }},
#elif HWY_ARCH_ARM
    {"neon", HWY_NEON, [] { return true; }},
#endif
    {"scalar", HWY_STATIC_TARGET, [] { return true; }},
};

bool runs_here(const Name& entry) {
  return (HWY_TARGETS & entry.target) != 0 && entry.runs();
}

std::size_t best_index() {
  std::size_t i = 0;
  while (!runs_here(kNames[i])) ++i;  // the last one always does
  return i;
}

constexpr std::size_t kNone = std::size(kNames);
std::atomic<std::size_t> chosen = kNone;

const Status& environment_status() {
  static const Status status = [] {
    const char* name = std::getenv("PITH_ISA");
    const Status set = set_target(name == nullptr ? "" : name);
    if (!set.ok()) chosen = best_index();
    return set.with_context("environment variable PITH_ISA");
  }();
  return status;
}

}  // namespace

std::size_t target_index() noexcept {
  const std::size_t index = chosen.load(std::memory_order_relaxed);
  if (index != kNone) return index;
  environment_status();
  return chosen;
}

std::vector<std::string> available_targets() {
  std::vector<std::string> names;
  for (const Name& entry : kNames) {
    // The last one is another name for what has one already, where there are others.
    if (runs_here(entry) && (&entry != std::end(kNames) - 1 || names.empty())) {
      names.emplace_back(entry.name);
    }
  }
  return names;
}

Status set_target(const std::string& name) {
  std::size_t index = name.empty() ? best_index() : kNone;
  for (std::size_t i = 0; index == kNone && i < std::size(kNames); ++i) {
    if (name == kNames[i].name && runs_here(kNames[i])) index = i;
  }
  if (index == kNone) {
    return Status::invalid_argument(fmt::format(
        "instruction set '{}' is unknown or cannot run here; this processor and build "
        "have: {}",
        name, fmt::join(available_targets(), ", ")));
  }
  chosen = index;
  return {};
}

Result<std::string> active_target() {
  if (!environment_status().ok()) return environment_status();
  return std::string(kNames[target_index()].name);
}

}  // namespace pith::kernels
