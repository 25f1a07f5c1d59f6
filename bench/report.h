// Collects the best time of everything that was measured, and tells it as a table.
#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

#include "bench/operations.h"

namespace pith::bench {

/// A counter: what a run reached of the limit beside it.
inline constexpr const char* kShare = "share";

/// Prints the best of each benchmark as soon as it has run, and remembers it.
class BestReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  /// GB/s of f32 of the best run; 0 if it has not run.
  [[nodiscard]] double speed(const std::string& name) const;
  /// The median of what runs reached of the limit beside them; 0 if it was not measured.
  [[nodiscard]] double share(const std::string& name) const;

 private:
  std::map<std::string, double> speeds_;
  std::map<std::string, double> shares_;
};

/// Name of a benchmark: what it does, and with how many threads.
[[nodiscard]] std::string benchmark_name(const std::string& what, int threads);

/// Processor, compiler, instruction set in use.
[[nodiscard]] std::string machine();

/// The limits and the operations, in Markdown.
[[nodiscard]] std::string markdown(const BestReporter& best,
                                   const std::vector<Operation>& operations);

}  // namespace pith::bench
