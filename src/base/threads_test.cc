#include "pith/base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "src/base/parallel.h"

namespace pith {
namespace {

TEST(Threads, EveryPieceRunsOnce) {
  std::vector<std::atomic<int>> seen(1000);
  parallel_pieces(1000, 7, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)]++;
  });
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(Threads, PieceCountNeverOverflows) {
  EXPECT_EQ(piece_count(0, 4), 0);
  EXPECT_EQ(piece_count(5, 4), 2);
  EXPECT_EQ(piece_count(INT64_MAX, 1), INT64_MAX);
}

TEST(Threads, LimitOfOneUsesTheCallingThread) {
  const ThreadLimit limit(1);
  std::atomic<int> elsewhere = 0;
  parallel_for(100, [&, caller = std::this_thread::get_id()](std::int64_t) {
    if (std::this_thread::get_id() != caller) ++elsewhere;
  });
  EXPECT_EQ(elsewhere, 0);
}

TEST(Threads, DefaultIsAtLeastOne) { EXPECT_GE(default_threads(), 1); }

}  // namespace
}  // namespace pith
