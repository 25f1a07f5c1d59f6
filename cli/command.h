// The pith command as a function: the program and `python -m pith` are it.
#pragma once

namespace pith::cli {

/// Runs the command line and returns the exit code. Takes over SIGINT, SIGTERM and SIGHUP.
int run(int argc, char** argv);

}  // namespace pith::cli
