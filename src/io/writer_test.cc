#include "pith/io/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::file_bytes;
using testing::shape_of;

namespace fs = std::filesystem;
using testing::TempFolder;

template <typename T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Writes each tensor's bytes in one piece.
Status write_all(const fs::path& path, const CheckpointLayout& layout,
                 const std::vector<std::string>& data, const WriteOptions& options = {}) {
  PITH_TRY(auto writer, CheckpointWriter::create(path, layout, options));
  for (std::size_t i = 0; i < data.size(); ++i) {
    PITH_OK(writer->write(i, 0, std::as_bytes(std::span(data[i]))));
  }
  return writer->commit();
}

std::string text_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

CheckpointLayout one_matrix(Format format) {
  CheckpointLayout layout;
  layout.format = format;
  layout.tensors.push_back(TensorSpec::plain("w", DType::kF32, shape_of({2, 2})));
  return layout;
}

CheckpointLayout thousand_bytes(Format format) {
  CheckpointLayout layout;
  layout.format = format;
  layout.tensors.push_back(TensorSpec::plain("w", DType::kI8, shape_of({1000})));
  return layout;
}

std::string some_bytes(int n) {
  std::string bytes;
  for (int i = 0; i < n; ++i) bytes += static_cast<char>(i * 7);
  return bytes;
}

const std::vector<float> kMatrix = {1, -2, 0.5, 4};

TEST(Writer, SmallestSafetensorsFile) {
  const TempFolder folder;
  ASSERT_TRUE(write_all(folder / "a.safetensors", one_matrix(Format::kSafetensors),
                        {text_of(kMatrix)})
                  .ok());
  EXPECT_EQ(file_bytes(folder / "a.safetensors"),
            std::string("\x40\0\0\0\0\0\0\0", 8) +
                R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})" +
                "       " + text_of(kMatrix));
}

TEST(Writer, SafetensorsAreSortedByTypeThenNameWithMetadataFirst) {
  const TempFolder folder;
  CheckpointLayout layout;
  layout.tensors = {TensorSpec::plain("b", DType::kI8, shape_of({3})),
                    TensorSpec::plain("z", DType::kF32, shape_of({})),
                    TensorSpec::plain("a", DType::kI8, shape_of({0, 5})),
                    TensorSpec::plain("\"\n\x01/\u00e9", DType::kF32, shape_of({1}))};
  layout.metadata = {{"z", "1"}, {"format", "pt"}, {"a\tb", ""}};
  ASSERT_TRUE(write_all(folder / "a", layout, {"xyz", "ABCD", "", "EFGH"}).ok());
  const std::string header =
      R"({"__metadata__":{"a\tb":"","format":"pt","z":"1"},)"
      R"("\"\n\u0001/é":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("z":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"I8","shape":[0,5],"data_offsets":[8,8]},)"
      R"("b":{"dtype":"I8","shape":[3],"data_offsets":[8,11]}})";
  const std::string file = file_bytes(folder / "a");
  EXPECT_EQ(file.substr(8, header.size()), header);
  EXPECT_EQ(file.substr(file.size() - 11), "EFGHABCDxyz");
  EXPECT_EQ(static_cast<std::size_t>(*stored_bytes(layout)), file.size());
}

TEST(Writer, SmallestGgufFile) {
  const TempFolder folder;
  CheckpointLayout layout;
  layout.format = Format::kGguf;
  layout.tensors.push_back(TensorSpec::plain("w", DType::kF32, shape_of({2})));
  ASSERT_TRUE(write_all(folder / "a.gguf", layout, {text_of({1, -2})}).ok());
  std::string expected("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
  expected += std::string("\1\0\0\0\0\0\0\0w\1\0\0\0\2\0\0\0\0\0\0\0", 21);
  expected += std::string("\0\0\0\0\0\0\0\0\0\0\0\0", 12);
  expected.resize(64, '\0');
  expected += text_of({1, -2});
  expected.resize(96, '\0');
  EXPECT_EQ(file_bytes(folder / "a.gguf"), expected);
}

TEST(Writer, GgufObeysTheAlignmentKeyAndReversesShapes) {
  const TempFolder folder;
  CheckpointLayout layout;
  layout.format = Format::kGguf;
  layout.gguf_keys = {GgufKey::string("general.name", "x"),
                      GgufKey::u32("general.alignment", 128)};
  layout.tensors = {TensorSpec::plain("a", DType::kF16, shape_of({2, 3})),
                    TensorSpec::plain("b", DType::kI8, shape_of({5}))};
  ASSERT_TRUE(write_all(folder / "a.gguf", layout, {"0123456789ab", "ABCDE"}).ok());
  const std::string file = file_bytes(folder / "a.gguf");
  EXPECT_EQ(file.size() % 128, 0u);
  EXPECT_EQ(file.substr(file.size() - 256, 12), "0123456789ab");
  EXPECT_EQ(file.substr(file.size() - 128, 6), std::string("ABCDE\0", 6));
  const auto model = Checkpoint::open(folder / "a.gguf");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->tensors()[0].shape, shape_of({2, 3}));
  ASSERT_EQ(gguf_keys(**model).size(), 2u);
  EXPECT_EQ(gguf_keys(**model)[0], layout.gguf_keys[0]);
}

TEST(Writer, NpyHeaderIsAMultipleOf64) {
  const TempFolder folder;
  for (const Shape& s : {shape_of({}), shape_of({4}), shape_of({2, 2})}) {
    CheckpointLayout layout;
    layout.format = Format::kNpy;
    layout.tensors.push_back(TensorSpec::plain("w", DType::kF32, s));
    const std::string data(static_cast<std::size_t>(s.elements()) * 4, 'x');
    WriteOptions options;
    options.overwrite = true;
    ASSERT_TRUE(write_all(folder / "a.npy", layout, {data}, options).ok());
    const std::string file = file_bytes(folder / "a.npy");
    EXPECT_EQ(file.size(), 128 + data.size());
    const std::string tuple = s.rank() == 0 ? "()" : s.rank() == 1 ? "(4,)" : "(2, 2)";
    const std::string header =
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + tuple + ", }";
    EXPECT_EQ(file.substr(10, header.size()), header);
    EXPECT_EQ(file[127], '\n');
  }
}

// Writes 1000 bytes with `write`, in every format: the file is the same as if they were
// written in one piece.
void expect_the_whole(
    const std::function<void(CheckpointWriter&, std::span<const std::byte>)>& write) {
  const TempFolder folder;
  const std::string data = some_bytes(1000);
  for (const Format format :
       {Format::kSafetensors, Format::kGguf, Format::kNpz, Format::kNpy}) {
    SCOPED_TRACE(to_string(format));
    const CheckpointLayout layout = thousand_bytes(format);
    ASSERT_TRUE(write_all(folder / "whole", layout, {data}, {.overwrite = true}).ok());
    auto writer = CheckpointWriter::create(folder / "parts", layout, {.overwrite = true});
    ASSERT_TRUE(writer);
    write(**writer, std::as_bytes(std::span(data)));
    const auto place = static_cast<std::size_t>((*writer)->place(0));
    ASSERT_TRUE((*writer)->commit().ok());
    EXPECT_EQ(file_bytes(folder / "whole"), file_bytes(folder / "parts"));
    EXPECT_EQ(file_bytes(folder / "parts").substr(place, 1000), data);
  }
}

TEST(Writer, AnyOrderAnyThreadGivesTheSameBytes) {
  expect_the_whole([](CheckpointWriter& writer, std::span<const std::byte> bytes) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 99 - t; i >= 0; i -= 4) {
          const auto some = bytes.subspan(static_cast<std::size_t>(i) * 10, 10);
          EXPECT_TRUE(writer.write(0, i * 10, some).ok());
        }
      });
    }
  });
}

TEST(Writer, TwoStretchesOfMemoryAreOneWrite) {
  expect_the_whole([](CheckpointWriter& writer, std::span<const std::byte> bytes) {
    EXPECT_TRUE(writer.write(0, 300, bytes.subspan(300, 1), bytes.subspan(301)).ok());
    EXPECT_TRUE(writer.write(0, 0, bytes.first(100), {}).ok());
    EXPECT_EQ(writer.write(0, 100, bytes.first(200), bytes.first(1)).code(),
              StatusCode::kInvalidArgument);
    EXPECT_TRUE(writer.write(0, 100, {}, bytes.subspan(100, 200)).ok());
  });
}

TEST(Writer, EveryByteExactlyOnce) {
  const TempFolder folder;
  const std::string data = text_of(kMatrix);
  const auto bytes = std::as_bytes(std::span(data));
  auto writer = CheckpointWriter::create(folder / "a", one_matrix(Format::kSafetensors));
  ASSERT_TRUE(writer);
  EXPECT_TRUE((*writer)->write(0, 0, bytes.first(8)).ok());
  EXPECT_EQ((*writer)->write(0, 4, bytes.first(8)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*writer)->write(0, 12, bytes.first(8)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*writer)->write(0, -1, bytes.first(8)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*writer)->write(1, 0, bytes).code(), StatusCode::kInvalidArgument);
  const Status s = (*writer)->commit();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(s.message(), "tensor 'w': byte 8 of 16 was not written");
  EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST(Writer, LayoutsThatCannotBeWritten) {
  const TempFolder folder;
  const auto code = [&](Format format, std::vector<TensorSpec> tensors) {
    CheckpointLayout layout;
    layout.format = format;
    layout.tensors = std::move(tensors);
    const auto writer = CheckpointWriter::create(folder / "a", layout);
    return writer ? StatusCode::kOk : writer.error().code();
  };
  const auto spec = [](std::string name, DType dtype = DType::kF32, Shape s = {}) {
    return TensorSpec::plain(std::move(name), dtype, std::move(s));
  };
  const auto bad = StatusCode::kInvalidArgument;
  const auto unsupported = StatusCode::kUnsupported;
  EXPECT_EQ(code(Format::kSafetensors, {spec("a"), spec("a")}), bad);
  EXPECT_EQ(code(Format::kSafetensors, {spec("__metadata__")}), bad);
  EXPECT_EQ(code(Format::kSafetensors, {spec("\xff")}), bad);
  EXPECT_EQ(code(Format::kSafetensors, {spec("a", DType::kI4, shape_of({2}))}),
            unsupported);
  EXPECT_EQ(code(Format::kSafetensors, {spec("a", DType::kF4, shape_of({3}))}), bad);
  EXPECT_EQ(code(Format::kSafetensors,
                 {spec("a", DType::kF32, shape_of({std::int64_t{1} << 61}))}),
            bad);
  EXPECT_EQ(code(Format::kGguf, {spec(std::string(64, 'a'))}), bad);
  EXPECT_EQ(code(Format::kGguf, {spec(std::string(63, 'a'))}), StatusCode::kOk);
  EXPECT_EQ(code(Format::kGguf, {spec("a", DType::kU8)}), unsupported);
  EXPECT_EQ(code(Format::kGguf, {spec("a", DType::kF32, shape_of({1, 1, 1, 1, 1}))}),
            unsupported);
  EXPECT_EQ(code(Format::kNpz, {spec("a", DType::kBF16)}), unsupported);
  EXPECT_EQ(code(Format::kNpz, {spec("../a")}), bad);
  EXPECT_EQ(code(Format::kNpz, {spec("/a")}), bad);
  EXPECT_EQ(code(Format::kNpy, {spec("a"), spec("b")}), unsupported);
  EXPECT_EQ(code(Format::kNpy, {}), unsupported);
  EXPECT_EQ(code(Format::kPytorch, {spec("a")}), unsupported);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Writer, MetadataKnownLaterIsFilledIn) {
  const TempFolder folder;
  CheckpointLayout layout = one_matrix(Format::kSafetensors);
  layout.metadata = {{"pith", std::string(20, ' ')}, {"format", "pt"}};
  auto writer = CheckpointWriter::create(folder / "a", layout);
  ASSERT_TRUE(writer);
  EXPECT_TRUE((*writer)->update_metadata("pith", "{\"crc\":1}").ok());
  EXPECT_EQ((*writer)->update_metadata("pith", std::string(21, 'x')).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ((*writer)->update_metadata("other", "").code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*writer)->write(0, 0, raw(kMatrix)).ok());
  ASSERT_TRUE((*writer)->commit().ok());
  EXPECT_NE(file_bytes(folder / "a").find(R"("pith":"{\"crc\":1}         "},"w":)"),
            std::string::npos)
      << file_bytes(folder / "a");
}

TEST(Writer, AFolderOfShardsWithItsIndex) {
  const TempFolder folder;
  folder.write("config.json", "{}\n");
  CheckpointLayout layout;
  layout.shards = {"model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors"};
  layout.tensors = {TensorSpec::plain("b", DType::kF32, shape_of({2})),
                    TensorSpec::plain("a", DType::kI8, shape_of({3}))};
  layout.tensors[1].file = 1;
  layout.folder_files = {{"config.json", folder / "config.json", {}},
                         {"note.txt", {}, "made by a test"}};
  ASSERT_TRUE(write_all(folder / "out", layout, {text_of({1, 2}), "xyz"}).ok());
  EXPECT_EQ(file_bytes(folder / "out/model.safetensors.index.json"),
            "{\n  \"metadata\": {\n    \"total_size\": 11\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"model-00002-of-00002.safetensors\",\n"
            "    \"b\": \"model-00001-of-00002.safetensors\"\n  }\n}\n");
  EXPECT_EQ(file_bytes(folder / "out/config.json"), "{}\n");
  EXPECT_EQ(file_bytes(folder / "out/note.txt"), "made by a test");
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("model")) bytes += entry.file_size();
  }
  EXPECT_EQ(static_cast<std::uint64_t>(*stored_bytes(layout)), bytes);
}

TEST(Writer, ANameOfAShardIsPlain) {
  const TempFolder folder;
  for (const char* name : {"../a.safetensors", "a.bin", "", "x/a.safetensors"}) {
    CheckpointLayout layout = one_matrix(Format::kSafetensors);
    layout.shards = {name};
    EXPECT_EQ(CheckpointWriter::create(folder / "out", layout).error().code(),
              StatusCode::kInvalidArgument)
        << name;
  }
}

}  // namespace
}  // namespace pith
