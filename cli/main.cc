// The pith command: a table of commands, and the one place where failures are printed.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <string>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "pith/base/version.h"

namespace pith::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  Run (*add)(CLI::App& command);
};

constexpr Command kCommands[] = {
    {"compress", "Prune and quantize a checkpoint, and tell what it cost", add_compress},
    {"plan", "Tell what compress would do, from headers alone", add_plan},
    {"verify", "Check a compressed checkpoint against its source", add_verify},
    {"restore", "Make a compressed checkpoint dense again", add_restore},
    {"diff", "Compare two checkpoints tensor by tensor", add_diff},
    {"inspect", "List the tensors of a checkpoint, with statistics if asked for",
     add_inspect},
    {"convert", "Write a checkpoint in another format or element type", add_convert},
    {"report", "Show what pith compress reported, as a page, a model card or text",
     add_report},
    {"calibrate", "Write statistics of activations, for methods that need them",
     add_calibrate},
    {"demo", "Compress a small network in several ways, and ask it what it still knows",
     add_demo},
    {"bench", "Measure quantization and layers on this machine", add_bench},
};

// What to do about it, where the library cannot know the flag.
std::string advice(StatusCode code) {
  switch (code) {
    case StatusCode::kAlreadyExists:
      return "; --force replaces it";
    default:
      return "";
  }
}

int finish(const Status& status) {
  if (status.ok()) return kExitDone;
  if (status.code() == StatusCode::kCancelled) {
    print_message("stopped by a signal; nothing was changed");
  } else {
    print_message(status.message() + advice(status.code()));
  }
  return exit_code(status.code());
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "pith";
  for (const CLI::App* used : app.get_subcommands()) name += " " + used->get_name();
  print_message(fmt::format("{} ({} --help tells more)", error.what(), name));
  return kExitUsage;
}

int main_with_exceptions(int argc, char** argv) {
  CLI::App app("Pith makes neural-network checkpoints small and runs them fast on CPUs.",
               "pith");
  app.set_version_flag("--version", "pith " PITH_VERSION);
  app.require_subcommand(1);
  app.footer(
      "'pith COMMAND --help' explains a command.\n"
      "Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failure,\n"
      "2 usage, 3 a limit was exceeded, 4 bad input, 5 disk or memory, 130 "
      "interrupted.\n");
  Run chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->callback([&chosen, run = command.add(*sub)] { chosen = run; });
  }
  // CLI11 would say only that a command is missing.
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto is_name = [&](const Command& command) { return name == command.name; };
  if (!name.empty() && !name.starts_with('-') &&
      std::none_of(std::begin(kCommands), std::end(kCommands), is_name)) {
    print_message(fmt::format("unknown command '{}' (pith --help lists them)", name));
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const std::vector<CLI::App*> used = app.get_subcommands();
    return finish(print_result(used.empty() ? app.help() : used[0]->help("pith")));
  } catch (const CLI::CallForVersion&) {
    return finish(print_result("pith " PITH_VERSION "\n"));
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  return finish(chosen());
}

}  // namespace

int run(int argc, char** argv) {
  handle_signals();
  try {
    return main_with_exceptions(argc, argv);
  } catch (const std::bad_alloc&) {
    print_out_of_memory();
    return kExitResources;
  } catch (const std::exception& error) {
    print_message(fmt::format("internal error: {}", error.what()));
    return kExitFailure;
  }
}

}  // namespace pith::cli
