#include "pith/prune/stream.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <vector>

#include "pith/prune/magnitude.h"
#include "src/base/parallel.h"
#include "src/prune/oracle_test.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::shape_of;

// Calls body(first row, rows) for a matrix cut at random.
template <typename Body>
void in_chunks(std::int64_t rows, const Body& body) {
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t count =
        std::min<std::int64_t>(rows - row, *rc::gen::inRange<std::int64_t>(1, 8));
    body(row, count);
    row += count;
  }
}

RC_GTEST_PROP(PruneStream, AnyChunksGiveWhatPruneGives, ()) {
  PruneOptions options;
  options.granularity =
      *rc::gen::element(Granularity::kElement, Granularity::kRow, Granularity::kColumn,
                        Granularity::kBlock, Granularity::kNM);
  options.importance = *rc::gen::element(Importance::kL1, Importance::kTaylorProxy,
                                         Importance::kRandom, Importance::kWanda);
  if (options.granularity == Granularity::kElement) {
    options.scope =
        *rc::gen::element(PruneScope::kTensor, PruneScope::kRow, PruneScope::kGlobal);
  }
  options.sparsity = static_cast<float>(*rc::gen::inRange(0, 100)) / 100.0f;
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.block_rows = *rc::gen::inRange(1, 5);
  options.block_cols = *rc::gen::inRange(1, 12);

  const int count = options.scope == PruneScope::kGlobal ? *rc::gen::inRange(1, 4) : 1;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<float>> norms;
  std::vector<PruneStreamTensor> described;
  for (int i = 0; i < count; ++i) {
    const std::int64_t rows = *rc::gen::inRange(1, 20);
    const std::int64_t cols = *rc::gen::inRange(1, 30);
    values.push_back(any_weights(rows * cols));
    norms.push_back(*rc::gen::container<std::vector<float>>(
        static_cast<std::size_t>(cols), rc::gen::element(0.0f, 1.0f, 2.0f)));
    described.push_back({"t", shape_of({rows, cols}), norms.back()});
  }
  std::vector<std::vector<float>> expected = values;
  std::vector<PruneTensor> tensors;
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensors.push_back({"t", expected[i], described[i].shape, norms[i]});
  }
  const std::vector<Pruned> pruned = prune_model(tensors, options).value();

  PruneStream stream = PruneStream::make(options, described).value();
  const auto for_chunks = [&](const auto& body) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto cols = static_cast<std::size_t>(described[i].shape.cols());
      in_chunks(described[i].shape.rows(), [&](std::int64_t row, std::int64_t rows) {
        body(i, row, rows,
             std::span(values[i]).subspan(static_cast<std::size_t>(row) * cols,
                                          static_cast<std::size_t>(rows) * cols));
      });
    }
  };
  while (stream.needs_pass()) {
    for_chunks([&](std::size_t, std::int64_t, std::int64_t, std::span<float> chunk) {
      RC_ASSERT(stream.feed(chunk).ok());
    });
    RC_ASSERT(stream.end_pass().ok());
  }
  std::vector<BitMask> masks;
  for (const PruneStreamTensor& tensor : described)
    masks.emplace_back(tensor.shape, false);
  for_chunks(
      [&](std::size_t i, std::int64_t row, std::int64_t rows, std::span<float> chunk) {
        RC_ASSERT(stream.apply(chunk, masks[i].row_range(row, rows)).ok());
      });
  std::int64_t total = 0;
  Sparsity after;
  for (std::size_t i = 0; i < values.size(); ++i) {
    RC_ASSERT(same_bits(values[i], expected[i]));
    RC_ASSERT(masks[i] == pruned[i].mask);
    total += pruned[i].pruned;
    after += pruned[i].after;
  }
  RC_ASSERT(stream.pruned() == total);
  RC_ASSERT(stream.after() == after);
}

RC_GTEST_PROP(MagnitudeSelector, ThresholdAndTiesZeroExactlyTheCount, ()) {
  const std::int64_t n = *rc::gen::inRange(1, 300);
  const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, n + 1);
  std::vector<float> values = any_weights(n);
  const std::vector<float> before = values;
  MagnitudeSelector selector(count);
  do {
    in_chunks(n, [&](std::int64_t begin, std::int64_t size) {
      selector.feed(std::span(values).subspan(static_cast<std::size_t>(begin),
                                              static_cast<std::size_t>(size)));
    });
  } while (selector.next_pass());
  ThresholdPruner pruner(selector.threshold(), selector.ties());
  std::vector<std::byte> mask;
  in_chunks(n, [&](std::int64_t begin, std::int64_t size) {
    mask.assign(static_cast<std::size_t>((size + 7) / 8), std::byte{0xff});
    pruner.apply(std::span(values).subspan(static_cast<std::size_t>(begin),
                                           static_cast<std::size_t>(size)),
                 mask);
  });
  RC_ASSERT(pruner.pruned() == count);
  RC_ASSERT(pruner.nonzero() == count_sparsity(values).nonzero);
  std::vector<double> scores = oracle_scores(before, {}, {});
  const std::vector<bool> expected =
      oracle_choice(scores, std::vector<std::int64_t>(before.size(), 1), count, 0);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const float want = expected[i] ? 0.0f : before[i];
    RC_ASSERT(same_bits({&values[i], 1}, {&want, 1}));
  }
}

TEST(PruneStream, WrongChunksAreErrors) {
  PruneStream stream = PruneStream::make({}, {{"w", shape_of({3, 4})}}).value();
  std::vector<float> values(16, 1.0f);
  EXPECT_EQ(
      stream.feed(std::span(values).first(6)).message(),
      "prune: tensor 'w': 6 values given, expected at most 3 whole rows of 4, those "
      "that are left");
  EXPECT_FALSE(stream.feed(values).ok());
  EXPECT_FALSE(stream.apply(std::span(values).first(4)).ok());  // no pass was fed
  EXPECT_TRUE(stream.feed(std::span(values).first(8)).ok());
  EXPECT_EQ(stream.end_pass().message(),
            "prune: tensor 'w': the pass ended at row 2 of 3");
  EXPECT_TRUE(stream.feed(std::span(values).first(4)).ok());
  EXPECT_EQ(stream.feed(std::span(values).first(4)).message(),
            "prune: 4 values more than the tensors have");
  EXPECT_TRUE(stream.end_pass().ok());
}

TEST(PruneStream, NanIsNamedByItsIndexInTheTensor) {
  PruneOptions options;
  options.scope = PruneScope::kGlobal;
  PruneStream stream =
      PruneStream::make(options, {{"a", shape_of({2, 4})}, {"b", shape_of({2, 4})}})
          .value();
  std::vector<float> values(8, 1.0f);
  ASSERT_TRUE(stream.feed(values).ok());
  ASSERT_TRUE(stream.feed(std::span(values).first(4)).ok());
  values[2] = std::numeric_limits<float>::quiet_NaN();
  const Status status = stream.feed(std::span(values).first(4));
  EXPECT_EQ(status.code(), StatusCode::kNotFinite);
  EXPECT_NE(status.message().find("tensor 'b': element 6 is NaN"), std::string::npos);
}

TEST(PruneStream, SeveralTensorsNeedTheGlobalScope) {
  EXPECT_FALSE(
      PruneStream::make({}, {{"a", shape_of({2})}, {"b", shape_of({2})}}).has_value());
  EXPECT_FALSE(PruneStream::make({}, {}).has_value());
}

TEST(PruneStream, RewoundItGivesTheSameOnceMore) {
  // Many ties, whose budget is used up by the first time.
  const Shape shape = shape_of({6, 5});
  std::vector<float> values(30);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 2.0f : 1.0f;
  for (const Importance importance : {Importance::kL1, Importance::kRandom}) {
    PruneOptions options;
    options.importance = importance;
    PruneStream stream = PruneStream::make(options, {{"w", shape}}).value();
    while (stream.needs_pass()) {
      ASSERT_TRUE(stream.feed(values).ok());
      ASSERT_TRUE(stream.end_pass().ok());
    }
    std::vector<float> once = values;
    ASSERT_TRUE(stream.apply(once).ok());
    EXPECT_EQ(stream.pruned(), 15);
    stream.rewind();
    EXPECT_EQ(stream.pruned(), 0);
    std::vector<float> again = values;
    ASSERT_TRUE(stream.apply(std::span(again).first(10)).ok());
    ASSERT_TRUE(stream.apply(std::span(again).subspan(10)).ok());
    EXPECT_EQ(once, again);
  }
}

// Rows in any order and by several threads give the same, where they may.
TEST(PruneStream, RowsApartGiveWhatPruneGives) {
  constexpr std::int64_t kRows = 512;
  constexpr std::int64_t kCols = 128;
  const Shape shape = shape_of({kRows, kCols});
  std::vector<float> values(static_cast<std::size_t>(kRows * kCols));
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  PruneOptions rows;
  rows.granularity = Granularity::kRow;
  PruneOptions n_m;
  n_m.granularity = Granularity::kNM;
  PruneOptions each;
  each.scope = PruneScope::kRow;
  for (const PruneOptions& options : {PruneOptions(), rows, n_m, each}) {
    std::vector<float> expected = values;
    const Pruned pruned = prune({"w", expected, shape}, options).value();
    PruneStream stream = PruneStream::make(options, {{"w", shape}}).value();
    stream.preview(std::span(values).first(16384), 128);
    while (stream.needs_pass()) {
      if (stream.works_apart()) {
        parallel_for(kRows / 8, [&](std::int64_t i) {
          const std::int64_t first = (kRows / 8 - 1 - i) * 8 * kCols;
          const auto some = std::span(values).subspan(static_cast<std::size_t>(first),
                                                      std::size_t{8 * kCols});
          EXPECT_TRUE(stream.feed_apart(some, first).ok());
        });
      } else {
        ASSERT_TRUE(stream.feed(values).ok());
      }
      ASSERT_TRUE(stream.end_pass().ok());
    }
    ASSERT_TRUE(stream.works_apart());
    std::vector<float> out(values.size(), 9.0f);
    std::vector<std::byte> mask(values.size() / 8);
    std::atomic<std::int64_t> nonzero = 0;
    parallel_for(kRows / 8, [&](std::int64_t i) {
      const std::int64_t first = (kRows / 8 - 1 - i) * 8 * kCols;
      const auto at = static_cast<std::size_t>(first);
      const Result<std::int64_t> left = stream.apply_apart(
          std::span(values).subspan(at, 8 * kCols), first,
          std::span(out).subspan(at, 8 * kCols), std::span(mask).subspan(at / 8, kCols));
      ASSERT_TRUE(left.has_value());
      nonzero += *left;
    });
    EXPECT_EQ(out, expected);
    EXPECT_TRUE(std::ranges::equal(mask, pruned.mask.bytes()));
    EXPECT_EQ(nonzero, pruned.after.nonzero);
    EXPECT_EQ(stream.pruned(), pruned.pruned);
  }
}

TEST(PruneStream, RowsApartAreChecked) {
  const Shape shape = shape_of({256, 64});
  std::vector<float> values(std::size_t{256} * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  PruneStream stream = PruneStream::make({}, {{"w", shape}}).value();
  EXPECT_FALSE(stream.works_apart());  // before a preview
  stream.preview(values, 128);
  ASSERT_TRUE(stream.works_apart());
  EXPECT_FALSE(stream.feed_apart(std::span(values).first(64), 32).ok());
  EXPECT_FALSE(stream.feed_apart(std::span(values).first(63), 0).ok());
  EXPECT_FALSE(stream.feed_apart(std::span(values).first(128), 255 * 64).ok());
  EXPECT_FALSE(stream.apply_apart(values, 0, values).has_value());  // too early
  ASSERT_TRUE(stream.feed_apart(std::span(values).first(64), 0).ok());
  values[100] = std::numeric_limits<float>::quiet_NaN();
  const Status nan = stream.feed_apart(std::span(values).subspan(64, 64), 64);
  EXPECT_EQ(nan.code(), StatusCode::kNotFinite);
  EXPECT_NE(nan.message().find("100"), std::string::npos) << nan.message();
  EXPECT_FALSE(stream.end_pass().ok());  // rows are missing
  // What goes depends on the rows before: ties are cut, or scores are drawn.
  std::vector<float> ties(values.size(), 1.0f);
  PruneOptions random;
  random.importance = Importance::kRandom;
  for (const PruneOptions& options : {PruneOptions(), random}) {
    PruneStream ordered = PruneStream::make(options, {{"w", shape}}).value();
    while (ordered.needs_pass()) {
      ASSERT_TRUE(ordered.feed(ties).ok());
      ASSERT_TRUE(ordered.end_pass().ok());
    }
    EXPECT_FALSE(ordered.works_apart());
  }
}

RC_GTEST_PROP(KeptByShape, IsWhatTheMaskKeeps, ()) {
  PruneOptions options;
  options.sparsity = *rc::gen::element(0.0f, 0.3f, 0.5f, 0.9f, 0.99f);
  options.granularity =
      *rc::gen::element(Granularity::kElement, Granularity::kRow, Granularity::kColumn,
                        Granularity::kBlock, Granularity::kNM);
  if (options.granularity == Granularity::kElement) {
    options.scope = *rc::gen::element(PruneScope::kTensor, PruneScope::kRow);
  }
  options.min_nonzero = *rc::gen::element(0, 1);
  options.m = *rc::gen::inRange(1, 9);
  options.n = *rc::gen::inRange<std::int64_t>(1, options.m + 1);
  options.block_cols = *rc::gen::element(1, 4, 16);
  const Shape shape = shape_of({*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 40)});
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) {
    value = static_cast<float>(*rc::gen::inRange(-3, 4));  // many zeros and ties
  }
  const std::optional<std::int64_t> kept = kept_by_shape(options, shape);
  const Pruned pruned = prune({"w", values, shape}, options).value();
  RC_PRE(kept.has_value());
  RC_ASSERT(*kept == pruned.mask.count());
}

}  // namespace
}  // namespace pith
