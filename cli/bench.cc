// pith bench: what this machine reaches with layers of a given size.
#include <fmt/format.h>

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

constexpr std::int64_t kColdBytes = std::int64_t{256} << 20;

struct BenchArguments {
  std::string shape = "4096x4096";
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::vector<std::int64_t> batches = {1, 32, 512};
  bool all_isas = false;
  int rounds = 3;
  bool json = false;
  int threads = 0;
};

// One line of the result.
struct Line {
  std::string what;  // "quantize", "layer"
  std::string scheme;
  std::string isa;
  std::int64_t batch = 0;  // of a layer
  double seconds = 0;
  double gb_per_s = 0;      // of f32 for quantize, of stored weights for a layer
  double gop_per_s = 0;     // of a layer
  double share = 0;         // of the read limit, where memory is the limit
  double speed_up = 0;      // over f32
  double pack_seconds = 0;  // of a layer
  std::int64_t stored_bytes = 0;
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
  explicit Bench(const BenchArguments& arguments) : arguments_(arguments) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    weight_.resize(static_cast<std::size_t>(arguments.outputs * arguments.inputs));
    for (float& w : weight_) w = normal(random);
    std::int64_t rows = 1;
    for (const std::int64_t batch : arguments.batches) rows = std::max(rows, batch);
    x_.resize(static_cast<std::size_t>(rows * arguments.inputs));
    for (float& x : x_) x = normal(random);
    y_.resize(static_cast<std::size_t>(rows * arguments.outputs));
  }

  Status run() {
    limit_ = read_speed();
    std::vector<std::string> isas = {""};
    if (arguments_.all_isas) isas = available_isas();
    for (const std::string& isa : isas) {
      PITH_OK(use_isa(isa));
      PITH_TRY(isa_, active_isa());
      for (const Kind& kind : kinds(arguments_.inputs)) {
        PITH_OK(quantize_line(kind));
        PITH_OK(layer_lines(kind));
      }
    }
    return use_isa("");
  }

  [[nodiscard]] double limit() const { return limit_; }
  [[nodiscard]] const std::vector<Line>& lines() const { return lines_; }

 private:
  [[nodiscard]] TensorView view() const {
    const Shape shape = Shape::make({arguments_.outputs, arguments_.inputs}).value();
    return TensorView::of(weight_, shape, "weight").value();
  }

  Status quantize_line(const Kind& kind) {
    if (!kind.scheme || kind.activations != Activations::kInt8Rows) return {};
    const TensorView w = view();
    PITH_TRY(Quantizer quantizer, Quantizer::make(*kind.scheme, w.shape(), "weight"));
    Buffer codes(kind.scheme->code_bytes(w.shape()));
    Buffer scales(kind.scheme->scale_bytes(w.shape()));
    Line line{.what = "quantize", .scheme = kind.name, .isa = isa_};
    PITH_TRY(line.seconds, best_of(arguments_.rounds, [&] {
               return quantizer.encode(w, 0, {codes.bytes(), scales.bytes(), {}});
             }));
    line.gb_per_s = 4e-9 * static_cast<double>(weight_.size()) / line.seconds;
    line.share = line.gb_per_s / limit_;
    lines_.push_back(line);
    return {};
  }

  // Copies of a layer, enough that a vector finds none of them in a cache.
  Result<std::vector<Linear>> layers(const Kind& kind, std::int64_t& stored) {
    std::optional<QuantizedTensor> codes;
    stored = static_cast<std::int64_t>(weight_.size() * sizeof(float));
    if (kind.scheme) {
      PITH_TRY(codes, quantize(view(), *kind.scheme));
      stored = codes->stored_bytes();
    }
    const LinearOptions options{.activations = kind.activations};
    std::vector<Linear> layers;
    for (std::int64_t i = 0; i < kColdBytes / stored + 1; ++i) {
      PITH_OK(check_cancelled(&stop_token()));
      PITH_TRY(Linear layer, codes ? Linear::make(*codes, {}, options)
                                   : Linear::make(view(), {}, options));
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  Status layer_lines(const Kind& kind) {
    std::int64_t stored = 0;
    PITH_TRY(std::vector<Linear> copies, layers(kind, stored));
    for (const std::int64_t batch : arguments_.batches) {
      const auto x =
          std::span(x_).first(static_cast<std::size_t>(batch * arguments_.inputs));
      const auto y =
          std::span(y_).first(static_cast<std::size_t>(batch * arguments_.outputs));
      const std::size_t turns = batch <= 4 ? copies.size() : 1;
      Line line{.what = "layer", .scheme = kind.name, .isa = isa_, .batch = batch};
      PITH_TRY(line.seconds, best_of(arguments_.rounds, [&]() -> Status {
                 for (std::size_t i = 0; i < turns; ++i) {
                   PITH_OK(copies[i].forward(x, batch, y));
                 }
                 return {};
               }));
      line.seconds /= static_cast<double>(turns);
      line.stored_bytes = stored;
      line.pack_seconds = copies.front().pack_seconds();
      line.gb_per_s = 1e-9 * static_cast<double>(stored) / line.seconds;
      line.gop_per_s = 2e-9 * static_cast<double>(weight_.size()) *
                       static_cast<double>(batch) / line.seconds;
      if (batch == 1) line.share = line.gb_per_s / limit_;
      if (!kind.scheme) f32_[batch] = line.seconds;
      line.speed_up = f32_[batch] / line.seconds;
      lines_.push_back(line);
    }
    return {};
  }

  const BenchArguments& arguments_;
  std::vector<float> weight_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::string isa_;
  double limit_ = 0;
  std::map<std::int64_t, double> f32_;
  std::vector<Line> lines_;
};

std::string text(const BenchArguments& arguments, const Bench& bench, int threads) {
  std::vector<std::vector<std::string>> rows = {
      {"what", "weights", "set", "batch", "GB/s", "of limit", "GOP/s", "x f32"}};
  for (const Line& line : bench.lines()) {
    const bool layer = line.what == "layer";
    rows.push_back({line.what, line.scheme, line.isa,
                    layer ? fmt::format("{}", line.batch) : "",
                    fmt::format("{:.1f}", line.gb_per_s),
                    line.share > 0 ? fmt::format("{:.2f}", line.share) : "",
                    layer ? fmt::format("{:.0f}", line.gop_per_s) : "",
                    layer ? fmt::format("{:.2f}", line.speed_up) : ""});
  }
  return fmt::format(
             "{} x {}, {} thread{}; memory is read at {:.1f} GB/s, the limit\n"
             "GB/s: of f32 values for quantize, of stored weights for layers (cold up to "
             "batch 4); x f32: times faster than Pith's own f32 layer\n\n",
             arguments.outputs, arguments.inputs, threads, threads == 1 ? "" : "s",
             bench.limit()) +
         format_table(rows, {false, false, false, true, true, true, true, true},
                      decorate_results());
}

std::string json(const BenchArguments& arguments, const Bench& bench, int threads) {
  nlohmann::ordered_json document = {{"schema_version", 1},
                                     {"command", "bench"},
                                     {"outputs", arguments.outputs},
                                     {"inputs", arguments.inputs},
                                     {"threads", threads},
                                     {"read_limit_gb_per_s", bench.limit()},
                                     {"results", nlohmann::ordered_json::array()}};
  for (const Line& line : bench.lines()) {
    nlohmann::ordered_json item = {{"what", line.what},
                                   {"weights", line.scheme},
                                   {"isa", line.isa},
                                   {"seconds", line.seconds},
                                   {"gb_per_s", line.gb_per_s}};
    if (line.share > 0) item["share_of_limit"] = line.share;
    if (line.what == "layer") {
      item["batch"] = line.batch;
      item["gop_per_s"] = line.gop_per_s;
      item["speed_up_over_f32"] = line.speed_up;
      item["stored_bytes"] = line.stored_bytes;
      item["pack_seconds"] = line.pack_seconds;
    }
    document["results"].push_back(std::move(item));
  }
  return document.dump(2) + "\n";
}

Status run(BenchArguments& arguments) {
  const std::size_t x = arguments.shape.find('x');
  const auto number = [&](const std::string& digits) {
    return digits.empty() || digits.size() > 6 ||
                   digits.find_first_not_of("0123456789") != std::string::npos
               ? 0
               : std::stoll(digits);
  };
  if (x != std::string::npos) {
    arguments.outputs = number(arguments.shape.substr(0, x));
    arguments.inputs = number(arguments.shape.substr(x + 1));
  }
  if (arguments.outputs == 0 || arguments.inputs == 0) {
    return Status::invalid_argument(fmt::format(
        "--shape is '{}', expected OUTPUTSxINPUTS of 1 to 999999, such as 11008x4096",
        arguments.shape));
  }
  const int threads = arguments.threads > 0 ? arguments.threads : default_threads();
  const ThreadLimit limit(threads);
  Bench bench(arguments);
  PITH_OK(bench.run());
  return print_result(arguments.json ? json(arguments, bench, threads)
                                     : text(arguments, bench, threads));
}

}  // namespace

Run add_bench(CLI::App& command) {
  auto arguments = std::make_shared<BenchArguments>();
  command.add_option("--shape", arguments->shape, "Outputs and inputs of the layer")
      ->capture_default_str()
      ->type_name("OUTPUTSxINPUTS");
  command
      .add_option("--batch", arguments->batches, "Rows of activations, one or several")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}))
      ->type_name("ROWS");
  command.add_flag("--all-sets", arguments->all_isas,
                   "Measure every instruction set that can run here, not the best only");
  command.add_option("--rounds", arguments->rounds, "The best of so many counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command.add_option("--threads", arguments->threads, "By default one per processor")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command.add_flag("--json", arguments->json, "Print the result as JSON");
  command.footer(
      "Examples:\n"
      "  pith bench\n"
      "  pith bench --shape 11008x4096 --batch 1 --threads 1\n"
      "  pith bench --all-sets --json\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli
