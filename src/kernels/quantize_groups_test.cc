// Scales and codes in one go: the bits of the reference.
#include <bit>
#include <cstring>

#include "src/kernels/convert.h"
#include "src/kernels/error.h"
#include "src/kernels/quantize.h"
#include "src/kernels/test_values.h"

namespace pith::kernels {
namespace {

class QuantizeInOne : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Kernels, QuantizeInOne, testing::ValuesIn(available_targets()));

// What a scheme says about scales and codes of ordinary groups.
struct PlainChoice {
  Packing packing;
  DType type;
  Coding coding;
  Rounding rounding;
  float denominator;
  float zero_scale;
  bool limit;
};

std::vector<PlainChoice> plain_choices() {
  std::vector<PlainChoice> all;
  for (Packing packing : {Packing::kInt8, Packing::kInt4}) {
    const float largest = packing == Packing::kInt8 ? 127 : 7;
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (Coding coding : {Coding::kStored, Coding::kExact, Coding::kInverse}) {
        all.push_back({packing, type, coding, Rounding::kHalfAway, largest, 0, false});
        all.push_back(
            {packing, type, coding, Rounding::kHalfEven, largest + 0.5F, 1, true});
      }
    }
  }
  all.push_back({Packing::kInt4Halves, DType::kF16, Coding::kInverse, Rounding::kHalfUp,
                 -8, 0, true});
  return all;
}

// Values in a type; they are rounded to it.
std::vector<std::byte> stored_as(DType type, std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> stored(values.size() * (type == DType::kF32 ? 4 : 2));
  if (type == DType::kF32) {
    std::memcpy(stored.data(), values.data(), stored.size());
    return stored;
  }
  from_f32({.in = values.data(), .to = type, .out = stored.data(), .count = count});
  to_f32({.from = type, .in = stored.data(), .out = values.data(), .count = count});
  return stored;
}

// All bytes that quantize_groups writes, and what it returns.
struct Quantized {
  std::int64_t done = 0;
  std::vector<float> scales;
  std::vector<std::uint8_t> stored;
  std::vector<std::uint8_t> codes;
  std::vector<std::int8_t> bytes;
  std::int64_t saturated = 0;

  friend bool operator==(const Quantized&, const Quantized&) = default;
};

template <typename Quantize>
Quantized quantize_by(Quantize quantize, const PlainChoice& choice, const Groups& in,
                      bool stream) {
  const int high = choice.packing == Packing::kInt8 ? 127 : 7;
  const std::int64_t stride = choice.packing == Packing::kInt8   ? in.size
                              : choice.packing == Packing::kInt4 ? in.size / 2
                                                                 : 18;
  Quantized q;
  q.scales.assign(static_cast<std::size_t>(2 * in.groups), -1);
  q.stored.assign(static_cast<std::size_t>(in.groups * 6), 0xaa);
  q.codes.assign(static_cast<std::size_t>(in.groups * stride), 0xee);
  q.bytes.assign(static_cast<std::size_t>(in.groups * in.size), 0x33);
  QuantizeGroups args = {};
  args.scales.denominator = choice.denominator;
  args.scales.reach = static_cast<float>(high) + 0.5F;
  args.scales.zero_scale = choice.zero_scale;
  args.scales.type = choice.type;
  args.scales.coding = choice.coding;
  args.scales.scales = q.scales.data();
  args.scales.divisors = q.scales.data() + in.groups;
  args.scales.stored = q.stored.data();
  args.scales.stored_stride = 6;
  args.codes.in = in;
  args.codes.inverse = choice.coding == Coding::kInverse;
  args.codes.limit = choice.limit;
  args.codes.low = choice.rounding == Rounding::kHalfUp ? -8 : -high;
  args.codes.high = high;
  args.codes.rounding = choice.rounding;
  args.codes.packing = choice.packing;
  args.codes.codes = q.codes.data();
  args.codes.stride = stride;
  args.codes.stream = stream;
  if (choice.packing != Packing::kInt8) {
    args.bytes = q.bytes.data();
    args.saturated = &q.saturated;
  }
  q.done = quantize(args);
  if (q.done == 0) q.saturated = 0;  // means nothing
  return q;
}

TEST_P(QuantizeInOne, ScalesAndCodesInOneGo) {
  for (std::int64_t size : {32, 64, 96, 128, 256, 288, 2048}) {
    const std::int64_t batch = quantize_batch(size);
    for (std::int64_t groups : {0, 1, 7, 8, 16, 31, 32, 33, 64, 97, 128, 600}) {
      if (groups * size > 20000) continue;
      std::vector<float> some = values_of(groups * size, static_cast<unsigned>(size));
      for (float& v : some) v = std::clamp(v, -1000.0F, 1000.0F);  // scales fit f16
      const Unaligned values(some);
      for (std::int64_t last : {size, std::int64_t{5}}) {
        const Groups in = {values.data(), groups, size, last};
        const std::int64_t whole = groups - (last == size || groups == 0 ? 0 : 1);
        for (const PlainChoice& choice : plain_choices()) {
          if (choice.packing == Packing::kInt4Halves && size != 32) continue;
          const Quantized got = quantize_by(quantize_groups, choice, in, groups % 2 == 0);
          const Quantized expected =
              quantize_by(reference_quantize_groups, choice, in, false);
          ASSERT_TRUE(got == expected)
              << groups << " groups of " << size << ", done " << got.done << " expected "
              << expected.done << " packing " << int(choice.packing) << " type "
              << int(choice.type) << " coding " << int(choice.coding);
          ASSERT_EQ(got.done, whole / batch * batch);
        }
      }
    }
  }
}

// Values halfway between two codes, and those next to them.
TEST_P(QuantizeInOne, TiesAreRoundedByTheDefinition) {
  for (std::int64_t size : {32, 64, 512}) {
    const std::int64_t groups = 4 * quantize_batch(size);
    for (const PlainChoice& choice : plain_choices()) {
      if (choice.packing == Packing::kInt4Halves && size != 32) continue;
      const float largest = std::trunc(choice.denominator);
      std::mt19937 random(5);
      std::vector<float> values(static_cast<std::size_t>(groups * size));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool first = static_cast<std::int64_t>(i) % size == 0;
        const auto code = static_cast<float>(random() % 127);
        float v = std::min(code, std::fabs(largest) - 1) + 0.5F;
        if (random() % 2 == 0) v = std::nextafter(v, random() % 2 == 0 ? 0.0F : 200.0F);
        if (random() % 2 == 0) v = -v;
        values[i] = std::ldexp(first ? largest : v, int(i) / int(size) % 5 - 2);
      }
      const Groups in = {values.data(), groups, size, size};
      const Quantized got = quantize_by(quantize_groups, choice, in, false);
      ASSERT_EQ(got.done, groups);
      ASSERT_TRUE(got == quantize_by(reference_quantize_groups, choice, in, false))
          << size << " packing " << int(choice.packing) << " coding "
          << int(choice.coding) << " rounding " << int(choice.rounding);
    }
  }
}

// Codes and sums of errors in one go, from values of each type, are those of one after
// the other; or nothing is done.
TEST_P(QuantizeInOne, SumsOfErrorsOnTheWay) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    int known = 0;
    for (std::int64_t size : {32, 64, 512}) {
      for (std::int64_t groups : {7, 8, 16, 24, 40, 64, 97, 120, 128, 136}) {
        std::vector<float> values = values_of(groups * size, 11);
        for (float& v : values) {
          v = std::clamp(v, -1000.0F, 1000.0F);
          if (groups == 24 && v == 0) v = 1;  // none is zero
        }
        if (groups == 40) std::fill_n(values.begin() + size, 3 * size, 0.0F);
        const std::vector<std::byte> stored = stored_as(type, values);
        for (const PlainChoice& choice : plain_choices()) {
          if (choice.packing == Packing::kInt4Halves && size != 32) continue;
          const Groups in = {values.data(), groups, size, size};
          ErrorSums sums;
          float scale = -1;
          const Quantized got = quantize_by(
              [&](const QuantizeGroups& args) {
                scale = quantize_measured(args, type, stored.data(), sums);
                return scale < 0 ? 0 : args.codes.in.groups;
              },
              choice, in, false);
          if (got.done == 0) continue;
          ++known;
          SCOPED_TRACE(std::to_string(groups) + " groups, type " +
                       std::to_string(int(type)));
          Quantized expected = quantize_by(reference_quantize_groups, choice, in, false);
          ASSERT_TRUE(got == expected);
          std::vector<float> decoded(values.size());
          reference_decode_groups({.codes = expected.codes.data(),
                                   .stride = size,
                                   .packing = choice.packing,
                                   .scales = expected.scales.data(),
                                   .zero_points = nullptr,
                                   .one_scale = false,
                                   .out = decoded.data(),
                                   .groups = groups,
                                   .size = size,
                                   .last = size});
          ErrorSums all =
              reference_error_sums(values.data(), decoded.data(), std::ssize(values));
          all.max_error = -1;
          expect_same_sums(sums, all);
          EXPECT_EQ(scale, *std::max_element(expected.scales.begin(),
                                             expected.scales.begin() + groups));
        }
      }
    }
    // 8, 16, 24, 40, 64, 120 and 128 groups of Q8_0 with scales of three types.
    EXPECT_EQ(known, type == DType::kF16 && GetParam() == "sse4" ? 0 : 3 * 7);
  }
}

TEST_P(QuantizeInOne, ValuesOfSixteenBitsThatAreNotOrdinary) {
  const PlainChoice q8_0 = {
      Packing::kInt8, DType::kF16, Coding::kInverse, Rounding::kHalfAway, 127, 0, false};
  const Groups in = {nullptr, 32, 32, 32};
  std::vector<std::uint16_t> bits(32 * 32, 0x3f80);
  ErrorSums sums;
  const auto quantize = [&](const QuantizeGroups& args) {
    const float scale = quantize_measured(args, DType::kBF16, bits.data(), sums);
    return std::int64_t{scale >= 0};
  };
  EXPECT_EQ(quantize_by(quantize, q8_0, in, false).done, 1);
  for (const int bad : {0x7f80, 0xff80, 0x7fc1, 0x7f00, 0x0080}) {
    std::fill(bits.begin() + 320, bits.begin() + 352, std::uint16_t{0});
    bits[333] =
        static_cast<std::uint16_t>(bad);  // infinity, NaN, a scale beyond f16, one below
    EXPECT_EQ(quantize_by(quantize, q8_0, in, false).done, 0) << bad;
  }
}

// What is known of a long group is not looked for.
TEST_P(QuantizeInOne, LargestOfALongGroupMayBeKnown) {
  std::vector<float> values = values_of(512, 4);
  for (float& v : values) v = std::clamp(v, -3.0F, 3.0F);
  std::vector<std::uint8_t> codes(512);
  float scale = 0;
  QuantizeGroups args = {};
  args.scales.denominator = 127;
  args.scales.reach = 127.5F;
  args.scales.type = DType::kF32;
  args.scales.coding = Coding::kExact;
  args.scales.stored = reinterpret_cast<std::uint8_t*>(&scale);
  args.scales.stored_stride = 4;
  args.codes.in = {values.data(), 1, 512, 512};
  args.codes.high = 127;
  args.codes.low = -127;
  args.codes.codes = codes.data();
  args.codes.stride = 512;
  args.largest = std::bit_cast<std::uint32_t>(254.0F);
  EXPECT_EQ(quantize_groups(args), 1);
  EXPECT_EQ(scale, 2);
  args.largest = std::bit_cast<std::uint32_t>(NAN);
  EXPECT_EQ(quantize_groups(args), 0);
}

// One group that is not ordinary leaves all to others, whatever makes it so.
TEST_P(QuantizeInOne, LeavesWhatIsNotOrdinary) {
  for (std::int64_t size : {32, 64, 128, 512}) {
    const std::int64_t batch = quantize_batch(size);
    const std::int64_t groups = 6 * batch;
    for (float bad : {NAN, -INFINITY, 3e38F, 1e-44F, 1e-7F, 9e6F}) {
      for (std::int64_t at :
           {std::int64_t{0}, batch, 3 * batch + batch / 2, groups - 1}) {
        std::vector<float> values = values_of(groups * size, 3);
        for (std::int64_t i = 0; i < size; ++i) {
          values[static_cast<std::size_t>(at * size + i)] = 0;
        }
        values[static_cast<std::size_t>(at * size + size / 2)] = bad;
        const Groups in = {values.data(), groups, size, size};
        for (const PlainChoice& choice : plain_choices()) {
          if (choice.packing == Packing::kInt4Halves && size != 32) continue;
          const Quantized got = quantize_by(quantize_groups, choice, in, false);
          const Quantized expected =
              quantize_by(reference_quantize_groups, choice, in, false);
          ASSERT_EQ(got.done, expected.done) << bad << " in group " << at;
          if (choice.type == DType::kF32 && !(std::fabs(bad) < 1e38F && bad > 1e-38F)) {
            ASSERT_EQ(got.done, 0) << bad << " in group " << at;
          }
          if (got.done != 0) {
            ASSERT_TRUE(got == expected);
          }
        }
      }
    }
  }
}

// Both signs reach the largest magnitude: the first of them decides.
TEST_P(QuantizeInOne, FirstOfLargestGivesTheSign) {
  std::vector<float> values = values_of(64 * 32, 9);
  for (float& v : values) v = std::clamp(v, -8.0F, 8.0F);
  for (std::size_t g = 0; g < 64; ++g) {
    values[g * 32 + g % 31] = g % 3 == 0 ? 9.0F : -9.0F;
    values[g * 32 + g % 31 + 1] = g % 3 == 0 ? -9.0F : 9.0F;
  }
  const Groups in = {values.data(), 64, 32, 32};
  const PlainChoice choice = plain_choices().back();
  const Quantized got = quantize_by(quantize_groups, choice, in, false);
  EXPECT_EQ(got.done, 64);
  EXPECT_TRUE(got == quantize_by(reference_quantize_groups, choice, in, false));
}

// Blocks of Q4_0 whose extreme is met by almost as much of the other sign, at the tie
// beyond which values are saturated and next to it.
TEST_P(QuantizeInOne, SaturatedValuesAreCounted) {
  std::vector<float> values;
  for (int g = 0; g < 64; ++g) {
    for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(i % 7) * 0.125F);
    float* block = values.data() + g * 32;
    block[g % 32] = g % 2 == 0 ? -8.0F : 8.0F;
    float tie = g % 2 == 0 ? 7.5F : -7.5F;
    for (int i = 0; i < g % 5; ++i) tie = std::nextafter(tie, g % 4 < 2 ? 0.0F : 2 * tie);
    block[(g + 5) % 32] = tie;
    block[(g + 9) % 32] = g % 3 == 0 ? tie * 1.05F : tie * 0.95F;
  }
  const PlainChoice choice = plain_choices().back();
  const Groups in = {values.data(), 64, 32, 32};
  const Quantized got = quantize_by(quantize_groups, choice, in, false);
  const Quantized expected = quantize_by(reference_quantize_groups, choice, in, false);
  EXPECT_EQ(got.done, 64);
  EXPECT_GT(got.saturated, 22);
  EXPECT_LT(got.saturated, 64);
  EXPECT_TRUE(got == expected) << got.saturated << " expected " << expected.saturated;
}

}  // namespace
}  // namespace pith::kernels
