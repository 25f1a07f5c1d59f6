// pith verify and pith diff: two checkpoints side by side.
#include "pith/pipeline/verify.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "pith/base/threads.h"

namespace pith::cli {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyArguments {
  std::string first;
  std::string second;
  bool json = false;
  bool all = false;
  VerifyOptions verify;
  CommonOptions common;
};

Json figures_json(const ErrorFigures& figures) {
  // JSON has no infinity: no error at all is null.
  const double sqnr = figures.sqnr_db();
  return {{"rmse", figures.rmse()},
          {"mae", figures.mae()},
          {"max_error", figures.max_error},
          {"sqnr_db", std::isfinite(sqnr) ? Json(sqnr) : Json(nullptr)},
          {"non_finite", figures.non_finite},
          {"zeros_after", figures.zeros_after}};
}

Json tensors_json(const std::vector<ComparedTensor>& tensors) {
  Json rows = Json::array();
  for (const ComparedTensor& tensor : tensors) {
    Json row = {{"name", tensor.name},
                {"shape", tensor.shape.extents()},
                {"first", tensor.dtype_a},
                {"second", tensor.dtype_b},
                {"same", tensor.same}};
    if (!tensor.problem.empty()) row["problem"] = tensor.problem;
    if (tensor.error) row["error"] = figures_json(*tensor.error);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string table(const std::vector<ComparedTensor>& tensors, bool all) {
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "first", "second", "", "sqnr", "rmse", "max error"}};
  for (const ComparedTensor& tensor : tensors) {
    if (tensor.same && !all) continue;
    std::vector<std::string> row = {escape_controls(tensor.name),
                                    tensor.dtype_a.empty() ? "-" : tensor.dtype_a,
                                    tensor.dtype_b.empty() ? "-" : tensor.dtype_b,
                                    tensor.same              ? "same"
                                    : tensor.problem.empty() ? "differs"
                                                             : tensor.problem,
                                    "",
                                    "",
                                    ""};
    if (tensor.error && !tensor.same) {
      row[4] = fmt::format("{:.1f} dB", tensor.error->sqnr_db());
      row[5] = fmt::format("{:.3g}", tensor.error->rmse());
      row[6] = fmt::format("{:.3g}", tensor.error->max_error);
    }
    rows.push_back(std::move(row));
  }
  if (rows.size() == 1) return {};
  return format_table(rows, {false, false, false, false, true, true, true},
                      decorate_results());
}

Status run_verify(const VerifyArguments& arguments) {
  const VerifyOptions& limits = arguments.verify;
  if (limits.max_rmse && !(*limits.max_rmse >= 0)) {
    return Status::invalid_argument(fmt::format(
        "--max-rmse is {}, expected a number of at least 0", *limits.max_rmse));
  }
  if (limits.min_sqnr && std::isnan(*limits.min_sqnr)) {
    return Status::invalid_argument("--min-sqnr is nan, expected a number of dB");
  }
  const ThreadLimit limit(thread_count(arguments.common));
  VerifyOptions options = arguments.verify;
  options.max_memory = arguments.common.max_memory;
  options.cancel = &stop_token();
  const Result<VerifyResult> result = [&] {
    ProgressBar bar(!arguments.common.no_progress);
    options.progress = bar.function();
    return verify(arguments.first, arguments.second, options);
  }();
  if (!result) return result.error();
  std::string text;
  if (arguments.json) {
    text = json_text({{"schema_version", 1},
                      {"command", "verify"},
                      {"source", arguments.first},
                      {"output", arguments.second},
                      {"ok", result->problems.empty()},
                      {"source_bytes", result->source_bytes},
                      {"output_bytes", result->output_bytes},
                      {"checksums", result->checksums},
                      {"figures", result->figures},
                      {"aliased", result->aliased},
                      {"files", result->files},
                      {"problems", result->problems},
                      {"tensors", tensors_json(result->tensors)}});
  } else {
    if (arguments.all) text += table(result->tensors, true);
    double worst = HUGE_VAL;
    std::int64_t same = 0;
    std::string name;
    for (const ComparedTensor& tensor : result->tensors) {
      same += tensor.same ? 1 : 0;
      if (!tensor.error || tensor.same || tensor.error->sqnr_db() >= worst) continue;
      worst = tensor.error->sqnr_db();
      name = tensor.name;
    }
    text += fmt::format(
        "{}: {}, {} the same as in the source\n", escape_controls(arguments.second),
        counted(std::ssize(result->tensors), "tensor"), with_commas(same));
    text += fmt::format(
        "{} and {} agree; {} bytes, source {}\n", counted(result->checksums, "checksum"),
        counted(result->figures, "error figure"), with_commas(result->output_bytes),
        with_commas(result->source_bytes));
    if (result->aliased > 0) {
      text += fmt::format("{} stored by another name, as config.json ties them\n",
                          counted(result->aliased, "tensor"));
    }
    if (result->files > 0) {
      text += fmt::format("{} beside the weights, the same as in the source\n",
                          counted(result->files, "file"));
    }
    if (!name.empty()) {
      text += fmt::format("worst: {}, {:.1f} dB\n", escape_controls(name), worst);
    }
    if (result->problems.empty()) {
      text += result->checksums > 0
                  ? "verified\n"
                  : "complete; without checksums, a byte that changed shows in errors "
                    "alone\n";
    }
  }
  PITH_OK(print_result(text));
  if (result->problems.empty()) return {};
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(kShown, result->problems.size()); ++i) {
    print_message(result->problems[i]);
  }
  return {StatusCode::kGateFailed,
          fmt::format(
              "{}: {} found", arguments.second,
              counted(static_cast<std::int64_t>(result->problems.size()), "problem"))};
}

Status run_diff(const VerifyArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  VerifyOptions options;
  options.max_memory = arguments.common.max_memory;
  options.cancel = &stop_token();
  const Result<DiffResult> result = [&] {
    ProgressBar bar(!arguments.common.no_progress);
    options.progress = bar.function();
    return diff(arguments.first, arguments.second, options);
  }();
  if (!result) return result.error();
  if (arguments.json) {
    PITH_OK(print_result(json_text({{"schema_version", 1},
                                    {"command", "diff"},
                                    {"first", arguments.first},
                                    {"second", arguments.second},
                                    {"same", result->same},
                                    {"differ", result->differ},
                                    {"tensors", tensors_json(result->tensors)}})));
  } else {
    PITH_OK(print_result(table(result->tensors, arguments.all) +
                         fmt::format("{} tensors are the same, {} differ\n",
                                     with_commas(result->same),
                                     with_commas(result->differ))));
  }
  return {};
}

void add_shared(CLI::App& command, VerifyArguments& arguments, const std::string& first,
                const std::string& second) {
  command.add_option(first, arguments.first, "A file or folder that Pith reads")
      ->required();
  command.add_option(second, arguments.second, "Another one; it may be compressed")
      ->required();
  command.add_flag("--json", arguments.json, "Print the result as JSON");
  add_common_options(command, arguments.common);
}

}  // namespace

Run add_verify(CLI::App& command) {
  auto arguments = std::make_shared<VerifyArguments>();
  add_shared(command, *arguments, "SOURCE", "OUT");
  command
      .add_option("--max-rmse", arguments->verify.max_rmse,
                  "Fail if the root mean square error of a tensor is above this")
      ->type_name("X");
  command
      .add_option("--min-sqnr", arguments->verify.min_sqnr,
                  "Fail if the signal to noise ratio of a changed tensor is below this")
      ->type_name("DB");
  command.add_flag("--all", arguments->all, "A row for every tensor");
  command.footer(
      "Reads both, computes every error figure again, and compares checksums. Exit code "
      "3\n"
      "if something is missing, changed, or beyond a limit.\n"
      "Examples:\n"
      "  pith verify model.safetensors small.safetensors\n"
      "  pith verify model.safetensors small.safetensors --min-sqnr 30\n");
  return [arguments] { return run_verify(*arguments); };
}

Run add_diff(CLI::App& command) {
  auto arguments = std::make_shared<VerifyArguments>();
  add_shared(command, *arguments, "A", "B");
  command.add_flag("--all", arguments->all,
                   "A row for every tensor, also those that agree");
  command.footer(
      "Examples:\n"
      "  pith diff model.safetensors model-q8_0.gguf\n"
      "  pith diff a.safetensors b.safetensors --json\n");
  return [arguments] { return run_diff(*arguments); };
}

}  // namespace pith::cli
