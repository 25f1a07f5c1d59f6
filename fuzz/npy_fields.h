// npy files that are right but for a few fields.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "fuzz/fields.h"
#include "tests/support/byte_builder.h"

namespace pith::fuzz {

inline std::string npy_file(Fields& fields) {
  constexpr std::array<std::string_view, 16> kDescrs = {
      "|b1", "|i1", "|u1", "<i2", ">u2", "<i4", "<f4", ">f4",
      "<f8", "<i8", "<f2", "<c8", ">i8", "|O",  "<U4", "|V2"};
  const std::string_view descr = kDescrs[static_cast<std::size_t>(fields.below(16))];
  std::uint64_t bytes = static_cast<std::uint64_t>(descr.back() - '0');
  std::string shape = "(";
  const std::uint64_t rank = fields.below(5);
  for (std::uint64_t i = 0; i < rank; ++i) {
    const std::uint64_t extent = fields.number();
    bytes *= extent;  // may wrap, as that of a careless writer
    if (fields.one_in(32)) shape += '-';
    shape += std::to_string(extent);
    if (fields.one_in(32)) shape += 'L';
    if (i + 1 < rank || rank == 1) shape += ",";
    if (i + 1 < rank) shape += " ";
  }
  shape += ")";
  std::array<std::string, 3> items = {
      "'descr': '" + std::string(descr) + "'",
      std::string("'fortran_order': ") + (fields.one_in(2) ? "True" : "False"),
      "'shape': " + shape};
  if (fields.one_in(32)) items[fields.below(3)] = items[fields.below(3)];
  if (fields.one_in(32)) items[fields.below(3)] += fields.text(6);
  std::string header = "{";
  const std::uint64_t first = fields.below(3);
  for (std::uint64_t i = 0; i < 3; ++i) header += items[(first + i) % 3] + ", ";
  header += "}\n";
  if (fields.one_in(32)) header += fields.text(4);

  testing::ByteBuilder file;
  const std::uint64_t version = fields.mostly(1 + fields.below(3), 64);
  file.text("\x93NUMPY").u8(version).u8(fields.mostly(0, 64));
  const std::uint64_t length = fields.mostly(header.size(), 32);
  version == 1 ? file.u16(length) : file.u32(length);
  file.text(header);
  // More would cost time and show nothing.
  static const std::string pattern = [] {
    std::string text;
    for (int i = 0; i < 4096; ++i) text += static_cast<char>(i * 37);
    return text;
  }();
  file.text(std::string_view(pattern).substr(
      0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 4096))));
  if (fields.one_in(16)) file.text(fields.text(8));
  if (fields.one_in(16))
    return file.without_last(std::min<std::size_t>(file.size(), 1 + fields.below(32)));
  return file.str();
}

}  // namespace pith::fuzz
