// pith compress and pith plan: a recipe for a checkpoint, done or only told.
#include "pith/pipeline/compress.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recipe_options.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "pith/base/threads.h"

namespace pith::cli {
namespace {

struct CompressArguments {
  std::string input;
  std::string output;
  std::string report;
  bool dry_run = false;
  bool no_sync = false;
  bool json = false;
  bool all = false;  // a row for every tensor
  RecipeOptions recipe;
  CompressOptions compress;
  CommonOptions common;
};

std::string convention_text(const Plan& plan) {
  if (plan.format != Format::kSafetensors) return std::string(to_string(plan.format));
  return plan.convention == FileConvention::kCompressedTensors
             ? "safetensors, compressed-tensors convention"
             : "safetensors, Pith convention";
}

// Tensors that the same rule treats alike are one line.
struct PlanLine {
  std::string rule;
  std::string scheme;
  std::string note;
  std::string name;  // if it is but one
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;
};

std::vector<PlanLine> plan_lines(const Plan& plan, bool all) {
  std::vector<PlanLine> lines;
  std::map<std::array<std::string, 3>, std::size_t> places;
  for (const PlannedTensor& tensor : plan.tensors) {
    const std::string rule = tensor.action == TensorAction::kAliased
                                 ? fmt::format("same as {}", tensor.alias_of)
                                 : tensor.rule;
    const auto [place, added] =
        places.emplace(std::array{rule, tensor.scheme, tensor.note}, lines.size());
    if (added || all) {
      place->second = lines.size();
      lines.push_back({rule, tensor.scheme, tensor.note, tensor.name});
    }
    PlanLine& line = lines[place->second];
    ++line.tensors;
    line.parameters += tensor.shape.elements();
    line.before += tensor.bytes_before;
    line.after += tensor.bytes_after;
  }
  return lines;
}

std::string plan_text(const Plan& plan, bool all) {
  std::vector<std::vector<std::string>> rows = {
      {all ? "tensor" : "tensors", "parameters", "rule", "stored as", "before", "after"}};
  std::string notes;
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (const PlanLine& line : plan_lines(plan, all)) {
    rows.push_back({all ? escape_controls(line.name) : with_commas(line.tensors),
                    with_commas(line.parameters), escape_controls(line.rule), line.scheme,
                    with_commas(line.before), with_commas(line.after)});
    before += line.before;
    after += line.after;
    if (line.note.empty()) continue;
    notes += fmt::format(
        "note: {}: {}\n",
        line.tensors == 1 ? escape_controls(line.name)
                          : fmt::format("{} tensors of rule {}", line.tensors, line.rule),
        line.note);
  }
  rows.push_back({"", "", "", "all tensors", with_commas(before), with_commas(after)});
  rows.push_back({"", "", "", "files", with_commas(plan.input_bytes),
                  with_commas(plan.output_bytes)});
  std::string text =
      format_table(rows, {!all, true, false, false, true, true}, decorate_results());
  text += notes;
  text +=
      fmt::format("output: {}, {:.2f} times smaller\n", convention_text(plan),
                  static_cast<double>(plan.input_bytes) /
                      static_cast<double>(std::max<std::int64_t>(1, plan.output_bytes)));
  for (const std::string& reader : plan.loads)
    text += fmt::format("read by: {}\n", reader);
  text +=
      fmt::format("needs: {} on the disk, {} of memory for buffers, reads the input {}\n",
                  human_bytes(static_cast<double>(plan.output_bytes + plan.copied_bytes)),
                  human_bytes(static_cast<double>(plan.memory_bytes)),
                  plan.passes == 1 ? "once" : fmt::format("up to {} times", plan.passes));
  return text;
}

std::string plan_json(const CompressArguments& arguments, const Plan& plan) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const PlannedTensor& tensor : plan.tensors) {
    nlohmann::ordered_json row = {
        {"name", tensor.name},
        {"shape", tensor.shape.extents()},
        {"dtype", tensor.dtype},
        {"action", to_string(tensor.action)},
        {"rule", tensor.rule},
        {"scheme", tensor.scheme},
        {"bytes_before", tensor.bytes_before},
        {"bytes_after", tensor.bytes_after},
    };
    if (!tensor.alias_of.empty()) row["alias_of"] = tensor.alias_of;
    if (!tensor.note.empty()) row["note"] = tensor.note;
    tensors.push_back(std::move(row));
  }
  const nlohmann::ordered_json document = {
      {"schema_version", 1},
      {"command", "plan"},
      {"input", arguments.input},
      {"output", arguments.output},
      {"format", to_string(plan.format)},
      {"convention", plan.format != Format::kSafetensors ? to_string(plan.format)
                     : plan.convention == FileConvention::kCompressedTensors
                         ? "compressed-tensors"
                         : "pith"},
      {"input_bytes", plan.input_bytes},
      {"output_bytes", plan.output_bytes},
      {"copied_bytes", plan.copied_bytes},
      {"memory_bytes", plan.memory_bytes},
      {"passes", plan.passes},
      {"loads", plan.loads},
      {"warnings", plan.warnings},
      {"tensors", std::move(tensors)},
  };
  return json_text(document);
}

Result<CompressOptions> library_options(const CompressArguments& arguments) {
  CompressOptions options = arguments.compress;
  PITH_TRY(options.recipe, make_recipe(arguments.recipe));
  options.sync = !arguments.no_sync;
  options.max_memory = arguments.common.max_memory;
  options.cancel = &stop_token();
  return options;
}

Status run_plan(const CompressArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  PITH_TRY(const CompressOptions options, library_options(arguments));
  PITH_TRY(const Plan made, plan(arguments.input, arguments.output, options));
  for (const std::string& warning : made.warnings) print_message("note: " + warning);
  return print_result(arguments.json ? plan_json(arguments, made)
                                     : plan_text(made, arguments.all));
}

// The library's own lines about NaN do not know the flag.
Status with_remedy(const Status& error) {
  constexpr std::string_view kFlag = "--non-finite";
  if (error.code() != StatusCode::kNotFinite ||
      error.message().find(kFlag) != std::string::npos) {
    return error;
  }
  return {error.code(), fmt::format("{}; {} zero goes on", error.message(), kFlag)};
}

Status run_compress(const CompressArguments& arguments) {
  if (arguments.dry_run) return run_plan(arguments);
  const ThreadLimit limit(thread_count(arguments.common));
  PITH_TRY(CompressOptions options, library_options(arguments));
  options.journal = true;
  options.samples = !arguments.report.empty() || arguments.json;
  if (!arguments.report.empty()) {
    PITH_OK(check_report_path(arguments.report, options.overwrite));
  }
  Result<Report> report = [&] {
    ProgressBar bar(!arguments.common.no_progress);
    options.progress = bar.function();
    return compress(arguments.input, arguments.output, options);
  }();
  if (!report) return with_remedy(report.error());
  if (!arguments.report.empty()) {
    PITH_OK(write_report(*report, arguments.report, options.overwrite));
  }
  return print_result(arguments.json ? report_json(*report) : report_summary(*report));
}

void add_choices(CLI::App& command, CompressOptions& options) {
  static constexpr FileConvention kConventions[] = {
      FileConvention::kAuto, FileConvention::kPith, FileConvention::kCompressedTensors};
  add_choice(
      command, "--convention", {"auto", "pith", "compressed-tensors"},
      [&options](std::size_t i) { options.convention = kConventions[i]; },
      "Whose rules a safetensors output follows. auto: compressed-tensors, which "
      "transformers and vLLM load, for a folder of w8a8, w8a16 or w4a16; else pith");
  static constexpr NonFiniteChoice kNonFinite[] = {
      NonFiniteChoice::kError, NonFiniteChoice::kKeep, NonFiniteChoice::kZero};
  add_choice(
      command, "--non-finite", {"error", "keep", "zero"},
      [&options](std::size_t i) { options.non_finite = kNonFinite[i]; },
      "NaN and infinity in weights that are compressed: refuse them (error, the "
      "default), let them be where the type can hold them, or make them 0");
  command.add_flag("--allow-requantize", options.allow_requantize,
                   "Decode tensors that are quantized already and compress them again");
}

void add_shared(CLI::App& command, CompressArguments& arguments) {
  command
      .add_option("IN", arguments.input,
                  "A .safetensors, .gguf, .npz, .npy or PyTorch file, or a folder of "
                  "safetensors files")
      ->required();
  add_recipe_options(command, arguments.recipe);
  add_format_option(command, arguments.compress.format);
  add_choices(command, arguments.compress);
  command.add_flag("--json", arguments.json, "Print the result as JSON");
  command.add_flag("--all", arguments.all, "In a plan, a row for every tensor");
}

}  // namespace

Run add_compress(CLI::App& command) {
  auto arguments = std::make_shared<CompressArguments>();
  command
      .add_option("-o,--output", arguments->output,
                  "File or folder to write; it appears complete or not at all")
      ->required()
      ->type_name("OUT");
  add_shared(command, *arguments);
  command
      .add_option("--report", arguments->report,
                  "Write a report, too: .json, .md, .html or .txt")
      ->type_name("FILE");
  command.add_flag("--dry-run", arguments->dry_run,
                   "Only tell what would be done, as 'pith plan' does");
  command.add_flag("--resume", arguments->compress.resume,
                   "Continue a run that was killed, to the same bytes; input, recipe and "
                   "version must be the same");
  command.add_flag("--force", arguments->compress.overwrite,
                   "Replace OUT and the report if they exist");
  command.add_flag("--no-sync", arguments->no_sync,
                   "Do not wait until the disk has the data: a power cut may lose it");
  add_common_options(command, arguments->common);
  command.footer(
      "Biases, norms and other vectors stay as they are unless a rule names them.\n"
      "Examples:\n"
      "  pith compress model.safetensors -o small.safetensors --quantize int8-row\n"
      "  pith compress model.safetensors -o small.safetensors --prune 0.5 --quantize "
      "int8 "
      "\\\n"
      "      --report report.html\n"
      "  pith compress hub-folder/ -o small-folder/ --quantize w4a16   (for vLLM, "
      "transformers)\n"
      "  pith compress model-f16.gguf -o model-q4_0.gguf --quantize q4_0\n"
      "  pith compress model.safetensors -o small.safetensors --recipe recipe.yaml\n");
  return [arguments] { return run_compress(*arguments); };
}

Run add_plan(CLI::App& command) {
  auto arguments = std::make_shared<CompressArguments>();
  command
      .add_option("-o,--output", arguments->output,
                  "What would be written: its name tells the format; nothing is written")
      ->type_name("OUT");
  add_shared(command, *arguments);
  add_common_options(command, arguments->common);
  command.footer(
      "Only headers are read, and embeddings of one shape, which may be one and the "
      "same.\n"
      "The size of the output is exact, to the byte.\n"
      "Examples:\n"
      "  pith plan model.safetensors --quantize int4-g32\n"
      "  pith plan model.safetensors -o model.gguf --quantize q4_0 --all\n"
      "  pith plan hub-folder/ --recipe recipe.yaml --json\n");
  return [arguments] { return run_plan(*arguments); };
}

}  // namespace pith::cli
