#include "src/io/pytorch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/io/npz.h"
#include "tests/support/pickle_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_builder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::PickleBuilder;
using testing::TempFolder;
using testing::ZipBuilder;

std::string floats(const std::vector<float>& values) {
  ByteBuilder out;
  for (const float value : values) out.f32(value);
  return out.str();
}

PickleBuilder one_tensor() {
  return PickleBuilder().begin().op("}").text("w").tensor().op("s.");
}

// An archive as torch.save writes it.
std::string archive(const PickleBuilder& pickle,
                    const std::vector<std::pair<std::string, std::string>>& entries,
                    bool deflated = false) {
  ZipBuilder zip;
  zip.add({.name = "m/data.pkl",
           .content = pickle.str(),
           .deflated = deflated,
           .descriptor = true});
  for (const auto& [name, content] : entries) {
    zip.add({.name = name, .content = content, .deflated = deflated, .descriptor = true});
  }
  return zip.finish({.zip64 = true});
}

Result<std::unique_ptr<Checkpoint>> open(const std::string& file) {
  static std::string kept;
  kept = file;
  return open_zip_source(std::make_unique<MemorySource>(testing::bytes_of(kept)), "m.pt");
}

std::string refusal(const std::string& file) {
  const auto model = open(file);
  return model ? "accepted" : model.error().message();
}

#define EXPECT_REFUSAL(file, part) \
  EXPECT_NE(refusal(file).find(part), std::string::npos) << refusal(file)

TEST(Pytorch, Samples) { testing::check_samples("pytorch"); }

TEST(Pytorch, SharedStoragesAndViews) {
  PickleBuilder pickle;
  pickle.begin().op("}(").text("w").tensor();
  pickle.text("t").tensor({.sizes = {3, 2}, .strides = {1, 3}});
  pickle.text("row").tensor({.offset = 3, .sizes = {3}, .strides = {1}});
  pickle.text("same").tensor({.sizes = {2, 2}, .strides = {0, 1}});
  pickle.text("n").tensor({"LongStorage", "5", 1, 0, {}, {}});
  pickle.op("u.");
  for (const bool deflated : {false, true}) {
    const std::string file = archive(pickle,
                                     {{"m/data/0", floats({1, 2, 3, 4, 5, 6})},
                                      {"m/data/5", ByteBuilder().u64(9).str()},
                                      {"m/version", "3\n"},
                                      {"m/byteorder", "little"}},
                                     deflated);
    const auto model = open(file);
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ((*model)->format(), Format::kPytorch);
    const auto values = [&](std::string_view name) {
      return testing::read_values(**model, (*model)->find(name).value());
    };
    EXPECT_EQ(values("w"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(values("t"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(values("row"), (std::vector<float>{4, 5, 6}));
    EXPECT_EQ(values("same"), (std::vector<float>{1, 2, 1, 2}));
    EXPECT_EQ(values("n"), (std::vector<float>{9}));
    const TensorInfo& row = (*model)->tensors()[(*model)->find("row").value()];
    EXPECT_EQ(row.bytes, 12);
    EXPECT_EQ(row.encoding.name, "F32");
    if (!deflated) {
      float first = 0;
      std::memcpy(&first, file.data() + row.offset, sizeof(first));
      EXPECT_EQ(first, 4.0F);
    } else {
      EXPECT_EQ(row.offset, 0u);
    }
    EXPECT_EQ((*model)->tensors()[(*model)->find("t").value()].offset, 0u);
  }
}

TEST(Pytorch, OtherValuesAreMetadata) {
  PickleBuilder pickle;
  pickle.begin().op("}(").text("epoch").integer(3).text("w").tensor().op("u.");
  const auto model = open(archive(pickle, {{"m/data/0", floats({1, 2, 3, 4, 5, 6})}}));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->metadata().size(), 1u);
  EXPECT_EQ((*model)->metadata()[0], (std::pair<std::string, std::string>("epoch", "3")));
}

TEST(Pytorch, StoragesMustBeThere) {
  const std::string six = floats({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(refusal(archive(one_tensor(), {{"m/data/0", six}})), "accepted");
  EXPECT_REFUSAL(archive(one_tensor(), {}), "storage '0': there is no entry 'm/data/0'");
  EXPECT_REFUSAL(archive(one_tensor(), {{"m/data/0", six.substr(4)}}),
                 "storage '0' of 6 f32 elements has 20 bytes");
  EXPECT_REFUSAL(archive(one_tensor(), {{"m/data/0", six + "x"}}), "has 25 bytes");
  EXPECT_REFUSAL(archive(one_tensor(), {{"m/data/0", six}, {"n/data/1", six}}),
                 "is not in the folder of the pickle");
  PickleBuilder wraps;  // 2^62 elements of 4 bytes wrap to 0
  wraps.begin().tensor({.elements = std::int64_t{1} << 62}).op(".");
  EXPECT_REFUSAL(archive(wraps, {{"m/data/0", ""}}), "has 0 bytes");
}

TEST(Pytorch, BigEndianFilesAreRefused) {
  const std::string six = floats({1, 2, 3, 4, 5, 6});
  EXPECT_REFUSAL(archive(one_tensor(), {{"m/data/0", six}, {"m/byteorder", "big"}}),
                 "byte order 'big', expected 'little'");
  EXPECT_REFUSAL(
      archive(one_tensor(), {{"m/data/0", six}, {"m/byteorder", std::string(100, 'x')}}),
      "at most 16 are read");
}

TEST(Pytorch, RefusalsNameTheFileAndTheFunction) {
  PickleBuilder pickle;
  pickle.begin().global("os", "system").text("exit 0").byte(0x85).op("R.");
  const TempFolder folder;
  const auto path = folder.write("evil.pt", archive(pickle, {}));
  const auto model = Checkpoint::open(path);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(model.error().message().starts_with(
      path.string() + ": m/data.pkl: byte 2 (GLOBAL): 'os.system' is not part"))
      << model.error().message();
}

TEST(Pytorch, DamagedStoragesAreRefused) {
  std::string file = archive(one_tensor(), {{"m/data/0", floats({1, 2, 3, 4, 5, 6})}});
  const std::size_t at = file.find(floats({3, 4}));
  file[at] = static_cast<char>(file[at] ^ 1);
  EXPECT_REFUSAL(file, "entry 'm/data/0': CRC-32 is");
}

TEST(Pytorch, OldFilesAreRefusedWithAdvice) {
  const TempFolder folder;
  const auto old = folder.write(
      "old.pt",
      std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15));
  const auto model = Checkpoint::open(old);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), StatusCode::kUnsupported);
  EXPECT_NE(model.error().message().find("before version 1.6"), std::string::npos);
  EXPECT_NE(model.error().message().find("convert it to safetensors"), std::string::npos);
  const auto bare = Checkpoint::open(folder.write("bare.bin", "\x80\x04N."));
  ASSERT_FALSE(bare);
  EXPECT_NE(bare.error().message().find("a bare pickle"), std::string::npos);
}

std::string npy(std::string_view descr, std::string_view shape, std::string_view data,
                bool fortran = false) {
  const std::string header = "{'descr': '" + std::string(descr) +
                             "', 'fortran_order': " + (fortran ? "True" : "False") +
                             ", 'shape': " + std::string(shape) + ", }\n";
  return ByteBuilder()
      .text("\x93NUMPY")
      .u8(1)
      .u8(0)
      .u16(header.size())
      .text(header)
      .text(data)
      .str();
}

TEST(Npz, ArraysOfBothKinds) {
  ZipBuilder zip;
  zip.add({.name = "a.npy", .content = npy("<f4", "(2, 3)", floats({1, 2, 3, 4, 5, 6}))});
  zip.add({.name = "b/c.npy",
           .content = npy("<f4", "(3, 2)", floats({1, 3, 5, 2, 4, 6}), true),
           .deflated = true,
           .zip64 = true});
  const auto model = open(zip.finish());
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->format(), Format::kNpz);
  ASSERT_EQ((*model)->tensors().size(), 2u);
  EXPECT_EQ((*model)->tensors()[1].name, "b/c");
  EXPECT_EQ(testing::read_values(**model, 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(testing::read_values(**model, 1), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_NE((*model)->tensors()[0].offset, 0u);
  EXPECT_EQ((*model)->tensors()[1].offset, 0u);
}

TEST(Npz, Refusals) {
  EXPECT_EQ(refusal(ZipBuilder().finish()), "accepted");
  EXPECT_REFUSAL(ZipBuilder().add({.name = "a.txt", .content = "x"}).finish(),
                 "array 'a.txt': its name does not end in .npy");
  EXPECT_REFUSAL(ZipBuilder().add({.name = "a.npy", .content = "x"}).finish(),
                 "array 'a.npy': byte 0: magic number");
  EXPECT_REFUSAL(
      ZipBuilder().add({.name = "a.npy", .content = npy("<f4", "(2,)", "1234")}).finish(),
      "array 'a.npy': 4 bytes of data");
  EXPECT_REFUSAL(
      ZipBuilder().add({.name = "a.npy", .content = npy("|O", "(1,)", "1234")}).finish(),
      "array 'a.npy': header: descr '|O'");
}

}  // namespace
}  // namespace pith
