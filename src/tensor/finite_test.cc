#include "src/tensor/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace pith {
namespace {

TEST(Finite, FirstNonfiniteIsFoundWhereverItStands) {
  for (std::size_t n : {1u, 7u, 4095u, 4096u, 4097u, 10000u}) {
    std::vector<float> values(n, std::numeric_limits<float>::max());
    EXPECT_EQ(first_nonfinite(values), -1);
    for (std::size_t at : {n - 1, n / 2, std::size_t{0}}) {  // each before the last
      values[at] = at % 2 == 0 ? NAN : -INFINITY;
      EXPECT_EQ(first_nonfinite(values), static_cast<std::int64_t>(at)) << n;
    }
  }
  EXPECT_EQ(first_nonfinite({}), -1);
}

TEST(Finite, ErrorNamesIndexAndValue) {
  const float values[] = {1, 2, -INFINITY};
  const Status status = require_finite(values, "gradient");
  EXPECT_EQ(status.code(), StatusCode::kNotFinite);
  EXPECT_EQ(status.message(), "gradient: value 2 is -inf, expected a finite number");
  EXPECT_TRUE(require_finite(std::span(values).first(2), "gradient").ok());
}

}  // namespace
}  // namespace pith
