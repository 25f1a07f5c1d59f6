// Safetensors files as the format's own library writes them, so that equal content gives
// equal bytes: tensors by type, the widest first, then by name; offsets from 0 without
// gaps; the header in the same order, without spaces, filled up with spaces to a multiple
// of 8. docs/formats/safetensors.md has the layout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/file_plan.h"
#include "src/io/safetensors_header.h"

namespace pith {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // what readers accept

Status check_safetensors_tensor(const TensorSpec& tensor) {
  if (!tensor.encoding.dtype || *tensor.encoding.dtype == DType::kI4) {
    return Status::unsupported(
        fmt::format("{}: safetensors cannot hold {}; convert it to f32, f16 or bf16",
                    shown_tensor(tensor), tensor.encoding.name));
  }
  if (tensor.name == "__metadata__") {
    return Status::invalid_argument(
        "tensor '__metadata__': safetensors has another use for this name");
  }
  if (find_invalid_utf8(tensor.name) != std::string_view::npos) {
    return Status::invalid_argument(fmt::format(
        "{}: the name is not UTF-8, which safetensors needs", shown_tensor(tensor)));
  }
  return {};
}

Status check_metadata(const Metadata& sorted) {
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto& [key, value] = sorted[i];
    if (i > 0 && key == sorted[i - 1].first) {
      return Status::invalid_argument(
          fmt::format("metadata key '{}' is there twice", printable(key)));
    }
    if (find_invalid_utf8(key) != std::string_view::npos ||
        find_invalid_utf8(value) != std::string_view::npos) {
      return Status::invalid_argument(fmt::format(
          "metadata key '{}': key or value is not UTF-8, which safetensors needs",
          printable(key)));
    }
  }
  return {};
}

}  // namespace

Result<FilePlan> plan_safetensors(std::span<const TensorSpec* const> tensors,
                                  const Metadata& metadata) {
  FilePlan plan;
  plan.offsets.resize(tensors.size());
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const TensorSpec* tensor : tensors) {
    PITH_OK(check_safetensors_tensor(*tensor));
    PITH_TRY(const std::uint64_t bytes, bytes_of(*tensor));
    plan.bytes.push_back(bytes);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const DType left = *tensors[a]->encoding.dtype;
    const DType right = *tensors[b]->encoding.dtype;
    return left != right ? left > right : tensors[a]->name < tensors[b]->name;
  });
  Metadata sorted = metadata;
  std::sort(sorted.begin(), sorted.end());
  PITH_OK(check_metadata(sorted));

  std::string header = "12345678{";  // the length comes last
  if (!sorted.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : sorted) {
      if (header.back() != '{') header += ',';
      header += fmt::format("\"{}\":\"", json_escape(key));
      const std::string text = json_escape(value);
      plan.metadata.push_back({key, header.size(), text.size()});
      header += text;
      header += '"';
    }
    header += '}';
  }
  CheckedSize offset(0);
  for (const std::size_t i : order) {
    const TensorSpec& tensor = *tensors[i];
    const CheckedSize end = offset + plan.bytes[i];
    if (!end.fits_int64()) {
      return Status::invalid_argument(
          fmt::format("{}: the file would exceed 2^63-1 bytes", shown_tensor(tensor)));
    }
    if (header.back() != '{') header += ',';
    header +=
        fmt::format("\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    json_escape(tensor.name), safetensors_name(*tensor.encoding.dtype),
                    fmt::join(tensor.shape.extents(), ","), offset.value(), end.value());
    plan.offsets[i] = offset.value();
    offset = end;
  }
  header += '}';
  while (header.size() % 8 != 0) header += ' ';
  const std::uint64_t length = header.size() - 8;
  if (length > kMaxHeader) {
    return Status::invalid_argument(fmt::format(
        "the header would have {} bytes, but readers accept at most {}: split the "
        "checkpoint into shards",
        length, kMaxHeader));
  }
  std::memcpy(header.data(), &length, sizeof(length));
  const CheckedSize size = offset + header.size();
  if (!size.fits_int64()) {
    return Status::invalid_argument("the file would exceed 2^63-1 bytes");
  }
  plan.size = size.value();
  for (std::uint64_t& begin : plan.offsets) begin += header.size();
  plan.pieces.push_back({0, std::move(header)});
  return plan;
}

}  // namespace pith
