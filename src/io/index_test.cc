#include "src/io/index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/byte_builder.h"

namespace pith {
namespace {

Result<ShardIndex> parse_index_text(std::string_view text) {
  ByteReader in(testing::bytes_of(text));
  return ShardIndex::parse(in);
}

std::string refusal(std::string_view text) {
  const auto index = parse_index_text(text);
  if (index) return "accepted";
  EXPECT_EQ(index.error().code(), StatusCode::kCorrupt);
  return index.error().message();
}

std::string map(std::string_view entries) {
  return fmt::format(R"({{"metadata":{{"total_size":20}},"weight_map":{{{}}}}})",
                     entries);
}

TEST(ShardIndex, NamesAndShards) {
  const auto index = parse_index_text(map(R"("b":"s2","a":"s1","c":"s2")"));
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_EQ(index->shards(), (std::vector<std::string>{"s1", "s2"}));
  EXPECT_EQ(index->tensors(), 3u);
  EXPECT_EQ(index->shard_of("a"), 0u);
  EXPECT_EQ(index->shard_of("b"), 1u);
  EXPECT_EQ(index->shard_of("c"), 1u);
  EXPECT_FALSE(index->shard_of("d"));
  EXPECT_EQ(index->total_size(), 20u);
  std::string all;
  index->each([&](std::string_view name, std::size_t shard) {
    all += fmt::format("{}{} ", name, shard);
  });
  EXPECT_EQ(all, "a0 b1 c1 ");
}

TEST(ShardIndex, UnknownKeysAndOddSizesAreIgnored) {
  const auto index = parse_index_text(
      R"({"x":[{"y":1}],"metadata":{"total_size":-2.5,"format":"pt","z":{"a":[]}},)"
      R"("weight_map":{},"w":null})");
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_FALSE(index->total_size());
  for (const char* size : {"[1,{\"a\":2}]", "{\"a\":[]}", "null", "\"20\"", "true"}) {
    EXPECT_TRUE(parse_index_text(fmt::format(
        R"({{"metadata":{{"total_size":{},"b":1}},"weight_map":{{}}}})", size)))
        << size;
  }
}

TEST(ShardIndex, WhatIsMissingOrTwiceIsCorrupt) {
  EXPECT_EQ(refusal("{}"), "'weight_map' is missing");
  EXPECT_EQ(refusal(R"({"weight_map":{}})"), "'metadata' is missing");
  EXPECT_EQ(refusal(R"({"metadata":{},"weight_map":{},"weight_map":{}})"),
            "'weight_map' is given twice");
  EXPECT_EQ(refusal(R"({"metadata":{},"metadata":{},"weight_map":{}})"),
            "'metadata' is given twice");
  EXPECT_EQ(refusal(R"({"metadata":{"total_size":1,"total_size":2},"weight_map":{}})"),
            "'total_size' is given twice");
  EXPECT_EQ(refusal(map(R"("a":"s1","\u0061":"s2")")),
            "weight_map: tensor 'a' is given twice");
}

TEST(ShardIndex, WrongTypesAreCorrupt) {
  EXPECT_EQ(refusal("[]"), "the index is an array, expected an object");
  EXPECT_EQ(refusal("1"), "the index is a number, expected an object");
  EXPECT_EQ(refusal(R"({"weight_map":[]})"),
            "'weight_map' is an array, expected an object of file names");
  EXPECT_EQ(refusal(R"({"metadata":"x"})"), "'metadata' is a string, expected an object");
  EXPECT_EQ(refusal(map(R"("a":1)")),
            "weight_map: the shard of tensor 'a' is a number, expected a file name");
  EXPECT_EQ(refusal(map(R"("a":{})")),
            "weight_map: the shard of tensor 'a' is an object, expected a file name");
  EXPECT_NE(refusal("{").find("not JSON"), std::string::npos);
}

TEST(ShardIndex, ShardsMustBePlainFileNames) {
  for (const char* name : {"../x", "/etc/passwd", "a/b", "a\\\\b", "..", ".", ".x", "",
                           "a\\u0000b", "./x", "x/../y"}) {
    EXPECT_NE(
        refusal(map(fmt::format(R"("a":"{}")", name))).find("not a plain file name"),
        std::string::npos)
        << name;
  }
}

TEST(ChooseSafetensors, PrefersTheUsualNames) {
  const auto choose = [](const std::vector<std::string>& entries) {
    const auto choice = choose_safetensors(entries);
    return choice ? choice->name + (choice->is_index ? " index" : "") +
                        std::string(choice->ignored.size(), '!')
                  : std::string(to_string(choice.error().code()));
  };
  EXPECT_EQ(choose({"config.json", "x.safetensors"}), "x.safetensors");
  EXPECT_EQ(choose({"a.safetensors", "model.safetensors"}), "model.safetensors!");
  EXPECT_EQ(choose({"a.safetensors", "b.safetensors"}), "unsupported");
  EXPECT_EQ(choose({"config.json"}), "not found");
  EXPECT_EQ(choose({}), "not found");
  EXPECT_EQ(choose({".hidden.safetensors"}), "not found");
  EXPECT_EQ(choose({"a-1.safetensors", "a.safetensors.index.json", "c.safetensors"}),
            "a.safetensors.index.json index");
  EXPECT_EQ(choose({"model.safetensors.index.fp16.json"}),
            "model.safetensors.index.fp16.json index");
  EXPECT_EQ(choose({"a.safetensors.index.json", "model.safetensors.index.json"}),
            "model.safetensors.index.json index");
  EXPECT_EQ(choose({"a.safetensors.index.json", "b.safetensors.index.json"}),
            "unsupported");
}

}  // namespace
}  // namespace pith
