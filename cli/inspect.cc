// pith inspect: what is in a checkpoint.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "pith/base/glob.h"
#include "pith/base/threads.h"
#include "pith/io/checkpoint.h"
#include "pith/io/tensor_stats.h"

namespace pith::cli {
namespace {

struct InspectArguments {
  std::string path;
  std::string filter;
  bool stats = false;
  bool json = false;
  CommonOptions common;
};

// What is shown: tensors in the order of the file, with their statistics if asked for.
struct Shown {
  const Checkpoint* checkpoint = nullptr;
  std::vector<std::size_t> tensors;
  std::vector<const TensorStats*>
      stats;  // of each; null if not asked for or not decodable
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};

std::string dtype_name(const Encoding& encoding) {
  return std::string(encoding.dtype ? to_string(*encoding.dtype) : encoding.name);
}

std::string sparkline(const TensorStats& stats) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::int64_t most =
      *std::max_element(stats.histogram.begin(), stats.histogram.end());
  std::string line;
  for (const std::int64_t count : stats.histogram) {
    // Any value at all shows; nothing is blank.
    line += count == 0 ? " " : kBars[(count * 8 - 1) / most];
  }
  return line;
}

std::vector<std::string> stats_cells(const TensorStats* stats) {
  if (stats == nullptr) return std::vector<std::string>(9, "-");
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  return {number(stats->min),
          number(stats->max),
          number(stats->mean),
          number(stats->deviation),
          number(stats->absmax),
          with_commas(stats->zeros),
          with_commas(stats->nan + stats->infinite),
          number(stats->kurtosis),
          sparkline(*stats)};
}

std::string text_report(const InspectArguments& arguments, const Shown& shown) {
  const Checkpoint& checkpoint = *shown.checkpoint;
  std::string text =
      fmt::format("{}: {}, {}, {}, {}\n", escape_controls(arguments.path),
                  to_string(checkpoint.format()),
                  counted(static_cast<std::int64_t>(shown.tensors.size()), "tensor"),
                  counted(shown.elements, "parameter"),
                  human_bytes(static_cast<double>(shown.bytes)));
  if (checkpoint.files().size() > 1) {
    text += fmt::format("{} files\n", checkpoint.files().size());
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> right = {false, false, false, true, true};
  rows.push_back({"name", "dtype", "shape", "bytes", "share"});
  if (arguments.stats) {
    for (const char* head :
         {"min", "max", "mean", "std", "absmax", "zeros", "nan/inf", "kurtosis"}) {
      rows[0].emplace_back(head);
      right.push_back(true);
    }
    rows[0].emplace_back("histogram");
    right.push_back(false);
  }
  for (std::size_t i = 0; i < shown.tensors.size(); ++i) {
    const TensorInfo& tensor = checkpoint.tensors()[shown.tensors[i]];
    const double share = shown.bytes > 0 ? 100.0 * static_cast<double>(tensor.bytes) /
                                               static_cast<double>(shown.bytes)
                                         : 0;
    rows.push_back({escape_controls(tensor.name), dtype_name(tensor.encoding),
                    tensor.shape.to_string(), with_commas(tensor.bytes),
                    fmt::format("{:.1f} %", share)});
    if (arguments.stats) {
      for (std::string& cell : stats_cells(shown.stats[i])) {
        rows.back().push_back(std::move(cell));
      }
    }
  }
  if (rows.size() > 1) text += "\n" + format_table(rows, right, decorate_results());
  if (!checkpoint.metadata().empty()) {
    text += "\nmetadata\n";
    for (const auto& [key, value] : checkpoint.metadata()) {
      std::string shown_value = escape_controls(value);
      constexpr std::size_t kLongest = 200;
      if (shown_value.size() > kLongest) {
        shown_value =
            fmt::format("{}... ({} bytes)", shown_value.substr(0, kLongest - 20),
                        with_commas(value.size()));
      }
      text += fmt::format("  {}: {}\n", escape_controls(key), shown_value);
    }
  }
  return text;
}

nlohmann::ordered_json stats_json(const TensorStats& stats) {
  return {
      {"min", stats.min},
      {"max", stats.max},
      {"mean", stats.mean},
      {"std", stats.deviation},
      {"absmax", stats.absmax},
      {"zeros", stats.zeros},
      {"nan", stats.nan},
      {"inf", stats.infinite},
      {"kurtosis", stats.kurtosis},
      {"histogram",
       {{"low", -stats.absmax},
        {"high", stats.absmax},
        {"sampled", stats.sampled},
        {"counts", stats.histogram}}},
  };
}

std::string json_report(const InspectArguments& arguments, const Shown& shown) {
  const Checkpoint& checkpoint = *shown.checkpoint;
  nlohmann::ordered_json document = {
      {"schema_version", 1},
      {"command", "inspect"},
      {"path", arguments.path},
      {"format", to_string(checkpoint.format())},
      {"files", nlohmann::ordered_json::array()},
      {"total",
       {{"tensors", shown.tensors.size()},
        {"elements", shown.elements},
        {"bytes", shown.bytes}}},
      {"metadata", nlohmann::ordered_json::object()},
      {"warnings", checkpoint.warnings()},
      {"tensors", nlohmann::ordered_json::array()},
  };
  for (const std::filesystem::path& file : checkpoint.files()) {
    document["files"].push_back(file.filename().string());
  }
  for (const auto& [key, value] : checkpoint.metadata())
    document["metadata"][key] = value;
  for (std::size_t i = 0; i < shown.tensors.size(); ++i) {
    const TensorInfo& tensor = checkpoint.tensors()[shown.tensors[i]];
    const auto extents = tensor.shape.extents();
    nlohmann::ordered_json entry = {
        {"name", tensor.name},
        {"dtype", dtype_name(tensor.encoding)},
        {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
        {"elements", tensor.shape.elements()},
        {"bytes", tensor.bytes},
        {"file", checkpoint.files()[tensor.file].filename().string()},
    };
    if (arguments.stats) {
      entry["stats"] = shown.stats[i] != nullptr ? stats_json(*shown.stats[i])
                                                 : nlohmann::ordered_json();
    }
    document["tensors"].push_back(std::move(entry));
  }
  return json_text(document);
}

Status choose_tensors(const InspectArguments& arguments, Shown& shown) {
  const std::vector<TensorInfo>& tensors = shown.checkpoint->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!arguments.filter.empty() && !glob_match(arguments.filter, tensors[i].name))
      continue;
    shown.tensors.push_back(i);
    shown.elements += tensors[i].shape.elements();
    shown.bytes += tensors[i].bytes;
  }
  if (!arguments.filter.empty() && shown.tensors.empty()) {
    return Status::invalid_argument(fmt::format(
        "--filter '{}' matches none of {} tensors", arguments.filter, tensors.size()));
  }
  return {};
}

Status run(const InspectArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  PITH_TRY(const std::unique_ptr<Checkpoint> checkpoint,
           Checkpoint::open(arguments.path));
  PITH_OK(check_compressed(arguments.path));
  Shown shown;
  shown.checkpoint = checkpoint.get();
  PITH_OK(choose_tensors(arguments, shown));
  std::vector<TensorStats> stats;
  shown.stats.resize(shown.tensors.size());
  if (arguments.stats) {
    std::vector<std::size_t> decodable;
    for (const std::size_t tensor : shown.tensors) {
      if (checkpoint->tensors()[tensor].encoding.decodable) decodable.push_back(tensor);
    }
    ProgressBar bar(!arguments.common.no_progress);
    const StatsOptions options{arguments.common.max_memory, &stop_token(),
                               bar.function()};
    PITH_TRY(stats, tensor_stats(*checkpoint, decodable, options));
    for (std::size_t i = 0, next = 0; i < shown.tensors.size(); ++i) {
      if (next < decodable.size() && decodable[next] == shown.tensors[i]) {
        shown.stats[i] = &stats[next++];
      }
    }
  }
  for (const std::string& warning : checkpoint->warnings()) {
    print_message("note: " + warning);
  }
  return print_result(arguments.json ? json_report(arguments, shown)
                                     : text_report(arguments, shown));
}

}  // namespace

Run add_inspect(CLI::App& command) {
  auto arguments = std::make_shared<InspectArguments>();
  command
      .add_option("PATH", arguments->path,
                  "A .safetensors, .gguf, .npz, .npy or PyTorch file, or a folder of "
                  "safetensors files")
      ->required();
  command.add_flag(
      "--stats", arguments->stats,
      "Read the data: smallest, largest, mean, deviation, zeros, NaN, kurtosis, "
      "histogram");
  command
      .add_option("--filter", arguments->filter,
                  "Only tensors whose whole name matches, with * and ? and [a-z]")
      ->type_name("GLOB");
  command.add_flag("--json", arguments->json, "Print one JSON document");
  add_common_options(command, arguments->common);
  command.footer(
      "Examples:\n"
      "  pith inspect model.safetensors\n"
      "  pith inspect model.gguf --stats --filter 'blk.0.*'\n"
      "  pith inspect hub-folder/ --json | jq '.tensors[].name'\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli
