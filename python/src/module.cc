#include "module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "arrays.h"
#include "cli/command.h"
#include "pith/base/threads.h"
#include "pith/base/version.h"
#include "pith/run/cpu.h"

namespace pith::python {

namespace {

// set_threads() holds one limit for the process.
class Threads {
 public:
  // 0: none. Returns what held before.
  int set(int threads) {
    if (threads < 0) {
      raise(Status::invalid_argument("threads: " + std::to_string(threads) +
                                     " was given; 1 or more was expected, or 0 for all"));
    }
    const int before = threads_;
    limit_.reset();
    if (threads > 0) limit_ = std::make_unique<ThreadLimit>(threads);
    threads_ = threads;
    return before;
  }
  [[nodiscard]] int get() const { return threads_ > 0 ? threads_ : default_threads(); }

 private:
  int threads_ = 0;
  std::unique_ptr<ThreadLimit> limit_;
};

Threads& threads() {
  static auto* const all = new Threads;  // never destroyed: other threads may still work
  return *all;
}

}  // namespace
}  // namespace pith::python

NB_MODULE(_core, m) {
  using namespace pith::python;
  m.doc() = "The compiled part of pith; use the package.";
  m.attr("__version__") = PITH_VERSION;
  add_errors(m);
  m.def(
      "_set_threads", [](int n) { return threads().set(n); }, nb::arg("threads"),
      "Sets the limit of the process and returns the one before; 0 is none.");
  m.def(
      "threads", [] { return threads().get(); }, "How many threads Pith uses at most.");
  m.def(
      "active_isa", [] { return value(pith::active_isa()); },
      "The instruction set in use; PITH_ISA chooses another. No result depends on it.");
  m.def(
      "available_isas", [] { return pith::available_isas(); },
      "Sets that this build has and this processor can run, the best first.");
  m.def(
      "_main",
      [](std::vector<std::string> words) {
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        const nb::gil_scoped_release release;
        return pith::cli::run(static_cast<int>(words.size()), argv.data());
      },
      nb::arg("words"), "The pith command; words[0] is its name. Returns its exit code.");
  m.def(
      "_nothing", [](nb::handle, nb::handle, nb::handle) {}, nb::arg("x"),
      nb::arg("y").none() = nb::none(), nb::arg("z").none() = nb::none(),
      "Does nothing: what a call costs.");
  add_quantize(m);
  add_dynamic(m);
  add_prune(m);
  add_calibrate(m);
  add_codec(m);
  add_run(m);
  add_files(m);
  add_report(m);
  add_pipeline(m);
  add_verify(m);
}
