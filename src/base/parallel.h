// The one way to use several threads: independent pieces, cut by size alone, each writing
// only what is its own. What pieces report is combined by the caller in the order of the
// pieces, so results never depend on the number of threads.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstdint>

#ifdef __SANITIZE_THREAD__
#include "src/base/plain_threads.h"
#endif

namespace pith {

/// Threads that the library may use (threads.h).
inline std::int64_t most_threads() {
  return static_cast<std::int64_t>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
}

/// True if it is only one. Work is then done by the caller without oneTBB, which does not
/// end when memory ends while it makes its own tables.
inline bool single_thread() { return most_threads() <= 1; }

/// Calls body(i) once for each i in [0, count), in any order, on any thread.
template <typename Body>
void parallel_for(std::int64_t count, const Body& body) {
  if (count <= 1 || single_thread()) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#ifdef __SANITIZE_THREAD__
  plain_threads::parallel_for(count, most_threads(), body);
#else
  tbb::parallel_for(
      tbb::blocked_range<std::int64_t>(0, count, 1),
      [&](const tbb::blocked_range<std::int64_t>& range) {
        for (std::int64_t i = range.begin(); i != range.end(); ++i) body(i);
      },
      tbb::simple_partitioner());
#endif
}

/// Calls body(). A thread that waits inside for pieces of its own takes no others
/// meanwhile: needed where work waits for other work of the same loop.
template <typename Body>
void isolated(const Body& body) {
#ifdef __SANITIZE_THREAD__
  body();
#else
  if (single_thread()) return body();
  tbb::this_task_arena::isolate(body);
#endif
}

/// Threads that may work on pieces at the same time, at most; and which of them the caller
/// is, from 0 on, inside a piece that does not wait for others.
#ifdef __SANITIZE_THREAD__
inline int worker_count() { return plain_threads::kMost; }
inline int worker_index() { return plain_threads::Slot::of_this_thread(); }
#else
inline int worker_count() { return std::max(1, tbb::this_task_arena::max_concurrency()); }
inline int worker_index() {
  return std::max(0, tbb::this_task_arena::current_thread_index());
}
#endif

/// Number of pieces of at most `piece` that `total` is cut into.
constexpr std::int64_t piece_count(std::int64_t total, std::int64_t piece) {
  return total / piece + (total % piece != 0 ? 1 : 0);
}

/// Calls body(i, begin, end) for each piece [begin, end) of [0, total).
template <typename Body>
void parallel_pieces(std::int64_t total, std::int64_t piece, const Body& body) {
  parallel_for(piece_count(total, piece), [&](std::int64_t i) {
    const std::int64_t begin = i * piece;
    body(i, begin, begin + std::min(piece, total - begin));
  });
}

}  // namespace pith
