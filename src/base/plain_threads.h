// parallel.h with threads of the standard library, for builds under the thread sanitizer:
// oneTBB as it is packaged is not built for it, and all that passes through it would look
// like a race. Slow, as every loop makes its threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace pith::plain_threads {

inline constexpr int kMost = 64;

/// A number below kMost that no other thread has at the same time.
class Slot {
 public:
  Slot() {
    const std::lock_guard lock(mutex());
    while (taken()[index_]) ++index_;
    taken().set(index_);
  }
  ~Slot() {
    const std::lock_guard lock(mutex());
    taken().reset(index_);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  static int of_this_thread() {
    thread_local const Slot slot;
    return static_cast<int>(slot.index_);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::bitset<kMost>& taken() {
    static std::bitset<kMost> bits;
    return bits;
  }

  std::size_t index_ = 0;
};

/// Calls body(i) for each i in [0, count) on `threads` threads at most. A loop inside a
/// loop is done by its caller alone: there are kMost slots.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t threads, const Body& body) {
  thread_local bool inside = false;
  if (inside) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    inside = true;
    try {
      for (std::int64_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      thrown = std::current_exception();
    }
    inside = false;
  };
  std::vector<std::thread> others;
  for (std::int64_t t = 1; t < std::min<std::int64_t>({threads, count, 8}); ++t) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) other.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace pith::plain_threads
