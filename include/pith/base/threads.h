// How many threads the library may use.
//
//   pith::ThreadLimit limit(2);   // until the end of the scope
//
// Work is cut into pieces by its size alone, so results never depend on the number of
// threads.
#pragma once

#include <memory>

namespace pith {

/// Processors this process may use: the affinity mask, lowered to the CPU quota of the
/// control group. At least 1.
[[nodiscard]] int default_threads();

/// Limits the library to `threads` threads (at least 1) while it lives. With several
/// limits alive the smallest holds, for the whole process. Without one, the limit is
/// default_threads().
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pith
