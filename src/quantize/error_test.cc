#include "pith/quantize/error.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "src/kernels/target.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

TEST(ErrorFigures, ByHand) {
  const std::vector<float> before = {1, -2, 0, 4};
  const std::vector<float> after = {1, -2.5F, 0, 3};
  const ErrorFigures e = measure_error(before, after).value();
  EXPECT_EQ(e.count, 4);
  EXPECT_EQ(e.zeros_before, 1);
  EXPECT_EQ(e.zeros_after, 1);
  EXPECT_DOUBLE_EQ(e.mae(), 1.5 / 4);
  EXPECT_DOUBLE_EQ(e.mse(), 1.25 / 4);
  EXPECT_DOUBLE_EQ(e.rmse(), std::sqrt(1.25 / 4));
  EXPECT_EQ(e.max_error, 1);
  EXPECT_EQ(e.max_index, 3);
  EXPECT_DOUBLE_EQ(e.sqnr_db(), 10 * std::log10(21 / 1.25));
  EXPECT_DOUBLE_EQ(e.cosine(), 18 / std::sqrt(21 * 16.25));
}

TEST(ErrorFigures, NothingAndNoError) {
  const ErrorFigures none = measure_error({}, {}).value();
  EXPECT_EQ(none, ErrorFigures());
  EXPECT_EQ(none.mae(), 0);
  EXPECT_EQ(none.sqnr_db(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(none.cosine(), 1);
  const std::vector<float> values = normal_values(5000, 1);
  const ErrorFigures same = measure_error(values, values).value();
  EXPECT_EQ(same.max_error, 0);
  EXPECT_EQ(same.max_index, 0);
  EXPECT_EQ(same.sqnr_db(), std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(same.cosine(), 1);
  const std::vector<float> zeros(5000);
  EXPECT_EQ(measure_error(values, zeros).value().cosine(), 0);
}

TEST(ErrorFigures, SquaresDoNotOverflow) {
  const std::vector<float> before = {3e19F, 1e20F, -2e19F, 3e38F};
  const std::vector<float> after = {2.9e19F, 1e20F, -2e19F, -3e38F};
  const ErrorFigures e = measure_error(before, after).value();
  EXPECT_TRUE(std::isfinite(e.sqnr_db()));
  EXPECT_DOUBLE_EQ(e.max_error, 2 * double{3e38F});
}

TEST(ErrorFigures, FirstOfEqualErrorsIsNamed) {
  std::vector<float> before(10000, 1);
  std::vector<float> after(10000, 1);
  after[9000] = after[5003] = after[5002] = 2;
  const ErrorFigures e = measure_error(before, after).value();
  EXPECT_EQ(e.max_index, 5002);
}

TEST(ErrorFigures, LengthsMustAgree) {
  const std::vector<float> two = {1, 2};
  const std::vector<float> three = {1, 2, 3};
  const Status status = measure_error(two, three).error();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("after has 3 values, expected 2"), std::string::npos);
}

TEST(ErrorFigures, NonFiniteIsRefusedOrCounted) {
  std::vector<float> before = normal_values(100000, 2);
  std::vector<float> after(before);
  after[77777] += 9;
  before[70001] = NAN;
  before[70000] = INFINITY;
  const Status status = measure_error(before, after).error();
  EXPECT_EQ(status.code(), StatusCode::kNotFinite);
  EXPECT_NE(status.message().find("before[70000] is inf"), std::string::npos)
      << status.message();
  const ErrorFigures e = measure_error(before, after, NonFinite::kCount).value();
  EXPECT_EQ(e.non_finite, 2);
  EXPECT_EQ(e.count, 100000 - 2);
  EXPECT_EQ(e.max_index, 77777);
  EXPECT_NEAR(e.sum_error, 9, 1e-5);
  after[3] = NAN;
  EXPECT_EQ(measure_error(before, after, NonFinite::kCount).error().message(),
            "measure_error: after[3] is nan, expected a number");
  after[3] = INFINITY;
  EXPECT_EQ(measure_error(before, after, NonFinite::kCount).value().max_index, 3);
}

TEST(ErrorFigures, ThreadsAndInstructionSetsDoNotMatter) {
  const std::vector<float> before = normal_values(300001, 3);
  std::vector<float> after(before);
  for (float& v : after) v *= 0.99F;
  const ErrorFigures expected = measure_error(before, after).value();
  for (const std::string& target : kernels::available_targets()) {
    for (int threads : {1, 2, 5}) {
      ASSERT_TRUE(kernels::set_target(target).ok());
      const ThreadLimit limit(threads);
      EXPECT_EQ(measure_error(before, after).value(), expected) << target;
    }
  }
  ASSERT_TRUE(kernels::set_target("").ok());
}

RC_GTEST_PROP(ErrorFigures, MergeOfPartsIsTheWhole, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(0, 9000);
  const auto cut = *rc::gen::inRange<std::size_t>(0, n + 1);
  const std::vector<float> before = normal_values(n, *rc::gen::arbitrary<unsigned>());
  const std::vector<float> after = normal_values(n, *rc::gen::arbitrary<unsigned>());
  const ErrorFigures whole = measure_error(before, after).value();
  const std::span<const float> b(before);
  const std::span<const float> a(after);
  ErrorFigures merged = measure_error(b.first(cut), a.first(cut)).value();
  merged.merge(measure_error(b.subspan(cut), a.subspan(cut)).value(),
               static_cast<std::int64_t>(cut));
  RC_ASSERT(merged.count == whole.count);
  RC_ASSERT(merged.max_index == whole.max_index);
  RC_ASSERT(merged.max_error == whole.max_error);
  RC_ASSERT(std::fabs(merged.sum_error - whole.sum_error) <= 1e-6 * whole.sum_error);
  RC_ASSERT(std::fabs(merged.rmse() - whole.rmse()) <= 1e-6 * whole.rmse());
  RC_ASSERT(std::fabs(merged.cosine() - whole.cosine()) <= 1e-6);
}

}  // namespace
}  // namespace pith
