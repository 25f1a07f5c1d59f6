// Folders of compressed-tensors made in code: what is read, and each check.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pith/quantize/dense.h"
#include "pith/tensor/half.h"
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

struct Config {
  std::string method = "compressed-tensors";
  std::string format = "pack-quantized";
  std::string weights =
      R"("num_bits":4,"type":"int","symmetric":true,"strategy":"channel")";
  std::string targets = R"("Linear")";
  std::string ignore = R"("lm_head")";

  [[nodiscard]] std::string str() const {
    return fmt::format(
        R"({{"quantization_config":{{"quant_method":"{}","format":"{}","config_groups":)"
        R"({{"group_0":{{"targets":[{}],"weights":{{{}}},"input_activations":null}}}},)"
        R"("ignore":[{}]}}}})",
        method, format, targets, weights, ignore);
  }
};

class Folder {
 public:
  Config config;
  SafetensorsBuilder file;

  Result<std::unique_ptr<Checkpoint>> open() {
    folder_.write("config.json", config.str());
    folder_.write("model.safetensors", file.str());
    return open_dense(folder_.path());
  }
  // Values of `name`, or a failure.
  std::vector<float> values(std::string_view name) {
    const auto model = open();
    EXPECT_TRUE(model) << model.error().message();
    if (!model) return {};
    const auto index = (*model)->find(name);
    EXPECT_TRUE(index.has_value());
    if (!index) return {};
    const std::vector<float> values = testing::read_values(**model, *index);
    const auto stored = read_codes(**model, *index);
    EXPECT_TRUE(stored) << stored.error().message();
    has_codes = stored && stored->has_value();
    if (has_codes) {  // they mean the same
      std::vector<float> decoded(values.size());
      EXPECT_TRUE(dequantize((*stored)->tensor, decoded).ok());
      EXPECT_EQ(decoded, values);
    }
    return values;
  }
  // The refusal on opening or reading.
  std::string refusal() {
    folder_.write("config.json", config.str());
    folder_.write("model.safetensors", file.str());
    const Status status = testing::read_everything(folder_.path(), open_dense);
    if (status.ok()) return "accepted";
    EXPECT_TRUE(status.message().starts_with(folder_.path().string()))
        << status.message();
    EXPECT_LE(status.message().size(), 400u);
    code = status.code();
    return status.message();
  }
  StatusCode code = StatusCode::kOk;
  bool has_codes = false;  // of what values() gave

 private:
  TempFolder folder_;
};

// Two rows of nine columns in 4 bits: -8 ... 0, and 7 ... -1.
void add_packed(SafetensorsBuilder& file) {
  file.add("m.weight_packed", "I32", {2, 2},
           ByteBuilder().u32(0x76543210).u32(0x8).u32(0x89abcdef).u32(0x7));
  file.add("m.weight_scale", "F32", {2, 1}, ByteBuilder().f32(0.5F).f32(2));
  file.add("m.weight_shape", "I64", {2}, ByteBuilder().u64(2).u64(9));
}

TEST(CompressedTensors, PackedRowsWithAnOddWidth) {
  Folder folder;
  add_packed(folder.file);
  folder.file.add("norm.weight", "F32", {1}, ByteBuilder().f32(3));
  EXPECT_EQ(folder.values("m.weight"),
            (std::vector<float>{-4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0,  //
                                14, 12, 10, 8, 6, 4, 2, 0, -2}));
  EXPECT_TRUE(folder.has_codes);
  const auto model = folder.open();
  ASSERT_TRUE(model);
  ASSERT_EQ((*model)->tensors().size(), 2u);
  const TensorInfo& info = (*model)->tensors()[0];
  EXPECT_EQ(info.name, "m.weight");
  EXPECT_EQ(info.encoding.name, "int4 channel");
  EXPECT_EQ(info.shape, Shape::make({2, 9}).value());
  EXPECT_EQ(info.bytes, 16 + 8 + 16);
  EXPECT_EQ((*model)->tensors()[1].encoding.name, "F32");
  std::vector<std::byte> bytes(1);
  EXPECT_EQ((*model)->read_bytes(0, 0, bytes).code(), StatusCode::kUnsupported);
  EXPECT_TRUE((*model)->read_bytes(1, 0, bytes).ok());
  std::vector<float> row(9);
  ASSERT_TRUE((*model)->read_rows(0, 1, 1, row).ok());
  EXPECT_EQ(row[0], 14);
}

TEST(CompressedTensors, GroupsWithZeroPointsPackedAlongTheRows) {
  Folder folder;
  folder.config.weights =
      R"("num_bits":4,"type":"int","symmetric":false,"strategy":"group","group_size":2)";
  // Ten rows of [1, 1, 1, 1]; row r has the zero points r - 8 and 7 - r.
  ByteBuilder packed;
  ByteBuilder scale;
  std::uint32_t words[2][2] = {};
  std::vector<float> expected;
  for (std::uint32_t r = 0; r < 10; ++r) {
    packed.u32(0x9999);
    scale.u16(f32_to_bf16(1)).u16(f32_to_bf16(2));
    words[r / 8][0] |= r << (4 * (r % 8));
    words[r / 8][1] |= (15 - r) << (4 * (r % 8));
    const auto zero = static_cast<float>(r);
    expected.insert(expected.end(), {1 - (zero - 8), 1 - (zero - 8), 2 * (1 - (7 - zero)),
                                     2 * (1 - (7 - zero))});
  }
  folder.file.add("m.weight_packed", "I32", {10, 1}, packed)
      .add("m.weight_scale", "BF16", {10, 2}, scale)
      .add("m.weight_shape", "I64", {2}, ByteBuilder().u64(10).u64(4))
      .add("m.weight_zero_point", "I32", {2, 2},
           ByteBuilder()
               .u32(words[0][0])
               .u32(words[0][1])
               .u32(words[1][0])
               .u32(words[1][1]));
  EXPECT_EQ(folder.values("m.weight"), expected);
  const auto model = folder.open();
  ASSERT_TRUE(model);
  std::vector<float> row(4);
  ASSERT_TRUE((*model)->read_rows(0, 9, 1, row).ok());
  EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.end() - 4));
  folder.file.add("m.weight_g_idx", "I32", {4},
                  ByteBuilder().u32(1).u32(0).u32(1).u32(0));
  EXPECT_EQ(folder.values("m.weight")[0], expected[2]);
  EXPECT_EQ(folder.values("m.weight")[1], expected[0]);
  folder.file.add("m.weight_g_idx", "I32", {4},
                  ByteBuilder().u32(0xffffffff).u32(0).u32(1).u32(0));
  EXPECT_EQ(folder.values("m.weight"), expected);
}

TEST(CompressedTensors, EightBits) {
  Folder folder;
  folder.config.weights = R"("num_bits":8,"type":"int","strategy":"tensor")";
  folder.file
      .add("m.weight_packed", "I32", {1, 2}, ByteBuilder().u32(0xff817f00).u32(0x80))
      .add("m.weight_scale", "F16", {1}, ByteBuilder().u16(f32_to_f16(0.5F)))
      .add("m.weight_shape", "I64", {2}, ByteBuilder().u64(1).u64(5));
  EXPECT_EQ(folder.values("m.weight"), (std::vector<float>{-64, -0.5, 0.5, 63.5, 0}));

  Folder plain;
  plain.config.format = "int-quantized";
  plain.config.weights =
      R"("num_bits":8,"type":"int","symmetric":false,"strategy":"group","group_size":3)";
  plain.file
      .add("m.weight", "I8", {1, 6},
           ByteBuilder().u8(1).u8(2).u8(3).u8(0xff).u8(0x80).u8(0x7f))
      .add("m.weight_scale", "F32", {1, 2}, ByteBuilder().f32(1).f32(2))
      .add("m.weight_zero_point", "I8", {1, 2}, ByteBuilder().u8(1).u8(0xff))
      .add("m.input_scale", "F32", {1}, ByteBuilder().f32(1));
  EXPECT_EQ(plain.values("m.weight"), (std::vector<float>{0, 1, 2, 0, -254, 256}));
  const auto model = plain.open();
  ASSERT_TRUE(model);
  EXPECT_EQ((*model)->tensors().size(), 1u);
  ASSERT_EQ((*model)->warnings().size(), 1u);
  EXPECT_TRUE(has((*model)->warnings()[0], "1 tensors for activations"));
}

TEST(CompressedTensors, FloatingPointByTensorChannelAndBlock) {
  Folder folder;
  folder.config.format = "float-quantized";
  folder.config.weights =
      R"("num_bits":8,"type":"float","symmetric":true,"strategy":"block",)"
      R"("block_structure":[2,2])";
  ByteBuilder codes;  // 3 x 3 of 1.0
  for (int i = 0; i < 9; ++i) codes.u8(0x38);
  folder.file.add("m.weight", "F8_E4M3", {3, 3}, codes)
      .add("m.weight_scale", "F32", {2, 2}, ByteBuilder().f32(1).f32(2).f32(3).f32(4));
  EXPECT_EQ(folder.values("m.weight"), (std::vector<float>{1, 1, 2, 1, 1, 2, 3, 3, 4}));
  folder.config.format = "naive-quantized";
  folder.config.weights = R"("num_bits":8,"type":"float","strategy":"channel")";
  folder.file.add("m.weight_scale", "F32", {3, 1}, ByteBuilder().f32(1).f32(2).f32(3));
  EXPECT_EQ(folder.values("m.weight"), (std::vector<float>{1, 1, 1, 2, 2, 2, 3, 3, 3}));
  folder.config.weights = R"("num_bits":8,"type":"float","strategy":"tensor")";
  folder.file.add("m.weight_scale", "F32", {}, ByteBuilder().f32(5));
  EXPECT_EQ(folder.values("m.weight")[8], 5);
}

TEST(CompressedTensors, MissingAndSurplusTensors) {
  Folder folder;
  const auto without = [&](const char* name) {
    add_packed(folder.file);
    folder.file.remove(name);
    return folder.refusal();
  };
  EXPECT_EQ(without("none"), "accepted");
  EXPECT_TRUE(has(without("m.weight_scale"),
                  "'m.weight_packed': its module has no weight_scale"));
  EXPECT_TRUE(has(without("m.weight_shape"), "its module has no weight_shape"));
  EXPECT_TRUE(has(without("m.weight_packed"), "must have weight_packed, and not weight"));
  add_packed(folder.file);
  folder.file.add("m.weight_zero_point", "I32", {1, 1}, ByteBuilder().u32(0));
  EXPECT_TRUE(has(folder.refusal(), "a symmetric scheme has no zero points"));
  folder.file.remove("m.weight_zero_point")
      .add("m.weight", "F32", {1}, ByteBuilder().f32(1));
  EXPECT_TRUE(has(folder.refusal(), "must have weight_packed, and not weight"));
}

TEST(CompressedTensors, ShapesThatDoNotFit) {
  Folder folder;
  const auto with = [&](const char* name, const char* dtype,
                        const std::vector<std::int64_t>& shape, const ByteBuilder& data) {
    add_packed(folder.file);
    folder.file.add(name, dtype, shape, data);
    return folder.refusal();
  };
  EXPECT_TRUE(has(with("m.weight_packed", "I32", {2, 1}, ByteBuilder().zeros(8)),
                  "need I32 [2, 2]"));
  EXPECT_TRUE(has(with("m.weight_packed", "I32", {3, 2}, ByteBuilder().zeros(24)),
                  "need I32 [2, 2]"));
  EXPECT_TRUE(has(with("m.weight_packed", "F32", {2, 2}, ByteBuilder().zeros(16)),
                  "need I32 [2, 2]"));
  EXPECT_TRUE(has(with("m.weight_shape", "I64", {3}, ByteBuilder().zeros(24)),
                  "two numbers of type I64"));
  EXPECT_TRUE(
      has(with("m.weight_shape", "I64", {2}, ByteBuilder().u64(2).u64(UINT64_MAX)),
          "is negative"));
  EXPECT_TRUE(
      has(with("m.weight_shape", "I64", {2},
               ByteBuilder().u64(std::uint64_t{1} << 32).u64(std::uint64_t{1} << 32)),
          "exceeds 2^63-1"));
  EXPECT_TRUE(has(with("m.weight_scale", "F32", {2, 2}, ByteBuilder().zeros(16)),
                  "expected F32, F16 or BF16 [2, 1]"));
  EXPECT_TRUE(has(with("m.weight_scale", "I32", {2, 1}, ByteBuilder().zeros(8)),
                  "expected F32, F16 or BF16 [2, 1]"));
  EXPECT_TRUE(has(with("m.weight_g_idx", "I32", {9}, ByteBuilder().zeros(36)),
                  "in a scheme of groups"));
  folder.file.remove("m.weight_g_idx");
  folder.config.weights =
      R"("num_bits":4,"type":"int","strategy":"group","group_size":4)";
  EXPECT_TRUE(has(folder.refusal(), "rows of 9 values cannot be cut into groups of 4"));
  folder.config.weights =
      R"("num_bits":4,"type":"int","symmetric":false,"strategy":"channel")";
  EXPECT_TRUE(has(folder.refusal(), "has no weight_zero_point"));
  EXPECT_TRUE(has(with("m.weight_zero_point", "I32", {2, 1}, ByteBuilder().zeros(8)),
                  "expected i32 [1, 1]"));
  EXPECT_EQ(with("m.weight_zero_point", "I32", {1, 1}, ByteBuilder().zeros(4)),
            "accepted");
  EXPECT_TRUE(has(with("m.weight_zero_point", "I8", {2, 1}, ByteBuilder().zeros(2)),
                  "expected i32 [1, 1]"));
}

TEST(CompressedTensors, ColumnsMustBeInAGroupThatIsThere) {
  Folder folder;
  folder.config.weights =
      R"("num_bits":4,"type":"int","strategy":"group","group_size":4)";
  folder.file.add("m.weight_packed", "I32", {1, 1}, ByteBuilder().u32(0))
      .add("m.weight_scale", "F32", {1, 2}, ByteBuilder().f32(1).f32(1))
      .add("m.weight_shape", "I64", {2}, ByteBuilder().u64(1).u64(8))
      .add("m.weight_g_idx", "I32", {8}, ByteBuilder().zeros(28).u32(2));
  EXPECT_TRUE(has(folder.refusal(), "column 7 is of group 2, but there are 2"));
}

TEST(CompressedTensors, ScalesMustBePositiveAndFinite) {
  Folder folder;
  for (const float bad : {0.0F, -1.0F, INFINITY, NAN}) {
    add_packed(folder.file);
    folder.file.add("m.weight_scale", "F32", {2, 1}, ByteBuilder().f32(1).f32(bad));
    EXPECT_TRUE(has(folder.refusal(), "'m.weight_scale': scale 1 is"));
    EXPECT_EQ(folder.code, StatusCode::kCorrupt);
  }
}

TEST(CompressedTensors, ModulesAndTheConfigurationMustAgree) {
  Folder folder;
  add_packed(folder.file);
  folder.config.ignore = R"("re:.*m$")";
  EXPECT_TRUE(has(folder.refusal(), "in 'ignore' of the configuration"));
  folder.config.ignore = R"("lm_head","n")";
  folder.config.targets = R"("other")";
  EXPECT_TRUE(has(folder.refusal(), "no group targets module 'm'"));
  folder.config.targets = R"("re:m")";
  EXPECT_EQ(folder.refusal(), "accepted");
  // Named, and stored as it is.
  folder.config.targets = R"("re:[mnx]")";
  folder.file.add("n.weight", "F32", {1, 1}, ByteBuilder().f32(1));
  EXPECT_EQ(folder.refusal(), "accepted");  // it is ignored
  folder.file.add("x.weight", "F32", {1, 1}, ByteBuilder().f32(1));
  EXPECT_TRUE(
      has(folder.refusal(), "'x.weight': 'group_0' of the configuration targets"));
  folder.file.add("x.weight", "F32", {1}, ByteBuilder().f32(1));  // a norm
  EXPECT_EQ(folder.refusal(), "accepted");
  folder.config.targets = R"("re:(")";
  EXPECT_TRUE(has(folder.refusal(), "is not understood"));
}

TEST(CompressedTensors, ConfigurationsThatAreNotRead) {
  Folder folder;
  add_packed(folder.file);
  const auto with = [&](std::string Config::*field, const char* value) {
    folder.config = Config();
    folder.config.*field = value;
    return folder.refusal();
  };
  EXPECT_TRUE(
      has(with(&Config::method, "gptq"), "quant_method is 'gptq', which is not read"));
  EXPECT_EQ(folder.code, StatusCode::kUnsupported);
  EXPECT_TRUE(has(with(&Config::format, "nvfp4-pack-quantized"), "is not read"));
  EXPECT_EQ(folder.code, StatusCode::kUnsupported);
  EXPECT_TRUE(has(with(&Config::format, "zipped"), "unknown format 'zipped'"));
  EXPECT_EQ(folder.code, StatusCode::kCorrupt);
  EXPECT_TRUE(has(with(&Config::weights, R"("num_bits":3,"type":"int")"), "3 bits"));
  EXPECT_TRUE(has(with(&Config::weights, R"("type":"int")"), "'num_bits' must be"));
  EXPECT_TRUE(has(with(&Config::weights, R"("num_bits":4)"), "'type' is missing"));
  EXPECT_TRUE(
      has(with(&Config::weights, R"("num_bits":4,"type":"odd")"), "unknown type"));
  EXPECT_TRUE(has(with(&Config::weights, R"("num_bits":4,"type":"int","symmetric":1)"),
                  "'symmetric' must be"));
  EXPECT_TRUE(
      has(with(&Config::weights, R"("num_bits":4,"type":"int","strategy":"token")"),
          "strategy 'token' is not read"));
  EXPECT_TRUE(
      has(with(&Config::weights, R"("num_bits":4,"type":"int","strategy":"block")"),
          "'block_structure' must be"));
  EXPECT_TRUE(has(with(&Config::weights,
                       R"("num_bits":4,"type":"int","strategy":"group","group_size":0)"),
                  "'group_size' must be"));
  EXPECT_EQ(with(&Config::weights,
                 R"("num_bits":4,"type":"int","strategy":"group","group_size":-1)"),
            "accepted");
}

TEST(CompressedTensors, TextThatIsNoConfiguration) {
  TempFolder folder;
  SafetensorsBuilder file;
  file.add("w", "F32", {1}, ByteBuilder().f32(1));
  folder.write("model.safetensors", file.str());
  const auto open = [&](std::string_view config) {
    folder.write("config.json", config);
    const auto model = open_dense(folder.path());
    return model ? "accepted" : model.error().message();
  };
  EXPECT_EQ(open("{}"), "accepted");
  EXPECT_EQ(open(R"({"quantization_config":null})"), "accepted");
  EXPECT_TRUE(has(open("[]"), "an object was expected"));
  EXPECT_TRUE(has(open("{"), "not JSON"));
  EXPECT_TRUE(has(open(R"({"a":1,"a":2})"), "key 'a' is given twice"));
  EXPECT_TRUE(has(open(R"({"quantization_config":1})"), "must be an object"));
  EXPECT_TRUE(has(open(R"({"quantization_config":{}})"), "'quant_method' is missing"));
  EXPECT_TRUE(
      has(open(R"({"quantization_config":{"quant_method":"compressed-tensors"}})"),
          "'config_groups' is missing"));
  EXPECT_TRUE(
      has(open(R"({"quantization_config":{"quant_method":"compressed-tensors",)"
               R"("sparsity_config":{"format":"sparse-bitmask"},"config_groups":{}}})"),
          "sparse weights"));
}

TEST(CompressedTensors, AFileAloneAsksForItsFolder) {
  TempFolder folder;
  SafetensorsBuilder file;
  add_packed(file);
  const auto model = open_dense(folder.write("model.safetensors", file.str()));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(has(model.error().message(), "name the folder"));
}

}  // namespace
}  // namespace pith
