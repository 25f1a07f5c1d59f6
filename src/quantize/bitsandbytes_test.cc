// Files of bitsandbytes made in code: what is read, and each check.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "pith/quantize/dense.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::has;

using testing::ByteBuilder;
using testing::SafetensorsBuilder;
using testing::TempFolder;

// Codes 0 ... 9 of three rows with three columns, in blocks of four, with the table 0 ...
// 15.
SafetensorsBuilder four_bits() {
  SafetensorsBuilder file;
  ByteBuilder map;
  for (int i = 0; i < 16; ++i) map.f32(static_cast<float>(i));
  file.add("w", "U8", {5, 1}, ByteBuilder().u8(0x01).u8(0x23).u8(0x45).u8(0x67).u8(0x80));
  file.add("w.absmax", "F32", {3}, ByteBuilder().f32(1).f32(10).f32(100));
  file.add("w.quant_map", "F32", {16}, map);
  const std::string state =
      R"({"quant_type":"fp4","blocksize":4,"dtype":"float32","shape":[3,3]})";
  file.add("w.quant_state.bitsandbytes__fp4", "U8",
           {static_cast<std::int64_t>(state.size())}, ByteBuilder().text(state));
  return file;
}

void set_state(SafetensorsBuilder& file, std::string_view state) {
  file.add("w.quant_state.bitsandbytes__fp4", "U8",
           {static_cast<std::int64_t>(state.size())}, ByteBuilder().text(state));
}

std::string refusal(const SafetensorsBuilder& file) {
  const TempFolder folder;
  const auto path = folder.write("m.safetensors", file.str());
  const Status status = testing::read_everything(path, open_dense);
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.code(), StatusCode::kCorrupt) << status.message();
  EXPECT_TRUE(status.message().starts_with(path.string())) << status.message();
  return status.message();
}

TEST(Bitsandbytes, FlatBlocksRunThroughRows) {
  const TempFolder folder;
  const auto model = open_dense(folder.write("m.safetensors", four_bits().str()));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->tensors().size(), 1u);
  EXPECT_EQ((*model)->tensors()[0].encoding.name, "fp4 flat_block(4)");
  const std::vector<float> expected = {0, 1, 2, 3, 40, 50, 60, 70, 800};
  EXPECT_EQ(testing::read_values(**model, 0), expected);
  std::vector<float> row(3);
  for (int r = 0; r < 3; ++r) {
    ASSERT_TRUE((*model)->read_rows(0, r, 1, row).ok());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin() + 3 * r)) << r;
  }
  // The table is not that of FP4.
  ASSERT_EQ((*model)->warnings().size(), 1u);
  EXPECT_TRUE(has((*model)->warnings()[0], "'w.quant_map': entry 1 is 1, but fp4 has"));
}

TEST(Bitsandbytes, NestedMaxima) {
  SafetensorsBuilder file = four_bits();
  ByteBuilder map;
  for (int i = 0; i < 256; ++i) map.f32(static_cast<float>(i) / 2);
  file.add("w.absmax", "U8", {3}, ByteBuilder().u8(2).u8(4).u8(255))
      .add("w.nested_absmax", "F32", {2}, ByteBuilder().f32(1).f32(2))
      .add("w.nested_quant_map", "F32", {256}, map);
  set_state(file,
            R"({"quant_type":"fp4","blocksize":4,"dtype":"bfloat16","shape":[3,3],)"
            R"("nested_blocksize":2,"nested_dtype":"float32","nested_offset":-0.5})");
  const TempFolder folder;
  const auto model = open_dense(folder.write("m.safetensors", file.str()));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(testing::read_values(**model, 0),
            (std::vector<float>{0, 0.5, 1, 1.5, 6, 7.5, 9, 10.5, 8 * 254.5}));
  file.add("w.nested_absmax", "F32", {1}, ByteBuilder().f32(1));
  EXPECT_TRUE(has(refusal(file), "expected 2 maxima of blocks"));
  file.remove("w.nested_absmax");
  EXPECT_TRUE(has(refusal(file), "'w.nested_absmax' is missing"));
}

TEST(Bitsandbytes, PartsMustFit) {
  const auto without = [](const char* name) { return refusal(four_bits().remove(name)); };
  EXPECT_EQ(without("none"), "accepted");
  EXPECT_TRUE(has(without("w"), "'w' is missing"));
  EXPECT_TRUE(has(without("w.absmax"), "'w.absmax' is missing"));
  EXPECT_TRUE(has(without("w.quant_map"), "'w.quant_map' is missing"));
  const auto with = [](const char* name, const char* dtype, std::int64_t count,
                       const ByteBuilder& data) {
    return refusal(four_bits().add(name, dtype, {count}, data));
  };
  EXPECT_TRUE(has(with("w", "U8", 4, ByteBuilder().zeros(4)), "4 bytes found"));
  EXPECT_TRUE(has(with("w.absmax", "F32", 2, ByteBuilder().zeros(8)),
                  "expected 3 maxima of blocks"));
  EXPECT_TRUE(has(with("w.absmax", "U8", 3, ByteBuilder().zeros(3)), "of type f32"));
  EXPECT_TRUE(
      has(with("w.quant_map", "F32", 15, ByteBuilder().zeros(60)), "expected 16 values"));
  EXPECT_TRUE(has(with("w.quant_map", "F32", 16, ByteBuilder().zeros(60).f32(NAN)),
                  "a value is not finite"));
  EXPECT_TRUE(has(with("w.absmax", "F32", 3, ByteBuilder().f32(1).f32(INFINITY).f32(1)),
                  "the maximum of block 1 is inf"));
  EXPECT_TRUE(has(with("w.nested_absmax", "F32", 1, ByteBuilder().f32(1)),
                  "does not tell that maxima are nested"));
  SafetensorsBuilder twice = four_bits();
  const std::string nf4 =
      R"({"quant_type":"nf4","blocksize":4,"dtype":"float32","shape":[3,3]})";
  twice.add("w.quant_state.bitsandbytes__nf4", "U8",
            {static_cast<std::int64_t>(nf4.size())}, ByteBuilder().text(nf4));
  EXPECT_TRUE(has(refusal(twice), "two quant_states"));
}

TEST(Bitsandbytes, StatesMustBeRight) {
  const auto state = [](std::string_view text) {
    SafetensorsBuilder file = four_bits();
    set_state(file, text);
    return refusal(file);
  };
  EXPECT_TRUE(has(state(""), "not JSON"));
  EXPECT_TRUE(has(state("[]"), "an object was expected"));
  EXPECT_TRUE(has(state("{}"), "'quant_type' must be"));
  EXPECT_TRUE(has(state(R"({"quant_type":"int8"})"), "'quant_type' must be"));
  EXPECT_TRUE(has(state(R"({"quant_type":"nf4","blocksize":4,"shape":[3,3]})"),
                  "unlike its name"));
  EXPECT_TRUE(has(state(R"({"quant_type":"fp4","blocksize":0,"shape":[3,3]})"),
                  "'blocksize' must be"));
  EXPECT_TRUE(has(state(R"({"quant_type":"fp4","blocksize":4})"), "'shape' must be"));
  EXPECT_TRUE(has(state(R"({"quant_type":"fp4","blocksize":4,"shape":[3,-3]})"),
                  "'shape' must be"));
  EXPECT_TRUE(
      has(state(R"({"quant_type":"fp4","blocksize":4,"shape":[4294967296,4294967296]})"),
          "exceeds 2^63-1"));
  EXPECT_TRUE(has(state(R"({"quant_type":"fp4","blocksize":4,"shape":[3,3],"x":1})"),
                  "unknown key 'x'"));
  EXPECT_TRUE(
      has(state(R"({"quant_type":"fp4","blocksize":4,"shape":[3,3],"shape":[3,3]})"),
          "given twice"));
  EXPECT_TRUE(
      has(state(R"({"quant_type":"fp4","blocksize":4,"shape":[3,3],"nested_dtype":"x"})"),
          "'nested_blocksize' must be"));
  EXPECT_TRUE(has(state(R"({"quant_type":"fp4","blocksize":4,"shape":[3,3],)"
                        R"("nested_blocksize":256})"),
                  "'nested_offset' must be"));
}

TEST(Bitsandbytes, EightBitRows) {
  SafetensorsBuilder file;
  file.add("m.weight", "I8", {2, 2}, ByteBuilder().u8(127).u8(0x81).u8(1).u8(0))
      .add("m.SCB", "F32", {2}, ByteBuilder().f32(2).f32(127))
      .add("m.weight_format", "U8", {}, ByteBuilder().u8(0));
  const TempFolder folder;
  const auto model = open_dense(folder.write("m.safetensors", file.str()));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->tensors().size(), 1u);
  const std::vector<float> values = testing::read_values(**model, 0);
  EXPECT_EQ(values[0], 127 * (2.0F / 127));
  EXPECT_EQ(values[1], -127 * (2.0F / 127));
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(values[3], 0);
  file.add("m.weight_format", "U8", {}, ByteBuilder().u8(2));
  EXPECT_TRUE(has(refusal(file), "layout 2 is one of old GPUs"));
  file.remove("m.weight_format").add("m.SCB", "F32", {1}, ByteBuilder().f32(1));
  EXPECT_TRUE(has(refusal(file), "expected 2 maxima of rows"));
  file.add("m.SCB", "F32", {2}, ByteBuilder().f32(1).f32(NAN));
  EXPECT_TRUE(has(refusal(file), "the maximum of row 1 is"));
}

}  // namespace
}  // namespace pith
