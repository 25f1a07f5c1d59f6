// GGUF files, version 3: key-values as they are given, descriptions and data in the order
// of the tensors, each tensor filled up with zeros to a multiple of the alignment.
// docs/formats/gguf.md has the layout.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/file_plan.h"
#include "src/io/ggml_blocks.h"
#include "src/io/gguf.h"

namespace pith {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kMaxDims = 4;

void put_string(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

Result<std::uint64_t> alignment_of(std::span<const GgufKey> keys) {
  std::unordered_set<std::string_view> seen;
  std::uint64_t alignment = kGgufDefaultAlignment;
  for (const GgufKey& key : keys) {
    if (key.key.empty() || !seen.insert(key.key).second) {
      return Status::invalid_argument(
          fmt::format("GGUF key '{}' is {}", printable(key.key),
                      key.key.empty() ? "empty" : "there twice"));
    }
    if (key.key != "general.alignment") continue;
    const std::optional<std::uint32_t> value = key.as_u32();
    if (!value || !std::has_single_bit(*value)) {
      return Status::invalid_argument(fmt::format(
          "GGUF key 'general.alignment' is {}, expected a u32 that is a power "
          "of two",
          key.text()));
    }
    alignment = *value;
  }
  return alignment;
}

// The format's type for an encoding; null if it has none.
const GgmlType* type_of(const Encoding& encoding) {
  for (const GgmlType& type : ggml_types()) {
    if (encoding.dtype ? type.encoding.dtype == encoding.dtype
                       : !type.encoding.dtype && type.encoding.name == encoding.name) {
      return &type;
    }
  }
  return nullptr;
}

Status check_tensor(const TensorSpec& tensor) {
  if (tensor.name.size() > kGgufMaxName) {
    return Status::invalid_argument(
        fmt::format("{}: the name has {} bytes, but GGUF allows {}", shown_tensor(tensor),
                    tensor.name.size(), kGgufMaxName));
  }
  if (tensor.shape.rank() > kMaxDims) {
    return Status::unsupported(fmt::format(
        "{}: shape {} has {} dimensions, but GGUF allows {}", shown_tensor(tensor),
        tensor.shape.to_string(), tensor.shape.rank(), kMaxDims));
  }
  if (type_of(tensor.encoding) == nullptr) {
    return Status::unsupported(
        fmt::format("{}: GGUF cannot hold {}; convert it to f32, f16 or bf16",
                    shown_tensor(tensor), tensor.encoding.name));
  }
  return {};
}

}  // namespace

Result<FilePlan> plan_gguf(std::span<const TensorSpec* const> tensors,
                           std::span<const GgufKey> keys) {
  PITH_TRY(const std::uint64_t alignment, alignment_of(keys));
  FilePlan plan;
  std::string header = "GGUF";
  put(header, kVersion);
  put<std::uint64_t>(header, tensors.size());
  put<std::uint64_t>(header, keys.size());
  for (const GgufKey& key : keys) {
    put_string(header, key.key);
    put(header, static_cast<std::uint32_t>(key.type));
    header += key.value;
  }
  CheckedSize offset(0);
  for (const TensorSpec* tensor : tensors) {
    PITH_OK(check_tensor(*tensor));
    PITH_TRY(const std::uint64_t bytes, bytes_of(*tensor));
    put_string(header, tensor->name);
    put(header, static_cast<std::uint32_t>(tensor->shape.rank()));
    for (std::size_t axis = tensor->shape.rank(); axis-- > 0;) {
      put<std::int64_t>(header, tensor->shape[axis]);
    }
    put<std::uint32_t>(header, type_of(tensor->encoding)->id);
    put<std::uint64_t>(header, offset.value());
    plan.offsets.push_back(offset.value());
    plan.bytes.push_back(bytes);
    offset = (offset + bytes).round_up(alignment);
    if (!offset.fits_int64()) {
      return Status::invalid_argument(
          fmt::format("{}: the file would exceed 2^63-1 bytes", shown_tensor(*tensor)));
    }
  }
  if (!tensors.empty()) {
    const CheckedSize data = CheckedSize(header.size()).round_up(alignment);
    header.resize(data.value(), '\0');
  }
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
