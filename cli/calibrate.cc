// pith calibrate: statistics of activations, for methods that ask for them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "pith/base/threads.h"
#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats_file.h"

namespace pith::cli {
namespace {

struct CalibrateArguments {
  std::vector<std::string> inputs;
  std::string output;
  bool force = false;
  bool json = false;
  CommonOptions common;
};

// LAYER=FILE, or FILE; a file that exists under the whole name is that.
std::pair<std::string, std::string> split(const std::string& input) {
  const std::size_t sign = input.find('=');
  std::error_code ignored;
  if (sign == std::string::npos || std::filesystem::exists(input, ignored)) {
    return {"", input};
  }
  return {input.substr(0, sign), input.substr(sign + 1)};
}

struct LayerSummary {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t dead = 0;  // columns that are 0 in all rows
  float absmax = 0;
  float p99 = 0;      // 99th percentile of the magnitudes
  float p9999 = 0;    // 99.99th
  double spread = 0;  // largest column maximum over their median
};

Result<LayerSummary> summarize(const std::string& name, const LayerStats& layer) {
  LayerSummary summary;
  summary.name = name;
  summary.rows = layer.columns.rows();
  summary.cols = layer.columns.cols();
  summary.absmax = layer.values.absmax();
  PITH_TRY(summary.p99, layer.values.percentile(0.99));
  PITH_TRY(summary.p9999, layer.values.percentile(0.9999));
  std::vector<float> absmax(layer.columns.absmax().begin(), layer.columns.absmax().end());
  summary.dead = std::count(absmax.begin(), absmax.end(), 0.0f);
  std::erase(absmax, 0.0f);
  if (!absmax.empty()) {
    const auto middle = absmax.begin() + static_cast<std::ptrdiff_t>(absmax.size() / 2);
    std::nth_element(absmax.begin(), middle, absmax.end());
    summary.spread = static_cast<double>(summary.absmax) / static_cast<double>(*middle);
  }
  return summary;
}

std::string text(const std::vector<LayerSummary>& layers) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "rows", "cols", "dead", "absmax", "99%", "99.99%", "outliers"}};
  for (const LayerSummary& layer : layers) {
    rows.push_back({escape_controls(layer.name), with_commas(layer.rows),
                    with_commas(layer.cols), with_commas(layer.dead),
                    fmt::format("{:.4g}", layer.absmax), fmt::format("{:.4g}", layer.p99),
                    fmt::format("{:.4g}", layer.p9999),
                    fmt::format("{:.1f}x", layer.spread)});
  }
  return format_table(rows, {false, true, true, true, true, true, true, true},
                      decorate_results());
}

std::string json(const CalibrateArguments& arguments,
                 const std::vector<LayerSummary>& layers) {
  nlohmann::ordered_json document = {{"schema_version", 1},
                                     {"command", "calibrate"},
                                     {"output", arguments.output},
                                     {"layers", nlohmann::ordered_json::array()}};
  for (const LayerSummary& layer : layers) {
    document["layers"].push_back({{"name", layer.name},
                                  {"rows", layer.rows},
                                  {"cols", layer.cols},
                                  {"dead_columns", layer.dead},
                                  {"absmax", layer.absmax},
                                  {"percentile_99", layer.p99},
                                  {"percentile_99_99", layer.p9999},
                                  {"outliers", layer.spread}});
  }
  return json_text(document);
}

Status run(const CalibrateArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  Observer observer;
  WriteOptions options;
  options.overwrite = arguments.force;
  options.cancel = &stop_token();
  for (const std::string& input : arguments.inputs) {
    const auto [layer, path] = split(input);
    PITH_TRY(const RecordedFile seen,
             record_activations(observer, path, layer, &stop_token()));
    if (seen.values == 0) print_message(fmt::format("note: {} has no values", path));
    options.inputs.emplace_back(path);
  }
  std::vector<LayerSummary> layers;
  for (const auto& [name, layer] : observer.layers()) {
    PITH_TRY(LayerSummary summary, summarize(name, layer));
    if (summary.dead > 0) {
      print_message(fmt::format(
          "note: layer '{}': {} of {} columns are 0 in all rows; smoothing leaves them "
          "as they are",
          name, summary.dead, summary.cols));
    }
    // What many take for a static scale by default.
    for (const std::string& finding :
         check_clipping(summary.p99 / 127.0f, layer.values)) {
      print_message(fmt::format("note: layer '{}': at the 99th percentile, {}",
                                escape_controls(name), finding));
    }
    layers.push_back(std::move(summary));
  }
  PITH_OK(write_statistics(observer, arguments.output, options));
  return print_result(arguments.json ? json(arguments, layers) : text(layers));
}

}  // namespace

Run add_calibrate(CLI::App& command) {
  auto arguments = std::make_shared<CalibrateArguments>();
  command
      .add_option(
          "ACTIVATIONS", arguments->inputs,
          "Files with the inputs of layers, one row per token: .safetensors or .npz, "
          "whose tensors bear the names of modules; LAYER=FILE.npy; or statistics, "
          "which are merged")
      ->required();
  command.add_option("-o,--output", arguments->output, "File of statistics to write")
      ->required()
      ->type_name("STATS.safetensors");
  command.add_flag("--force", arguments->force, "Replace the output if it exists");
  command.add_flag("--json", arguments->json, "Print the result as JSON");
  add_common_options(command, arguments->common);
  command.footer(
      "Examples:\n"
      "  pith calibrate activations.safetensors -o stats.safetensors\n"
      "  pith calibrate model.layers.0.mlp.up_proj=x.npy -o stats.safetensors\n"
      "  pith calibrate monday.safetensors tuesday.safetensors -o both.safetensors\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli
