#include "pith/io/convert_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "pith/base/threads.h"
#include "pith/io/gguf.h"
#include "pith/io/writer.h"
#include "pith/tensor/half.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::file_bytes;
using testing::shape_of;

namespace fs = std::filesystem;
using testing::TempFolder;

struct Tensor {
  TensorSpec spec;
  std::string bytes;
};

template <typename T>
Tensor tensor(std::string name, DType dtype, Shape s, const std::vector<T>& values) {
  return {TensorSpec::plain(std::move(name), dtype, std::move(s)),
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}};
}

std::string random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

Tensor random_tensor(std::string name, DType dtype, Shape s, unsigned seed) {
  const auto count = static_cast<std::size_t>(s.elements() * bits_of(dtype) / 8);
  std::string bytes = random_bytes(count, seed);
  if (dtype == DType::kBool) {
    for (char& c : bytes) c = static_cast<char>(c & 1);
  }
  return {TensorSpec::plain(std::move(name), dtype, std::move(s)), std::move(bytes)};
}

void save(const fs::path& path, const std::vector<Tensor>& tensors,
          Format format = Format::kSafetensors, CheckpointLayout layout = {}) {
  layout.format = format;
  for (const Tensor& t : tensors) layout.tensors.push_back(t.spec);
  auto writer = CheckpointWriter::create(path, layout);
  ASSERT_TRUE(writer) << writer.error().message();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_TRUE((*writer)->write(i, 0, std::as_bytes(std::span(tensors[i].bytes))).ok());
  }
  const Status s = (*writer)->commit();
  ASSERT_TRUE(s.ok()) << s.message();
}

// Name -> type, shape and bytes.
using Content = std::map<std::string, std::string>;

Content content_of(const fs::path& path) {
  Content content;
  const auto model = Checkpoint::open(path);
  EXPECT_TRUE(model) << model.error().message();
  if (!model) return content;
  for (std::size_t i = 0; i < (*model)->tensors().size(); ++i) {
    const TensorInfo& info = (*model)->tensors()[i];
    std::string bytes(static_cast<std::size_t>(info.bytes), '\0');
    const Status s = (*model)->read_bytes(i, 0, std::as_writable_bytes(std::span(bytes)));
    EXPECT_TRUE(s.ok()) << s.message();
    const std::string type(info.encoding.dtype ? to_string(*info.encoding.dtype)
                                               : info.encoding.name);
    content[info.name] = type + " " + info.shape.to_string() + " " + bytes;
  }
  return content;
}

Status convert(const fs::path& in, const fs::path& out, ConvertOptions options = {}) {
  const Result<ConvertReport> report = convert_checkpoint(in, out, options);
  return report.status();
}

const std::vector<Tensor>& all_formats_hold() {
  static const std::vector<Tensor> tensors = {
      random_tensor("layers.0.weight", DType::kF32, shape_of({7, 33}), 1),
      random_tensor("half", DType::kF16, shape_of({3, 2, 2}), 2),
      random_tensor("double", DType::kF64, shape_of({5}), 3),
      random_tensor("i8", DType::kI8, shape_of({9}), 4),
      random_tensor("i16", DType::kI16, shape_of({2, 9}), 5),
      random_tensor("i32", DType::kI32, shape_of({1}), 6),
      random_tensor("i64", DType::kI64, shape_of({4, 1}), 7),
      random_tensor("scalar", DType::kF32, shape_of({}), 8),
      random_tensor("empty", DType::kF32, shape_of({0, 3}), 9),
      random_tensor("large", DType::kF32, shape_of({300, 1001}), 10),
  };
  return tensors;
}

TEST(Convert, EveryFormatToEveryOtherAndBackBitForBit) {
  const TempFolder folder;
  const std::vector<std::string> names = {"a.safetensors", "a.gguf", "a.npz"};
  save(folder / "source.safetensors", all_formats_hold());
  const Content expected = content_of(folder / "source.safetensors");
  ASSERT_EQ(expected.size(), all_formats_hold().size());
  for (const std::string& first : names) {
    const fs::path a = folder / ("1" + first);
    ASSERT_TRUE(convert(folder / "source.safetensors", a).ok()) << first;
    EXPECT_EQ(content_of(a), expected) << first;
    for (const std::string& second : names) {
      const fs::path b = folder / ("2" + first + second);
      const Status s = convert(a, b);
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_EQ(content_of(b), expected) << first << " to " << second;
    }
  }
}

TEST(Convert, TypesThatOnlySomeFormatsHold) {
  const TempFolder folder;
  const std::vector<Tensor> tensors = {
      random_tensor("bool", DType::kBool, shape_of({9}), 1),
      random_tensor("u8", DType::kU8, shape_of({9}), 2),
      random_tensor("u16", DType::kU16, shape_of({9}), 3),
      random_tensor("u32", DType::kU32, shape_of({9}), 4),
      random_tensor("u64", DType::kU64, shape_of({9}), 5),
      random_tensor("c64", DType::kC64, shape_of({9}), 6),
  };
  save(folder / "a.safetensors", tensors);
  ASSERT_TRUE(convert(folder / "a.safetensors", folder / "a.npz").ok());
  ASSERT_TRUE(convert(folder / "a.npz", folder / "b.safetensors").ok());
  EXPECT_EQ(content_of(folder / "a.safetensors"), content_of(folder / "b.safetensors"));
  const Status s = convert(folder / "a.safetensors", folder / "a.gguf");
  EXPECT_EQ(s.code(), StatusCode::kUnsupported);
  EXPECT_FALSE(fs::exists(folder / "a.gguf"));

  save(folder / "c.safetensors",
       {random_tensor("bf16", DType::kBF16, shape_of({2, 9}), 1)});
  EXPECT_EQ(convert(folder / "c.safetensors", folder / "c.npz").code(),
            StatusCode::kUnsupported);
  ASSERT_TRUE(convert(folder / "c.safetensors", folder / "c.gguf").ok());
  EXPECT_EQ(content_of(folder / "c.safetensors"), content_of(folder / "c.gguf"));

  std::vector<Tensor> fp8;
  for (const DType dtype :
       {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0, DType::kF4, DType::kF8E4M3Fnuz}) {
    fp8.push_back(random_tensor(std::string(to_string(dtype)), dtype, shape_of({8}), 1));
  }
  save(folder / "d.safetensors", fp8);
  ASSERT_TRUE(convert(folder / "d.safetensors", folder / "e.safetensors").ok());
  EXPECT_EQ(content_of(folder / "d.safetensors"), content_of(folder / "e.safetensors"));
}

TEST(Convert, NpyHoldsOneTensor) {
  const TempFolder folder;
  save(folder / "a.safetensors", {all_formats_hold()[0]});
  ASSERT_TRUE(convert(folder / "a.safetensors", folder / "a.npy").ok());
  EXPECT_EQ(content_of(folder / "a.npy").begin()->second,
            content_of(folder / "a.safetensors").begin()->second);
  save(folder / "b.safetensors", all_formats_hold());
  EXPECT_EQ(convert(folder / "b.safetensors", folder / "b.npy").code(),
            StatusCode::kUnsupported);
}

TEST(Convert, SafetensorsAndGgufAreFixedPoints) {
  const TempFolder folder;
  CheckpointLayout layout;
  layout.metadata = {{"format", "pt"}, {"b", "2"}};
  save(folder / "a.safetensors", all_formats_hold(), Format::kSafetensors, layout);
  ASSERT_TRUE(convert(folder / "a.safetensors", folder / "b.safetensors").ok());
  EXPECT_EQ(file_bytes(folder / "a.safetensors"), file_bytes(folder / "b.safetensors"));

  CheckpointLayout keys;
  keys.gguf_keys = {GgufKey::string("general.architecture", "llama"),
                    GgufKey::u32("general.file_type", 7),
                    GgufKey::u32("general.alignment", 64)};
  save(folder / "a.gguf", all_formats_hold(), Format::kGguf, keys);
  ASSERT_TRUE(convert(folder / "a.gguf", folder / "b.gguf").ok());
  EXPECT_EQ(file_bytes(folder / "a.gguf"), file_bytes(folder / "b.gguf"));
}

TEST(Convert, GgufKeysFollowTheNewTypes) {
  const TempFolder folder;
  CheckpointLayout keys;
  keys.gguf_keys = {GgufKey::u32("general.file_type", 0),
                    GgufKey::string("general.architecture", "llama"),
                    GgufKey::u32("split.count", 2)};
  save(folder / "a.gguf",
       {tensor<float>("blk.0.w.weight", DType::kF32, shape_of({2, 2}), {1, 2, 3, 4}),
        tensor<float>("blk.0.attn_norm.weight", DType::kF32, shape_of({2}), {1, 2})},
       Format::kGguf, keys);
  ASSERT_TRUE(convert(folder / "a.gguf", folder / "b.gguf", {.dtype = DType::kF16}).ok());
  const auto model = Checkpoint::open(folder / "b.gguf");
  ASSERT_TRUE(model);
  std::vector<std::string> names;
  for (const GgufKey& key : gguf_keys(**model)) names.push_back(key.key);
  EXPECT_EQ(names, (std::vector<std::string>{"general.architecture",
                                             "general.quantization_version",
                                             "general.file_type"}));
  EXPECT_EQ(gguf_keys(**model)[2].as_u32(), 1u);
  EXPECT_EQ((*model)->tensors()[0].encoding.dtype, DType::kF16);
  EXPECT_EQ((*model)->tensors()[1].encoding.dtype, DType::kF32);
}

TEST(Convert, ValuesEqualTheDefinitionOfEachType) {
  const TempFolder folder;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(200000);
  for (float& v : values) v = normal(random);
  save(folder / "a.safetensors",
       {tensor("w", DType::kF32, shape_of({200, 1000}), values),
        tensor<std::int32_t>("ids", DType::kI32, shape_of({2}), {1, 70000})});
  ASSERT_TRUE(
      convert(folder / "a.safetensors", folder / "h.safetensors", {.dtype = DType::kF16})
          .ok());
  ASSERT_TRUE(
      convert(folder / "a.safetensors", folder / "b.safetensors", {.dtype = DType::kBF16})
          .ok());
  const auto half = Checkpoint::open(folder / "h.safetensors");
  const auto brain = Checkpoint::open(folder / "b.safetensors");
  ASSERT_TRUE(half && brain);
  const std::size_t w = *(*half)->find("w");
  std::vector<std::uint16_t> bits(values.size());
  ASSERT_TRUE((*half)->read_bytes(w, 0, std::as_writable_bytes(std::span(bits))).ok());
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(bits[i], f32_to_f16(values[i]));
  ASSERT_TRUE(
      (*brain)
          ->read_bytes(*(*brain)->find("w"), 0, std::as_writable_bytes(std::span(bits)))
          .ok());
  for (std::size_t i = 0; i < bits.size(); ++i)
    ASSERT_EQ(bits[i], f32_to_bf16(values[i]));
  EXPECT_EQ((*half)->tensors()[*(*half)->find("ids")].encoding.dtype, DType::kI32);
}

TEST(Convert, DoublesAreRoundedOnce) {
  const TempFolder folder;
  save(folder / "a.safetensors", {tensor<double>("w", DType::kF64, shape_of({1, 2}),
                                                 {1 + 0x1p-11 + 0x1p-40, 1e300})});
  ConvertOptions options{.dtype = DType::kF16};
  EXPECT_EQ(convert(folder / "a.safetensors", folder / "b.safetensors", options).code(),
            StatusCode::kGateFailed);
  options.allow_overflow = true;
  const auto report =
      convert_checkpoint(folder / "a.safetensors", folder / "b.safetensors", options);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->overflowed, 1);
  EXPECT_EQ(content_of(folder / "b.safetensors")["w"],
            std::string("f16 [1, 2] \x01\x3c\x00\x7c", 15));
  options.dtype = DType::kF32;
  options.allow_overflow = false;
  EXPECT_EQ(convert(folder / "a.safetensors", folder / "c.safetensors", options).code(),
            StatusCode::kGateFailed);
}

TEST(Convert, OverflowIsCountedAndRefused) {
  const TempFolder folder;
  const float infinity = std::numeric_limits<float>::infinity();
  save(folder / "a.safetensors",
       {tensor<float>("small", DType::kF32, shape_of({2}), {1, 65519}),
        tensor<float>("large", DType::kF32, shape_of({4}),
                      {65520, -1e30F, infinity, std::nanf("")})});
  ConvertOptions options{.dtype = DType::kF16};
  const Status s = convert(folder / "a.safetensors", folder / "b.safetensors", options);
  EXPECT_EQ(s.code(), StatusCode::kGateFailed);
  EXPECT_EQ(s.message(),
            "2 values in 1 tensors, the first of them 'large', are too large for f16 and "
            "would become infinite");
  EXPECT_FALSE(fs::exists(folder / "b.safetensors"));
  options.allow_overflow = true;
  const auto report =
      convert_checkpoint(folder / "a.safetensors", folder / "b.safetensors", options);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->overflowed, 2);
  EXPECT_EQ(report->not_finite, 2);
}

TEST(Convert, BytesDoNotDependOnThreadsOrMemory) {
  const TempFolder folder;
  save(folder / "a.safetensors", all_formats_hold());
  std::string first;
  for (const int threads : {1, 2, 5}) {
    for (const std::int64_t memory : {1 << 20, 1 << 24}) {
      const ThreadLimit limit(threads);
      ConvertOptions options{.dtype = DType::kBF16, .allow_overflow = true};
      options.overwrite = true;
      options.max_memory = memory;
      ASSERT_TRUE(convert(folder / "a.safetensors", folder / "b.gguf", options).ok());
      if (first.empty()) first = file_bytes(folder / "b.gguf");
      EXPECT_EQ(file_bytes(folder / "b.gguf"), first) << threads << " " << memory;
    }
  }
}

TEST(Convert, AFolderKeepsItsShardsAndFiles) {
  const TempFolder folder;
  CheckpointLayout layout;
  layout.shards = {"model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors"};
  layout.folder_files = {{"config.json", {}, "{\"a\": 1}"},
                         {"tokenizer.json", {}, "x\n"}};
  std::vector<Tensor> tensors = {all_formats_hold()[0], all_formats_hold()[9]};
  tensors[1].spec.file = 1;
  save(folder / "in", tensors, Format::kSafetensors, layout);
  folder.write("in/pytorch_model.bin", "the same once more");
  folder.write("in/.gitattributes", "hidden");
  folder.write("in/onnx/model.onnx", "elsewhere");
  const auto report = convert_checkpoint(folder / "in", folder / "out",
                                         {.dtype = DType::kF16, .allow_overflow = true});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(file_bytes(folder / "out/config.json"), "{\"a\": 1}");
  EXPECT_EQ(file_bytes(folder / "out/tokenizer.json"), "x\n");
  EXPECT_FALSE(fs::exists(folder / "out/pytorch_model.bin"));
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_NE(report->notes[0].find(".gitattributes, onnx, pytorch_model.bin stay behind"),
            std::string::npos)
      << report->notes[0];
  const auto model = Checkpoint::open(folder / "out");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->files().size(), 2u);
  EXPECT_EQ((*model)->tensors().size(), 2u);
  // All in one file, and back.
  ASSERT_TRUE(convert(folder / "in", folder / "one.safetensors").ok());
  ASSERT_TRUE(convert(folder / "one.safetensors", folder / "folder/").ok());
  EXPECT_EQ(content_of(folder / "in"), content_of(folder / "folder"));
}

TEST(Convert, TheInputIsNeverTheOutput) {
  const TempFolder folder;
  save(folder / "a.safetensors", all_formats_hold());
  const std::string before = file_bytes(folder / "a.safetensors");
  fs::create_symlink("a.safetensors", folder / "link.safetensors");
  fs::create_hard_link(folder / "a.safetensors", folder / "hard.safetensors");
  ConvertOptions options;
  options.overwrite = true;
  for (const char* in : {"a.safetensors", "link.safetensors", "hard.safetensors"}) {
    for (const char* out : {"a.safetensors", "link.safetensors", "hard.safetensors"}) {
      EXPECT_EQ(convert(folder / in, folder / out, options).code(),
                StatusCode::kInvalidArgument)
          << in << " to " << out;
    }
  }
  EXPECT_EQ(file_bytes(folder / "a.safetensors"), before);
}

TEST(Convert, StopsOnRequest) {
  const TempFolder folder;
  save(folder / "a.safetensors", all_formats_hold());
  CancelToken stop;
  ConvertOptions options{.dtype = DType::kF16};
  options.allow_overflow = true;
  options.cancel = &stop;
  options.progress = [&](const Progress& progress) {
    if (progress.done > 100000) stop.request();
  };
  EXPECT_EQ(convert(folder / "a.safetensors", folder / "b.safetensors", options).code(),
            StatusCode::kCancelled);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Convert, ProgressEndsAtTheSizeOfTheTensors) {
  const TempFolder folder;
  save(folder / "a.safetensors", all_formats_hold());
  std::int64_t last = 0;
  std::int64_t total = 0;
  ConvertOptions options;
  options.progress = [&](const Progress& progress) {
    EXPECT_GE(progress.done, last);
    last = progress.done;
    total = progress.total;
  };
  ASSERT_TRUE(convert(folder / "a.safetensors", folder / "b.safetensors", options).ok());
  EXPECT_GT(total, 0);
  EXPECT_EQ(last, total);
}

TEST(Convert, OptionsOutOfRange) {
  const TempFolder folder;
  save(folder / "a.safetensors", all_formats_hold());
  const auto code = [&](const char* out, const ConvertOptions& options) {
    return convert(folder / "a.safetensors", folder / out, options).code();
  };
  EXPECT_EQ(code("b.safetensors", {.dtype = DType::kI8}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("b.safetensors", {.max_memory = 1000}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("b.bin", {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("b/", {.format = Format::kGguf}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("b.bin", {.format = Format::kGguf}), StatusCode::kOk);
  EXPECT_EQ(convert(folder / "none", folder / "c.npz").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pith
