// Every operation as a share of what memory can do; see README.md.
//
//   bench_kernels [--only=TEXT] [--markdown=FILE] [--benchmark_repetitions=10]
//
// --only: operations whose name has TEXT in it, and their limits.
//
// First all variants of the limits run a few times; then the best of each and the
// operations run together, their repetitions in random order, so that a slow moment of
// the machine does not fall on one of them alone. Only the second phase counts. Each
// repetition of an operation also runs its limit, for a share of the same moment.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "bench/limits.h"
#include "bench/operations.h"
#include "bench/report.h"
#include "pith/base/threads.h"

namespace pith::bench {
namespace {

constexpr int kThreads[] = {1, 2};

double seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Registers what is timed by `measure`, a function of the state of a repetition.
benchmark::internal::Benchmark* add(
    const std::string& what, int threads, Tensors& tensors,
    const std::function<double(benchmark::State&)>& measure) {
  return benchmark::RegisterBenchmark(
             benchmark_name(what, threads).c_str(),
             [&tensors, measure, threads](benchmark::State& state) {
               const ThreadLimit limit(threads);
               // Wakes the threads.
               move({Traffic::kRead, 4, true, false}, tensors.in(), nullptr, kCount / 16);
               for ([[maybe_unused]] auto _ : state) {
                 state.SetIterationTime(measure(state));
               }
             })
      ->Iterations(1)
      ->UseManualTime();
}

double seconds(const Variant& variant, Tensors& tensors) {
  return seconds([&] { move(variant, tensors.in(), tensors.out(), kCount); });
}

benchmark::internal::Benchmark* add(const Variant& variant, int threads,
                                    Tensors& tensors) {
  return add(variant.name(), threads, tensors, [&tensors, variant](benchmark::State&) {
    return seconds(variant, tensors);
  });
}

// An operation, beside its limit: the fastest variants of each pass, the operation, and all
// once more. The machine is another from one second to the next; within a few hundredths
// of a second it is the same.
void add(const Operation& operation, int threads, Tensors& tensors,
         const std::vector<std::vector<Variant>>& passes) {
  add(operation.name, threads, tensors, [&tensors, operation, passes](auto& state) {
    double limit = std::numeric_limits<double>::infinity();
    double best = limit;
    for (int round = 0; round < 2; ++round) {
      double sum = 0;
      for (const std::vector<Variant>& variants : passes) {
        double fastest = std::numeric_limits<double>::infinity();
        for (const Variant& variant : variants) {
          fastest = std::min(fastest, seconds(variant, tensors));
        }
        sum += fastest;
      }
      limit = std::min(limit, sum);
      best = std::min(best, seconds(operation.run));
    }
    state.counters[kShare] = limit / best;
    return best;
  });
}

bool is_needed(Traffic traffic, const std::vector<Operation>& operations) {
  return std::any_of(operations.begin(), operations.end(), [&](const Operation& o) {
    return std::find(o.passes.begin(), o.passes.end(), traffic) != o.passes.end();
  });
}

// The fastest variants of a kind of traffic: two, and two more that are nearly as fast, as
// another moment may prefer them.
std::vector<Variant> best_variants(const BestReporter& best, Traffic traffic,
                                   int threads) {
  constexpr double kNearly = 0.85;
  const auto speed = [&](const Variant& variant) {
    return best.speed(benchmark_name(variant.name(), threads));
  };
  std::vector<Variant> sorted;
  for (const Variant& variant : variants()) {
    if (variant.traffic == traffic) sorted.push_back(variant);
  }
  std::sort(sorted.begin(), sorted.end(),
            [&](const Variant& a, const Variant& b) { return speed(a) > speed(b); });
  const double enough = kNearly * speed(sorted.front());
  while (sorted.size() > 2 && (sorted.size() > 4 || speed(sorted.back()) < enough)) {
    sorted.pop_back();
  }
  return sorted;
}

BestReporter measure(Tensors& tensors, const std::vector<Operation>& operations) {
  for (const Variant& variant : variants()) {
    if (!is_needed(variant.traffic, operations)) continue;
    for (const int threads : kThreads) add(variant, threads, tensors)->Repetitions(5);
  }
  BestReporter first;
  benchmark::RunSpecifiedBenchmarks(&first);

  benchmark::ClearRegisteredBenchmarks();
  for (const int threads : kThreads) {
    for (int i = 0; i < kTrafficCount; ++i) {
      const auto traffic = static_cast<Traffic>(i);
      if (!is_needed(traffic, operations)) continue;
      for (const Variant& variant : best_variants(first, traffic, threads)) {
        add(variant, threads, tensors);
      }
    }
    for (const Operation& operation : operations) {
      std::vector<std::vector<Variant>> passes;
      for (const Traffic traffic : operation.passes) {
        passes.push_back(best_variants(first, traffic, threads));
      }
      add(operation, threads, tensors, passes);
    }
  }
  BestReporter second;
  benchmark::RunSpecifiedBenchmarks(&second);
  return second;
}

// Takes the value of `name` out of the arguments.
std::string take(std::vector<std::string>& arguments, std::string_view name) {
  for (auto it = arguments.begin(); it != arguments.end(); ++it) {
    if (it->rfind(name, 0) != 0) continue;
    std::string value = it->substr(name.size());
    arguments.erase(it);
    return value;
  }
  return {};
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments = {argv[0],
                                        "--benchmark_enable_random_interleaving=true",
                                        "--benchmark_repetitions=10"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  const std::string only = take(arguments, "--only=");
  const std::string path = take(arguments, "--markdown=");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;

  Tensors tensors;
  std::vector<Operation> operations = tensors.operations();
  std::erase_if(operations, [&](const Operation& operation) {
    return operation.name.find(only) == std::string::npos;
  });
  if (operations.empty()) {
    fmt::print(stderr, "bench_kernels: --only={}: no operation has this in its name\n",
               only);
    return 2;
  }
  const std::string table = markdown(measure(tensors, operations), operations);
  fmt::print("\n{}", table);
  if (!path.empty()) {
    std::ofstream file(path);
    file << table;
    if (!file.flush()) {
      fmt::print(stderr, "bench_kernels: {}: cannot be written\n", path);
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace pith::bench

int main(int argc, char** argv) { return pith::bench::run(argc, argv); }
