// Work that pieces do one after the other, though threads take them at the same time.
//
//   if (!turns.wait_for(piece.number)) return;  // until all pieces before had their turn
//   ...                                         // checksums, sums: what depends on order
//   turns.done();
//
// Pieces are handed out in their order, so the one whose turn it is is always being
// worked on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace pith {

class Turns {
 public:
  /// False if the run has failed elsewhere.
  [[nodiscard]] bool wait_for(std::int64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return given_up_ || next_ == number; });
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
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t next_ = 0;
  bool given_up_ = false;
};

}  // namespace pith
