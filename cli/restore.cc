// pith restore: a compressed checkpoint made dense again.
#include "pith/pipeline/restore.h"

#include <fmt/format.h>

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

struct RestoreArguments {
  std::string input;
  std::string output;
  bool no_sync = false;
  bool json = false;
  std::optional<DType> dtype;
  RestoreOptions restore;
  CommonOptions common;
};

std::string report_text(const RestoreArguments& arguments, const RestoreReport& report) {
  return fmt::format(
      "{}: {}, {} tensors, {} decoded to {}, {} of tensors became {} of files\n",
      escape_controls(arguments.output), to_string(report.format),
      with_commas(report.tensors), with_commas(report.restored),
      to_string(arguments.dtype.value_or(DType::kF32)),
      human_bytes(static_cast<double>(report.input_bytes)),
      human_bytes(static_cast<double>(report.output_bytes)));
}

std::string report_json(const RestoreArguments& arguments, const RestoreReport& report) {
  const nlohmann::ordered_json document = {
      {"schema_version", 1},
      {"command", "restore"},
      {"input", arguments.input},
      {"output", arguments.output},
      {"format", to_string(report.format)},
      {"tensors", report.tensors},
      {"restored", report.restored},
      {"input_bytes", report.input_bytes},
      {"output_bytes", report.output_bytes},
      {"notes", report.notes},
  };
  return json_text(document);
}

Status run(const RestoreArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  RestoreOptions options = arguments.restore;
  options.dtype = arguments.dtype.value_or(DType::kF32);
  options.sync = !arguments.no_sync;
  options.max_memory = arguments.common.max_memory;
  options.cancel = &stop_token();
  const Result<RestoreReport> report = [&] {
    ProgressBar bar(!arguments.common.no_progress);
    options.progress = bar.function();
    return restore(arguments.input, arguments.output, options);
  }();
  if (!report) return report.error();
  for (const std::string& note : report->notes) print_message("note: " + note);
  return print_result(arguments.json ? report_json(arguments, *report)
                                     : report_text(arguments, *report));
}

}  // namespace

Run add_restore(CLI::App& command) {
  auto arguments = std::make_shared<RestoreArguments>();
  command
      .add_option("IN", arguments->input,
                  "A compressed file or folder: Pith's own, compressed-tensors, "
                  "bitsandbytes or GGUF")
      ->required();
  command
      .add_option("-o,--output", arguments->output,
                  "File or folder to write; it appears complete or not at all")
      ->required()
      ->type_name("OUT");
  add_dtype_option(
      command, arguments->dtype,
      "Type of tensors that were compressed; f32 by default, which is exact");
  add_format_option(command, arguments->restore.format);
  command.add_flag("--force", arguments->restore.overwrite, "Replace OUT if it exists");
  command.add_flag("--no-sync", arguments->no_sync,
                   "Do not wait until the disk has the data: a power cut may lose it");
  command.add_flag("--json", arguments->json, "Print the result as JSON");
  add_common_options(command, arguments->common);
  command.footer(
      "Examples:\n"
      "  pith restore small.safetensors -o dense.safetensors\n"
      "  pith restore W4A16-folder/ -o dense-folder/ --dtype bf16\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli
