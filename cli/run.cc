#include "cli/run.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "cli/terminal.h"
#include "pith/quantize/dense.h"

namespace pith::cli {
namespace {

CancelToken stop;
std::atomic<int> first_signal{0};
std::atomic<int> signals{0};

void on_signal(int number) {
  int expected = 0;
  first_signal.compare_exchange_strong(expected, number);
  stop.request();
  if (++signals < 3) return;
  // Somebody is in a hurry. A temporary file stays and is removed by the next run.
  ::signal(number, SIG_DFL);
  ::raise(number);
}

int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Memory may run out where no exception can pass: before main, or in the destructor of a
// library. That is an error like any other, not a crash.
[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception()) {
      std::rethrow_exception(error);
    }
  } catch (const std::bad_alloc&) {
    print_out_of_memory();
    ::_exit(kExitResources);
  } catch (...) {
  }
  std::abort();
}

// Before the constructors of all other objects.
__attribute__((constructor(101))) void install_terminate_handler() {
  std::set_terminate(on_terminate);
}

}  // namespace

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kExitDone;
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
      return kExitUsage;
    case StatusCode::kGateFailed:
      return kExitGate;
    case StatusCode::kNotFound:
    case StatusCode::kCorrupt:
    case StatusCode::kUnsupported:
    case StatusCode::kNotFinite:
      return kExitBadInput;
    case StatusCode::kIo:
    case StatusCode::kNoSpace:
      return kExitResources;
    case StatusCode::kCancelled:
      return stop_signal() == 0 ? kExitInterrupted : 128 + stop_signal();
  }
  return kExitFailure;
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    // What the shell told a command in the background to ignore stays ignored.
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    ::sigaction(number, &action, nullptr);
  }
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
}

const CancelToken& stop_token() { return stop; }

int stop_signal() { return first_signal; }

Status check_compressed(const std::string& path) {
  const Result<std::unique_ptr<Checkpoint>> dense = open_dense(path);
  // What is not read as dense values can still be listed and copied.
  if (dense || dense.error().code() != StatusCode::kCorrupt) return {};
  return dense.error();
}

void print_out_of_memory() noexcept {
  (void)write_all(
      STDERR_FILENO,
      "pith: out of memory; a smaller --max-memory or fewer --threads may help\n");
}

void print_message(std::string_view message) {
  // Nobody is left to tell if this fails.
  (void)write_all(STDERR_FILENO, fmt::format("pith: {}\n", escape_controls(message)));
}

Status print_result(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0) return {};
  if (error == EPIPE) {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  return {
      error == ENOSPC || error == EDQUOT || error == EFBIG ? StatusCode::kNoSpace
                                                           : StatusCode::kIo,
      fmt::format("stdout: cannot write: {}", std::generic_category().message(error))};
}

}  // namespace pith::cli
