#include "pith/codec/top_k.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace pith {
namespace {

TEST(TopK, EqualMagnitudesGoByIndex) {
  const std::vector<float> values = {1, -1, 1, -1, -3, 3};
  const Result<TopKValues> kept = top_k_compress(values, 0.5);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->indices, (std::vector<std::int64_t>{4, 5, 0}));
  EXPECT_EQ(kept->values, (std::vector<float>{-3, 3, 1}));
  EXPECT_EQ(kept->size_bytes(), 24);
  std::vector<float> out(6, 7.0f);
  ASSERT_TRUE(top_k_decompress(*kept, out).ok());
  EXPECT_EQ(out, (std::vector<float>{1, 0, 0, 0, -3, 3}));
}

TEST(TopK, CountTruncatesAndKeepsAtLeastOne) {
  EXPECT_EQ(*top_k_count(10, 0.29f), 2);
  EXPECT_EQ(*top_k_count(10, 0.01), 1);
  EXPECT_EQ(*top_k_count(10, 0), 0);
  EXPECT_EQ(*top_k_count(10, 2), 10);
  EXPECT_EQ(*top_k_count(0, 0.5), 0);
  for (double bad : {-0.1, static_cast<double>(NAN)}) {
    EXPECT_EQ(top_k_count(10, bad).status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(top_k_compress(std::vector<float>{1}, bad).has_value());
    EXPECT_FALSE(TopKCodec::make(bad).has_value());
  }
  EXPECT_FALSE(TopKCodec::make(1.5).has_value());
}

TEST(TopK, NanHasNoPlaceUnlessAllAreKept) {
  const std::vector<float> values = {1, NAN, 2, -INFINITY};
  EXPECT_EQ(top_k_compress(values, 0.5).status().code(), StatusCode::kNotFinite);
  const Result<TopKValues> all = top_k_compress(values, 1);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->indices, (std::vector<std::int64_t>{1, 3, 2, 0}));
  EXPECT_EQ(top_k_compress(std::vector<float>{1, INFINITY, -2}, 0.4)->indices,
            (std::vector<std::int64_t>{1}));
}

TEST(TopK, BadListsAreRefused) {
  std::vector<float> out(4);
  const auto code = [&](std::vector<std::int64_t> indices, std::vector<float> values,
                        std::int64_t elements = 4) {
    return top_k_decompress({elements, std::move(indices), std::move(values)}, out)
        .code();
  };
  EXPECT_EQ(code({1, 2}, {1, 2}), StatusCode::kOk);
  EXPECT_EQ(code({1, 4}, {1, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({-1, 2}, {1, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1, 2, 1}, {1, 2, 3}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1, 2}, {1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1}, {1}, 5), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1}, {1}, -1), StatusCode::kInvalidArgument);
}

RC_GTEST_PROP(TopK, IsTheHeadOfASort, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  std::vector<float> values(*rc::gen::inRange<std::size_t>(0, 3000));
  const int distinct = *rc::gen::element(3, 100, 1000000);
  for (float& v : values) {
    v = static_cast<float>(static_cast<int>(random() % distinct) - distinct / 2);
  }
  const double fraction = *rc::gen::element(0.0, 0.001, 0.1, 0.5, 0.99, 1.0);
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::fabs(values[static_cast<std::size_t>(a)]) >
           std::fabs(values[static_cast<std::size_t>(b)]);
  });
  const Result<TopKValues> kept = top_k_compress(values, fraction);
  const std::int64_t k = *top_k_count(static_cast<std::int64_t>(values.size()), fraction);
  order.resize(static_cast<std::size_t>(k));
  RC_ASSERT(kept->indices == order);
}

}  // namespace
}  // namespace pith
