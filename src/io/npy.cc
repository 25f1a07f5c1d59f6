#include "src/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/openers.h"
#include "src/io/plain.h"
#include "src/io/reader.h"

namespace pith {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Types by kind and size; single bytes have no order.
struct Descr {
  std::string_view little;
  std::string_view big;
  DType dtype;
};
constexpr std::array kDescrs = {
    Descr{"|b1", "|b1", DType::kBool}, Descr{"|i1", "|i1", DType::kI8},
    Descr{"|u1", "|u1", DType::kU8},   Descr{"<i2", ">i2", DType::kI16},
    Descr{"<u2", ">u2", DType::kU16},  Descr{"<i4", ">i4", DType::kI32},
    Descr{"<u4", ">u4", DType::kU32},  Descr{"<i8", ">i8", DType::kI64},
    Descr{"<u8", ">u8", DType::kU64},  Descr{"<f2", ">f2", DType::kF16},
    Descr{"<f4", ">f4", DType::kF32},  Descr{"<f8", ">f8", DType::kF64},
};
// Complex numbers are copied, and only in the order of this machine: the two parts would
// have to be turned round one by one.
constexpr Descr kComplex = {"<c8", "", DType::kC64};

struct Type {
  Encoding encoding;
  bool big_endian = false;
};

std::string_view reason_of_kind(char kind) {
  switch (kind) {
    case 'O':
      return "Python objects, which would have to be unpickled";
    case 'V':
      return "raw bytes or records (bfloat16 and float8 have no type of their own here)";
    case 'U':
    case 'S':
    case 'a':
      return "strings";
    case 'M':
    case 'm':
      return "dates or times";
    default:
      return "of a type that is not read";
  }
}

Result<Type> parse_descr(std::string_view descr) {
  for (const Descr& known : kDescrs) {
    // A single byte may be written with any order.
    const bool one_byte = known.little.front() == '|';
    const bool ordered = descr.size() == 3 && (descr[0] == '<' || descr[0] == '>');
    if (descr == known.little ||
        (one_byte && ordered && descr.substr(1) == known.little.substr(1))) {
      return Type{plain_encoding(known.dtype, known.little), false};
    }
    if (descr == known.big) return Type{plain_encoding(known.dtype, known.big), true};
  }
  if (descr == kComplex.little) {
    return Type{plain_encoding(kComplex.dtype, kComplex.little), false};
  }
  const char kind = descr.size() > 1 ? descr[1] : '?';
  return Status::unsupported(fmt::format("header: descr '{}' means elements that are {}",
                                         printable(descr, 40), reason_of_kind(kind)));
}

// The grammar: a dict of three known keys whose values are a string, True or False, and a
// tuple of integers.
class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  Result<NpyHeader> parse() {
    PITH_OK(expect('{'));
    while (!accept('}')) {
      PITH_TRY(const std::string_view key, string());
      PITH_OK(expect(':'));
      PITH_OK(value(key));
      if (!accept(',')) {
        PITH_OK(expect('}'));
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) return wrong("the end of the header");
    if (!type_) return Status::corrupt("header: key 'descr' is missing");
    if (!fortran_order_) return Status::corrupt("header: key 'fortran_order' is missing");
    if (!shape_) return Status::corrupt("header: key 'shape' is missing");
    NpyHeader header;
    header.encoding = type_->encoding;
    header.big_endian = type_->big_endian;
    header.fortran_order = *fortran_order_;
    header.shape = *shape_;
    return header;
  }

 private:
  void skip_space() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] Status wrong(std::string_view expected) const {
    const std::string found =
        at_ == text_.size() ? "its end"
                            : fmt::format("'{}'", printable(text_.substr(at_, 20), 40));
    return Status::corrupt(
        fmt::format("header is not a plain literal: character {} is {}, expected {}", at_,
                    found, expected));
  }

  Status expect(char c) { return accept(c) ? Status() : wrong(fmt::format("'{}'", c)); }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // Between quotes of one kind, without escapes.
  Result<std::string_view> string() {
    skip_space();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      return wrong("a string");
    }
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return wrong("a string with a closing quote");
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    if (content.find_first_of("\\\n") != std::string_view::npos) {
      return wrong("a string without escapes");
    }
    at_ = end + 1;
    return content;
  }

  Result<std::int64_t> integer() {
    skip_space();
    std::int64_t number = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error == std::errc::result_out_of_range) {
      return Status::corrupt("header: a dimension exceeds 2^63-1");
    }
    if (error != std::errc()) return wrong("a number");
    if (*begin == '-') {
      return Status::corrupt(fmt::format("header: dimension {} is negative", number));
    }
    if (*begin == '0' && end - begin > 1) return wrong("a number without leading zeros");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
    return number;
  }

  Result<Shape> tuple() {
    PITH_OK(expect('('));
    std::vector<std::int64_t> extents;
    bool comma = true;
    while (!accept(')')) {
      if (!comma) return wrong("',' or ')'");
      PITH_TRY(const std::int64_t extent, integer());
      extents.push_back(extent);
      comma = accept(',');
    }
    if (extents.size() == 1 && !comma) {
      return Status::corrupt("header: shape is a number, expected a tuple such as (3,)");
    }
    const Result<Shape> shape = Shape::make(extents);
    if (!shape) return Status::corrupt("header: " + shape.error().message());
    return *shape;
  }

  Status value(std::string_view key) {
    const auto twice = [&] {
      return Status::corrupt(fmt::format("header: key '{}' is there twice", key));
    };
    if (key == "descr") {
      if (type_) return twice();
      if (accept('[')) {
        return Status::unsupported(
            "header: descr is a list: arrays of records are not read");
      }
      PITH_TRY(const std::string_view descr, string());
      PITH_TRY(type_, parse_descr(descr));
      return {};
    }
    if (key == "fortran_order") {
      if (fortran_order_) return twice();
      if (accept_word("True")) {
        fortran_order_ = true;
      } else if (accept_word("False")) {
        fortran_order_ = false;
      } else {
        return wrong("True or False");
      }
      return {};
    }
    if (key == "shape") {
      if (shape_) return twice();
      PITH_TRY(shape_, tuple());
      return {};
    }
    return Status::corrupt(
        fmt::format("header: key '{}', expected only descr, fortran_order and shape",
                    printable(key, 40)));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<Type> type_;
  std::optional<bool> fortran_order_;
  std::optional<Shape> shape_;
};

class NpyCheckpoint : public ViewCheckpoint {
 public:
  NpyCheckpoint(InputFile file, const NpyHeader& header) : source_(std::move(file)) {
    set_file(source_.file().path(), source_.name());
    TensorInfo info;
    info.encoding = header.encoding;
    info.shape = header.shape;
    info.offset = header.fortran_order || header.big_endian ? 0 : header.data_begin;
    add_tensor(std::move(info), npy_tensor_bytes(header, source_));
    index_names();
  }
  [[nodiscard]] Format format() const override { return Format::kNpy; }

 private:
  const FileSource source_;
};

}  // namespace

Result<NpyHeader> parse_npy(std::span<const std::byte> start, std::uint64_t total) {
  ByteReader in(start);
  std::array<char, kNpyMagic.size()> magic = {};
  PITH_OK(in.bytes(std::as_writable_bytes(std::span(magic)), "magic number"));
  if (std::string_view(magic.data(), magic.size()) != kNpyMagic) {
    return Status::corrupt("not an npy file: it does not begin with '\\x93NUMPY'");
  }
  PITH_TRY(const std::uint8_t major, in.u8("version"));
  PITH_TRY(const std::uint8_t minor, in.u8("version"));
  if (major < 1 || major > 3 || minor != 0) {
    return Status::unsupported(
        fmt::format("npy version {}.{}, expected 1.0, 2.0 or 3.0", major, minor));
  }
  std::uint64_t length = 0;
  if (major == 1) {
    PITH_TRY(length, in.u16("header length"));
  } else {
    PITH_TRY(length, in.u32("header length"));
  }
  PITH_TRY(const std::string text, in.string(length, kNpyMaxHeader, "header"));
  PITH_TRY(NpyHeader header, LiteralParser(text).parse());
  header.data_begin = in.position();

  const CheckedSize bytes = CheckedSize::from_signed(header.shape.elements()) *
                            CheckedSize::from_signed(header.encoding.block_bytes);
  const CheckedSize end = bytes + header.data_begin;
  if (!bytes.fits_int64() || !end.at_most(total)) {
    return Status::corrupt(fmt::format(
        "{} bytes of data, but shape {} of {} needs {}: it is truncated",
        total - header.data_begin, header.shape.to_string(), header.encoding.name,
        bytes.valid() ? std::to_string(bytes.value()) : "more than 2^64-1"));
  }
  if (end.value() != total) {
    return Status::corrupt(fmt::format(
        "{} bytes behind the array: one file holds one array", total - end.value()));
  }
  return header;
}

TensorBytes npy_tensor_bytes(const NpyHeader& header, const ByteSource& source) {
  TensorBytes bytes;
  bytes.view.source = &source;
  bytes.view.item_bytes = header.encoding.block_bytes;
  bytes.view.begin = header.data_begin;
  const auto extents = header.shape.extents();
  bytes.view.extents.assign(extents.begin(), extents.end());
  bytes.view.strides =
      header.fortran_order ? fortran_strides(extents) : row_major_strides(extents);
  bytes.big_endian = header.big_endian;
  return bytes;
}

CheckpointResult open_npy(InputFile file) {
  std::vector<std::byte> start(
      static_cast<std::size_t>(std::min<std::uint64_t>(kNpyMaxStart, file.size())));
  PITH_OK(file.read_exact(0, start));
  const Result<NpyHeader> header = parse_npy(start, file.size());
  if (!header) return header.error().with_context(file.name());
  return std::unique_ptr<Checkpoint>(
      std::make_unique<NpyCheckpoint>(std::move(file), *header));
}

}  // namespace pith
