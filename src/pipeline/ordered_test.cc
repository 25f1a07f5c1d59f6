#include "src/pipeline/ordered.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace pith {
namespace {

TEST(Handover, EarlyWorkIsDoneByWhoBringsWhatIsMissing) {
  Meeting meeting;
  Handover handover(meeting);
  std::vector<int> done;
  const auto work = [&](int number) {
    return [&done, number] {
      done.push_back(number);
      return Status();
    };
  };
  EXPECT_TRUE(handover.hand_in(2, work(2)).ok());
  EXPECT_TRUE(handover.hand_in(1, work(1)).ok());
  EXPECT_TRUE(done.empty());
  EXPECT_TRUE(handover.hand_in(0, work(0)).ok());
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(handover.wait_for(2));
}

TEST(Handover, OfManyThreadsKeepsTheOrderAndDoesAll) {
  constexpr std::int64_t kPieces = 2000;
  Meeting meeting;
  Handover handover(meeting);
  std::vector<std::int64_t> done;  // by one thread at a time, else a race
  std::atomic<std::int64_t> next = 0;
  std::atomic<int> failed_waits = 0;
  const auto run = [&] {
    for (std::int64_t number = next++; number < kPieces; number = next++) {
      if (number % 7 == 3) std::this_thread::sleep_for(std::chrono::microseconds(20));
      const Status status = handover.hand_in(number, [&done, number] {
        done.push_back(number);
        return Status();
      });
      EXPECT_TRUE(status.ok());
      if (number % 5 == 0 && !handover.wait_for(number)) ++failed_waits;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(run);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed_waits, 0);
  ASSERT_EQ(std::ssize(done), kPieces);
  for (std::int64_t i = 0; i < kPieces; ++i) {
    ASSERT_EQ(done[static_cast<std::size_t>(i)], i);
  }
}

TEST(Handover, AfterAnErrorNoMoreIsDone) {
  Meeting meeting;
  Handover handover(meeting);
  int done = 0;
  const auto more = [&done] {
    ++done;
    return Status();
  };
  EXPECT_TRUE(handover.hand_in(1, more).ok());
  EXPECT_FALSE(handover.hand_in(0, [] { return Status::corrupt("disk"); }).ok());
  EXPECT_TRUE(handover.hand_in(2, more).ok());
  EXPECT_EQ(done, 0);
}

TEST(Meeting, NobodyWaitsAfterAFailure) {
  Meeting meeting;
  Handover handover(meeting);
  Turns turns(meeting);
  std::atomic<int> ended = 0;
  std::thread first([&] { ended += handover.wait_for(0) ? 0 : 1; });
  std::thread second([&] { ended += turns.wait_for(1) ? 0 : 1; });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // most likely asleep
  meeting.give_up();
  first.join();
  second.join();
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace pith
