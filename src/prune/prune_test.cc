#include "pith/prune/prune.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "pith/base/threads.h"
#include "src/kernels/target.h"
#include "src/prune/oracle_test.h"
#include "src/prune/scores.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::shape_of;

Importance any_importance() {
  return *rc::gen::element(Importance::kL1, Importance::kL2, Importance::kTaylorProxy,
                           Importance::kRandom, Importance::kWanda);
}

float any_sparsity() {
  return *rc::gen::oneOf(rc::gen::element(0.0f, 0.1f, 0.5f, 0.9f, 0.99999994f),
                         rc::gen::map(rc::gen::inRange(0, 1000), [](int part) {
                           return static_cast<float>(part) / 1000.0f;
                         }));
}

std::vector<float> any_norms(std::int64_t cols) {
  return *rc::gen::container<std::vector<float>>(
      static_cast<std::size_t>(cols),
      rc::gen::element(0.0f, 1.0f, 1.0f, 2.0f, 0.125f, 1e-30f, 3.5f));
}

// The mask and the values agree with each other and with what was counted.
void check_consistent(const std::vector<float>& before, const std::vector<float>& after,
                      const Pruned& pruned) {
  std::int64_t zeroed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool kept = pruned.mask.kept(static_cast<std::int64_t>(i));
    zeroed += kept ? 0 : 1;
    const float expected = kept ? before[i] : 0.0f;
    RC_ASSERT(same_bits({&after[i], 1}, {&expected, 1}));
  }
  RC_ASSERT(pruned.pruned == zeroed);
  RC_ASSERT(pruned.mask.count() == pruned.mask.elements() - zeroed);
  RC_ASSERT(pruned.after == count_sparsity(after));
}

RC_GTEST_PROP(Prune, ElementsAreThoseOfASort, ()) {
  const std::int64_t rows = *rc::gen::inRange(1, 20);
  const std::int64_t cols = *rc::gen::inRange(1, 70);
  PruneOptions options;
  options.importance = any_importance();
  options.sparsity = any_sparsity();
  options.min_nonzero = *rc::gen::inRange<std::int64_t>(0, rows * cols + 1);
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::vector<float> norms = any_norms(cols);
  const std::vector<float> before = any_weights(rows * cols);
  std::vector<float> after = before;
  const Result<Pruned> pruned =
      prune({"w", after, shape_of({rows, cols}), norms}, options);
  RC_ASSERT(pruned.has_value());
  check_consistent(before, after, *pruned);
  std::vector<std::int64_t> nonzero;
  for (const float value : before) nonzero.push_back(value != 0.0f ? 1 : 0);
  const std::vector<bool> expected =
      oracle_choice(oracle_scores(before, options, norms), nonzero,
                    oracle_count(options, rows * cols, 1), options.min_nonzero);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    RC_ASSERT(pruned->mask.kept(i) != expected[static_cast<std::size_t>(i)]);
  }
}

RC_GTEST_PROP(Prune, RowScopePrunesEachRowAsATensorOfItsOwn, ()) {
  const std::int64_t rows = *rc::gen::inRange(1, 12);
  const std::int64_t cols = *rc::gen::inRange(1, 40);
  PruneOptions options;
  options.importance =
      *rc::gen::element(Importance::kL1, Importance::kL2, Importance::kWanda);
  options.sparsity = any_sparsity();
  options.min_nonzero = *rc::gen::inRange<std::int64_t>(0, cols + 1);
  const std::vector<float> norms = any_norms(cols);
  const std::vector<float> before = any_weights(rows * cols);
  std::vector<float> after = before;
  options.scope = PruneScope::kRow;
  const Result<Pruned> pruned =
      prune({"w", after, shape_of({rows, cols}), norms}, options);
  RC_ASSERT(pruned.has_value());
  check_consistent(before, after, *pruned);
  options.scope = PruneScope::kTensor;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> alone(before.begin() + row * cols,
                             before.begin() + (row + 1) * cols);
    RC_ASSERT(prune({"row", alone, shape_of({1, cols}), norms}, options).has_value());
    RC_ASSERT(
        same_bits(alone, std::span(after).subspan(static_cast<std::size_t>(row * cols),
                                                  static_cast<std::size_t>(cols))));
  }
}

RC_GTEST_PROP(Prune, RowsColumnsAndBlocksAreThoseOfASort, ()) {
  const std::int64_t rows = *rc::gen::inRange(1, 14);
  const std::int64_t cols = *rc::gen::inRange(1, 30);
  PruneOptions options;
  options.granularity =
      *rc::gen::element(Granularity::kRow, Granularity::kColumn, Granularity::kBlock);
  options.importance = any_importance();
  options.sparsity = any_sparsity();
  options.min_nonzero = *rc::gen::inRange<std::int64_t>(0, rows * cols + 1);
  options.block_rows = *rc::gen::inRange(1, 6);
  options.block_cols = *rc::gen::inRange(1, 9);
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::vector<float> norms = any_norms(cols);
  const std::vector<float> before = ordinary_weights(rows * cols);
  std::vector<float> after = before;
  const Result<Pruned> pruned =
      prune({"w", after, shape_of({rows, cols}), norms}, options);
  RC_ASSERT(pruned.has_value());
  check_consistent(before, after, *pruned);

  const bool by_row = options.granularity == Granularity::kRow;
  const bool by_column = options.granularity == Granularity::kColumn;
  const std::int64_t down = by_row      ? 1
                            : by_column ? rows
                                        : std::min(options.block_rows, rows);
  const std::int64_t wide = by_row      ? cols
                            : by_column ? 1
                                        : std::min(options.block_cols, cols);
  const std::int64_t across = (cols + wide - 1) / wide;
  const std::int64_t units = (rows + down - 1) / down * across;
  std::vector<double> scores(static_cast<std::size_t>(units), 0.0);
  std::vector<std::int64_t> nonzero(static_cast<std::size_t>(units), 0);
  std::vector<std::int64_t> size(static_cast<std::size_t>(units), 0);
  const auto unit_at = [&](std::int64_t i) {
    return static_cast<std::size_t>(i / cols / down * across + i % cols / wide);
  };
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const double value = std::fabs(before[static_cast<std::size_t>(i)]);
    const double norm = norms[static_cast<std::size_t>(i % cols)];
    const std::size_t unit = unit_at(i);
    scores[unit] += options.importance == Importance::kL1      ? value
                    : options.importance == Importance::kWanda ? value * norm
                                                               : value * value;
    nonzero[unit] += value != 0 ? 1 : 0;
    ++size[unit];
  }
  for (std::size_t unit = 0; unit < scores.size(); ++unit) {
    if (options.importance == Importance::kRandom) {
      scores[unit] = random_unit_score(options.seed, static_cast<std::int64_t>(unit));
    } else if (options.granularity == Granularity::kBlock) {
      scores[unit] /= static_cast<double>(size[unit]);
    }
  }
  const std::vector<bool> expected = oracle_choice(
      scores, nonzero, oracle_count(options, units, down * wide), options.min_nonzero);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    RC_ASSERT(pruned->mask.kept(i) != expected[unit_at(i)]);
  }
}

RC_GTEST_PROP(Prune, NOfMKeepsTheLargestOfEveryGroup, ()) {
  const std::int64_t rows = *rc::gen::inRange(1, 8);
  const std::int64_t cols = *rc::gen::inRange(1, 90);
  PruneOptions options;
  options.granularity = Granularity::kNM;
  options.importance =
      *rc::gen::element(Importance::kL1, Importance::kL2, Importance::kWanda);
  options.m =
      *rc::gen::oneOf(rc::gen::just<std::int64_t>(4), rc::gen::just<std::int64_t>(8),
                      rc::gen::inRange<std::int64_t>(1, 40));
  options.n = *rc::gen::inRange<std::int64_t>(1, options.m + 1);
  const std::vector<float> norms = any_norms(cols);
  const std::vector<float> before = any_weights(rows * cols);
  std::vector<float> after = before;
  const Result<Pruned> pruned =
      prune({"w", after, shape_of({rows, cols}), norms}, options);
  RC_ASSERT(pruned.has_value());
  check_consistent(before, after, *pruned);
  const std::vector<double> scores = oracle_scores(before, options, norms);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t begin = 0; begin < cols; begin += options.m) {
      const std::int64_t size = std::min(options.m, cols - begin);
      const std::int64_t keep = (options.n * size + options.m - 1) / options.m;
      const auto first = scores.begin() + row * cols + begin;
      const std::vector<double> group(first, first + size);
      const std::vector<bool> expected = oracle_choice(
          group, std::vector<std::int64_t>(group.size(), 1), size - keep, 0);
      for (std::int64_t i = 0; i < size; ++i) {
        RC_ASSERT(pruned->mask.kept(row, begin + i) !=
                  expected[static_cast<std::size_t>(i)]);
      }
    }
  }
}

RC_GTEST_PROP(Prune, GlobalScopeIsThatOfTheConcatenation, ()) {
  PruneOptions options;
  options.importance =
      *rc::gen::element(Importance::kL1, Importance::kL2, Importance::kRandom);
  options.sparsity = any_sparsity();
  options.min_nonzero = 1;
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.scope = PruneScope::kGlobal;
  std::vector<std::vector<float>> parts;
  std::vector<float> joined;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    parts.push_back(any_weights(*rc::gen::inRange(i == 0 ? 1 : 0, 60)));
    joined.insert(joined.end(), parts.back().begin(), parts.back().end());
  }
  std::vector<PruneTensor> tensors;
  for (std::vector<float>& part : parts) {
    tensors.push_back({"t", part, shape_of({static_cast<std::int64_t>(part.size())})});
  }
  const Result<std::vector<Pruned>> pruned = prune_model(tensors, options);
  RC_ASSERT(pruned.has_value());
  std::vector<float> expected = joined;
  RC_ASSERT(prune({"all", expected, shape_of({static_cast<std::int64_t>(joined.size())})},
                  options)
                .has_value());
  std::vector<float> got;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    got.insert(got.end(), parts[i].begin(), parts[i].end());
    RC_ASSERT((*pruned)[i].skipped == parts[i].empty());
    RC_ASSERT((*pruned)[i].after == count_sparsity(parts[i]));
  }
  RC_ASSERT(same_bits(got, expected));
}

TEST(Prune, ThreadsAndTargetsGiveTheSameBytes) {
  const std::int64_t rows = 1500;
  for (const std::int64_t cols : {1024, 1021}) {
    std::vector<float> before;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const auto hash = static_cast<std::uint32_t>(i) * 2654435761u;
      before.push_back(static_cast<float>(hash >> 26) - 31.0f);  // many ties
    }
    for (const Granularity granularity : {Granularity::kElement, Granularity::kRow,
                                          Granularity::kColumn, Granularity::kNM}) {
      PruneOptions options;
      options.sparsity = 0.37f;
      options.granularity = granularity;
      std::vector<float> expected = before;
      const Pruned first =
          prune({"w", expected, shape_of({rows, cols})}, options).value();
      for (const int threads : {1, 2}) {
        const ThreadLimit limit(threads);
        for (const std::string& target : kernels::available_targets()) {
          ASSERT_TRUE(kernels::set_target(target).ok());
          std::vector<float> after = before;
          const Pruned pruned =
              prune({"w", after, shape_of({rows, cols})}, options).value();
          EXPECT_TRUE(same_bits(after, expected)) << target << " " << threads;
          EXPECT_EQ(pruned.mask, first.mask);
          EXPECT_EQ(pruned.after, first.after);
        }
      }
      ASSERT_TRUE(kernels::set_target("").ok());
    }
  }
}

TEST(Prune, ExactCountAbove24Bits) {
  constexpr std::int64_t kCount = 16777219;
  std::vector<float> values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  }
  PruneOptions options;
  options.sparsity = 0.75f;
  const Pruned pruned = prune({"w", values, shape_of({kCount})}, options).value();
  EXPECT_EQ(pruned.pruned, 12582914);
  EXPECT_EQ(values[12582913], 0.0f);
  EXPECT_EQ(values[12582914], 12582915.0f);
}

TEST(Prune, NothingChangesAtSparsityZeroNotEvenNegativeZeros) {
  std::vector<float> values = {-0.0f, 1.0f, 0.0f, -0.0f, 2.0f};
  const std::vector<float> before = values;
  PruneOptions options;
  options.sparsity = 0.0f;
  const Pruned pruned = prune({"w", values, shape_of({5})}, options).value();
  EXPECT_TRUE(same_bits(values, before));
  EXPECT_EQ(pruned.mask.count(), 5);
  EXPECT_EQ(pruned.after.nonzero, 2);
}

TEST(Prune, SquaresThatLeaveTheRangeMakeNoTies) {
  std::vector<float> tiny = {1e-20f, 1e-30f, 3e-23f, -1e-25f, 1e-10f};
  std::vector<float> huge = {3e19f, 1e30f, -1e25f, 2.0f, 1e20f};
  PruneOptions options;
  options.sparsity = 0.7f;
  options.importance = Importance::kL2;
  EXPECT_TRUE(prune({"w", tiny, shape_of({5})}, options).has_value());
  EXPECT_TRUE(prune({"w", huge, shape_of({5})}, options).has_value());
  EXPECT_EQ(tiny, (std::vector<float>{1e-20f, 0, 0, 0, 1e-10f}));
  EXPECT_EQ(huge, (std::vector<float>{0, 1e30f, -1e25f, 0, 0}));
}

TEST(Prune, RandomRowsFollowNoStride) {
  // Of draws that step by a constant, the chosen rows would repeat with few distances.
  std::vector<float> values(400 * 2, 1.0f);
  PruneOptions options;
  options.granularity = Granularity::kRow;
  options.importance = Importance::kRandom;
  const Pruned pruned = prune({"w", values, shape_of({400, 2})}, options).value();
  std::vector<std::int64_t> distances;
  std::int64_t last = -1;
  for (std::int64_t row = 0; row < 400; ++row) {
    if (!pruned.mask.kept(row, 0)) continue;
    if (last >= 0) distances.push_back(row - last);
    last = row;
  }
  std::sort(distances.begin(), distances.end());
  distances.erase(std::unique(distances.begin(), distances.end()), distances.end());
  EXPECT_EQ(pruned.pruned, 400);
  EXPECT_GT(distances.size(), 4u);
}

TEST(Prune, NanIsRefusedWithItsPlaceAndNothingChanges) {
  for (const Granularity granularity :
       {Granularity::kElement, Granularity::kRow, Granularity::kColumn,
        Granularity::kBlock, Granularity::kNM}) {
    for (const float sparsity : {0.0f, 0.5f}) {
      std::vector<float> values(48, 1.0f);
      values[29] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> before = values;
      PruneOptions options;
      options.granularity = granularity;
      options.sparsity = sparsity;
      const Result<Pruned> pruned =
          prune({"fc.weight", values, shape_of({6, 8})}, options);
      ASSERT_FALSE(pruned.has_value());
      EXPECT_EQ(pruned.error().code(), StatusCode::kNotFinite);
      EXPECT_NE(pruned.error().message().find("'fc.weight': element 29 is NaN"),
                std::string::npos)
          << pruned.error().message();
      EXPECT_TRUE(same_bits(values, before));
    }
  }
}

TEST(Prune, ErrorsNameArgumentValueAndRange) {
  std::vector<float> values(12, 1.0f);
  const auto message = [&](const PruneOptions& options, const Shape& shape) {
    const Result<Pruned> pruned = prune({"w", values, shape}, options);
    EXPECT_FALSE(pruned.has_value());
    return pruned ? std::string() : pruned.error().message();
  };
  PruneOptions options;
  options.sparsity = 1.5f;
  EXPECT_EQ(message(options, shape_of({0})),
            "prune: sparsity is 1.5, expected a value in [0, 1)");
  options.sparsity = 0.5f;
  EXPECT_EQ(message(options, shape_of({4, 0})),
            "prune: tensor 'w': shape [4, 0] has no elements, expected at least one");
  EXPECT_EQ(message(options, shape_of({4, 4})),
            "prune: tensor 'w': 12 values given, but shape [4, 4] has 16");
  options.min_nonzero = 13;
  EXPECT_EQ(message(options, shape_of({12})),
            "prune: tensor 'w': min_nonzero is 13, expected at most 12, the number of "
            "elements");
  options.min_nonzero = 1;
  options.granularity = Granularity::kRow;
  EXPECT_EQ(message(options, shape_of({12})),
            "prune: tensor 'w': shape [12] has 1 dimensions, expected 2 to prune rows");
  options.granularity = Granularity::kNM;
  options.n = 5;
  EXPECT_EQ(message(options, shape_of({12})),
            "prune: n is 5, expected a value in [1, m], and m is 4");
  options = {};
  options.importance = Importance::kWanda;
  EXPECT_EQ(
      message(options, shape_of({3, 4})),
      "prune: tensor 'w': 0 column norms given, but there are 4 columns; wanda needs "
      "the norm of the activations of each");
}

TEST(Prune, ModelPassesThroughWhatItCannotPrune) {
  std::vector<float> matrix(12, 1.0f);
  std::vector<float> bias(3, 1.0f);
  std::vector<float> empty;
  const PruneTensor tensors[] = {{"empty", empty, shape_of({0, 4})},
                                 {"bias", bias, shape_of({3})},
                                 {"matrix", matrix, shape_of({3, 4})}};
  PruneOptions options;
  options.granularity = Granularity::kRow;
  const std::vector<Pruned> pruned = prune_model(tensors, options).value();
  EXPECT_TRUE(pruned[0].skipped);
  EXPECT_EQ(pruned[0].reason, "it has no elements");
  EXPECT_TRUE(pruned[1].skipped);
  EXPECT_EQ(pruned[1].reason, "shape [3] is not two-dimensional");
  EXPECT_EQ(bias, std::vector<float>(3, 1.0f));
  EXPECT_FALSE(pruned[2].skipped);
  EXPECT_EQ(pruned[2].pruned, 4);
}

}  // namespace
}  // namespace pith
