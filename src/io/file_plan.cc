#include "src/io/file_plan.h"

#include <fmt/format.h>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/plain.h"

namespace pith {

std::string shown_tensor(const TensorSpec& tensor) {
  return fmt::format("tensor '{}'", printable(tensor.name));
}

Result<std::uint64_t> bytes_of(const TensorSpec& tensor) {
  const Encoding& encoding = tensor.encoding;
  if (encoding.block < 1 || encoding.block_bytes < 1) {
    return Status::invalid_argument(fmt::format(
        "{}: encoding '{}' has blocks of {} elements in {} bytes", shown_tensor(tensor),
        encoding.name, encoding.block, encoding.block_bytes));
  }
  // Blocks of several elements that share a scale never cross a row; plain elements of
  // less than a byte need only fill whole bytes.
  const std::int64_t length =
      encoding.dtype ? tensor.shape.elements() : tensor.shape.cols();
  if (length % encoding.block != 0) {
    return Status::invalid_argument(fmt::format(
        "{}: shape {} does not fit {}, which is stored in blocks of {}",
        shown_tensor(tensor), tensor.shape.to_string(), encoding.name, encoding.block));
  }
  const CheckedSize bytes =
      CheckedSize::from_signed(tensor.shape.elements() / encoding.block) *
      CheckedSize::from_signed(encoding.block_bytes);
  if (!bytes.fits_int64()) {
    return Status::invalid_argument(fmt::format("{}: shape {} of {} exceeds 2^63-1 bytes",
                                                shown_tensor(tensor),
                                                tensor.shape.to_string(), encoding.name));
  }
  return bytes.value();
}

std::string json_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

TensorSpec TensorSpec::plain(std::string name, DType dtype, Shape shape) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.encoding = plain_encoding(dtype, to_string(dtype));
  return spec;
}

}  // namespace pith
