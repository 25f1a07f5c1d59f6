// pith bench: what this machine reaches with layers of a given size.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "pith/base/cancel.h"
#include "pith/base/threads.h"
#include "pith/run/cpu.h"
#include "pith/run/linear.h"

namespace pith::cli {
namespace {

// Weights are cold if copies of them fill this, many times the last cache; those of layers
// too small for it stay warm.
constexpr std::int64_t kColdBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMostCopies = 1024;
// Up to this many rows, memory is the limit.
constexpr std::int64_t kColdBatch = 4;

struct BenchShape {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

struct BenchArguments {
  std::vector<std::string> shapes = {"4096x4096"};
  std::vector<std::int64_t> batches = {1, 32, 512};
  bool all_isas = false;
  int rounds = 3;
  bool json = false;
  int threads = 0;
};

// What one kind of weights reaches with some rows.
struct LayerSpeed {
  std::int64_t batch = 0;
  double seconds = 0;
  double gb_per_s = 0;   // of stored weights
  double gop_per_s = 0;  // 2 x outputs x inputs x batch
  double share = 0;      // of the speed at which memory is read, if weights are cold
  double speed_up = 0;   // over f32
};

// All about one kind of weights, shape and instruction set.
struct KindResult {
  BenchShape shape;
  std::string kind;
  std::string isa;
  double quantize_gb_per_s = 0;  // of f32; 0: not measured
  std::int64_t stored_bytes = 0;
  std::int64_t packed_bytes = 0;
  double pack_seconds = 0;
  std::vector<LayerSpeed> layers;
};

struct Kind {
  std::string name;
  std::optional<Scheme> scheme;  // nothing: f32
  Activations activations = Activations::kInt8Rows;
};

std::vector<Kind> kinds(std::int64_t inputs) {
  std::vector<Kind> all = {
      {"f32", std::nullopt, Activations::kF32},
      {"int8 row", Scheme::int8_rows(), Activations::kInt8Rows},
      {"int8 row, 7-bit input", Scheme::int8_rows(), Activations::kInt7Rows},
      {"int8 row, f32 input", Scheme::int8_rows(), Activations::kF32},
      {"int4 row", Scheme::int4_rows(), Activations::kInt8Rows}};
  if (inputs % 32 == 0) {
    all.push_back({"int8 block 32", Scheme::int8_blocks(32), Activations::kInt8Rows});
    all.push_back({"int4 block 32", Scheme::int4_blocks(32), Activations::kInt8Rows});
    all.push_back({"q8_0", Scheme::q8_0(), Activations::kInt8Rows});
    all.push_back({"q4_0", Scheme::q4_0(), Activations::kInt8Rows});
  }
  return all;
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Seconds of the best of `rounds` calls.
Result<double> best_of(int rounds, const std::function<Status()>& call) {
  PITH_OK(call());  // memory is touched, caches are filled
  double best = HUGE_VAL;
  for (int i = 0; i < rounds; ++i) {
    PITH_OK(check_cancelled(&stop_token()));
    const double start = now();
    PITH_OK(call());
    best = std::min(best, now() - start);
  }
  return best;
}

class Bench {
 public:
  Bench(const BenchArguments& arguments, BenchShape shape, double limit)
      : arguments_(arguments), shape_(shape), limit_(limit) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    weight_.resize(static_cast<std::size_t>(shape.outputs * shape.inputs));
    for (float& w : weight_) w = normal(random);
    const std::int64_t rows =
        *std::max_element(arguments.batches.begin(), arguments.batches.end());
    x_.resize(static_cast<std::size_t>(rows * shape.inputs));
    for (float& x : x_) x = normal(random);
    y_.resize(static_cast<std::size_t>(rows * shape.outputs));
  }

  // With the set in use.
  Result<KindResult> measure(const Kind& kind) {
    KindResult result;
    result.shape = shape_;
    result.kind = kind.name;
    PITH_TRY(result.isa, active_isa());
    PITH_OK(measure_quantize(kind, result));
    PITH_OK(measure_layers(kind, result));
    return result;
  }

 private:
  [[nodiscard]] Result<TensorView> view() const {
    PITH_TRY(const Shape shape, Shape::make({shape_.outputs, shape_.inputs}));
    return TensorView::of(weight_, shape, "weight");
  }

  Status measure_quantize(const Kind& kind, KindResult& result) {
    if (!kind.scheme || kind.activations != Activations::kInt8Rows) return {};
    PITH_TRY(const TensorView w, view());
    PITH_TRY(Quantizer quantizer, Quantizer::make(*kind.scheme, w.shape(), "weight"));
    Buffer codes(kind.scheme->code_bytes(w.shape()));
    Buffer scales(kind.scheme->scale_bytes(w.shape()));
    PITH_TRY(const double seconds, best_of(arguments_.rounds, [&] {
               return quantizer.encode(w, 0, {codes.bytes(), scales.bytes(), {}});
             }));
    result.quantize_gb_per_s = 4e-9 * static_cast<double>(weight_.size()) / seconds;
    return {};
  }

  // Copies of a layer, enough that a vector finds none of them in a cache.
  Result<std::vector<Linear>> copies_of(const Kind& kind, KindResult& result) {
    PITH_TRY(const TensorView w, view());
    std::optional<QuantizedTensor> codes;
    result.stored_bytes = w.shape().elements() * std::int64_t{sizeof(float)};
    if (kind.scheme) {
      PITH_TRY(codes, quantize(w, *kind.scheme));
      result.stored_bytes = codes->stored_bytes();
    }
    const LinearOptions options{.activations = kind.activations};
    std::vector<Linear> layers;
    const std::int64_t count =
        std::min(kMostCopies, kColdBytes / result.stored_bytes + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      PITH_OK(check_cancelled(&stop_token()));
      PITH_TRY(Linear layer,
               codes ? Linear::make(*codes, {}, options) : Linear::make(w, {}, options));
      layers.push_back(std::move(layer));
    }
    result.packed_bytes = layers.front().packed_bytes();
    result.pack_seconds = layers.front().pack_seconds();
    return layers;
  }

  Status measure_layers(const Kind& kind, KindResult& result) {
    PITH_TRY(std::vector<Linear> copies, copies_of(kind, result));
    for (const std::int64_t batch : arguments_.batches) {
      const auto x = std::span(x_).first(static_cast<std::size_t>(batch * shape_.inputs));
      const auto y =
          std::span(y_).first(static_cast<std::size_t>(batch * shape_.outputs));
      const std::size_t turns = batch <= kColdBatch ? copies.size() : 1;
      LayerSpeed speed{.batch = batch};
      PITH_TRY(speed.seconds, best_of(arguments_.rounds, [&]() -> Status {
                 for (std::size_t i = 0; i < turns; ++i) {
                   PITH_OK(copies[i].forward(x, batch, y));
                 }
                 return {};
               }));
      speed.seconds /= static_cast<double>(turns);
      speed.gb_per_s = 1e-9 * static_cast<double>(result.stored_bytes) / speed.seconds;
      speed.gop_per_s = 2e-9 * static_cast<double>(weight_.size()) *
                        static_cast<double>(batch) / speed.seconds;
      if (batch <= kColdBatch) speed.share = speed.gb_per_s / limit_;
      if (!kind.scheme) f32_[batch] = speed.seconds;
      speed.speed_up = f32_[batch] / speed.seconds;
      result.layers.push_back(speed);
    }
    return {};
  }

  const BenchArguments& arguments_;
  BenchShape shape_;
  double limit_;
  std::vector<float> weight_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::map<std::int64_t, double> f32_;
};

struct BenchReport {
  int threads = 0;
  double limit = 0;
  std::vector<KindResult> results;
};

// A line for each kind of weights, columns for each batch.
std::string table_of(const BenchArguments& arguments, BenchShape shape,
                     const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{"weights", "quantize"}};
  std::vector<bool> right = {false, true};
  if (arguments.all_isas) {
    rows[0].insert(rows[0].begin() + 1, "set");
    right.insert(right.begin() + 1, false);
  }
  for (const std::int64_t batch : arguments.batches) {
    const bool cold = batch <= kColdBatch;
    rows[0].push_back(fmt::format("{}: {}", batch, cold ? "GB/s" : "GOP/s"));
    if (cold) rows[0].emplace_back("limit");
    rows[0].emplace_back("f32");
    right.insert(right.end(), cold ? 3 : 2, true);
  }
  for (const KindResult& result : report.results) {
    if (result.shape.outputs != shape.outputs || result.shape.inputs != shape.inputs) {
      continue;
    }
    std::vector<std::string> row = {result.kind,
                                    result.quantize_gb_per_s > 0
                                        ? fmt::format("{:.1f}", result.quantize_gb_per_s)
                                        : ""};
    if (arguments.all_isas) row.insert(row.begin() + 1, result.isa);
    for (const LayerSpeed& speed : result.layers) {
      if (speed.batch <= kColdBatch) {
        row.push_back(fmt::format("{:.1f}", speed.gb_per_s));
        row.push_back(fmt::format("{:.0f} %", 100 * speed.share));
      } else {
        row.push_back(fmt::format("{:.0f}", speed.gop_per_s));
      }
      row.push_back(fmt::format("{:.1f}x", speed.speed_up));
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("\n{} x {}\n", shape.outputs, shape.inputs) +
         format_table(rows, right, decorate_results());
}

std::string bench_text(const BenchArguments& arguments,
                       const std::vector<BenchShape>& shapes, const BenchReport& report) {
  std::string out = fmt::format("{}, {}; memory is read at {:.1f} GB/s\n",
                                report.results.empty() ? "" : report.results.front().isa,
                                counted(report.threads, "thread"), report.limit);
  for (const BenchShape& shape : shapes) out += table_of(arguments, shape, report);
  out +=
      "\nquantize: GB/s of f32 weights. Then, for each number of rows: GB/s of stored "
      "weights,\nwhich no cache has, and their share of the speed of memory; or 10^9 "
      "operations per second;\nand how many times faster than a layer of f32.\n";
  return out;
}

std::string bench_json(const BenchReport& report) {
  nlohmann::ordered_json document = {{"schema_version", 1},
                                     {"command", "bench"},
                                     {"threads", report.threads},
                                     {"read_limit_gb_per_s", report.limit},
                                     {"results", nlohmann::ordered_json::array()}};
  for (const KindResult& result : report.results) {
    nlohmann::ordered_json item = {{"outputs", result.shape.outputs},
                                   {"inputs", result.shape.inputs},
                                   {"weights", result.kind},
                                   {"isa", result.isa},
                                   {"stored_bytes", result.stored_bytes},
                                   {"packed_bytes", result.packed_bytes},
                                   {"pack_seconds", result.pack_seconds}};
    if (result.quantize_gb_per_s > 0) {
      item["quantize_gb_per_s"] = result.quantize_gb_per_s;
    }
    item["layers"] = nlohmann::ordered_json::array();
    for (const LayerSpeed& speed : result.layers) {
      nlohmann::ordered_json layer = {{"batch", speed.batch},
                                      {"seconds", speed.seconds},
                                      {"gb_per_s", speed.gb_per_s},
                                      {"gop_per_s", speed.gop_per_s},
                                      {"speed_up_over_f32", speed.speed_up}};
      if (speed.share > 0) layer["share_of_limit"] = speed.share;
      item["layers"].push_back(std::move(layer));
    }
    document["results"].push_back(std::move(item));
  }
  return json_text(document);
}

Result<BenchShape> parse_shape(const std::string& text) {
  const auto number = [](const std::string& digits) -> std::int64_t {
    return digits.empty() || digits.size() > 6 ||
                   digits.find_first_not_of("0123456789") != std::string::npos
               ? 0
               : std::stoll(digits);
  };
  const std::size_t x = text.find('x');
  BenchShape shape;
  if (x != std::string::npos) {
    shape = {number(text.substr(0, x)), number(text.substr(x + 1))};
  }
  if (shape.outputs == 0 || shape.inputs == 0) {
    return Status::invalid_argument(fmt::format(
        "--shape is '{}', expected OUTPUTSxINPUTS of 1 to 999999, such as 11008x4096",
        text));
  }
  return shape;
}

Status run_bench(const BenchArguments& arguments) {
  std::vector<BenchShape> shapes;
  for (const std::string& text : arguments.shapes) {
    PITH_TRY(const BenchShape shape, parse_shape(text));
    shapes.push_back(shape);
  }
  BenchReport report;
  report.threads = arguments.threads > 0 ? arguments.threads : default_threads();
  const ThreadLimit limit(report.threads);
  std::int64_t largest = 0;
  for (const BenchShape& shape : shapes) {
    largest = std::max(largest, shape.outputs * shape.inputs);
  }
  // Small layers do not need all the memory that is far beyond every cache.
  report.limit = read_speed(std::clamp<std::int64_t>(
      largest * kMostCopies, std::int64_t{64} << 20, std::int64_t{384} << 20));
  std::vector<std::string> isas = {""};
  if (arguments.all_isas) isas = available_isas();
  for (const BenchShape& shape : shapes) {
    Bench bench(arguments, shape, report.limit);
    for (const std::string& isa : isas) {
      if (!isa.empty()) PITH_OK(use_isa(isa));
      for (const Kind& kind : kinds(shape.inputs)) {
        PITH_TRY(KindResult result, bench.measure(kind));
        report.results.push_back(std::move(result));
      }
    }
  }
  return print_result(arguments.json ? bench_json(report)
                                     : bench_text(arguments, shapes, report));
}

}  // namespace

Run add_bench(CLI::App& command) {
  auto arguments = std::make_shared<BenchArguments>();
  command.add_option("--shape", arguments->shapes, "Outputs and inputs of layers")
      ->default_str("4096x4096")
      ->type_name("OUTPUTSxINPUTS");
  command
      .add_option("--batch", arguments->batches, "Rows of activations, one or several")
      ->default_str("1 32 512")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}))
      ->type_name("ROWS");
  command.add_flag("--all-sets", arguments->all_isas,
                   "Measure every instruction set that can run here, not the best only");
  command.add_option("--rounds", arguments->rounds, "The best of so many counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command.add_option("--threads", arguments->threads, "By default one per processor")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command.add_flag("--json", arguments->json, "Print the result as JSON");
  command.footer(
      "Measures what this machine reaches with layers of a size, for every kind of\n"
      "weights: needs a few hundred MiB, and a machine that does nothing else.\n"
      "Examples:\n"
      "  pith bench\n"
      "  pith bench --shape 4096x4096 11008x4096 --batch 1 4 --threads 1\n"
      "  pith bench --all-sets --json\n");
  return [arguments] { return run_bench(*arguments); };
}

}  // namespace pith::cli
