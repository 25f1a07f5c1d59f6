#include "pith/base/status.h"

#include <gtest/gtest.h>

#include "pith/base/result.h"

namespace pith {
namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) return Status::invalid_argument("odd");
  return value / 2;
}

Result<int> quarter_of(int value) {
  PITH_TRY(const int half, half_of(value));
  return half_of(half);
}

Status both_even(int a, int b) {
  PITH_OK(half_of(a).status());
  PITH_OK(half_of(b).status());
  return {};
}

TEST(Status, ContextStandsBeforeTheMessage) {
  const Status status = Status::corrupt("too short").with_context("model.gguf");
  EXPECT_EQ(status.message(), "model.gguf: too short");
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_TRUE(Status().with_context("nowhere").ok());
}

TEST(Status, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(StatusCode::kCancelled); ++code) {
    EXPECT_NE(to_string(static_cast<StatusCode>(code)), "unknown") << code;
  }
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter_of(8).value(), 2);
  EXPECT_EQ(quarter_of(7).error().message(), "odd");
  EXPECT_EQ(quarter_of(6).error().message(), "odd");
}

TEST(Result, OkMacroReturnsTheFirstError) {
  EXPECT_TRUE(both_even(2, 4).ok());
  EXPECT_FALSE(both_even(2, 3).ok());
}

}  // namespace
}  // namespace pith
