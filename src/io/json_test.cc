#include "src/io/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/byte_builder.h"

namespace pith {
namespace {

// Writes events down, one word each.
class Recorder : public JsonHandler {
 public:
  std::string events;

  Status begin_object() override { return add("{"); }
  Status end_object() override { return add("}"); }
  Status begin_array() override { return add("["); }
  Status end_array() override { return add("]"); }
  Status key(std::string& key) override { return add(key + ":"); }
  Status string(std::string& value) override { return add("'" + value + "'"); }
  Status number(std::uint64_t value) override { return add(std::to_string(value)); }
  Status other_number(double value) override { return add(fmt::format("~{}", value)); }
  Status boolean(bool value) override { return add(value ? "true" : "false"); }
  Status null() override { return add("null"); }

 private:
  Status add(std::string_view event) {
    if (!events.empty()) events += ' ';
    events += event;
    return {};
  }
};

std::string events_of(std::string_view text) {
  ByteReader in(testing::bytes_of(text));
  Recorder recorder;
  const Status status = parse_json(in, recorder);
  return status.ok() ? recorder.events : status.message();
}

TEST(Json, EventsInOrder) {
  EXPECT_EQ(
      events_of(R"( {"a": [1, 18446744073709551615, "x\u0041\n"], "b": {}, "c": null,
                      "d": true, "e": []} )"),
      "{ a: [ 1 18446744073709551615 'xA\n' ] b: { } c: null d: true e: [ ] }");
  EXPECT_EQ(events_of("7"), "7");
}

TEST(Json, NumbersOtherThanPlainCountsAreTold) {
  EXPECT_EQ(events_of("[-1, -0, 2.0, 2e0, 0.5, 18446744073709551616]"),
            "[ ~-1 ~0 ~2 ~2 ~0.5 ~1.8446744073709552e+19 ]");
}

TEST(Json, WhatIsNoJsonIsRefusedWithItsByte) {
  EXPECT_EQ(events_of(""),
            "byte 0: not JSON: unexpected end of input; expected '[', '{', or a "
            "literal");
  EXPECT_EQ(events_of("{\"a\":1"),
            "byte 6: not JSON: unexpected end of input; expected '}'");
  for (const std::string_view bad : {"{",
                                     "[1,]",
                                     "{\"a\":1,}",
                                     "{\"a\" 1}",
                                     "{a:1}",
                                     "[1 2]",
                                     "1 2",
                                     "{}x",
                                     "{} {}",
                                     "'a'",
                                     "// c\n1",
                                     "/* c */ 1",
                                     "nul",
                                     "+1",
                                     "01",
                                     "1.",
                                     ".5",
                                     "NaN",
                                     "Infinity",
                                     "0x10",
                                     "\"a",
                                     "\"\t\"",
                                     "\"\\x\"",
                                     "\"\\ud800\"",
                                     "\"\\udc00\"",
                                     "\"\\ud800\\u0041\"",
                                     "\"\xff\"",
                                     "\"\xc0\x80\"",
                                     "\"\xed\xa0\x80\"",
                                     "\xef\xbb\xbf{}",
                                     "1e999",
                                     "]"}) {
    const std::string message = events_of(bad);
    EXPECT_TRUE(message.starts_with("byte ")) << bad << " -> " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_LT(message.size(), 200u) << message;
  }
}

TEST(Json, NulIsRefusedAnywhere) {
  EXPECT_EQ(events_of(std::string_view("{}\0", 3)), "byte 2: not JSON: a NUL byte");
  EXPECT_EQ(events_of(std::string_view("\0{}", 3)), "byte 0: not JSON: a NUL byte");
  EXPECT_EQ(events_of(std::string_view("[\0]", 3)), "byte 1: not JSON: a NUL byte");
  // At the border of the pieces in which text is read.
  for (const std::size_t n : {16383u, 16384u, 16385u}) {
    std::string text = "{}" + std::string(n, ' ');
    EXPECT_EQ(events_of(text), "{ }");
    text += '\0';
    EXPECT_EQ(events_of(text), fmt::format("byte {}: not JSON: a NUL byte", n + 2));
  }
}

TEST(Json, NestingIsBounded) {
  const auto nested = [](std::size_t n) {
    return std::string(n, '[') + std::string(n, ']');
  };
  EXPECT_TRUE(events_of(nested(kMaxJsonDepth)).starts_with("[ ["));
  EXPECT_EQ(events_of(nested(kMaxJsonDepth + 1)),
            "byte 65: JSON nested more than 64 deep");
  EXPECT_EQ(events_of(std::string(20'000'000, '[')),
            "byte 65: JSON nested more than 64 deep");
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  EXPECT_NE(events_of(objects).find("nested more than 64 deep"), std::string::npos);
}

TEST(Json, TokensAreBoundedButNotTheTextOrItsPadding) {
  const std::string good = '"' + std::string(kMaxJsonToken / 2, 'x') + '"';
  EXPECT_EQ(events_of("[" + good + "," + good + "," + good + "]").size(),
            3 * good.size() + 6);
  const std::string bad = '"' + std::string(kMaxJsonToken + (1 << 20), 'x') + '"';
  EXPECT_EQ(events_of("[1," + bad + "]"),
            "byte 3: a string, number or gap is longer than the 16777216 bytes allowed");
  EXPECT_EQ(events_of("{}" + std::string(kMaxJsonToken + (1 << 20), ' ')), "{ }");
}

TEST(Json, AnErrorOfTheHandlerEndsTheParse) {
  class Refuse : public Recorder {
    Status key(std::string& key) override { return Status::corrupt("no " + key); }
  } refuse;
  const std::string text = "{\"a\":1}";
  ByteReader in(testing::bytes_of(text));
  EXPECT_EQ(parse_json(in, refuse).message(), "no a");
}

TEST(JsonTree, HoldsValuesAndRefusesDuplicates) {
  const auto tree = [](std::string_view text, std::size_t values) {
    ByteReader in(testing::bytes_of(text));
    return parse_json_tree(in, values);
  };
  const auto good = tree(R"({"a":[1,-2,0.5,{"b":null}],"c":"d","e":{"a":true}})", 100);
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ(*good, nlohmann::json::parse(
                       R"({"a":[1,-2.0,0.5,{"b":null}],"c":"d","e":{"a":true}})"));
  EXPECT_EQ(tree(R"({"a":1,"a":2})", 100).error().message(), "key 'a' is given twice");
  EXPECT_EQ(tree(R"({"x":[{"a":1,"\u0061":2}]})", 100).error().message(),
            "key 'a' is given twice");
  EXPECT_TRUE(tree("[1,2,3]", 4));
  EXPECT_EQ(tree("[1,2,3]", 3).error().message(), "more than 3 JSON values");
}

}  // namespace
}  // namespace pith
