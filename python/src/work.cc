#include "work.h"

#include <nanobind/stl/string.h>

#include <chrono>
#include <string>

namespace pith::python {

Reporter::Reporter(nb::handle progress) {
  if (progress.is_none() || progress.ptr() == Py_False) return;
  if (progress.ptr() == Py_True) {
    function_ = nb::module_::import_("pith._progress").attr("Line")();
  } else if (PyCallable_Check(progress.ptr()) != 0) {
    function_ = nb::borrow(progress);
  } else {
    raise(Status::invalid_argument(
        "progress: True or a function of (item, done, total) was expected"));
  }
}

void Reporter::operator()(const std::string& item, std::int64_t done,
                          std::int64_t total) {
  function_(item, done, total);
}

namespace {

// What the worker last said, for the thread that waits.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::string item;
  std::int64_t done = 0;
  std::int64_t total = 0;
  bool news = false;
  bool finished = false;
};

// Waits for news; true if there are some. Also wakes for signals.
bool next(Mailbox& mailbox, std::string& item, std::int64_t& done, std::int64_t& total,
          bool& finished) {
  const nb::gil_scoped_release release;
  std::unique_lock lock(mailbox.mutex);
  mailbox.changed.wait_for(lock, std::chrono::milliseconds(50),
                           [&] { return mailbox.news || mailbox.finished; });
  finished = mailbox.finished;
  if (!mailbox.news) return false;
  mailbox.news = false;
  item = mailbox.item;
  done = mailbox.done;
  total = mailbox.total;
  return true;
}

}  // namespace

void wait_for(Reporter& reporter,
              const std::function<void(CancelToken&, const ProgressFunction&)>& work) {
  Mailbox mailbox;
  CancelToken stop;
  std::exception_ptr out_of_memory;
  ProgressFunction report;
  if (reporter) {
    report = [&](const Progress& p) {
      const std::lock_guard lock(mailbox.mutex);
      mailbox.item = p.item;
      mailbox.done = p.done;
      mailbox.total = p.total;
      mailbox.news = true;
      mailbox.changed.notify_one();
    };
  }
  std::thread worker([&] {
    try {
      work(stop, report);
    } catch (...) {
      out_of_memory = std::current_exception();
    }
    const std::lock_guard lock(mailbox.mutex);
    mailbox.finished = true;
    mailbox.changed.notify_one();
  });
  std::optional<nb::python_error> raised;
  const auto give_up = [&] {
    stop.request();
    if (!raised) raised.emplace();
    PyErr_Clear();
  };
  std::string item;
  std::int64_t done = 0;
  std::int64_t total = 0;
  for (bool finished = false; !finished;) {
    const bool news = next(mailbox, item, done, total, finished);
    if (PyErr_CheckSignals() != 0) give_up();
    if (!news || raised) continue;
    try {
      reporter(item, done, total);
    } catch (nb::python_error& error) {
      stop.request();
      raised.emplace(std::move(error));
    }
  }
  {
    const nb::gil_scoped_release release;
    worker.join();
  }
  if (raised) throw std::move(*raised);
  if (out_of_memory) std::rethrow_exception(out_of_memory);
}

}  // namespace pith::python
