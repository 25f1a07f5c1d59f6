#include "src/io/npy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/byte_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"

namespace pith {
namespace {

using testing::ByteBuilder;
using testing::TempFolder;

ByteBuilder npy(std::string_view header, int version = 1) {
  ByteBuilder file;
  file.text("\x93NUMPY").u8(static_cast<std::uint64_t>(version)).u8(0);
  version == 1 ? file.u16(header.size()) : file.u32(header.size());
  return file.text(header);
}

ByteBuilder npy(std::string_view descr, bool fortran, std::string_view shape) {
  return npy("{'descr': '" + std::string(descr) + "', 'fortran_order': " +
             (fortran ? "True" : "False") + ", 'shape': " + std::string(shape) + ", }\n");
}

Result<NpyHeader> parse(const ByteBuilder& file) {
  return parse_npy(file.bytes(), file.size());
}

std::string refusal(const ByteBuilder& file) {
  const Result<NpyHeader> header = parse(file);
  return header ? "accepted" : header.error().message();
}

#define EXPECT_REFUSAL(file, part) \
  EXPECT_NE(refusal(file).find(part), std::string::npos) << refusal(file)

std::vector<float> values_of(const ByteBuilder& file) {
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("a.npy", file.str()));
  EXPECT_TRUE(model) << model.error().message();
  return model ? testing::read_values(**model, 0) : std::vector<float>();
}

TEST(Npy, Samples) { testing::check_samples("numpy"); }

TEST(Npy, RowMajor) {
  ByteBuilder file = npy("<f4", false, "(2, 3)");
  for (int i = 1; i <= 6; ++i) file.f32(static_cast<float>(i));
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("a.npy", file.str()));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->format(), Format::kNpy);
  const TensorInfo& tensor = (*model)->tensors()[0];
  EXPECT_EQ(tensor.name, "");
  EXPECT_EQ(tensor.encoding.name, "<f4");
  EXPECT_EQ(tensor.shape, Shape::make({2, 3}).value());
  EXPECT_EQ(tensor.offset, file.size() - 24);
  EXPECT_EQ(testing::read_values(**model, 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, FortranOrderIsTurnedRound) {
  ByteBuilder file = npy("<i4", true, "(2, 3)");
  for (const int i : {1, 4, 2, 5, 3, 6}) file.u32(static_cast<std::uint64_t>(i));
  EXPECT_EQ(values_of(file), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const TempFolder folder;
  const auto model = Checkpoint::open(folder.write("a.npy", file.str()));
  std::vector<std::byte> bytes(9);
  ASSERT_TRUE((*model)->read_bytes(0, 7, bytes).ok());
  // The last byte of element 1, elements 2 and 3.
  ByteBuilder expected;
  expected.u8(0).u32(3).u32(4);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.bytes().begin()));
}

TEST(Npy, BigEndianIsTurnedRound) {
  ByteBuilder file = npy(">u2", false, "(2,)");
  file.u8(0x01).u8(0x02).u8(0x00).u8(0x05);
  EXPECT_EQ(values_of(file), (std::vector<float>{258, 5}));
  ByteBuilder fortran = npy(">i8", true, "(2, 2)");
  for (const int i : {1, 3, 2, 4}) fortran.zeros(7).u8(static_cast<std::uint64_t>(i));
  EXPECT_EQ(values_of(fortran), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Npy, EveryType) {
  EXPECT_EQ(values_of(npy("|b1", false, "(2,)").u8(0).u8(1)), (std::vector<float>{0, 1}));
  EXPECT_EQ(values_of(npy("|i1", false, "(1,)").u8(0xfe)), (std::vector<float>{-2}));
  EXPECT_EQ(values_of(npy("<u1", false, "(1,)").u8(0xfe)), (std::vector<float>{254}));
  EXPECT_EQ(values_of(npy("<i2", false, "(1,)").u16(0xfffe)), (std::vector<float>{-2}));
  EXPECT_EQ(values_of(npy("<u2", false, "(1,)").u16(0xfffe)),
            (std::vector<float>{65534}));
  EXPECT_EQ(values_of(npy("<i4", false, "(1,)").u32(0xfffffffe)),
            (std::vector<float>{-2}));
  EXPECT_EQ(values_of(npy("<u4", false, "(1,)").u32(7)), (std::vector<float>{7}));
  EXPECT_EQ(values_of(npy("<i8", false, "(1,)").u64(~std::uint64_t{0})),
            (std::vector<float>{-1}));
  EXPECT_EQ(values_of(npy("<u8", false, "(1,)").u64(7)), (std::vector<float>{7}));
  EXPECT_EQ(values_of(npy("<f2", false, "(1,)").u16(0x3e00)), (std::vector<float>{1.5}));
  EXPECT_EQ(values_of(npy("<f8", false, "(1,)").f64(0.5)), (std::vector<float>{0.5}));
}

TEST(Npy, ComplexNumbersAreListedOnly) {
  const ByteBuilder file = npy("<c8", false, "(2,)").zeros(16);
  ASSERT_TRUE(parse(file)) << refusal(file);
  EXPECT_FALSE(parse(file)->encoding.decodable);
  EXPECT_REFUSAL(npy(">c8", false, "(2,)").zeros(16), "'>c8'");
}

TEST(Npy, ScalarsAndEmptyArrays) {
  EXPECT_EQ(values_of(npy("<f4", false, "()").f32(3)), (std::vector<float>{3}));
  EXPECT_EQ(parse(npy("<f4", true, "(0, 5)"))->shape, Shape::make({0, 5}).value());
}

TEST(Npy, Versions) {
  for (const int version : {1, 2, 3}) {
    EXPECT_TRUE(
        parse(npy("{'descr':'<f4','fortran_order':False,'shape':()}", version).f32(1)));
  }
  EXPECT_REFUSAL(npy("{}", 0), "npy version 0.0, expected 1.0, 2.0 or 3.0");
  EXPECT_REFUSAL(npy("{}", 4), "npy version 4.0");
  ByteBuilder minor;
  minor.text("\x93NUMPY").u8(1).u8(1).u16(0);
  EXPECT_REFUSAL(minor, "npy version 1.1");
  ByteBuilder magic;
  magic.text("\x93NUMPX").u8(1).u8(0).u16(0);
  EXPECT_REFUSAL(magic, "not an npy file");
}

TEST(Npy, HeaderLength) {
  ByteBuilder past_end;
  past_end.text("\x93NUMPY").u8(1).u8(0).u16(500).text("{}");
  EXPECT_REFUSAL(past_end, "header needs 500 bytes, but only 2 are left");
  ByteBuilder huge;
  huge.text("\x93NUMPY").u8(2).u8(0).u32(UINT32_MAX).text("{}");
  EXPECT_REFUSAL(huge, "header needs 4294967295 bytes");
  EXPECT_REFUSAL(npy(std::string(10001, ' ')), "at most 10000 are allowed");
  EXPECT_TRUE(parse(
      npy("{'descr':'<f4','fortran_order':False,'shape':()}" + std::string(9900, ' '))
          .f32(1)));
  const ByteBuilder whole = npy("<f4", false, "(1,)").f32(1);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_npy(whole.bytes().first(size), size)) << size;
  }
}

TEST(Npy, HeaderIsALiteral) {
  const auto header = [](std::string_view text) { return refusal(npy(text).f32(1)); };
  const std::string_view good = "{'descr': '<f4', 'fortran_order': False, 'shape': ()}";
  EXPECT_EQ(header(good), "accepted");
  EXPECT_EQ(header("{\"shape\": (), \"fortran_order\": False, \"descr\": \"<f4\",}  \n"),
            "accepted");
  EXPECT_EQ(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 1L)}"),
            "accepted");
  for (const std::string_view bad : {
           "",
           "{",
           "{}",
           "[]",
           "{,}",
           "{'descr'}",
           "{'descr': '<f4'}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'shape': ()}",
           "{'fortran_order': False, 'shape': ()}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
           "{'descr': '<f4', 'fortran_order': False, 'fortran_order': False, 'shape': "
           "()}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'shape': ()}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
           "{'descr': '<f4', 'fortran_order': false, 'shape': ()}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (01,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (+1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (len('a'),)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (",
           "{'descr': '<f4, 'fortran_order': False, 'shape': ()}",
           "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': ()}",
           "{descr: '<f4', 'fortran_order': False, 'shape': ()}",
       }) {
    EXPECT_NE(header(bad), "accepted") << bad;
    EXPECT_LE(header(bad).size(), 200u) << header(bad);
  }
  EXPECT_EQ(
      header("{'descr': '<f4', 'fortran_order': False, 'shape': (exit(),)}"),
      "header is not a plain literal: character 51 is 'exit(),)}', expected a number");
}

TEST(Npy, TypesThatAreRefused) {
  const auto with = [](std::string_view descr) {
    return npy(descr, false, "(1,)").zeros(16);
  };
  EXPECT_REFUSAL(with("|O"), "Python objects, which would have to be unpickled");
  EXPECT_REFUSAL(with("|V2"), "raw bytes or records");
  EXPECT_REFUSAL(with("<U4"), "strings");
  EXPECT_REFUSAL(with("|S4"), "strings");
  EXPECT_REFUSAL(with("<M8[ns]"), "dates");
  EXPECT_REFUSAL(with("<m8[s]"), "dates");
  EXPECT_REFUSAL(with("<f16"), "of a type that is not read");
  EXPECT_REFUSAL(with("<c16"), "of a type that is not read");
  EXPECT_REFUSAL(with("=f4"), "of a type that is not read");
  EXPECT_REFUSAL(with("|f4"), "of a type that is not read");
  EXPECT_REFUSAL(with(""), "''");
  EXPECT_REFUSAL(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
                 "arrays of records");
}

TEST(Npy, Dimensions) {
  EXPECT_REFUSAL(npy("<f4", false, "(-2, -3)").zeros(24), "dimension -2 is negative");
  EXPECT_REFUSAL(npy("<f4", false, "(-0,)").zeros(24), "is negative");
  EXPECT_REFUSAL(npy("<f4", false, "(4294967296, 4294967296)"), "exceeds 2^63-1");
  EXPECT_REFUSAL(npy("<f4", false, "(0, 4294967296, 4294967296)"), "exceeds 2^63-1");
  EXPECT_REFUSAL(npy("<f4", false, "(9223372036854775808,)"),
                 "a dimension exceeds 2^63-1");
  EXPECT_REFUSAL(npy("<f8", false, "(9223372036854775807,)"), "truncated");
  EXPECT_REFUSAL(npy("<f8", false, "(4611686018427387904,)"), "truncated");
}

TEST(Npy, DataHasTheSizeOfTheShape) {
  EXPECT_REFUSAL(npy("<f4", false, "(2, 3)").zeros(23),
                 "23 bytes of data, but shape [2, 3] of <f4 needs 24: it is truncated");
  EXPECT_REFUSAL(npy("<f4", false, "(2, 3)").zeros(25), "1 bytes behind the array");
}

}  // namespace
}  // namespace pith
