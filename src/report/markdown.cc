// The report for a model card.
#include <fmt/format.h>

#include <algorithm>

#include "pith/report/format.h"
#include "pith/report/report.h"
#include "src/report/layers.h"

namespace pith {
namespace {

using namespace report;

// Beyond this many tensors a card shows layers.
constexpr std::size_t kMostRows = 100;

// Characters that mean something to Markdown or HTML become entities; with those, names
// stay names wherever they stand.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (std::string_view("<>&|`*_[]\\~").find(c) != std::string_view::npos) {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

// A name as code: plainly where that is possible, else by entities.
std::string code(std::string_view text) {
  const std::string line = one_line(text);
  if (line.empty()) return "";
  if (line.find_first_of("`|<>&") == std::string::npos) return "`" + line + "`";
  return "<code>" + plain(text) + "</code>";
}

// A text of several lines between fences that are longer than any run of ` in it.
std::string fenced(std::string_view text) {
  std::size_t longest = 2;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  std::string body;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    body += one_line(text.substr(0, end)) + "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return fmt::format("{}text\n{}{}\n", fence, body, fence);
}

// Bytes of a file that no tensor has; nothing to tell up to 1 % of it.
std::string outside(std::int64_t bytes, std::int64_t file) {
  return bytes > file / 100 ? with_commas(bytes) : "";
}

std::string error_cells(const ErrorFigures& error) {
  if (error.count == 0) return " | | |";
  return fmt::format(" {} | {} | {} |", decibels(error.sqnr_db()),
                     significant(error.rmse()), significant(error.max_error));
}

std::string tensor_table(const Report& report) {
  std::string text =
      "| tensor | shape | what | stored as | bytes before | bytes after | ratio | zeros "
      "| "
      "SQNR | RMSE | max error |\n"
      "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const std::size_t i : tensors_by_layer(report)) {
    const TensorReport& tensor = report.tensors[i];
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |", code(tensor.name),
                        tensor.shape.to_string(), to_string(tensor.action),
                        tensor.action == TensorAction::kAliased ? code(tensor.alias_of)
                                                                : plain(tensor.scheme),
                        with_commas(tensor.bytes_before), with_commas(tensor.bytes_after),
                        times(tensor.ratio()),
                        tensor.error ? percent(tensor.sparsity()) : "");
    text += error_cells(tensor.error.value_or(ErrorFigures{})) + "\n";
  }
  return text;
}

std::string layer_table(const Report& report) {
  std::string text =
      "| layer | tensors | parameters | bytes before | bytes after | ratio | SQNR | RMSE "
      "| "
      "max error |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const Layer& layer : layers_of(report)) {
    const double ratio = layer.bytes_after > 0
                             ? static_cast<double>(layer.bytes_before) /
                                   static_cast<double>(layer.bytes_after)
                             : 0;
    text += fmt::format("| {} | {} | {} | {} | {} | {} |", code(layer.name),
                        with_commas(std::ssize(layer.tensors)),
                        with_commas(layer.parameters), with_commas(layer.bytes_before),
                        with_commas(layer.bytes_after), times(ratio));
    text += error_cells(layer.error) + "\n";
  }
  return text;
}

std::string stage_table(const Report& report) {
  std::string text =
      "| stage | options | tensors | skipped | parameters | nonzero | zeros | bytes "
      "before "
      "| bytes after | ratio |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const StageReport& stage : report.stages) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                        plain(stage.name), plain(stage.options),
                        with_commas(stage.processed), with_commas(stage.skipped),
                        with_commas(stage.parameters), with_commas(stage.nonzero_after),
                        percent(stage.sparsity()), with_commas(stage.bytes_before),
                        with_commas(stage.bytes_after), times(stage.ratio()));
  }
  return text;
}

}  // namespace

std::string report_markdown(const Report& report) {
  const ReportTotals totals = report_totals(report);
  std::string text =
      fmt::format("## Compression\n\n{} was made of {} by {}.\n\n",
                  code(report.output.path), code(report.source.path), plain(report.tool));
  text += "| | before | after |\n|---|---:|---:|\n";
  text += fmt::format("| bytes on disk | {} | {} |\n", with_commas(report.source.bytes),
                      with_commas(report.output.bytes));
  std::int64_t before = report.source.bytes;
  std::int64_t after = report.output.bytes;
  for (const TensorReport& tensor : report.tensors) {
    before -= tensor.bytes_before;
    after -= tensor.bytes_after;
  }
  const std::string outside_before = outside(before, report.source.bytes);
  const std::string outside_after = outside(after, report.output.bytes);
  if (!outside_before.empty() || !outside_after.empty()) {
    text += fmt::format(
        "| of these outside tensors: headers, manifest, padding | {} | {} |\n",
        outside_before, outside_after);
  }
  text += fmt::format("| format | {} | {} |\n", plain(report.source.format),
                      plain(report.output.format));
  const double weights = static_cast<double>(totals.parameters);
  text += fmt::format(
      "| bits per weight | {:.2f} | {:.2f} |\n",
      weights > 0 ? 8 * static_cast<double>(report.source.bytes) / weights : 0,
      totals.bits_per_weight);
  for (const auto& [name, value] : report.facts) {
    text += fmt::format("| {} | | {} |\n", plain(name), plain(value));
  }
  text +=
      fmt::format("\n**{}.** ", size_change(report.source.bytes, report.output.bytes));
  if (totals.compressed > 0) {
    text += fmt::format(
        "{} parameters are compressed: RMSE {}, SQNR {} against the source, {} of them "
        "zero.\n",
        part_of(totals.compressed_parameters, totals.parameters),
        significant(totals.rmse), decibels(totals.sqnr_db),
        percent(totals.compressed_parameters > 0
                    ? static_cast<double>(totals.zeros) /
                          static_cast<double>(totals.compressed_parameters)
                    : 0));
  } else {
    text += "Nothing was compressed.\n";
  }
  for (const std::string& warning : report.warnings) {
    text += fmt::format("\n> **Warning.** {}\n", plain(warning));
  }
  if (!report.recipe.empty()) text += "\n### Recipe\n\n" + fenced(report.recipe);
  if (!report.stages.empty()) text += "\n### Stages\n\n" + stage_table(report);
  const bool by_layer = report.tensors.size() > kMostRows;
  if (!report.tensors.empty()) {
    text += by_layer ? "\n### Layers\n\n" + layer_table(report)
                     : "\n### Tensors\n\n" + tensor_table(report);
  }
  text += fmt::format(
      "\n{}, {} of the source per second; {}, {}{}{}.\n", human_seconds(report.seconds),
      human_bytes(totals.bytes_per_second), counted(report.environment.threads, "thread"),
      plain(report.environment.isa), report.environment.cpu.empty() ? "" : ", ",
      plain(report.environment.cpu));
  return text;
}

}  // namespace pith
