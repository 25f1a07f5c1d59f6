#include "tests/golden/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/golden/case.h"
#include "tests/golden/deviations.h"

namespace pith::golden {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

const Json kExact = Json::object();

TEST(GoldenEncoding, ReadsWhatItWrites) {
  const std::vector<float> values = {1.0F, -0.0F, 1e-45F, -kInf, 3.4028235e38F};
  EXPECT_EQ(f32s(values).dump(), R"({"hex":"3f8000008000000000000001ff8000007f7fffff"})");
  const std::vector<float> back = to_f32s(f32s(values));
  EXPECT_EQ(difference(f32s(values), f32s(back), kExact), "");
  EXPECT_EQ(to_f16s(Json{{"hex16", "3c00bc00"}}),
            (std::vector<std::uint16_t>{0x3c00, 0xbc00}));
  EXPECT_EQ(to_f16s(Json("3c00")), (std::vector<std::uint16_t>{0x3c00}));
  EXPECT_EQ(to_u64(Json("18446744073709551615")), 18446744073709551615U);
  EXPECT_EQ(to_codes(Json{-128, 127}), (std::vector<std::int8_t>{-128, 127}));
}

TEST(GoldenEncoding, RefusesWhatIsNoNumber) {
  EXPECT_THROW((void)to_f32s(Json{{"hex", "3f80000"}}), BadCase);
  EXPECT_THROW((void)to_f32s(Json{{"hex", "3f80000g"}}), BadCase);
  EXPECT_THROW((void)to_f32(Json{{"hex", ""}}), BadCase);
  EXPECT_THROW((void)to_codes(Json{128}), BadCase);
  EXPECT_THROW((void)to_u64(Json("12x")), BadCase);
}

TEST(GoldenCompare, EveryBitCountsButThoseOfNan) {
  EXPECT_EQ(difference(f32(1.0F), f32(1.0F), kExact), "");
  EXPECT_NE(difference(f32(1.0F), f32(std::nextafter(1.0F, 2.0F)), kExact), "");
  EXPECT_NE(difference(f32(0.0F), f32(-0.0F), kExact), "");
  EXPECT_EQ(difference(f32(kNan), f32(-kNan), kExact), "");
  EXPECT_NE(difference(f32(kNan), f32(1.0F), kExact), "");
  EXPECT_NE(difference(f32(1.0F), f32(kNan), kExact), "");
  EXPECT_EQ(difference(Json{{"hex16", "7e00"}}, Json{{"hex16", "ffff"}}, kExact), "");
  EXPECT_NE(difference(Json{{"hex16", "3c00"}}, Json{{"hex16", "3c01"}}, kExact), "");
}

TEST(GoldenCompare, TolerancesHoldForTheirFieldAlone) {
  const Json expected = {{"a", f32(1.0F)}, {"b", {{"c", f32(1.0F)}}}};
  const Json got = {{"a", f32(1.25F)}, {"b", {{"c", f32(1.0F)}}}};
  EXPECT_EQ(difference(expected, got, Json{{"a", {{"abs", 0.25}}}}), "");
  EXPECT_NE(difference(expected, got, Json{{"a", {{"abs", 0.2}}}}), "");
  EXPECT_EQ(difference(expected, got, Json{{"a", {{"rel", 0.25}}}}), "");
  EXPECT_NE(difference(expected, got, Json{{"b.c", {{"abs", 1}}}}), "");
  const Json inner = {{"a", f32(1.0F)}, {"b", {{"c", f32(std::nextafter(1.0F, 0.0F))}}}};
  EXPECT_EQ(difference(expected, inner, Json{{"b.c", {{"ulp", 1}}}}), "");
  EXPECT_NE(difference(expected, inner, Json{{"b.c", {{"ulp", 0}}}}), "");
  EXPECT_NE(difference(f32(kInf), f32(1.0F), Json{{"", {{"abs", 1e300}}}}), "");
}

TEST(GoldenCompare, TolerancesReachIntoLists) {
  const Json expected = {{"list", {{{"x", f32(1.0F)}}, {{"x", f32(2.0F)}}}}};
  const Json got = {{"list", {{{"x", f32(1.0F)}}, {{"x", f32(2.5F)}}}}};
  EXPECT_EQ(difference(expected, got, Json{{"list.x", {{"abs", 0.5}}}}), "");
  EXPECT_NE(difference(expected, got, kExact), "");
}

TEST(GoldenCompare, MissingAndSurplusAreDifferences) {
  EXPECT_NE(difference(Json{{"a", 1}, {"b", 2}}, Json{{"a", 1}}, kExact), "");
  EXPECT_NE(difference(Json{{"a", 1}}, Json{{"a", 1}, {"b", 2}}, kExact), "");
  EXPECT_NE(difference(Json{{"a", {1, 2}}}, Json{{"a", {1}}}, kExact), "");
  EXPECT_NE(difference(f32s(std::vector{1.0F, 2.0F}), f32(1.0F), kExact), "");
  EXPECT_NE(difference(Json{{"a", Json::object()}}, Json{{"a", 1}}, kExact), "");
  EXPECT_NE(difference(Json("0110"), Json("0111"), kExact), "");
}

TEST(GoldenCompare, NumbersInMessagesAreWords) {
  EXPECT_TRUE(mentions("sparsity is 1.1, expected less than 1", "1.1"));
  EXPECT_TRUE(mentions("expected 48 values.", "48"));
  EXPECT_FALSE(mentions("expected 48 values", "4"));
  EXPECT_FALSE(mentions("sparsity is 1.15", "1.1"));
  EXPECT_FALSE(mentions("sparsity is -1.5", "1.5"));
  EXPECT_TRUE(mentions("percentile is -0.5", "-0.5"));
  const Json info = {{"sparsity", f32(1.1F)}, {"shape", {3, 7}}, {"name", "w"}};
  EXPECT_EQ(missing_from("w [3, 7]: sparsity 1.1", info), "");
  EXPECT_EQ(missing_from("w [3, 8]: sparsity 1", info), "7, 1.1");
}

TEST(GoldenCase, ALineIsACaseOrAnError) {
  const Case item = parse_case(
      R"({"case":"f/g/n","function":"f","tags":["edge","defect:x"],"inputs":{},"output":{"y":1}})");
  EXPECT_EQ(item.name, "f/g/n");
  EXPECT_TRUE(item.has_defect("x"));
  EXPECT_FALSE(item.has_defect("y"));
  EXPECT_THROW((void)parse_case("{"), BadCase);
  EXPECT_THROW((void)parse_case("{}"), BadCase);
  EXPECT_THROW((void)parse_case(R"({"case":"c","function":"f","tags":[],"inputs":{}})"),
               BadCase);
}

TEST(GoldenCase, AFunctionThatNobodyKnowsFails) {
  Case item;
  item.name = "f/g/n";
  item.function = "no_such_function";
  EXPECT_EQ(run_case(item).verdict, Verdict::kFailed);
}

TEST(GoldenCase, AWrongAnswerFails) {
  const std::string start =
      R"({"case":"fp16/x","function":"fp16_bits_to_fp32","tags":[],"inputs":{"hex16":"3c00"},)";
  const auto verdict = [&start](const std::string& rest) {
    return run_case(parse_case(start + rest + "}")).verdict;
  };
  EXPECT_EQ(verdict(R"("output":{"values":{"hex":"3f800000"}})"), Verdict::kPassed);
  EXPECT_EQ(verdict(R"("output":{"values":{"hex":"3f800001"}})"), Verdict::kFailed);
  EXPECT_EQ(verdict(R"("output":{"values":{"hex":"3f80000"}})"), Verdict::kFailed);
  EXPECT_EQ(verdict(R"("error":"EmptyTensor")"), Verdict::kFailed);
}

TEST(GoldenDeviations, GlobsMatchWholeNames) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a/*/c", "a/b/x/c"));
  EXPECT_TRUE(glob_matches("a*b*c", "abbc"));
  EXPECT_FALSE(glob_matches("a*b", "abc"));
  EXPECT_FALSE(glob_matches("a", "ab"));
  EXPECT_FALSE(glob_matches("ab", "a"));
}

}  // namespace
}  // namespace pith::golden
