// Each check of the header has a file here that fails it and nothing else.
#include "src/io/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/byte_builder.h"

namespace pith {
namespace {

using testing::ByteBuilder;

Result<SafetensorsHeader> parse(const std::string& bytes) {
  ByteReader in(testing::bytes_of(bytes));
  return read_safetensors_header(in, bytes.size());
}

// A file with that header and so many bytes of data.
Result<SafetensorsHeader> parse(std::string_view json, std::size_t data) {
  return parse(ByteBuilder().counted(json).zeros(data).str());
}

std::string refusal(std::string_view json, std::size_t data) {
  const auto header = parse(json, data);
  if (header) return "accepted";
  EXPECT_EQ(header.error().code(), StatusCode::kCorrupt);
  return header.error().message();
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name,
                     dtype, shape, offsets);
}

std::string object(std::initializer_list<std::string> entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

std::string one(std::string_view dtype, std::string_view shape,
                std::string_view offsets) {
  return object({entry("w", dtype, shape, offsets)});
}

TEST(SafetensorsHeader, TensorsInTheOrderOfTheirData) {
  const auto header = parse(
      object({entry("b", "F16", "2,1", "16,20"), entry("a", "F32", "2, 2", "0,16")}), 20);
  ASSERT_TRUE(header) << header.error().message();
  ASSERT_EQ(header->tensors.size(), 2u);
  const TensorInfo& a = header->tensors[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.encoding.name, "F32");
  EXPECT_EQ(a.encoding.dtype, DType::kF32);
  EXPECT_EQ(a.shape, Shape::make({2, 2}).value());
  EXPECT_EQ(a.bytes, 16);
  EXPECT_EQ(a.offset, header->data_begin);
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[1].offset, header->data_begin + 16);
  EXPECT_TRUE(header->warnings.empty());
}

TEST(SafetensorsHeader, EmptyScalarAndZeroSize) {
  EXPECT_TRUE(parse("{}", 0));
  EXPECT_TRUE(parse("  {}\n", 0));
  EXPECT_TRUE(parse(one("F32", "", "0,4"), 4));
  EXPECT_TRUE(parse(one("F32", "0,5", "0,0"), 0));
  EXPECT_TRUE(parse(object({entry("a", "U8", "4", "0,4"), entry("z", "F32", "0", "4,4"),
                            entry("b", "U8", "1", "4,5")}),
                    5));
}

TEST(SafetensorsHeader, Metadata) {
  const auto header = parse(R"({"__metadata__":{"format":"pt","":"\u00e4"}})", 0);
  ASSERT_TRUE(header);
  ASSERT_EQ(header->metadata.size(), 2u);
  EXPECT_EQ(header->metadata[0], std::pair(std::string("format"), std::string("pt")));
  EXPECT_EQ(header->metadata[1], std::pair(std::string(), std::string("\u00e4")));
  EXPECT_TRUE(parse(R"({"__metadata__":null})", 0));
  EXPECT_TRUE(parse(R"({"__metadata__":{}})", 0));
}

TEST(SafetensorsHeader, OddNamesAreAccepted) {
  const auto header = parse(
      object({entry("\\u0000\\n", "U8", "", "0,1"), entry("", "U8", "", "1,2")}), 2);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors[0].name, std::string("\0\n", 2));
  EXPECT_EQ(header->tensors[1].name, "");
}

TEST(SafetensorsHeader, UnknownFieldsAreIgnoredWithAWarning) {
  const auto header =
      parse(R"({"w":{"x":{"y":[1,-2.5,{"z":null}]},"dtype":"U8","q":true,"shape":[1],)"
            R"("data_offsets":[0,1],"n":null}})",
            1);
  ASSERT_TRUE(header) << header.error().message();
  ASSERT_EQ(header->warnings.size(), 1u);
  EXPECT_EQ(header->warnings[0], "tensor 'w': unknown field 'x' is ignored");
}

// Checks 1 to 3: the length.
TEST(SafetensorsHeader, LengthThatDoesNotFitIsCorrupt) {
  EXPECT_EQ(parse("").error().message(),
            "the file has 0 bytes, too few for the length of a header (8)");
  EXPECT_FALSE(parse("1234567"));
  EXPECT_EQ(parse(ByteBuilder().u64(100'000'001).str()).error().message(),
            "the header has 100000001 bytes, at most 100000000 are allowed");
  EXPECT_FALSE(parse(ByteBuilder().u64(UINT64_MAX).text("{}").str()));
  EXPECT_FALSE(parse(ByteBuilder().u64(UINT64_MAX - 7).text("{}").str()));
  EXPECT_EQ(parse(ByteBuilder().u64(3).text("{}").str()).error().message(),
            "the header ends at byte 11, but the file has 10: it is truncated");
}

// Checks 4 and 5: the text.
TEST(SafetensorsHeader, TextThatIsNoObjectIsCorrupt) {
  EXPECT_EQ(refusal("", 0),
            "header: byte 8: not JSON: unexpected end of input; expected '[', '{', or a "
            "literal");
  EXPECT_EQ(refusal("[]", 0), "header: the header is an array, expected an object");
  EXPECT_EQ(refusal("\"a\"", 0), "header: the header is a string, expected an object");
  EXPECT_EQ(refusal("1", 0), "header: the header is a number, expected an object");
  EXPECT_NE(refusal("\xef\xbb\xbf{}", 0).find("byte-order mark"), std::string::npos);
  EXPECT_NE(refusal("{\"\xff\":1}", 0).find("UTF-8"), std::string::npos);
  EXPECT_NE(refusal(std::string_view("{}\0\0", 4), 0).find("NUL"), std::string::npos);
  for (const char* bad : {"{", "{}x", "{}{}", "{},", "{\"a\":}", "{/**/}"}) {
    EXPECT_NE(refusal(bad, 0).find("not JSON"), std::string::npos) << bad;
  }
  const std::string deep =
      "{\"w\":" + std::string(3000, '[') + std::string(3000, ']') + "}";
  EXPECT_NE(refusal(deep, 0).find("an array found, expected an object"),
            std::string::npos);
  EXPECT_NE(
      refusal("{\"w\":{\"x\":" + std::string(3000, '['), 0).find("nested more than"),
      std::string::npos);
}

// Check 6: numbers.
TEST(SafetensorsHeader, NumbersMustBePlain) {
  for (const char* number : {"-1", "-0", "1.0", "1e0", "18446744073709551616", "0.5"}) {
    EXPECT_NE(refusal(one("U8", number, "0,1"), 1).find("tensor 'w': shape holds"),
              std::string::npos)
        << number;
    EXPECT_NE(refusal(one("U8", "1", std::string("0,") + number), 1)
                  .find("tensor 'w': data_offsets holds"),
              std::string::npos)
        << number;
  }
  EXPECT_EQ(
      refusal(one("U8", "\"1\"", "0,1"), 1),
      "header: tensor 'w': a string found in 'shape', expected an array of numbers");
  EXPECT_NE(refusal(one("U8", "true", "0,1"), 1), "accepted");
  EXPECT_NE(refusal(one("U8", "[1]", "0,1"), 1), "accepted");
}

// Check 7: entries.
TEST(SafetensorsHeader, EntriesMustBeCompleteAndOfKnownType) {
  const auto fields = [](std::string_view text) {
    return refusal(fmt::format("{{\"w\":{{{}}}}}", text), 1);
  };
  EXPECT_EQ(fields(R"("shape":[1],"data_offsets":[0,1])"),
            "header: tensor 'w': 'dtype' is missing");
  EXPECT_EQ(fields(R"("dtype":"U8","data_offsets":[0,1])"),
            "header: tensor 'w': 'shape' is missing");
  EXPECT_EQ(fields(R"("dtype":"U8","shape":[1])"),
            "header: tensor 'w': 'data_offsets' is missing");
  for (const char* twice : {R"("dtype":"U8",)", R"("shape":[1],)",
                            R"("data_offsets":[0,1],)", R"("dtyp\u0065":"U8",)"}) {
    EXPECT_NE(
        fields(twice + std::string(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"))
            .find("is given twice"),
        std::string::npos)
        << twice;
  }
  EXPECT_EQ(refusal(one("F128", "1", "0,16"), 16),
            "header: tensor 'w': unknown dtype 'F128'");
  EXPECT_NE(refusal(one("f32", "1", "0,4"), 4), "accepted");
  EXPECT_NE(refusal(one("I4", "2", "0,1"), 1), "accepted");
  for (const char* offsets : {"", "0", "0,1,1"}) {
    EXPECT_EQ(refusal(one("U8", "1", offsets), 1),
              "header: tensor 'w': 'data_offsets' must be two numbers");
  }
  EXPECT_NE(fields(R"("dtype":"U8","shape":[1],"data_offsets":"0,1")"), "accepted");
  EXPECT_NE(fields(R"("dtype":{"U8":null},"shape":[1],"data_offsets":[0,1])"),
            "accepted");
  EXPECT_NE(fields(R"("dtype":null,"shape":[1],"data_offsets":[0,1])"), "accepted");
  EXPECT_NE(fields(R"("dtype":"U8","shape":null,"data_offsets":[0,1])"), "accepted");
  EXPECT_NE(fields(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), "accepted");
  EXPECT_EQ(refusal(R"({"w":["U8",[1],[0,1]]})", 1),
            "header: tensor 'w': an array found, expected an object");
  EXPECT_NE(refusal(R"({"w":null})", 0), "accepted");
  EXPECT_NE(refusal(R"({"w":1})", 0), "accepted");
}

// Checks 8 and 9: metadata and names.
TEST(SafetensorsHeader, MetadataMustBeStringsAndNamesUnique) {
  for (const char* value : {"3", "null", "true", "[]", "{}", "-1"}) {
    EXPECT_NE(refusal(fmt::format(R"({{"__metadata__":{{"a":{}}}}})", value), 0)
                  .find("'__metadata__': the value of 'a' is"),
              std::string::npos)
        << value;
  }
  for (const char* value : {"3", "\"a\"", "true", "[]"}) {
    EXPECT_NE(refusal(fmt::format(R"({{"__metadata__":{}}})", value), 0)
                  .find("'__metadata__' is"),
              std::string::npos)
        << value;
  }
  EXPECT_EQ(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0),
            "header: '__metadata__' is given twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":"1","\u0061":"2"}})", 0),
            "header: '__metadata__': key 'a' is given twice");
  EXPECT_EQ(refusal(object({entry("w", "U8", "1", "0,1"), entry("x", "U8", "1", "1,2"),
                            entry("\\u0077", "U8", "0", "2,2")}),
                    2),
            "tensor 'w' is given twice");
}

// Check 10: the data is covered without gap and overlap.
TEST(SafetensorsHeader, OffsetsMustFollowEachOther) {
  const auto two = [](std::string_view a, std::string_view b, std::size_t data) {
    return refusal(object({entry("a", "U8", "4", a), entry("b", "U8", "4", b)}), data);
  };
  EXPECT_EQ(two("0,4", "4,8", 8), "accepted");
  EXPECT_EQ(two("0,4", "5,9", 9),
            "tensor 'b' begins at byte 5 of the data, expected 4: bytes "
            "before it belong to no tensor");
  EXPECT_EQ(two("0,4", "3,7", 7),
            "tensor 'b' begins at byte 3 of the data, expected 4: tensors overlap");
  EXPECT_NE(two("0,4", "0,4", 4), "accepted");
  EXPECT_NE(two("1,5", "5,9", 9), "accepted");
  EXPECT_EQ(refusal(one("U8", "4", "4,0"), 4),
            "tensor 'w': data_offsets [4, 0] end before they begin");
  EXPECT_EQ(
      refusal(object({entry("a", "U8", "4", "0,4"), entry("b", "U8", "4", "4,2")}), 4),
      "tensor 'b': data_offsets [4, 2] end before they begin");
  // A tensor of no size is legal at a border only.
  EXPECT_NE(
      refusal(object({entry("a", "U8", "16", "0,16"), entry("z", "U8", "0", "8,8")}), 16),
      "accepted");
}

// Checks 11 to 13: the size by shape and type.
TEST(SafetensorsHeader, SizesMustAgreeAndNeverWrap) {
  EXPECT_NE(refusal(one("F32", "4294967296,4294967296", "0,0"), 0)
                .find("the number of elements exceeds 2^63-1"),
            std::string::npos);
  EXPECT_NE(refusal(one("F32", "4611686018427387904", "0,0"), 0)
                .find("the size in bits exceeds 2^64-1"),
            std::string::npos);
  EXPECT_NE(refusal(one("U8", "18446744073709551615", "0,18446744073709551615"), 0)
                .find("exceeds 2^63-1"),
            std::string::npos);
  EXPECT_NE(refusal(one("U8", "18446744073709551615,2,0", "0,0"), 0), "accepted");
  EXPECT_NE(refusal(one("U8", "0,18446744073709551615,2", "0,0"), 0), "accepted");
  EXPECT_NE(refusal(one("U8", "9223372036854775807,2,0", "0,0"), 0), "accepted");
  EXPECT_NE(refusal(one("F4", "3", "0,2"), 2).find("no whole number of bytes"),
            std::string::npos);
  EXPECT_NE(refusal(one("F6_E2M3", "3", "0,3"), 3).find("no whole number of bytes"),
            std::string::npos);
  EXPECT_EQ(refusal(one("F4", "4", "0,2"), 2), "accepted");
  EXPECT_EQ(refusal(one("F6_E3M2", "4", "0,3"), 3), "accepted");
  EXPECT_EQ(refusal(one("F32", "4", "0,12"), 12),
            "tensor 'w': data_offsets [0, 12] are 12 bytes, but shape [4] of F32 has 16");
}

// Check 14: the end.
TEST(SafetensorsHeader, TheFileEndsWithTheLastTensor) {
  EXPECT_EQ(
      refusal(one("U8", "4", "0,4"), 5),
      "the data ends at byte 65, but the file has 66: bytes at the end belong to no "
      "tensor");
  EXPECT_EQ(refusal(one("U8", "4", "0,4"), 3),
            "the data ends at byte 65, but the file has 64: it is truncated");
  EXPECT_NE(refusal("{}", 1), "accepted");
  // 2^61 - 1 bytes of data in a file of 64: the sum of all must not wrap to it.
  EXPECT_NE(refusal(one("U8", "2305843009213693951", "0,2305843009213693951"), 0)
                .find("it is truncated"),
            std::string::npos);
}

TEST(SafetensorsHeader, HostileListsAreBounded) {
  std::string dims = "1";
  for (int i = 1; i < 64; ++i) dims += ",1";
  EXPECT_EQ(refusal(one("U8", dims, "0,1"), 1), "accepted");
  EXPECT_EQ(refusal(one("U8", dims + ",1", "0,1"), 1),
            "header: tensor 'w': 'shape' has more than 64 extents");
  std::string metadata = "{\"__metadata__\":{\"0\":\"\"";
  for (int i = 1; i <= 100'000; ++i) metadata += fmt::format(",\"{}\":\"\"", i);
  EXPECT_EQ(refusal(metadata + "}}", 0),
            "header: '__metadata__' has more than 100000 keys");
}

TEST(SafetensorsHeader, MessagesEscapeAndShortenNames) {
  const std::string message = refusal(
      object({entry("\\u001b[2J" + std::string(5000, 'x'), "F128", "1", "0,1")}), 1);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_NE(message.find("\\x1b[2J"), std::string::npos);
  EXPECT_LT(message.size(), 250u);
}

TEST(SafetensorsHeader, ManyTensorsTakeLinearTime) {
  constexpr int kMany = 60000;
  std::string json = "{";
  for (int i = 0; i < kMany; ++i) {
    if (i > 0) json += ',';
    json += entry(fmt::format("model.layers.{}.weight", i), "F32", "1",
                  fmt::format("{},{}", 4 * i, 4 * i + 4));
  }
  json += "}";
  const std::string file = ByteBuilder().counted(json).zeros(4 * kMany).str();
  const auto start = std::chrono::steady_clock::now();
  const auto header = parse(file);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors.size(), static_cast<std::size_t>(kMany));
  EXPECT_LT(seconds.count(), 5.0) << "much less in an optimized build";
  RecordProperty("milliseconds", static_cast<int>(1000 * seconds.count()));
}

TEST(SafetensorsNames, AllTypesBothWays) {
  for (int i = 0; i < 22; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(dtype)), dtype);
  }
  EXPECT_EQ(safetensors_name(DType::kF8E4M3), "F8_E4M3");
  EXPECT_EQ(safetensors_name(DType::kU64), "U64");
  EXPECT_EQ(safetensors_name(DType::kI4), "");
  EXPECT_FALSE(dtype_from_safetensors(""));
}

}  // namespace
}  // namespace pith
