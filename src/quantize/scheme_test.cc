#include "pith/quantize/scheme.h"
#include "tests/support/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pith {
namespace {

using testing::shape_of;

// The scheme is refused, with the code of a caller's mistake and all of `words`.
void expect_refused(const Status& status, std::initializer_list<const char*> words) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

TEST(Scheme, EveryNamedSchemeIsValid) {
  for (const Scheme& scheme :
       {Scheme::int8_tensor(), Scheme::int8_rows(), Scheme::int8_blocks(32),
        Scheme::int8_flat_blocks(64), Scheme::int4_tensor(), Scheme::int4_rows(),
        Scheme::int4_blocks(32), Scheme::q8_0(), Scheme::q4_0(), Scheme::w8a8(),
        Scheme::w4a16(), Scheme::w4a16_asymmetric()}) {
    EXPECT_TRUE(scheme.validate(shape_of({2, 128})).ok()) << scheme.to_string();
  }
}

TEST(Scheme, FieldOutOfRangeIsNamedWithItsValueAndRange) {
  Scheme scheme;
  scheme.bits = 5;
  expect_refused(scheme.validate(), {"bits", "5", "8 or 4"});
  scheme = Scheme::int8_blocks(0);
  expect_refused(scheme.validate(), {"block_size", " 0,", "[1, 2147483647]"});
  scheme = Scheme::int8_flat_blocks(std::int64_t{1} << 31);
  expect_refused(scheme.validate(), {"block_size", "2147483648"});
  scheme = Scheme::int4_blocks(33);
  expect_refused(scheme.validate(), {"block_size", "33", "even"});
  scheme = {};
  scheme.scale_type = DType::kI8;
  expect_refused(scheme.validate(), {"scale_type", "i8", "bf16"});
}

TEST(Scheme, PercentileAndGivenScaleAreCheckedOnlyWhenUsed) {
  Scheme scheme;
  scheme.percentile = 7;
  scheme.given_scale = -1;
  EXPECT_TRUE(scheme.validate().ok());
  scheme.rule = ScaleRule::kPercentile;
  for (double p : {-0.001, 1.001, std::nan(""), HUGE_VAL}) {
    scheme.percentile = p;
    expect_refused(scheme.validate(), {"percentile", "[0, 1]"});
  }
  scheme.percentile = 0;
  EXPECT_TRUE(scheme.validate().ok());
  scheme.rule = ScaleRule::kGiven;
  for (float s : {0.0F, -0.1F, std::nanf(""), HUGE_VALF}) {
    scheme.given_scale = s;
    expect_refused(scheme.validate(), {"given_scale", "above 0"});
  }
  scheme.given_scale = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(scheme.validate().ok());
}

TEST(Scheme, ChoicesThatContradictEachOtherAreRefused) {
  Scheme scheme = Scheme::w4a16_asymmetric();
  scheme.rule = ScaleRule::kPercentile;
  expect_refused(scheme.validate(), {"rule", "asymmetric"});
  scheme = Scheme::w4a16_asymmetric();
  scheme.coding = Coding::kExact;
  expect_refused(scheme.validate(), {"coding"});
  scheme = Scheme::q4_0();
  scheme.range = Range::kSymmetric;
  expect_refused(scheme.validate(), {"kSignedMax"});
  scheme = Scheme::q8_0();
  scheme.scale_type = DType::kBF16;
  expect_refused(scheme.validate(), {"kBlocks"});
  scheme = {};
  scheme.rounding = Rounding::kHalfUp;
  expect_refused(scheme.validate(), {"kHalfUp"});
}

TEST(Scheme, ShapeMustFit) {
  expect_refused(Scheme::int8_blocks(32).validate(shape_of({4, 48})),
                 {"block_size", "32", "48", "[4, 48]"});
  expect_refused(Scheme::int8_rows().validate(shape_of({})), {"row", "[]"});
  expect_refused(Scheme::int8_flat_blocks(1).validate(
                     shape_of({std::int64_t{1} << 31, std::int64_t{1} << 30})),
                 {"elements"});
  EXPECT_TRUE(Scheme::int8_flat_blocks(32).validate(shape_of({4, 48})).ok());
  EXPECT_TRUE(Scheme::int8_tensor().validate(shape_of({})).ok());
}

TEST(Scheme, SizesAreThoseOnDisk) {
  EXPECT_EQ(Scheme::int8_rows().scale_bytes(shape_of({3, 5, 7})), 15 * 4);
  EXPECT_EQ(Scheme::int8_rows().code_bytes(shape_of({3, 5, 7})), 105);
  EXPECT_EQ(Scheme::int8_flat_blocks(64).scale_bytes(shape_of({100})), 2 * 2);
  EXPECT_EQ(Scheme::q8_0().code_bytes(shape_of({2, 64})), 4 * 34);
  EXPECT_EQ(Scheme::q8_0().scale_bytes(shape_of({2, 64})), 0);
  EXPECT_EQ(Scheme::q4_0().code_bytes(shape_of({2, 64})), 4 * 18);
  EXPECT_EQ(Scheme::w4a16_asymmetric().zero_point_bytes(shape_of({2, 256})), 4);
  EXPECT_EQ(Scheme::int8_tensor().scale_bytes(shape_of({0})), 4);
  EXPECT_EQ(Scheme::int8_rows().scale_bytes(shape_of({3, 0})), 0);
}

TEST(Scheme, FourBitRowsBeginAByte) {
  EXPECT_EQ(Scheme::int4_rows().code_bytes(shape_of({3, 5})), 3 * 3);
  EXPECT_EQ(Scheme::int4_tensor().code_bytes(shape_of({3, 5})), 3 * 3);
  EXPECT_EQ(Scheme::int4_tensor().code_offset(shape_of({3, 5}), 10), 6);
  Scheme flat = Scheme::int4_blocks(4);
  flat.group = Group::kFlatBlock;
  EXPECT_EQ(flat.code_bytes(shape_of({3, 5})), 8);
  EXPECT_EQ(flat.code_offset(shape_of({3, 5}), 8), 4);
  EXPECT_EQ(flat.part_alignment(shape_of({3, 5})), 4);
  EXPECT_EQ(flat.group_offset(shape_of({3, 5}), 15), 4);
}

TEST(Scheme, TextSaysWhatDiffersFromThePlainScheme) {
  EXPECT_EQ(Scheme::int8_rows().to_string(), "int8 row f32");
  EXPECT_EQ(Scheme::int4_blocks(32).to_string(), "int4 block(32) f16");
  EXPECT_EQ(Scheme::q4_0().to_string(), "q4_0");
  EXPECT_EQ(Scheme::w4a16_asymmetric().to_string(),
            "asymmetric int4 block(128) bf16 half_range half_even");
}

}  // namespace
}  // namespace pith
