// pith convert: another format or element type for a checkpoint.
#include "pith/io/convert_checkpoint.h"

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

struct ConvertArguments {
  std::string input;
  std::string output;
  bool no_sync = false;
  bool json = false;
  ConvertOptions convert;
  CommonOptions common;
};

std::string report_text(const ConvertArguments& arguments, const ConvertReport& report) {
  std::string text =
      fmt::format("{}: {}, {}, {} converted, {} of tensors became {} of files\n",
                  escape_controls(arguments.output), to_string(report.format),
                  counted(report.tensors, "tensor"), with_commas(report.converted),
                  human_bytes(static_cast<double>(report.input_bytes)),
                  human_bytes(static_cast<double>(report.output_bytes)));
  if (report.overflowed > 0) {
    text += fmt::format("infinite now, for they overflowed: {}\n",
                        counted(report.overflowed, "value"));
  }
  return text;
}

std::string report_json(const ConvertArguments& arguments, const ConvertReport& report) {
  const nlohmann::ordered_json document = {
      {"schema_version", 1},
      {"command", "convert"},
      {"input", arguments.input},
      {"output", arguments.output},
      {"format", to_string(report.format)},
      {"tensors", report.tensors},
      {"converted", report.converted},
      {"input_bytes", report.input_bytes},
      {"output_bytes", report.output_bytes},
      {"overflowed", report.overflowed},
      {"not_finite", report.not_finite},
      {"notes", report.notes},
  };
  return json_text(document);
}

Status run(const ConvertArguments& arguments) {
  const ThreadLimit limit(thread_count(arguments.common));
  ConvertOptions options = arguments.convert;
  options.sync = !arguments.no_sync;
  options.max_memory = arguments.common.max_memory;
  options.cancel = &stop_token();
  PITH_OK(check_compressed(arguments.input));
  Result<ConvertReport> report = [&] {
    ProgressBar bar(!arguments.common.no_progress);
    options.progress = bar.function();
    return convert_checkpoint(arguments.input, arguments.output, options);
  }();
  if (!report && report.error().code() == StatusCode::kGateFailed) {
    return {StatusCode::kGateFailed,
            report.error().message() + "; --allow-overflow accepts that"};
  }
  if (!report) return report.error();
  for (const std::string& note : report->notes) print_message("note: " + note);
  if (report->not_finite > 0) {
    print_message(fmt::format("note: NaN or infinite, as before: {}",
                              counted(report->not_finite, "value")));
  }
  return print_result(arguments.json ? report_json(arguments, *report)
                                     : report_text(arguments, *report));
}

}  // namespace

Run add_convert(CLI::App& command) {
  auto arguments = std::make_shared<ConvertArguments>();
  command
      .add_option("IN", arguments->input,
                  "A .safetensors, .gguf, .npz, .npy or PyTorch file, or a folder of "
                  "safetensors files")
      ->required();
  command
      .add_option("-o,--output", arguments->output,
                  "File or folder to write; it appears complete or not at all")
      ->required()
      ->type_name("OUT");
  add_dtype_option(command, arguments->convert.dtype,
                   "Type for all tensors of real numbers; by default each keeps its own");
  add_format_option(command, arguments->convert.format);
  command.add_flag("--allow-overflow", arguments->convert.allow_overflow,
                   "Let values beyond the new type's range become infinite");
  command.add_flag("--force", arguments->convert.overwrite, "Replace OUT if it exists");
  command.add_flag("--no-sync", arguments->no_sync,
                   "Do not wait until the disk has the data: a power cut may lose it");
  command.add_flag("--json", arguments->json, "Print the result as JSON");
  add_common_options(command, arguments->common);
  command.footer(
      "Examples:\n"
      "  pith convert model.safetensors -o half.safetensors --dtype f16\n"
      "  pith convert hub-folder/ -o half-folder/ --dtype bf16   (shards kept, other "
      "files "
      "copied)\n"
      "  pith convert hub-folder/ -o model.gguf --dtype f16\n"
      "  pith convert quantized.gguf -o model.safetensors --dtype f32   (decoded)\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli
