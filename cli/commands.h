// The commands: each adds its options to the command line and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "pith/base/status.h"

namespace pith::cli {

/// Runs a command whose options were parsed. Results go to stdout; a failure is printed
/// by the caller.
using Run = std::function<Status()>;

Run add_bench(CLI::App& command);
Run add_calibrate(CLI::App& command);
Run add_compress(CLI::App& command);
Run add_convert(CLI::App& command);
Run add_demo(CLI::App& command);
Run add_diff(CLI::App& command);
Run add_inspect(CLI::App& command);
Run add_plan(CLI::App& command);
Run add_report(CLI::App& command);
Run add_restore(CLI::App& command);
Run add_verify(CLI::App& command);

}  // namespace pith::cli
