// The report as one JSON document. Each stage and each tensor has a line of its own, so
// that two reports can be compared line by line. docs/report.schema.json has every key.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "pith/report/report.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON has no infinity: null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json files_json(const ReportFiles& files) {
  return {{"path", files.path},
          {"format", files.format},
          {"files", files.files},
          {"bytes", files.bytes}};
}

Json histogram_json(const Histogram& histogram) {
  return {{"low", histogram.low}, {"high", histogram.high}, {"counts", histogram.counts}};
}

Json thumbnail_json(const Thumbnail& thumbnail) {
  std::string digits;
  for (const std::uint8_t density : thumbnail.density) {
    digits += fmt::format("{:02x}", density);
  }
  return {
      {"rows", thumbnail.rows}, {"cols", thumbnail.cols}, {"density", std::move(digits)}};
}

Json error_json(const ErrorFigures& error) {
  Json entry = {{"mae", number(error.mae())},
                {"rmse", number(error.rmse())},
                {"sqnr_db", number(error.sqnr_db())},
                {"cosine", number(error.cosine())},
                {"max_error", number(error.max_error)}};
  if (error.max_index >= 0) entry["max_index"] = error.max_index;
  entry["count"] = error.count;
  entry["non_finite"] = error.non_finite;
  entry["saturated"] = error.saturated;
  entry["zeros_before"] = error.zeros_before;
  entry["zeros_after"] = error.zeros_after;
  entry["sum_error"] = number(error.sum_error);
  entry["sum_error_squared"] = number(error.sum_error_squared);
  entry["sum_squared_before"] = number(error.sum_squared_before);
  entry["sum_squared_after"] = number(error.sum_squared_after);
  return entry;
}

Json stage_json(const StageReport& stage) {
  return {{"name", stage.name},
          {"options", stage.options},
          {"processed", stage.processed},
          {"skipped", stage.skipped},
          {"parameters", stage.parameters},
          {"nonzero_after", stage.nonzero_after},
          {"bytes_before", stage.bytes_before},
          {"bytes_after", stage.bytes_after},
          {"ratio", stage.ratio()},
          {"sparsity", stage.sparsity()}};
}

Json tensor_json(const TensorReport& tensor) {
  const auto extents = tensor.shape.extents();
  Json entry = {{"name", tensor.name},
                {"layer", layer_of(tensor.name)},
                {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                {"dtype", tensor.dtype},
                {"action", to_string(tensor.action)},
                {"rule", tensor.rule},
                {"scheme", tensor.scheme},
                {"bytes_before", tensor.bytes_before},
                {"bytes_after", tensor.bytes_after},
                {"ratio", tensor.ratio()},
                {"sparsity", tensor.sparsity()}};
  if (tensor.action == TensorAction::kAliased) entry["alias_of"] = tensor.alias_of;
  if (!tensor.checksum.empty()) entry["checksum"] = tensor.checksum;
  if (tensor.error) entry["error"] = error_json(*tensor.error);
  if (!tensor.weights.empty()) entry["weights"] = histogram_json(tensor.weights);
  if (!tensor.codes.empty()) entry["codes"] = histogram_json(tensor.codes);
  if (!tensor.nonzeros.empty()) entry["nonzeros"] = thumbnail_json(tensor.nonzeros);
  return entry;
}

Json totals_json(const ReportTotals& totals) {
  return {{"tensors", totals.tensors},
          {"kept", totals.kept},
          {"compressed", totals.compressed},
          {"aliased", totals.aliased},
          {"dropped", totals.dropped},
          {"parameters", totals.parameters},
          {"compressed_parameters", totals.compressed_parameters},
          {"zeros", totals.zeros},
          {"ratio", totals.ratio},
          {"bits_per_weight", totals.bits_per_weight},
          {"bytes_per_second", number(totals.bytes_per_second)},
          {"rmse", number(totals.rmse)},
          {"sqnr_db", number(totals.sqnr_db)}};
}

// An array with an element per line.
template <typename T, typename ToJson>
std::string lines(const std::vector<T>& items, ToJson to_json) {
  std::string text;
  for (const T& item : items) {
    text += fmt::format("{}\n    {}", text.empty() ? "" : ",", text_of(to_json(item)));
  }
  return text.empty() ? "[]" : fmt::format("[{}\n  ]", text);
}

}  // namespace

std::string report_json(const Report& report) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text += fmt::format("{}\n  \"{}\": {}", text.empty() ? "{" : ",", key, value);
  };
  add("schema_version", std::to_string(kReportSchema));
  add("tool", text_of(report.tool));
  add("source", text_of(files_json(report.source)));
  add("output", text_of(files_json(report.output)));
  add("recipe", text_of(report.recipe));
  add("environment", text_of({{"threads", report.environment.threads},
                              {"isa", report.environment.isa},
                              {"cpu", report.environment.cpu}}));
  add("seconds", text_of(report.seconds));
  add("totals", text_of(totals_json(report_totals(report))));
  add("facts", lines(report.facts, [](const std::pair<std::string, std::string>& fact) {
        return Json{{"name", fact.first}, {"value", fact.second}};
      }));
  add("warnings",
      lines(report.warnings, [](const std::string& warning) { return Json(warning); }));
  add("stages", lines(report.stages, stage_json));
  add("tensors", lines(report.tensors, tensor_json));
  return text + "\n}\n";
}

}  // namespace pith
