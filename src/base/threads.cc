#include "pith/base/threads.h"

#include <sched.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace pith {
namespace {

// cpu.max of control groups v2: "QUOTA PERIOD" in microseconds, or "max PERIOD".
int cgroup_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double microseconds = std::strtod(quota.c_str(), nullptr);
  return microseconds > 0 ? std::max(1, static_cast<int>(microseconds / period + 0.5))
                          : 0;
}

}  // namespace

int default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int threads = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    threads = std::max(1, CPU_COUNT(&set));
  if (const int quota = cgroup_quota(); quota > 0) threads = std::min(threads, quota);
  return threads;
}

struct ThreadLimit::Impl {
  tbb::global_control control;
};

ThreadLimit::ThreadLimit(int threads)
    : impl_(
          new Impl{tbb::global_control(tbb::global_control::max_allowed_parallelism,
                                       static_cast<std::size_t>(std::max(1, threads)))}) {
}

ThreadLimit::~ThreadLimit() = default;

}  // namespace pith
