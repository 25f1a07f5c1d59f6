// Long work on files: the caller waits for it, sees its progress, and can stop it.
//
//   return run_work(progress, [&](CancelToken& stop, ProgressFunction report) {
//     return tensor_stats(*model, numbers, {.cancel = &stop, .progress = report});
//   });
//
// The work has a thread of its own. The caller's thread wakes for signals and for progress:
// so Ctrl-C stops the work within a fraction of a second and is then raised as always, and
// `progress` is called where a notebook expects it. An exception of `progress` stops the work,
// too.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "arrays.h"
#include "pith/base/cancel.h"
#include "pith/base/progress.h"

namespace pith::python {

/// What the caller wants to be told: a function of (item, done, total), True for a line on
/// stderr, or None.
class Reporter {
 public:
  explicit Reporter(nb::handle progress);
  void operator()(const std::string& item, std::int64_t done, std::int64_t total);
  [[nodiscard]] explicit operator bool() const { return function_.is_valid(); }

 private:
  nb::object function_;
};

/// Runs `work` on another thread and waits; rethrows what Ctrl-C or the reporter raised.
void wait_for(Reporter& reporter,
              const std::function<void(CancelToken&, const ProgressFunction&)>& work);

template <typename Work>
auto run_work(nb::handle progress, Work&& work) {
  Reporter reporter(progress);
  std::optional<std::invoke_result_t<Work, CancelToken&, const ProgressFunction&>> result;
  wait_for(reporter, [&](CancelToken& stop, const ProgressFunction& report) {
    result.emplace(work(stop, report));
  });
  return value(*std::move(result));
}

}  // namespace pith::python
