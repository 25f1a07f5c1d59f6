// Every operation as a share of what memory can do; see README.md.
//
//   bench_kernels [--markdown=FILE] [--benchmark_filter=REGEX] ...
//
// Limits and operations are measured in one run, their repetitions in random order, so
// that a slow moment of the machine does not fall on one of them alone.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/limits.h"
#include "bench/operations.h"
#include "bench/report.h"
#include "pith/base/threads.h"

namespace pith::bench {
namespace {

void add(const std::string& what, Tensors& tensors, std::function<void()> run) {
  for (const int threads : {1, 2}) {
    benchmark::RegisterBenchmark(
        benchmark_name(what, threads).c_str(),
        [&tensors, run, threads](benchmark::State& state) {
          const ThreadLimit limit(threads);
          // Wakes the threads.
          move({Traffic::kRead, 4, true, false}, tensors.in(), nullptr, kCount / 16);
          for ([[maybe_unused]] auto _ : state) {
            const auto start = std::chrono::steady_clock::now();
            run();
            const std::chrono::duration<double> time =
                std::chrono::steady_clock::now() - start;
            state.SetIterationTime(time.count());
          }
        })
        ->Iterations(1)
        ->UseManualTime();
  }
}

int run(int argc, char** argv) {
  std::string markdown_path;
  std::vector<std::string> arguments = {argv[0],
                                        "--benchmark_enable_random_interleaving=true",
                                        "--benchmark_repetitions=10"};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    constexpr std::string_view kMarkdown = "--markdown=";
    if (argument.rfind(kMarkdown, 0) == 0) {
      markdown_path = argument.substr(kMarkdown.size());
    } else {
      arguments.emplace_back(argument);
    }
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;

  Tensors tensors;
  for (const Variant& variant : variants()) {
    add(variant.name(), tensors,
        [&tensors, variant] { move(variant, tensors.in(), tensors.out(), kCount); });
  }
  const std::vector<Operation> operations = tensors.operations();
  for (const Operation& operation : operations) {
    add(operation.name, tensors, operation.run);
  }

  BestReporter best;
  benchmark::RunSpecifiedBenchmarks(&best);
  const std::string table = markdown(best, operations);
  fmt::print("\n{}", table);
  if (!markdown_path.empty()) {
    std::ofstream file(markdown_path);
    file << table;
    if (!file.flush()) {
      fmt::print(stderr, "bench_kernels: {}: cannot be written\n", markdown_path);
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace pith::bench

int main(int argc, char** argv) { return pith::bench::run(argc, argv); }
