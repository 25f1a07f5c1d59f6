// Linear layers against OpenBLAS (f32) and oneDNN (int8), in one run.
//
//   bench_matmul --outputs=4096 --inputs=4096 --markdown=table.md
//
// Every contestant takes f32 rows and gives f32 rows, but for oneDNN, whose activations are
// given as u8 already. For batches of 1 and 4 the weights are cold: each call takes the next of as
// many copies as fill 384 MiB. One thread is timed by its own clock, several by the wall's. Rounds go over all contestants, so that a slow moment does
// not fall on one alone; the best round counts, and ratios are those of the best.
#include <fmt/format.h>

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/peers.h"
#include "pith/base/threads.h"
#include "pith/run/cpu.h"
#include "pith/run/linear.h"

namespace pith::bench {
namespace {

constexpr std::int64_t kColdBytes = std::int64_t{384} << 20;
constexpr std::int64_t kMaxBatch = 512;

struct Options {
  std::int64_t outputs = 4096;
  std::int64_t inputs = 4096;
  std::vector<std::int64_t> batches = {1, 4, 32, 128, kMaxBatch};
  std::vector<std::int64_t> threads = {1, 2};
  int rounds = 5;
  std::string only;
  std::string markdown;
};

// With one thread, the time of its processor: what other programs take is not counted.
double now(int threads) {
  if (threads == 1) {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Contestant {
  std::string name;
  std::int64_t bytes = 0;  // of one copy of the weights
  std::function<void(std::int64_t copy, std::int64_t batch)> run;
  double floor_share = 0;                 // of the limit, at batch 1
  std::map<std::int64_t, double> floors;  // ratio to OpenBLAS by batch
  std::int64_t copies = 0;
};

class Arena {
 public:
  explicit Arena(const Options& options) : options_(options) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    weight_.resize(static_cast<std::size_t>(options.outputs * options.inputs));
    for (float& w : weight_) w = normal(random);
    x_.resize(static_cast<std::size_t>(kMaxBatch * options.inputs));
    for (float& x : x_) x = normal(random);
    y_.resize(static_cast<std::size_t>(kMaxBatch * options.outputs));
  }

  [[nodiscard]] std::vector<Contestant>& contestants() { return contestants_; }

  void add_layer(const std::string& name, const Scheme* scheme, Activations activations,
                 double floor_share, std::map<std::int64_t, double> floors,
                 bool in_place = false) {
    if (!wanted(name)) return;
    const Shape shape = Shape::make({options_.outputs, options_.inputs}).value();
    const TensorView view = TensorView::of(weight_, shape, "w").value();
    // With codes that layers in place read; each copy has its own.
    auto sources = std::make_shared<std::vector<QuantizedTensor>>();
    auto layers = std::make_shared<std::vector<Linear>>();
    Contestant contestant;
    contestant.bytes = static_cast<std::int64_t>(weight_.size() * sizeof(float));
    std::optional<QuantizedTensor> codes;
    if (scheme != nullptr) {
      codes = quantize(view, *scheme).value();
      contestant.bytes = codes->stored_bytes();
    }
    contestant.copies = copies(contestant.bytes);
    const LinearOptions options{.activations = activations, .in_place = in_place};
    sources->reserve(static_cast<std::size_t>(contestant.copies));
    for (std::int64_t i = 0; i < contestant.copies; ++i) {
      if (in_place) {
        sources->push_back(quantize(view, *scheme).value());
        layers->push_back(Linear::make(sources->back(), {}, options).value());
        continue;
      }
      layers->push_back(codes ? Linear::make(*codes, {}, options).value()
                              : Linear::make(view, {}, options).value());
    }
    fmt::print("{}: packed in {:.0f} ms, {:.1f} MiB for {:.1f} MiB of codes\n", name,
               1e3 * layers->front().pack_seconds(),
               static_cast<double>(layers->front().packed_bytes()) / (1 << 20),
               static_cast<double>(contestant.bytes) / (1 << 20));
    contestant.name = name;
    contestant.floor_share = floor_share;
    contestant.floors = std::move(floors);
    contestant.run = [this, layers, sources](std::int64_t copy, std::int64_t batch) {
      const Status status =
          (*layers)[static_cast<std::size_t>(copy)].forward(x(batch), batch, y(batch));
      if (!status.ok()) fmt::print(stderr, "bench_matmul: {}\n", status.message());
    };
    contestants_.push_back(std::move(contestant));
  }

  void add_openblas() {
    if (!have_openblas()) return;
    auto memory = std::make_shared<std::vector<std::vector<float>>>();
    Contestant contestant;
    contestant.name = "f32, OpenBLAS";
    contestant.bytes = static_cast<std::int64_t>(weight_.size() * sizeof(float));
    contestant.copies = copies(contestant.bytes);
    for (std::int64_t i = 0; i < contestant.copies; ++i) memory->push_back(weight_);
    contestant.run = [this, memory](std::int64_t copy, std::int64_t batch) {
      openblas_product((*memory)[static_cast<std::size_t>(copy)].data(), x_.data(), batch,
                       options_.outputs, options_.inputs, y_.data());
    };
    contestants_.push_back(std::move(contestant));
  }

  void add_onednn() {
    if (!have_onednn() || !wanted("oneDNN")) return;
    auto product = std::make_shared<std::map<std::int64_t, std::unique_ptr<OneDnn>>>();
    Contestant contestant;
    contestant.name = "int8 u8s8, oneDNN (inexact)";
    contestant.bytes = static_cast<std::int64_t>(weight_.size());
    contestant.copies = copies(contestant.bytes);
    contestant.run = [this, product, n = contestant.copies](std::int64_t copy,
                                                            std::int64_t batch) {
      std::unique_ptr<OneDnn>& one = (*product)[batch];
      if (one == nullptr) {
        one = OneDnn::make(batch, options_.outputs, options_.inputs, batch <= 4 ? n : 1);
      }
      one->run(copy % (batch <= 4 ? n : 1));
    };
    contestants_.push_back(std::move(contestant));
  }

  [[nodiscard]] const std::vector<float>& weight() const { return weight_; }

 private:
  [[nodiscard]] bool wanted(const std::string& name) const {
    return name.find(options_.only) != std::string::npos;
  }
  static std::int64_t copies(std::int64_t bytes) { return kColdBytes / bytes + 1; }
  [[nodiscard]] std::span<const float> x(std::int64_t batch) const {
    return std::span(x_).first(static_cast<std::size_t>(batch * options_.inputs));
  }
  [[nodiscard]] std::span<float> y(std::int64_t batch) {
    return std::span(y_).first(static_cast<std::size_t>(batch * options_.outputs));
  }

  Options options_;
  std::vector<float> weight_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<Contestant> contestants_;
};

// Seconds per call: the mean over one turn through the copies if they are cold.
double time_calls(const Contestant& contestant, std::int64_t batch, int threads) {
  const std::int64_t calls = batch <= 4 ? contestant.copies : 1;
  const double start = now(threads);
  for (std::int64_t i = 0; i < calls; ++i) contestant.run(i, batch);
  return (now(threads) - start) / static_cast<double>(calls);
}

// Memory larger than the last cache, in large pages as the weights of layers are.
class LimitMemory {
 public:
  LimitMemory()
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(kPage, kSize)), std::free) {
#ifdef MADV_HUGEPAGE
    (void)madvise(bytes_.get(), kSize, MADV_HUGEPAGE);
#endif
    std::memset(bytes_.get(), 1, kSize);
  }

  // GB/s that several streams read, by the best of all ways.
  [[nodiscard]] double read_speed(int threads) const {
    double best = 0;
    for (const Variant& variant : variants()) {
      if (variant.traffic != Traffic::kRead) continue;
      const double start = now(threads);
      move(variant, bytes_.get(), nullptr, kSize / 4);
      best = std::max(best, 1e-9 * static_cast<double>(kSize) / (now(threads) - start));
    }
    return best;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static constexpr std::size_t kSize = static_cast<std::size_t>(kColdBytes);
  std::unique_ptr<std::byte, void (*)(void*)> bytes_;
};

using Key = std::pair<int, std::int64_t>;  // threads, batch

struct Results {
  std::map<int, double> limit;
  std::map<std::string, std::map<Key, double>> seconds;
};

Results measure(const Options& options, Arena& arena) {
  Results results;
  const LimitMemory memory;
  for (const std::int64_t count : options.threads) {
    const int threads = static_cast<int>(count);
    const ThreadLimit limit(threads);
    set_peer_threads(threads);
    for (const std::int64_t batch : options.batches) {
      for (Contestant& contestant : arena.contestants()) contestant.run(0, batch);
      for (int round = 0; round < options.rounds; ++round) {
        if (batch <= 4) {
          results.limit[threads] =
              std::max(results.limit[threads], memory.read_speed(threads));
        }
        for (Contestant& contestant : arena.contestants()) {
          double& best = results.seconds[contestant.name][{threads, batch}];
          const double seconds = time_calls(contestant, batch, threads);
          if (best == 0 || seconds < best) best = seconds;
        }
      }
    }
  }
  return results;
}

std::string table(const Options& options, Arena& arena, Results& results) {
  const double operations = 2.0 * static_cast<double>(options.outputs * options.inputs);
  std::string out =
      fmt::format("{} x {} weights. Read limit:", options.outputs, options.inputs);
  for (const std::int64_t count : options.threads) {
    out += fmt::format(
        "{} {:.1f} GB/s with {} thread{}", count == options.threads.front() ? "" : ",",
        results.limit[static_cast<int>(count)], count, count == 1 ? "" : "s");
  }
  out += ".\n\n";
  const auto cell = [&](const Contestant& contestant, int threads, std::int64_t batch) {
    const double seconds = results.seconds[contestant.name][{threads, batch}];
    if (batch == 1) {
      const double speed = 1e-9 * static_cast<double>(contestant.bytes) / seconds;
      return fmt::format("{:.1f} ({:.2f})", speed, speed / results.limit[threads]);
    }
    const double gops = 1e-9 * operations * static_cast<double>(batch) / seconds;
    const double base = results.seconds["f32, OpenBLAS"][{threads, batch}];
    if (base == 0) return fmt::format("{:.0f}", gops);
    return fmt::format("{:.0f} ({:.2f})", gops, base / seconds);
  };
  for (const std::int64_t count : options.threads) {
    const int threads = static_cast<int>(count);
    out += fmt::format("| {} thread{} ", threads, threads == 1 ? "" : "s");
    std::string dashes = "|---";
    for (const std::int64_t batch : options.batches) {
      out += fmt::format("| {}: {} ", batch,
                         batch == 1 ? "GB/s (of limit)" : "GOP/s (x OpenBLAS)");
      dashes += "|---";
    }
    out += "| floor |\n" + dashes + "|---|\n";
    for (const Contestant& contestant : arena.contestants()) {
      out += "| " + contestant.name;
      for (const std::int64_t batch : options.batches) {
        out += " | " + cell(contestant, threads, batch);
      }
      std::string floors;
      if (contestant.floor_share > 0) {
        floors = fmt::format("{:.2f} at 1", contestant.floor_share);
      }
      for (const auto& [batch, ratio] : contestant.floors) {
        floors +=
            fmt::format("{}{:.1f}x at {}", floors.empty() ? "" : ", ", ratio, batch);
      }
      out += " | " + floors + " |\n";
    }
    out += "\n";
  }
  return out;
}

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    all.push_back(std::min<std::int64_t>(std::stoll(item), kMaxBatch));
  }
  return all;
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t sign = argument.find('=');
    const std::string name = argument.substr(0, sign);
    const std::string value = sign == std::string::npos ? "" : argument.substr(sign + 1);
    if (name == "--outputs") {
      options.outputs = std::stoll(value);
    } else if (name == "--inputs") {
      options.inputs = std::stoll(value);
    } else if (name == "--rounds") {
      options.rounds = std::stoi(value);
    } else if (name == "--batches") {
      options.batches = numbers(value);
    } else if (name == "--threads") {
      options.threads = numbers(value);
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--markdown") {
      options.markdown = value;
    } else {
      fmt::print(stderr, "bench_matmul: unknown option {}\n", argument);
      return 2;
    }
  }
  Arena arena(options);
  arena.add_openblas();
  arena.add_layer("f32, Pith", nullptr, Activations::kF32, 0, {});
  const Scheme row = Scheme::int8_rows();
  const Scheme block = Scheme::int8_blocks(32);
  const Scheme four = Scheme::int4_blocks(32);
  arena.add_layer("int8 row", &row, Activations::kInt8Rows, 0.88,
                  {{32, 2.1}, {128, 1.6}, {512, 1.5}});
  arena.add_layer("int8 row, 7-bit activations", &row, Activations::kInt7Rows, 0,
                  {{512, 1.9}});
  arena.add_layer("int8 block 32", &block, Activations::kInt8Rows, 0.88, {{512, 1.3}});
  arena.add_layer("int4 block 32", &four, Activations::kInt8Rows, 0.80, {{512, 2.1}});
  arena.add_layer("int8 row, f32 activations", &row, Activations::kF32, 0, {});
  arena.add_layer("int8 row, in place", &row, Activations::kInt8Rows, 0, {}, true);
  arena.add_onednn();
  Results results = measure(options, arena);
  std::string text = table(options, arena, results);
  if (have_onednn()) text += onednn_error();
  fmt::print("\nkernels: {}\n\n{}", available_isas().front(), text);
  if (options.markdown.empty()) return 0;
  std::ofstream file(options.markdown);
  file << text;
  return file.flush() ? 0 : 1;
}

}  // namespace
}  // namespace pith::bench

int main(int argc, char** argv) { return pith::bench::run(argc, argv); }
