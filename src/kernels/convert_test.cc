#include "src/kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "pith/tensor/dtype.h"
#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

constexpr DType kSources[] = {DType::kBool,   DType::kU8,  DType::kI8,  DType::kF8E5M2,
                              DType::kF8E4M3, DType::kI16, DType::kU16, DType::kF16,
                              DType::kBF16,   DType::kI32, DType::kU32, DType::kF32,
                              DType::kF64,    DType::kI64, DType::kU64};
constexpr DType kTargets[] = {DType::kF8E5M2, DType::kF8E4M3, DType::kF16, DType::kBF16,
                              DType::kF32};
constexpr Overflow kOverflows[] = {Overflow::kInfinity, Overflow::kSaturate};

std::size_t size_of(DType dtype) { return static_cast<std::size_t>(bits_of(dtype)) / 8; }

// Runs a test on every instruction set, and leaves the best one active.
template <typename Body>
void on_every_target(const Body& body) {
  for (const std::string& name : available_targets()) {
    ASSERT_TRUE(set_target(name).ok());
    SCOPED_TRACE(name);
    body();
  }
  ASSERT_TRUE(set_target("").ok());
}

struct Converted {
  std::vector<unsigned char> bytes;
  std::uint32_t largest = 0;
  bool operator==(const Converted&) const = default;
};

// `shift` moves both ends off their alignment; bytes beside the output must stay.
template <typename Args>
Converted run(std::uint32_t (*kernel)(const Args&) noexcept, Args args,
              const std::vector<unsigned char>& in, std::size_t out_size,
              std::size_t shift = 0) {
  const std::size_t bytes = static_cast<std::size_t>(args.count) * out_size;
  std::vector<unsigned char> from(in.size() + shift + 1);
  if (!in.empty()) std::memcpy(from.data() + shift, in.data(), in.size());
  std::vector<unsigned char> out(bytes + 2 * shift + 1, 0xa5);
  args.in = from.data() + shift;
  args.out = out.data() + shift;
  Converted result;
  result.largest = kernel(args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i < shift || i >= shift + bytes) {
      EXPECT_EQ(out[i], 0xa5) << "byte " << i;
    }
  }
  out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(shift));
  out.resize(bytes);
  result.bytes = std::move(out);
  return result;
}

template <typename T>
std::vector<unsigned char> bytes_of_values(const std::vector<T>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void compare_from_f32(const std::vector<std::uint32_t>& bits) {
  const std::vector<unsigned char> in = bytes_of_values(bits);
  for (const DType to : kTargets) {
    for (const Overflow overflow : kOverflows) {
      const FromF32 args{.in = nullptr,
                         .to = to,
                         .out = nullptr,
                         .count = static_cast<std::int64_t>(bits.size()),
                         .overflow = overflow};
      const Converted want = run(reference_from_f32, args, in, size_of(to));
      on_every_target([&] {
        const Converted got = run(from_f32, args, in, size_of(to));
        EXPECT_EQ(got.largest, want.largest) << to_string(to);
        if (got.bytes == want.bytes) return;
        for (std::size_t i = 0; i < bits.size(); ++i) {
          std::uint32_t expected = 0;
          std::uint32_t found = 0;
          std::memcpy(&expected, &want.bytes[i * size_of(to)], size_of(to));
          std::memcpy(&found, &got.bytes[i * size_of(to)], size_of(to));
          ASSERT_EQ(found, expected)
              << to_string(to) << " of f32 bits " << std::hex << bits[i];
        }
      });
    }
  }
}

std::vector<unsigned char> random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<unsigned char> bytes(size);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(generator());
  return bytes;
}

constexpr std::int64_t kCounts[] = {0,  1,  2,  7,  15, 16,  17,  31,  32,   33,  63,
                                    64, 65, 95, 96, 97, 127, 128, 129, 1000, 4099};

TEST(Convert, ToF32EqualsTheReferenceAtEverySizeAndAlignment) {
  on_every_target([] {
    for (const DType from : kSources) {
      for (const std::int64_t count : kCounts) {
        const auto in = random_bytes(static_cast<std::size_t>(count) * size_of(from), 7);
        for (const bool stream : {false, true}) {
          for (const bool to_odd : {false, true}) {
            const ToF32 args{from, nullptr, nullptr, count, to_odd, stream};
            const Converted want = run(reference_to_f32, args, in, 4);
            for (const std::size_t shift : {0, 1, 2, 4, 12, 16, 32, 60}) {
              EXPECT_EQ(run(to_f32, args, in, 4, shift), want)
                  << to_string(from) << ", " << count << " values, shifted by " << shift
                  << (stream ? ", streamed" : "");
            }
          }
        }
      }
    }
  });
}

TEST(Convert, FromF32EqualsTheReferenceAtEverySizeAndAlignment) {
  on_every_target([] {
    for (const DType to : kTargets) {
      for (const std::int64_t count : kCounts) {
        const auto in = random_bytes(static_cast<std::size_t>(count) * 4, 11);
        for (const bool stream : {false, true}) {
          const FromF32 args{nullptr, to, nullptr, count, Overflow::kInfinity, stream};
          const Converted want = run(reference_from_f32, args, in, size_of(to));
          for (const std::size_t shift : {0, 1, 2, 4, 12, 16, 32, 60}) {
            EXPECT_EQ(run(from_f32, args, in, size_of(to), shift), want)
                << to_string(to) << ", " << count << " values, shifted by " << shift
                << (stream ? ", streamed" : "");
          }
        }
      }
    }
  });
}

TEST(Convert, EveryExponentWithEveryBorderOfTheMantissa) {
  std::vector<std::uint32_t> bits;
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512;
       ++sign_and_exponent) {
    const std::uint32_t base = sign_and_exponent << 23;
    for (int drop = 0; drop <= 23; ++drop) {
      const std::uint32_t half = (1u << drop) >> 1;
      for (std::uint32_t kept = 0; kept < 4; ++kept) {
        for (const std::uint32_t near : {half - 1, half, half + 1, 0u}) {
          bits.push_back(base | (((kept << drop) + near) & 0x7fffffu));
          bits.push_back(base | (~((kept << drop) + near) & 0x7fffffu));
        }
      }
    }
  }
  compare_from_f32(bits);
}

TEST(Convert, EveryHalfAndWhatLiesAroundIt) {
  std::vector<std::uint32_t> bits;
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    for (const float value : {f16_to_f32(static_cast<std::uint16_t>(code)),
                              bf16_to_f32(static_cast<std::uint16_t>(code))}) {
      const auto exact = std::bit_cast<std::uint32_t>(value);
      for (const std::uint32_t tie : {0u, 0x1000u, 0x8000u}) {
        for (const std::uint32_t near : {tie - 1, tie, tie + 1})
          bits.push_back(exact + near);
      }
    }
  }
  compare_from_f32(bits);
}

TEST(Convert, RandomBits) {
  std::mt19937 generator(3);
  std::vector<std::uint32_t> bits(1 << 20);
  for (std::uint32_t& b : bits) b = static_cast<std::uint32_t>(generator());
  compare_from_f32(bits);
}

TEST(Convert, EveryCodeOf16BitsReadsAsDefined) {
  std::vector<std::uint16_t> codes(0x10000);
  for (std::uint32_t i = 0; i < 0x10000; ++i) codes[i] = static_cast<std::uint16_t>(i);
  const auto in = bytes_of_values(codes);
  on_every_target([&] {
    for (const DType from : {DType::kF16, DType::kBF16, DType::kI16, DType::kU16}) {
      const ToF32 args{from, nullptr, nullptr, 0x10000};
      EXPECT_EQ(run(to_f32, args, in, 4), run(reference_to_f32, args, in, 4))
          << to_string(from);
    }
  });
}

TEST(Convert, OverflowBitsAreTheFirstThatOverflow) {
  const auto becomes = [](DType to, std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    float back = 0;
    if (to == DType::kF16) back = f16_to_f32(f32_to_f16(value));
    if (to == DType::kBF16) back = bf16_to_f32(f32_to_bf16(value));
    if (to == DType::kF8E4M3)
      back = f8e4m3_to_f32(f32_to_f8e4m3(value, Overflow::kInfinity));
    if (to == DType::kF8E5M2)
      back = f8e5m2_to_f32(f32_to_f8e5m2(value, Overflow::kInfinity));
    return back;
  };
  for (const DType to : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    EXPECT_TRUE(std::isfinite(becomes(to, overflow_bits(to) - 1))) << to_string(to);
    EXPECT_FALSE(std::isfinite(becomes(to, overflow_bits(to)))) << to_string(to);
  }
}

TEST(Convert, ToOddThenShorterRoundsOnce) {
  std::mt19937_64 generator(5);
  std::vector<double> values = {1 + std::exp2(-11) + std::exp2(-40),
                                1 + std::exp2(-11) - std::exp2(-40),
                                1 + std::exp2(-8) + std::exp2(-40),
                                65520 - 1e-9,
                                65519.99999999,
                                1e300,
                                -1e300,
                                std::numeric_limits<double>::infinity(),
                                std::exp2(-25) * (1 + 1e-12),
                                std::exp2(-134) * (1 + 1e-12),
                                1e-310,
                                -0.0,
                                std::exp2(-160),
                                3.4e38};
  for (int i = 0; i < 200000; ++i) {
    // A half or bfloat16, a tie, and a little beside it.
    const auto code = static_cast<std::uint16_t>(generator());
    const double base = (i % 2) != 0 ? f16_to_f32(code) : bf16_to_f32(code);
    const auto after = static_cast<std::uint16_t>(code + 1);
    const double next = (i % 2) != 0 ? f16_to_f32(after) : bf16_to_f32(after);
    if (!std::isfinite(base) || !std::isfinite(next)) continue;
    values.push_back((base + next) / 2 *
                     (1 + std::ldexp(static_cast<double>(i % 5 - 2), -45)));
  }
  std::vector<float> odd(values.size());
  std::vector<std::uint16_t> codes(values.size());
  const auto count = static_cast<std::int64_t>(values.size());
  to_f32({DType::kF64, values.data(), odd.data(), count, true});
  for (const DType to : {DType::kF16, DType::kBF16}) {
    from_f32({odd.data(), to, codes.data(), count});
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(codes[i],
                to == DType::kF16 ? f64_to_f16(values[i]) : f64_to_bf16(values[i]))
          << to_string(to) << " of " << std::hexfloat << values[i];
    }
  }
}

TEST(Convert, WholeNumbersToOddAreCutNotRounded) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> values = {
      0,        16777217,     -16777219, 33554433, (std::int64_t{1} << 62) + 1,
      kLargest, -kLargest - 1};
  const std::vector<float> expected = {0,
                                       16777218,
                                       -16777218,
                                       33554436,
                                       std::bit_cast<float>(0x5e800001u),
                                       std::bit_cast<float>(0x5effffffu),
                                       -0x1p63f};
  std::vector<float> got(values.size());
  to_f32({DType::kI64, values.data(), got.data(), 7, true});
  EXPECT_EQ(got, expected);
}

// All 2^32 values, some minutes: PITH_EXHAUSTIVE=1.
TEST(Convert, EveryF32) {
  if (std::getenv("PITH_EXHAUSTIVE") == nullptr) {
    GTEST_SKIP() << "set PITH_EXHAUSTIVE to compare all 2^32 values";
  }
  constexpr std::uint32_t kPiece = 1 << 20;
  std::vector<std::uint32_t> bits(kPiece);
  std::vector<unsigned char> want(kPiece * 2);
  std::vector<unsigned char> got(kPiece * 2);
  for (std::uint32_t piece = 0; piece < 4096; ++piece) {
    for (std::uint32_t i = 0; i < kPiece; ++i) bits[i] = piece * kPiece + i;
    for (const DType to : {DType::kF8E5M2, DType::kF8E4M3, DType::kF16, DType::kBF16}) {
      for (const Overflow overflow : kOverflows) {
        if (size_of(to) == 2 && overflow == Overflow::kSaturate) continue;
        const std::uint32_t largest =
            reference_from_f32({bits.data(), to, want.data(), kPiece, overflow});
        on_every_target([&] {
          ASSERT_EQ(from_f32({bits.data(), to, got.data(), kPiece, overflow}), largest);
          ASSERT_EQ(std::memcmp(want.data(), got.data(), kPiece * size_of(to)), 0)
              << to_string(to) << " in piece " << piece;
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace pith::kernels
