#include "pith/calibrate/exact_sum.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "src/kernels/moments.h"

namespace pith {
namespace {

using kernels::kMomentsChunk;
using kernels::kMomentsWindow;
using kernels::window_below;
using kernels::window_sums;
using kernels::WindowSums;

float any_finite(std::mt19937& random) {
  for (;;) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) return value;
  }
}

TEST(ExactSum, OfNothingIsZero) {
  EXPECT_EQ(ExactSum().value(), 0);
  EXPECT_FALSE(std::signbit(ExactSum().value()));
}

TEST(ExactSum, KeepsWhatADoubleWouldLose) {
  ExactSum sum;
  sum.add(std::ldexp(1.0, 250));
  sum.add(std::ldexp(1.0, -298));
  sum.add(-std::ldexp(1.0, 250));
  EXPECT_EQ(sum.value(), std::ldexp(1.0, -298));
  sum.add(-std::ldexp(1.0, -297));
  EXPECT_EQ(sum.value(), -std::ldexp(1.0, -298));
}

TEST(ExactSum, RoundsOnceToNearestAndTiesToEven) {
  const double big = std::ldexp(1.0, 53);
  for (double tiny : {0.0, std::ldexp(1.0, -298), -std::ldexp(1.0, -298)}) {
    for (double odd : {0.0, 2.0}) {
      ExactSum sum;
      sum.add(big + odd);
      sum.add(1.0);  // halfway between two doubles
      sum.add(tiny);
      const double even = odd == 0 ? big : big + 4;
      const double expected = tiny == 0 ? even : tiny > 0 ? big + odd + 2 : big + odd;
      EXPECT_EQ(sum.value(), expected) << odd << " " << tiny;
      ExactSum negative;
      negative.add(-(big + odd));
      negative.add(-1.0);
      negative.add(-tiny);
      EXPECT_EQ(negative.value(), -expected);
    }
  }
}

TEST(ExactSum, HoldsManySquaresOfTheLargestFloat) {
  ExactSum sum;
  const double square = std::pow(double{3.4028234663852886e38f}, 2);
  sum.add(square);
  for (int i = 0; i < 60; ++i) {  // doubles it sixty times
    const ExactSum copy = sum;
    sum.add(copy);
  }
  EXPECT_EQ(sum.value(), std::ldexp(square, 60));
}

TEST(ExactSum, LimbsRoundTrip) {
  ExactSum sum;
  sum.add(-1.25);
  EXPECT_EQ(ExactSum::from_limbs(sum.limbs()), sum);
}

RC_GTEST_PROP(ExactSum, DoesNotDependOnOrderOrCut, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  std::vector<double> terms(*rc::gen::inRange(0, 200));
  for (double& term : terms) {
    const double value = any_finite(random);
    term = random() % 2 != 0 ? value : value * value;
  }
  ExactSum forward;
  for (double term : terms) forward.add(term);
  std::shuffle(terms.begin(), terms.end(), random);
  ExactSum parts[3];
  for (double term : terms) parts[random() % 3].add(term);
  parts[1].add(parts[2]);
  parts[0].add(parts[1]);
  RC_ASSERT(parts[0] == forward);
  // Taking every term away again leaves nothing.
  for (double term : terms) forward.add(-term);
  RC_ASSERT(forward == ExactSum());
}

TEST(ScaledVariance, IsExactWhereDoublesCancel) {
  ExactSum sum, squares;
  // 1e8 and 1e8 + 8, a million each: the variance is 16, its parts are near 1e16.
  for (int i = 0; i < 1000000; ++i) {
    for (double value : {1e8, 1e8 + 8}) {
      sum.add(value);
      squares.add(value * value);
    }
  }
  const double count = 2e6;
  EXPECT_EQ(scaled_variance(2000000, sum, squares) / (count * count), 16.0);
}

TEST(ScaledVariance, ReachesFromTheSmallestToTheLargestFloats) {
  for (float value : {1e-45f, 3e-39f, 1.0f, 3.4028234663852886e38f}) {
    ExactSum sum, squares;
    for (double x : {double{value}, -double{value}, double{value}, -double{value}}) {
      sum.add(x);
      squares.add(x * x);
    }
    EXPECT_EQ(scaled_variance(4, sum, squares), 16 * double{value} * double{value});
    sum = squares = ExactSum();
    for (int i = 0; i < 3; ++i) {
      sum.add(-double{value});
      squares.add(double{value} * double{value});
    }
    EXPECT_EQ(scaled_variance(3, sum, squares), 0);
  }
}

// A window is only right if its sums are exact: compare with a sum that never rounds, for
// the worst a window can hold.
TEST(ExactSum, WindowSumsOfTheKernelAreExact) {
  std::mt19937 random(5);
  for (int top : {-126, -100, -19, 0, 30, 127}) {
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<float> x(kMomentsChunk);
      for (float& v : x) {
        const int lowest = std::max(-126, top - (kMomentsWindow - 1));
        const int exponent = lowest + static_cast<int>(random() % (top - lowest + 1u));
        const auto mantissa = static_cast<float>((random() & 0xffffff) | 0x800001);
        v = std::ldexp(mantissa, exponent - 23);
        if (trial % 3 == 0) v = std::ldexp(16777215.0f, (trial % 2 ? top : lowest) - 23);
        if (trial % 5 == 0 && random() % 2 != 0) v = -v;
      }
      x[0] = std::ldexp(1.0f, top);
      ExactSum sum, sum_abs, squares;
      for (float v : x) {
        sum.add(v);
        sum_abs.add(std::fabs(v));
        squares.add(double{v} * v);
      }
      const WindowSums got = window_sums(
          x.data(), kMomentsChunk, window_below(std::bit_cast<std::uint32_t>(x[0])));
      ExactSum got_sum, got_abs, got_squares;
      got_sum.add(got.sum);
      got_abs.add(got.sum_abs);
      got_squares.add(got.squares_high);
      got_squares.add(got.squares_low);
      ASSERT_EQ(got_sum, sum) << top << " " << trial;
      ASSERT_EQ(got_abs, sum_abs) << top << " " << trial;
      ASSERT_EQ(got_squares, squares) << top << " " << trial;
    }
  }
}

}  // namespace
}  // namespace pith
