#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "src/kernels/target.h"

namespace pith::bench {
namespace {

constexpr int kThreads[] = {1, 2};

// The best variant of a kind of traffic, and its speed.
struct Limit {
  double speed = 0;
  std::string how;
};

Limit limit_of(const BestReporter& best, Traffic traffic, int threads) {
  Limit limit;
  for (const Variant& variant : variants()) {
    const double speed = best.speed(benchmark_name(variant.name(), threads));
    if (variant.traffic == traffic && speed > limit.speed) {
      limit = {speed, variant.name().substr(to_string(traffic).size() + 2)};
    }
  }
  return limit;
}

// Passes follow each other: their times add up.
double limit_of(const BestReporter& best, const Operation& operation, int threads) {
  double time = 0;
  for (const Traffic traffic : operation.passes) {
    time += 1 / limit_of(best, traffic, threads).speed;
  }
  return 1 / time;
}

std::string passes_of(const Operation& operation) {
  std::string text;
  for (const Traffic traffic : operation.passes) {
    text += (text.empty() ? "" : " + ") + std::string(to_string(traffic));
  }
  return text;
}

std::string floor_of(const Operation& operation) {
  if (operation.floor_share > 0) return fmt::format("{:.2f} x 2", operation.floor_share);
  if (operation.floor_speed > 0) return fmt::format("{:.0f} GB/s", operation.floor_speed);
  return "";
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  int count = 0;
  std::string model = "unknown processor";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("processor", 0) == 0) ++count;
    if (line.rfind("model name", 0) == 0) model = line.substr(line.find(':') + 2);
  }
  return fmt::format("{}, {} processors", model, count);
}

}  // namespace

std::string benchmark_name(const std::string& what, int threads) {
  return fmt::format("{} / {} thread{}", what, threads, threads == 1 ? "" : "s");
}

bool BestReporter::ReportContext(const Context&) {
  fmt::print("{}\n\nGB/s of f32: best, median and worst of the runs\n", machine());
  return true;
}

void BestReporter::ReportRuns(const std::vector<Run>& runs) {
  std::vector<double> speeds;
  std::vector<double> shares;
  for (const Run& run : runs) {
    if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
    const double seconds =
        run.real_accumulated_time / static_cast<double>(run.iterations);
    speeds.push_back(static_cast<double>(kCount) * 4 / seconds * 1e-9);
    const auto share = run.counters.find(kShare);
    if (share != run.counters.end()) shares.push_back(share->second);
  }
  if (speeds.empty()) return;
  std::sort(speeds.begin(), speeds.end());
  const std::string name = runs.front().run_name.function_name;
  speeds_[name] = speeds.back();
  if (!shares.empty()) {
    std::sort(shares.begin(), shares.end());
    shares_[name] = shares[shares.size() / 2];
  }
  fmt::print("{:<66} {:6.1f} {:6.1f} {:6.1f}\n", name, speeds.back(),
             speeds[speeds.size() / 2], speeds.front());
}

double BestReporter::speed(const std::string& name) const {
  const auto found = speeds_.find(name);
  return found == speeds_.end() ? 0 : found->second;
}

double BestReporter::share(const std::string& name) const {
  const auto found = shares_.find(name);
  return found == shares_.end() ? 0 : found->second;
}

std::string machine() {
  const Result<std::string> target = kernels::active_target();
  return fmt::format("{}; {}; kernels: {}", processor(),
#if defined(__clang__)
                     "clang " __clang_version__,
#else
                     "gcc " __VERSION__,
#endif
                     target ? *target : target.error().message());
}

std::string markdown(const BestReporter& best, const std::vector<Operation>& operations) {
  std::string text = machine() + "\n\n";
  text += fmt::format(
      "{} x {} f32 values ({} MiB), warm buffers, best of all runs; beside it: the "
      "median of shares of the limit in the same moment.\n\n",
      kRows, kCols, kCount * 4 >> 20);
  text +=
      "| limit: GB/s of f32 | 1 thread | 2 threads | reached by (2 threads) |\n"
      "|---|---|---|---|\n";
  for (int i = 0; i < kTrafficCount; ++i) {
    const auto traffic = static_cast<Traffic>(i);
    const Limit two = limit_of(best, traffic, 2);
    if (two.speed == 0) continue;  // not needed by any operation
    text += fmt::format("| {} | {:.1f} | {:.1f} | {} |\n", to_string(traffic),
                        limit_of(best, traffic, 1).speed, two.speed, two.how);
  }
  text +=
      "\n| operation: GB/s of f32 | 1 thread | 2 threads | of limit, 1 | of limit, 2 | "
      "beside it, 1 | beside it, 2 | limit | floor "
      "|\n|---|---|---|---|---|---|---|---|---|\n";
  for (const Operation& operation : operations) {
    text += fmt::format("| {} |", operation.name);
    for (const int threads : kThreads) {
      text +=
          fmt::format(" {:.1f} |", best.speed(benchmark_name(operation.name, threads)));
    }
    for (const int threads : kThreads) {
      text +=
          fmt::format(" {:.2f} |", best.speed(benchmark_name(operation.name, threads)) /
                                       limit_of(best, operation, threads));
    }
    for (const int threads : kThreads) {
      text +=
          fmt::format(" {:.2f} |", best.share(benchmark_name(operation.name, threads)));
    }
    text += fmt::format(" {} | {} |\n", passes_of(operation), floor_of(operation));
  }
  return text;
}

}  // namespace pith::bench
