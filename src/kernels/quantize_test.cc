// Every instruction set gives the bits of the reference.
#include "src/kernels/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "src/kernels/test_values.h"

namespace pith::kernels {
namespace {

constexpr std::int64_t kSizes[] = {1,  2,  7,  8,  9,  15, 16,  17,  31,
                                   32, 33, 63, 64, 65, 96, 127, 128, 129};

class QuantizeSteps : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Kernels, QuantizeSteps, testing::ValuesIn(available_targets()));

// Calls test(groups) for several counts and sizes of groups.
template <typename Test>
void for_groups(const Test& test) {
  for (std::int64_t size : kSizes) {
    for (std::int64_t groups : {1, 2, 3, 4, 7, 8, 9, 17}) {
      for (std::int64_t last : {std::int64_t{1}, size / 2 + 1, size}) {
        const Unaligned values(
            values_of(groups * size, static_cast<unsigned>(size * 131 + groups)));
        test(Groups{values.data(), groups, size, last});
      }
    }
  }
}

TEST_P(QuantizeSteps, AbsmaxOfGroups) {
  for_groups([](const Groups& in) {
    std::vector<std::uint32_t> got(static_cast<std::size_t>(in.groups), 77);
    std::vector<std::uint32_t> expected(got);
    absmax_groups(in, got.data());
    reference_absmax_groups(in, expected.data());
    ASSERT_EQ(got, expected) << in.groups << " groups of " << in.size;
  });
}

TEST_P(QuantizeSteps, AbsmaxShowsNanAndInfinityAnywhere) {
  for (std::int64_t size : {1, 5, 8, 31, 64, 100, 2000}) {
    for (std::int64_t at = 0; at < size; at += 1 + size / 37) {
      for (float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
        std::vector<float> values = values_of(size * 9, 3);
        values[static_cast<std::size_t>(4 * size + at)] = bad;
        std::vector<std::uint32_t> got(9);
        std::vector<std::uint32_t> positive(9);
        std::vector<std::uint32_t> negative(9);
        const Groups in = {values.data(), 9, size, size};
        absmax_groups(in, got.data());
        extremes_groups(in, positive.data(), negative.data());
        for (std::size_t g = 0; g < 9; ++g) {
          ASSERT_EQ(got[g] >= 0x7f800000u, g == 4);
          ASSERT_EQ(std::max(positive[g], negative[g]), got[g]);
        }
      }
    }
  }
}

TEST_P(QuantizeSteps, ExtremesOfGroups) {
  for_groups([](const Groups& in) {
    std::vector<std::uint32_t> got[2];
    std::vector<std::uint32_t> expected[2];
    for (int k = 0; k < 2; ++k) {
      got[k].resize(static_cast<std::size_t>(in.groups));
      expected[k].resize(got[k].size());
    }
    extremes_groups(in, got[0].data(), got[1].data());
    reference_extremes_groups(in, expected[0].data(), expected[1].data());
    ASSERT_EQ(got[0], expected[0]);
    ASSERT_EQ(got[1], expected[1]);
  });
}

// Groups so long that they are read in several streams: the largest value may be in any
// of them, at their ends and behind them.
TEST_P(QuantizeSteps, AbsmaxOfLongGroups) {
  for (const std::int64_t size : {16383, 16384, 16385, 20000, 65543}) {
    std::vector<float> values = values_of(size, 4);
    for (float& value : values) value = std::isfinite(value) ? value / 1e30F : 0.0F;
    for (std::int64_t at = 0; at < size; at += at < size - 300 ? 997 : 1) {
      SCOPED_TRACE(at);
      const float before = std::exchange(values[static_cast<std::size_t>(at)], -1e30F);
      std::uint32_t got = 0;
      std::uint32_t positive = 0;
      std::uint32_t negative = 0;
      absmax_groups({values.data(), 1, size, size}, &got);
      extremes_groups({values.data(), 1, size, size}, &positive, &negative);
      ASSERT_EQ(std::bit_cast<float>(got), 1e30F);
      ASSERT_EQ(negative, got);
      ASSERT_LT(std::bit_cast<float>(positive), 1e30F);
      values[static_cast<std::size_t>(at)] = before;
    }
  }
}

TEST_P(QuantizeSteps, AbsmaxOfNothingIsZero) {
  std::uint32_t magnitude = 5;
  absmax_groups({nullptr, 1, 0, 0}, &magnitude);
  EXPECT_EQ(magnitude, 0u);
}

// Extremes over the whole range of f32, with those whose scale is near a limit of f16.
std::vector<float> extremes_of(std::int64_t n) {
  std::mt19937 random(5);
  std::vector<float> values = {0.0F,      -0.0F,     1.0F,    8.32104e6F, 8.3212e6F,
                               3e-6F,     1.2e-5F,   7.5e-6F, 1e-45F,     1e-40F,
                               3e38F,     7.75e-3F,  127.0F,  -127.0F,    524159.F,
                               524160.0F, -524160.0F};
  while (std::ssize(values) < n) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  values.resize(static_cast<std::size_t>(n));
  return values;
}

TEST_P(QuantizeSteps, ScalesOfGroups) {
  for (std::int64_t n : {0, 1, 7, 8, 9, 17, 1000}) {
    const std::vector<float> extremes = extremes_of(n);
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (Coding coding : {Coding::kStored, Coding::kExact, Coding::kInverse}) {
        for (float denominator : {127.0F, 7.5F, -8.0F, 1.0F}) {
          for (float zero_scale : {0.0F, 1.0F}) {
            const auto run = [&](auto find, std::vector<float>& out,
                                 std::vector<std::uint8_t>& stored) {
              out.assign(static_cast<std::size_t>(2 * n), -1);
              stored.assign(static_cast<std::size_t>(n * 34), 0xaa);
              return find(FindScales{extremes.data(), n, denominator, 127.5F, zero_scale,
                                     type, coding, out.data(), out.data() + n,
                                     stored.data(), 34});
            };
            std::vector<float> got;
            std::vector<float> expected;
            std::vector<std::uint8_t> got_stored;
            std::vector<std::uint8_t> expected_stored;
            const ScaleFlags flags = run(find_scales, got, got_stored);
            const ScaleFlags expected_flags =
                run(reference_find_scales, expected, expected_stored);
            EXPECT_EQ(flags.overflow, expected_flags.overflow);
            EXPECT_EQ(flags.coarse, expected_flags.coarse);
            EXPECT_EQ(flags.inverse, expected_flags.inverse);
            for (std::size_t i = 0; i < got.size(); ++i) {
              const bool is_divisor = std::cmp_greater_equal(i, n);
              if (is_divisor && std::isinf(expected[i - static_cast<std::size_t>(n)])) {
                continue;
              }
              ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]),
                        std::bit_cast<std::uint32_t>(expected[i]))
                  << extremes[i % static_cast<std::size_t>(n)] << " / " << denominator;
            }
            if (!flags.overflow) {
              ASSERT_EQ(got_stored, expected_stored);
            }
          }
        }
      }
    }
  }
}

TEST_P(QuantizeSteps, ZeroPointsOfGroups) {
  for (std::int64_t n : {1, 7, 8, 9, 100}) {
    std::vector<float> smallest = extremes_of(n);
    std::vector<float> divisors(smallest.size());
    for (std::size_t i = 0; i < smallest.size(); ++i) {
      smallest[i] = -std::fabs(smallest[i]);
      divisors[i] =
          smallest[i] == 0 ? INFINITY : -smallest[i] / static_cast<float>(i % 300);
      if (!(divisors[i] > 0)) divisors[i] = 1e-40F;
    }
    for (Rounding rounding : {Rounding::kHalfAway, Rounding::kHalfEven}) {
      for (int high : {127, 7}) {
        std::vector<float> got(smallest.size());
        std::vector<float> expected(smallest.size());
        std::vector<std::int8_t> got8(smallest.size());
        std::vector<std::int8_t> expected8(smallest.size());
        FindZeroPoints args = {
            smallest.data(), divisors.data(), n,          -high - 1, high,
            rounding,        got.data(),      got8.data()};
        find_zero_points(args);
        args.zero_points = expected.data();
        args.stored = expected8.data();
        reference_find_zero_points(args);
        ASSERT_EQ(got, expected);
        ASSERT_EQ(got8, expected8);
      }
    }
  }
}

// The choices of EncodeGroups that schemes make.
struct Choice {
  Rounding rounding;
  bool inverse;
  bool limit;
  bool zero_point;
  Packing packing;
  bool full;
};

std::vector<Choice> choices() {
  std::vector<Choice> all;
  for (Rounding rounding :
       {Rounding::kHalfAway, Rounding::kHalfEven, Rounding::kHalfUp}) {
    for (int bits = 0; bits < 8; ++bits) {
      for (Packing packing : {Packing::kInt8, Packing::kInt4, Packing::kInt4Halves}) {
        const bool inverse = (bits & 1) != 0;
        const bool limit = (bits & 2) != 0;
        const bool zero_point = (bits & 4) != 0;
        if (zero_point && (inverse || !limit)) continue;
        const bool full = rounding == Rounding::kHalfUp || zero_point;
        all.push_back({rounding, inverse, limit, zero_point, packing, full});
      }
    }
  }
  return all;
}

// Divisors such that values reach the outermost codes, and beyond if they are limited.
std::vector<float> divisors_for(const Groups& in, const Choice& choice, int high) {
  std::vector<float> divisors;
  for (std::int64_t g = 0; g < in.groups; ++g) {
    std::uint32_t bits = 0;
    reference_absmax_groups(
        {in.values + g * in.size, 1, 0, g + 1 < in.groups ? in.size : in.last}, &bits);
    float scale = std::bit_cast<float>(bits) / static_cast<float>(high);
    if (choice.limit) scale *= 0.7F;
    if (choice.inverse) {
      divisors.push_back(scale == 0 ? 0 : 1 / scale);
    } else {
      divisors.push_back(scale == 0 ? INFINITY : scale);
    }
  }
  return divisors;
}

TEST_P(QuantizeSteps, CodesOfGroups) {
  for (const Choice& choice : choices()) {
    for_groups([&](Groups in) {
      if (choice.packing == Packing::kInt4Halves) {
        if (in.size != 32) return;
        in.last = 32;
      }
      const int high = choice.packing == Packing::kInt8 ? 127 : 7;
      const int low = choice.full ? -high - 1 : -high;
      const std::vector<float> divisors = divisors_for(in, choice, high);
      std::vector<float> zero_points;
      for (std::int64_t g = 0; g < in.groups; ++g) {
        zero_points.push_back(static_cast<float>(low + g % (high - low)));
      }
      const std::int64_t stride = choice.packing == Packing::kInt8   ? in.size + 2
                                  : choice.packing == Packing::kInt4 ? (in.size + 1) / 2
                                                                     : 18;
      for (bool one_scale : {false, true}) {
        std::vector<std::uint8_t> got(static_cast<std::size_t>(in.groups * stride), 0xee);
        std::vector<std::uint8_t> expected(got);
        const bool limit = choice.limit || one_scale;
        EncodeGroups args = {
            .in = in,
            .divisors = divisors.data(),
            .zero_points = choice.zero_point ? zero_points.data() : nullptr,
            .one_scale = one_scale,
            .inverse = choice.inverse,
            .limit = limit,
            .low = low,
            .high = high,
            .rounding = choice.rounding,
            .packing = choice.packing,
            .codes = got.data(),
            .stride = stride};
        if (choice.rounding == Rounding::kHalfUp && !args.limit) {
          args.limit = true;  // its largest code comes from the limit, as in Q4_0
        }
        encode_groups(args);
        ASSERT_EQ(count_saturated(args), reference_count_saturated(args));
        args.codes = expected.data();
        reference_encode_groups(args);
        ASSERT_EQ(got, expected)
            << "rounding " << int(choice.rounding) << " inverse " << choice.inverse
            << " limit " << choice.limit << " zero point " << choice.zero_point
            << " packing " << int(choice.packing) << " size " << in.size;

        std::vector<float> decoded(static_cast<std::size_t>(in.groups * in.size), 9);
        std::vector<float> expected_decoded(decoded);
        DecodeGroups back = {.codes = got.data(),
                             .stride = stride,
                             .packing = choice.packing,
                             .scales = divisors.data(),
                             .zero_points = args.zero_points,
                             .one_scale = one_scale,
                             .out = decoded.data(),
                             .groups = in.groups,
                             .size = in.size,
                             .last = in.last,
                             .stream = true};
        decode_groups(back);
        back.out = expected_decoded.data();
        reference_decode_groups(back);
        for (std::size_t i = 0; i < decoded.size(); ++i) {
          if (std::isnan(expected_decoded[i])) continue;  // 0 * infinity: no scale
          ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded[i]),
                    std::bit_cast<std::uint32_t>(expected_decoded[i]));
        }
      }
    });
  }
}

// Scales that are 0, negative, small, subnormal and infinite; all codes of 4 bits.
TEST_P(QuantizeSteps, ValuesOfUnusualScales) {
  const std::vector<float> scales = {0.0F,   -0.5F,  0x1.abcdeep-89F, 0x1.abcdeep-110F,
                                     1e-30F, 1e-44F, 3e38F,           INFINITY};
  const std::vector<float> zero_points = {0, -8, 7, 3, 0, 1, -1, 2};
  const auto groups = std::ssize(scales);
  for (Packing packing : {Packing::kInt4, Packing::kInt4Halves}) {
    const std::int64_t stride = packing == Packing::kInt4 ? 16 : 18;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(groups * stride));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>(i * 7 + i / 16);
    }
    for (const float* points : {static_cast<const float*>(nullptr), zero_points.data()}) {
      std::vector<float> got(static_cast<std::size_t>(groups * 32));
      std::vector<float> expected = got;
      DecodeGroups args = {.codes = codes.data(),
                           .stride = stride,
                           .packing = packing,
                           .scales = scales.data(),
                           .zero_points = points,
                           .one_scale = false,
                           .out = got.data(),
                           .groups = groups,
                           .size = 32,
                           .last = 29};
      decode_groups(args);
      args.out = expected.data();
      reference_decode_groups(args);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i])) {
          ASSERT_TRUE(std::isnan(got[i])) << i;
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]),
                    std::bit_cast<std::uint32_t>(expected[i]))
              << i;
        }
      }
    }
  }
}

// All values as one group, in bytes of all codes.
EncodeGroups one_group(const std::vector<float>& values, const float& divisor,
                       std::uint8_t* codes) {
  const std::int64_t n = std::ssize(values);
  return {.in = {values.data(), 1, n, n},
          .divisors = &divisor,
          .zero_points = nullptr,
          .one_scale = true,
          .inverse = false,
          .limit = true,
          .low = -128,
          .high = 127,
          .rounding = Rounding::kHalfAway,
          .packing = Packing::kInt8,
          .codes = codes,
          .stride = n};
}

// Quotients at and next to every half, where roundings differ.
TEST_P(QuantizeSteps, HalvesAndTheirNeighbours) {
  std::vector<float> values;
  for (int k = -255; k <= 255; ++k) {
    const float half = static_cast<float>(k) / 2;
    values.insert(values.end(),
                  {half, std::nextafter(half, -1e9F), std::nextafter(half, 1e9F)});
  }
  const float one = 1;
  for (Rounding rounding :
       {Rounding::kHalfAway, Rounding::kHalfEven, Rounding::kHalfUp}) {
    for (bool inverse : {false, true}) {
      std::vector<std::uint8_t> got(values.size());
      std::vector<std::uint8_t> expected(values.size());
      EncodeGroups args = one_group(values, one, got.data());
      args.inverse = inverse;
      args.rounding = rounding;
      encode_groups(args);
      args.codes = expected.data();
      reference_encode_groups(args);
      ASSERT_EQ(got, expected);
      if (rounding == Rounding::kHalfAway) {
        EXPECT_EQ(static_cast<std::int8_t>(got[3 * (255 + 5)]), 3);      // 2.5
        EXPECT_EQ(static_cast<std::int8_t>(got[3 * (255 - 5)]), -3);     // -2.5
        EXPECT_EQ(static_cast<std::int8_t>(got[3 * (255 + 1) + 1]), 0);  // below 0.5
      }
    }
  }
}

// Values whose quotients are halfway between two codes or a few roundings away from that,
// for many divisors: where codes without division are in doubt.
TEST_P(QuantizeSteps, AroundTiesOfAnyDivisor) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(1, 2);
  for (int round = 0; round < 300; ++round) {
    const float divisor =
        std::ldexp(uniform(random), static_cast<int>(random() % 60) - 30);
    const bool inverse = round % 3 == 0;
    std::vector<float> values;
    for (int k = -127; k < 127; ++k) {
      const float half = static_cast<float>(k) + 0.5F;
      float v = inverse ? half / divisor : half * divisor;
      for (int i = 0; i < 4; ++i) v = std::nextafter(v, -1e38F);
      for (int i = -4; i <= 4; ++i, v = std::nextafter(v, 1e38F)) values.push_back(v);
      values.push_back(v + v * 0x1p-22F * static_cast<float>(random() % 64));
    }
    for (Rounding rounding :
         {Rounding::kHalfAway, Rounding::kHalfEven, Rounding::kHalfUp}) {
      std::vector<std::uint8_t> got(values.size());
      std::vector<std::uint8_t> expected(values.size());
      EncodeGroups args = one_group(values, divisor, got.data());
      args.inverse = inverse;
      args.limit = round % 2 == 0;
      args.rounding = rounding;
      encode_groups(args);
      args.codes = expected.data();
      reference_encode_groups(args);
      ASSERT_EQ(got, expected) << "divisor " << divisor;
    }
  }
}

TEST_P(QuantizeSteps, OneScaleOfManyValues) {
  for (std::int64_t n : {1, 31, 255, 256, 257, 511, 512, 768, 1024, 5000, 20003}) {
    std::vector<float> values = values_of(n, static_cast<unsigned>(n));
    for (float& v : values) v = std::clamp(v, -9.0F, 9.0F);
    for (const float bad : {0.0F, 12.0F, -INFINITY, NAN}) {
      if (bad != 0) values[static_cast<std::size_t>(n / 2)] = bad;
      for (Packing packing : {Packing::kInt8, Packing::kInt4}) {
        const int high = packing == Packing::kInt8 ? 127 : 7;
        const float scale = 9.0F / static_cast<float>(high);
        std::vector<std::uint8_t> got(static_cast<std::size_t>(n) + 64, 0xee);
        std::vector<std::uint8_t> expected = got;
        EncodeGroups args = one_group(values, scale, got.data());
        args.limit = bad != 0;
        args.low = -high;
        args.high = high;
        args.packing = packing;
        args.stride = 64;
        args.stream = n % 2 == 0;
        std::uint32_t largest = 0;
        reference_absmax_groups(args.in, &largest);
        ASSERT_EQ(encode_one_scale(args), largest);
        if (bad != 0 && !std::isfinite(bad)) continue;
        args.codes = expected.data();
        reference_encode_groups(args);
        ASSERT_EQ(got, expected) << n << " values";
      }
    }
  }
}

TEST_P(QuantizeSteps, StreamingStoresGiveTheSameBytes) {
  const std::vector<float> values = values_of(4096 + 17, 1);
  alignas(64) static std::uint8_t plain[4224];
  alignas(64) static std::uint8_t streamed[4224];
  const float scale = 0.01F;
  EncodeGroups args = one_group(values, scale, plain);
  args.stride = 4224;
  encode_groups(args);
  args.codes = streamed;
  args.stream = true;
  encode_groups(args);
  EXPECT_EQ(std::memcmp(plain, streamed, values.size()), 0);
}

}  // namespace
}  // namespace pith::kernels
