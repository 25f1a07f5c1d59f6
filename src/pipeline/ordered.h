// Work that pieces do one after the other, though threads take them at the same time.
//
//   if (!turns.wait_for(piece.number)) return;  // until all pieces before had their turn
//   ...                                         // checksums, sums: what depends on order
//   turns.done();
//
// Pieces are handed out in their order, so the one whose turn it is is always being
// worked on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace pith {

class Turns {
 public:
  /// False if the run has failed elsewhere.
  [[nodiscard]] bool wait_for(std::int64_t number) {
    const auto over = [&] { return given_up_ || next_ == number; };
    // A turn is shorter than it takes to fall asleep and to be woken up.
    for (int i = 0; i < kYields && !over(); ++i) std::this_thread::yield();
    if (!over()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, over);
    }
    return !given_up_;
  }
  void done() {
    {
      const std::lock_guard lock(mutex_);
      ++next_;
    }
    changed_.notify_all();
  }
  /// Nobody waits any more: the run has failed.
  void give_up() {
    {
      const std::lock_guard lock(mutex_);
      given_up_ = true;
    }
    changed_.notify_all();
  }

 private:
  static constexpr int kYields = 200;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<bool> given_up_ = false;
};

}  // namespace pith
