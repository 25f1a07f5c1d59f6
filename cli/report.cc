// pith report: a report.json as a page, a model card or a summary.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/run.h"
#include "pith/report/report.h"

namespace pith::cli {
namespace {

struct ReportArguments {
  std::string path;
  std::string output;
  std::string format = "text";
  bool force = false;
};

Status run(const ReportArguments& arguments) {
  PITH_TRY(const Report report, read_report(arguments.path));
  std::error_code ignored;
  if (std::filesystem::equivalent(arguments.path, arguments.output, ignored)) {
    return Status::invalid_argument(
        fmt::format("{}: is the input itself; name another output", arguments.output));
  }
  if (arguments.output != "-") {
    return write_report(report, arguments.output, arguments.force);
  }
  if (arguments.format == "html") return print_result(report_html(report));
  if (arguments.format == "md") return print_result(report_markdown(report));
  if (arguments.format == "json") return print_result(report_json(report));
  return print_result(report_summary(report));
}

}  // namespace

Run add_report(CLI::App& command) {
  auto arguments = std::make_shared<ReportArguments>();
  command.add_option("REPORT", arguments->path, "A report.json of pith compress")
      ->required();
  arguments->output = "-";
  command
      .add_option("-o,--output", arguments->output,
                  "A .html, .md, .json or .txt file; - for stdout (the default)")
      ->type_name("FILE");
  command
      .add_option("--format", arguments->format,
                  "What to print on stdout: text (the default), md, html or json")
      ->check(CLI::IsMember({"text", "md", "html", "json"}))
      ->type_name("NAME");
  command.add_flag("--force", arguments->force, "Replace an output that exists");
  command.footer(
      "Examples:\n"
      "  pith report report.json\n"
      "  pith report report.json -o report.html\n"
      "  pith report report.json --format md >> README.md\n");
  return [arguments] { return run(*arguments); };
}

}  // namespace pith::cli
