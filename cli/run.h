// What every command needs while it runs: a place for its results, a way to be stopped,
// and the meaning of its end.
#pragma once

#include <string>
#include <string_view>

#include "pith/base/cancel.h"
#include "pith/base/status.h"

namespace pith::cli {

/// What the process ends with.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailure = 1,
  kExitUsage = 2,
  kExitGate = 3,  // a limit set by the user was exceeded
  kExitBadInput = 4,
  kExitResources = 5,      // disk, memory, system
  kExitInterrupted = 130,  // SIGINT; SIGTERM is 143, SIGHUP 129
};

/// The exit code for a failure: the one place where a kind of error becomes a number.
int exit_code(StatusCode code);

/// From now on SIGINT, SIGTERM and SIGHUP ask work to stop; the third one ends the
/// process at once. A file that grows too large or a closed pipe is an error, not the
/// end.
void handle_signals();
/// Requested by a signal.
const CancelToken& stop_token();
/// The signal that stopped work, or 0.
int stop_signal();

/// The line for that on stderr, which needs no memory.
void print_out_of_memory() noexcept;

/// One line on stderr, `pith: ...`, with control bytes escaped.
void print_message(std::string_view message);

/// Prints `text` on stdout. kIo or kNoSpace if it cannot be written; a reader that went
/// away ends the process as it does other commands.
Status print_result(std::string_view text);

/// kCorrupt if `path` is a compressed checkpoint (pith/quantize/dense.h) whose parts do not
/// fit each other, although each is a tensor as good as any.
Status check_compressed(const std::string& path);

}  // namespace pith::cli
