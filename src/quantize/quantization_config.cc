#include "src/quantize/quantization_config.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/text.h"
#include "src/io/json.h"
#include "src/io/reader.h"
#include "src/quantize/json_keys.h"

namespace pith {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxConfig = 16 << 20;
constexpr std::size_t kConfigValues = 1'000'000;
constexpr std::size_t kMaxExpressions = 1000;

Result<std::string> text_of(const Json& object, const char* key) {
  const Json* value = find_key(object, key);
  if (value == nullptr || !value->is_string()) {
    return Status::corrupt(fmt::format("'{}' is missing or no string", key));
  }
  return value->get<std::string>();
}

Result<Json> parse(std::string_view config) {
  ByteReader in(std::as_bytes(std::span(config)));
  PITH_TRY(Json json, parse_json_tree(in, kConfigValues));
  if (!json.is_object()) return Status::corrupt("an object was expected");
  return json;
}

// Older writers had another name for it.
const Json* quantization_of(const Json& config) {
  const Json* found = find_key(config, "quantization_config");
  return found != nullptr ? found : find_key(config, "compression_config");
}

Result<CtFormat> format_from(const std::string& name) {
  if (name == "dense") return CtFormat::kDense;
  if (name == "int-quantized" || name == "float-quantized" || name == "naive-quantized") {
    return CtFormat::kPlain;
  }
  if (name == "pack-quantized") return CtFormat::kPacked;
  for (const char* known :
       {"nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
        "sparse-bitmask", "sparse-24-bitmask", "marlin-24"}) {
    if (name == known) {
      return Status::unsupported(fmt::format("format '{}' is not read", name));
    }
  }
  return Status::corrupt(fmt::format("unknown format '{}'", printable(name, 32)));
}

Result<CtWeights> weights_from(const Json& json) {
  CtWeights weights;
  PITH_TRY(const std::int64_t bits,
           positive_number(find_key(json, "num_bits"), "num_bits"));
  weights.bits = static_cast<int>(bits);
  PITH_TRY(const std::string type, text_of(json, "type"));
  if (type != "int" && type != "float") {
    return Status::corrupt(fmt::format("unknown type '{}'", printable(type, 32)));
  }
  weights.is_float = type == "float";
  const Json* symmetric = find_key(json, "symmetric");
  if (symmetric != nullptr && !symmetric->is_boolean()) {
    return Status::corrupt("'symmetric' must be true or false");
  }
  weights.symmetric = symmetric == nullptr || symmetric->get<bool>();
  const Json* group_size = find_key(json, "group_size");
  // -1 is another way to say one group per row.
  const bool has_size = group_size != nullptr && *group_size != -1;
  std::string strategy = group_size == nullptr ? "tensor"
                         : has_size            ? "group"
                                               : "channel";
  if (find_key(json, "strategy") != nullptr) {
    PITH_TRY(strategy, text_of(json, "strategy"));
  }
  if (strategy == "tensor") {
    weights.strategy = CtStrategy::kTensor;
  } else if (strategy == "channel" || (strategy == "group" && !has_size)) {
    weights.strategy = CtStrategy::kChannel;
  } else if (strategy == "group") {
    weights.strategy = CtStrategy::kGroup;
    PITH_TRY(weights.group_size, positive_number(group_size, "group_size"));
  } else if (strategy == "block") {
    weights.strategy = CtStrategy::kBlock;
    const Json* block = find_key(json, "block_structure");
    if (block == nullptr || !block->is_array() || block->size() != 2) {
      return Status::corrupt("'block_structure' must be two numbers");
    }
    PITH_TRY(weights.block_rows, positive_number(&block->at(0), "block_structure"));
    PITH_TRY(weights.group_size, positive_number(&block->at(1), "block_structure"));
  } else {
    return Status::unsupported(
        fmt::format("strategy '{}' is not read for weights", printable(strategy, 32)));
  }
  return weights;
}

Status check_bits(const CtWeights& weights, CtFormat format) {
  const bool good = format == CtFormat::kPacked
                        ? !weights.is_float && (weights.bits == 4 || weights.bits == 8)
                        : weights.bits == 8 || (!weights.is_float && weights.bits < 8);
  if (good) return {};
  // Codes of 3, 5, 6 and 7 bits lie differently in different versions of the library.
  return Status::unsupported(fmt::format(
      "{} weights of {} bits are not read{}", weights.is_float ? "float" : "int",
      weights.bits, format == CtFormat::kPacked ? " when packed: 4 and 8 are" : ""));
}

Status add_names(const Json* list, const char* key, ModuleNames& names) {
  if (list == nullptr) return {};
  if (!list->is_array())
    return Status::corrupt(fmt::format("'{}' must be an array", key));
  for (const Json& name : *list) {
    if (!name.is_string()) {
      return Status::corrupt(fmt::format("'{}' must be an array of strings", key));
    }
    PITH_OK(names.add(name.get<std::string>()));
  }
  return {};
}

Result<CtGroup> group_from(const Json& json, const std::string& model_format) {
  if (!json.is_object()) return Status::corrupt("an object was expected");
  CtGroup group;
  PITH_OK(add_names(find_key(json, "targets"), "targets", group.targets));
  std::string format = model_format;
  if (find_key(json, "format") != nullptr) {
    PITH_TRY(format, text_of(json, "format"));
  }
  const Json* weights = find_key(json, "weights");
  if (weights == nullptr) return group;
  if (!weights->is_object()) return Status::corrupt("'weights' must be an object");
  PITH_TRY(group.format, format_from(format));
  auto parsed = weights_from(*weights);
  if (!parsed) return parsed.error().with_context("weights");
  group.weights = *parsed;
  if (group.format != CtFormat::kDense) PITH_OK(check_bits(*group.weights, group.format));
  return group;
}

}  // namespace

ModuleNames::ModuleNames() = default;
ModuleNames::~ModuleNames() = default;
ModuleNames::ModuleNames(ModuleNames&&) noexcept = default;
ModuleNames& ModuleNames::operator=(ModuleNames&&) noexcept = default;

Status ModuleNames::add(std::string_view name) {
  if (name.starts_with("re:")) {
    name.remove_prefix(3);
    if (expressions_.size() == kMaxExpressions) {
      return Status::unsupported(
          fmt::format("more than {} regular expressions", kMaxExpressions));
    }
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(1 << 20);
    auto expression =
        std::make_unique<re2::RE2>(re2::StringPiece(name.data(), name.size()), options);
    if (!expression->ok()) {
      return Status::unsupported(
          fmt::format("regular expression '{}' is not understood: {}", printable(name),
                      printable(expression->error())));
    }
    expressions_.push_back(std::move(expression));
    return {};
  }
  // Classes begin with a capital letter and have no path: Linear, LlamaAttention.
  if (!name.empty() && name[0] >= 'A' && name[0] <= 'Z' &&
      name.find('.') == std::string_view::npos) {
    has_class_ = true;
  }
  exact_.emplace(name);
  return {};
}

ModuleNames::Match ModuleNames::match(std::string_view module) const {
  if (exact_.contains(module)) return Match::kExact;
  const re2::StringPiece text(module.data(), module.size());
  for (const auto& expression : expressions_) {
    if (expression->Match(text, 0, text.size(), RE2::ANCHOR_START, nullptr, 0)) {
      return Match::kExpression;
    }
  }
  return has_class_ ? Match::kClass : Match::kNone;
}

Result<const CtGroup*> CtConfig::group_of(std::string_view module) const {
  const CtGroup* best = nullptr;
  auto closest = ModuleNames::Match::kNone;
  bool twice = false;
  for (const CtGroup& group : groups) {
    const ModuleNames::Match match = group.targets.match(module);
    if (match == ModuleNames::Match::kNone || match < closest) continue;
    twice = match == closest;
    closest = match;
    best = &group;
  }
  if (best == nullptr) {
    return Status::corrupt(fmt::format(
        "no group targets module '{}', but its weight is quantized", printable(module)));
  }
  if (twice) {
    return Status::unsupported(
        fmt::format("several groups target module '{}'", printable(module)));
  }
  return best;
}

Result<std::string> read_config(const InputFile& file) {
  if (file.size() > kMaxConfig) {
    return Status::corrupt(fmt::format("{}: {} bytes, at most {} are expected",
                                       file.name(), file.size(), kMaxConfig));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  PITH_OK(file.read_exact(0, std::as_writable_bytes(std::span(text))));
  return text;
}

bool ties_embeddings(std::string_view config) {
  const Result<Json> json = parse(config);
  return json && json->is_object() && json->value("tie_word_embeddings", Json()) == true;
}

Result<std::string> quantization_method(std::string_view config) {
  PITH_TRY(const Json json, parse(config));
  const Json* quantization = quantization_of(json);
  if (quantization == nullptr) return std::string();
  if (!quantization->is_object()) {
    return Status::corrupt("'quantization_config' must be an object");
  }
  return text_of(*quantization, "quant_method");
}

Result<CtConfig> parse_compressed_tensors(std::string_view config) {
  PITH_TRY(const Json json, parse(config));
  const Json* quantization = quantization_of(json);
  if (quantization == nullptr || !quantization->is_object()) {
    return Status::corrupt("'quantization_config' is missing");
  }
  std::string format = "dense";
  if (find_key(*quantization, "format") != nullptr) {
    PITH_TRY(format, text_of(*quantization, "format"));
  }
  if (const Json* sparsity = find_key(*quantization, "sparsity_config")) {
    const Json* kind = sparsity->is_object() ? find_key(*sparsity, "format") : nullptr;
    if (kind != nullptr && *kind != "dense") {
      return Status::unsupported("sparse weights ('sparsity_config') are not read");
    }
  }
  const Json* groups = find_key(*quantization, "config_groups");
  if (groups == nullptr || !groups->is_object()) {
    return Status::corrupt("'config_groups' is missing or no object");
  }
  CtConfig out;
  for (const auto& [name, value] : groups->items()) {
    auto group = group_from(value, format);
    if (!group) return group.error().with_context(printable(name, 32));
    group->name = name;
    out.groups.push_back(*std::move(group));
  }
  PITH_OK(add_names(find_key(*quantization, "ignore"), "ignore", out.ignore));
  return out;
}

}  // namespace pith
