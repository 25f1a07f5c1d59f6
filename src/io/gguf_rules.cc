#include "src/io/gguf_rules.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

namespace pith {
namespace {

constexpr std::string_view kWantF32[] = {
    "_norm.weight",   "ffn_gate_inp.weight",  "ssm_conv1d",
    "shortconv.conv", "attn_rel_b.weight",    "altup",
    "laurel",         "per_layer_model_proj", ".position_embd",
    ".patch_embd",    "position_embd.weight", "token_types.weight",
    "time_mix_first", "time_mix_w1",          "time_mix_w2",
    "time_mix_decay", "time_mix_lerp_fused",
};

constexpr std::uint32_t kQuantizationVersion = 2;

struct FileType {
  std::string_view encoding;
  std::uint32_t value;
};
constexpr FileType kFileTypes[] = {
    {"F32", 0},   {"F16", 1},   {"Q4_0", 2},  {"Q4_1", 3},  {"Q8_0", 7},
    {"Q5_0", 8},  {"Q5_1", 9},  {"Q2_K", 10}, {"Q3_K", 12}, {"Q4_K", 15},
    {"Q5_K", 17}, {"Q6_K", 18}, {"BF16", 32},
};

// The name of an encoding in GGUF.
std::string_view type_name(const Encoding& encoding) {
  if (!encoding.dtype) return encoding.name;
  switch (*encoding.dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    default:
      return "";
  }
}

// The N of "blk.N.", or -1.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  std::int64_t layer = -1;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool dot = end != name.data() + name.size() && *end == '.';
  return error == std::errc() && dot && layer >= 0 ? layer : -1;
}

}  // namespace

bool gguf_wants_f32(std::string_view name, const Shape& shape) {
  // Extents of 1 at the front are not written by other tools: [1, 64] is a vector.
  std::size_t rank = shape.rank();
  while (rank > 0 && shape[shape.rank() - rank] == 1) --rank;
  if (rank < 2) return true;
  return std::any_of(
      std::begin(kWantF32), std::end(kWantF32),
      [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

void sort_for_gguf(std::vector<TensorSpec>& tensors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorSpec& a, const TensorSpec& b) {
                     const std::int64_t left = layer_of(a.name);
                     const std::int64_t right = layer_of(b.name);
                     return std::tie(left, a.name) < std::tie(right, b.name);
                   });
}

std::optional<std::uint32_t> gguf_file_type(std::span<const TensorSpec> tensors) {
  std::map<std::string_view, std::int64_t> elements;
  for (const TensorSpec& tensor : tensors) {
    elements[type_name(tensor.encoding)] += tensor.shape.elements();
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == elements.end()) return std::nullopt;
  for (const FileType& type : kFileTypes) {
    if (type.encoding == most->first) return type.value;
  }
  return std::nullopt;
}

std::vector<GgufKey> gguf_keys_for(std::span<const GgufKey> source,
                                   std::span<const TensorSpec> tensors) {
  constexpr std::string_view kVersion = "general.quantization_version";
  constexpr std::string_view kFileType = "general.file_type";
  std::vector<GgufKey> keys;
  for (const GgufKey& key : source) {
    if (key.key != kVersion && key.key != kFileType && !key.key.starts_with("split.")) {
      keys.push_back(key);
    }
  }
  keys.push_back(GgufKey::u32(std::string(kVersion), kQuantizationVersion));
  if (const std::optional<std::uint32_t> type = gguf_file_type(tensors)) {
    keys.push_back(GgufKey::u32(std::string(kFileType), *type));
  }
  return keys;
}

}  // namespace pith
