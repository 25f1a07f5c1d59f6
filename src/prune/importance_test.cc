#include "pith/prune/importance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "pith/prune/sparsity.h"
#include "src/prune/oracle_test.h"
#include "src/prune/scores.h"

namespace pith {
namespace {

TEST(Importance, ScoresOfEachKind) {
  const std::vector<float> values = {1.5f, -2.0f, 0.0f, -0.5f};
  const std::vector<float> norms = {2.0f, 0.5f};
  using Scores = std::vector<float>;
  EXPECT_EQ(importance_scores(values, {}).value(), (Scores{1.5f, 2.0f, 0.0f, 0.5f}));
  EXPECT_EQ(importance_scores(values, {Importance::kL2, 0, {}}).value(),
            (Scores{2.25f, 4.0f, 0.0f, 0.25f}));
  EXPECT_EQ(importance_scores(values, {Importance::kWanda, 0, norms}).value(),
            (Scores{3.0f, 1.0f, 0.0f, 0.25f}));
}

TEST(Importance, RandomScoresStayBelowOne) {
  const std::vector<float> one = {1.0f};
  // The upper half of this state rounds to 2^32.
  const ImportanceOptions options{Importance::kRandom, 7419554015829250069u, {}};
  EXPECT_EQ(importance_scores(one, options).value()[0], 0x1.fffffep-1f);
}

RC_GTEST_PROP(Importance, RandomStateJumpsAsFarAsItSteps,
              (std::uint64_t seed, std::uint16_t steps)) {
  std::uint64_t state = seed;
  for (int i = 0; i < steps; ++i)
    state = state * 6364136223846793005u + 1442695040888963407u;
  RC_ASSERT(advance_random(seed, steps) == state);
}

RC_GTEST_PROP(Importance, TopScoresAndStatsAreThoseOfASort, ()) {
  std::vector<float> scores = any_weights(*rc::gen::inRange(1, 100));
  for (float& score : scores) score = std::isinf(score) ? 1.0f : std::fabs(score);
  const std::int64_t k = *rc::gen::inRange(0, 120);
  std::vector<float> sorted = scores;
  std::sort(sorted.begin(), sorted.end());
  const ScoreStats stats = score_stats(scores);
  RC_ASSERT(stats.min == sorted.front());
  RC_ASSERT(stats.max == sorted.back());
  if (sorted.size() % 2 == 1) RC_ASSERT(stats.median == sorted[sorted.size() / 2]);
  std::reverse(sorted.begin(), sorted.end());
  sorted.resize(std::min(sorted.size(), static_cast<std::size_t>(k)));
  RC_ASSERT(top_scores(scores, k) == sorted);
}

TEST(Importance, NanAndMissingNormsAreRefused) {
  const std::vector<float> values = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(importance_scores(values, {}, "w").error().code(), StatusCode::kNotFinite);
  const std::vector<float> three(3, 1.0f);
  const std::vector<float> two = {1.0f, -1.0f};
  EXPECT_FALSE(importance_scores(three, {Importance::kWanda, 0, {}}).has_value());
  EXPECT_FALSE(importance_scores(three, {Importance::kWanda, 0, two}).has_value());
  EXPECT_EQ(importance_scores(std::vector<float>(4, 1.0f), {Importance::kWanda, 0, two})
                .error()
                .message(),
            "importance: column norm 1 is -1, expected a finite value >= 0");
}

TEST(Sparsity, OneFormulaAndNegativeZeroIsZero) {
  const std::vector<float> values = {0.0f, -0.0f, 1.0f,
                                     std::numeric_limits<float>::quiet_NaN()};
  const Sparsity sparsity = count_sparsity(values);
  EXPECT_EQ(sparsity.nonzero, 2);
  EXPECT_EQ(sparsity.sparsity(), 0.5f);
  EXPECT_EQ((Sparsity{3, 2}).sparsity(), 1.0f / 3.0f);
  EXPECT_EQ(Sparsity().sparsity(), 0.0f);
  EXPECT_EQ(Sparsity().density(), 1.0f);
  EXPECT_EQ((Sparsity{std::int64_t{1} << 40, std::int64_t{1} << 38}).sparsity(), 0.75f);
}

}  // namespace
}  // namespace pith
