// Work that pieces do one after the other, though threads take them at the same time.
//
//   Meeting meeting;                            // of the threads of a run
//   Turns turns(meeting);
//   if (!turns.wait_for(piece.number)) return;  // until all pieces before had their turn
//   ...                                         // what depends on order
//   turns.done();
//
//   Handover handover(meeting);
//   handover.hand_in(piece.number, [&] { ... });  // the same, but nobody waits
//
// Pieces are handed out in their order, so the one whose turn it is is always being
// worked on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "pith/base/result.h"

namespace pith {

/// Where the threads of a run wait for each other, until it has failed.
class Meeting {
 public:
  /// Until `over()`, which looks at atomic values only. False if the run has failed.
  template <typename Over>
  [[nodiscard]] bool wait_until(const Over& over) {
    const auto ends = [&] { return given_up_ || over(); };
    // Most waits are shorter than it takes to fall asleep and to be woken up.
    for (int i = 0; i < kYields && !ends(); ++i) std::this_thread::yield();
    if (!ends()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, ends);
    }
    return !given_up_;
  }
  /// What somebody may wait for has changed.
  void wake() {
    { const std::lock_guard lock(mutex_); }  // whoever has looked waits by now
    changed_.notify_all();
  }
  /// Nobody waits any more: the run has failed.
  void give_up() {
    given_up_ = true;
    wake();
  }

 private:
  static constexpr int kYields = 200;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> given_up_ = false;
};

class Turns {
 public:
  explicit Turns(Meeting& meeting) : meeting_(meeting) {}

  /// False if the run has failed elsewhere.
  [[nodiscard]] bool wait_for(std::int64_t number) {
    return meeting_.wait_until([&] { return next_ == number; });
  }
  void done() {
    ++next_;
    meeting_.wake();
  }

 private:
  Meeting& meeting_;
  std::atomic<std::int64_t> next_ = 0;
};

/// Turns that are taken by whoever gets there: a thread that is early leaves its work to
/// the others, and goes on.
class Handover {
 public:
  using Work = std::function<Status()>;

  explicit Handover(Meeting& meeting) : meeting_(meeting) {}

  /// Does `work` if all numbers before are done, and what others left behind it; else
  /// leaves it to them. An error may be that of their work; after one, no more is done.
  Status hand_in(std::int64_t number, Work work) {
    std::unique_lock lock(mutex_);
    left_.emplace(number, std::move(work));
    if (busy_) return {};  // who is at it finds it next
    busy_ = true;
    while (!left_.empty() && left_.begin()->first == next_) {
      const auto next = left_.extract(left_.begin());
      lock.unlock();
      PITH_OK(next.mapped()());
      ++next_;
      meeting_.wake();
      lock.lock();
    }
    busy_ = false;
    return {};
  }
  /// Until the work of `number` is done. False if the run has failed elsewhere.
  [[nodiscard]] bool wait_for(std::int64_t number) {
    return meeting_.wait_until([&] { return next_ > number; });
  }

 private:
  Meeting& meeting_;
  std::mutex mutex_;  // of what follows
  std::map<std::int64_t, Work> left_;
  bool busy_ = false;
  std::atomic<std::int64_t> next_ = 0;
};

}  // namespace pith
