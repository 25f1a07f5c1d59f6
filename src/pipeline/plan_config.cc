// `quantization_config` of config.json, as compressed-tensors 0.18 writes and reads it.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "src/pipeline/compress_plan.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

struct ConfigGroup {
  Scheme scheme;  // with scales in f32: their type is the model's
  std::vector<std::string> modules;
};

Json weights_of(const Scheme& scheme) {
  const bool grouped = scheme.group == Group::kBlock;
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", false},
          {"group_size", grouped ? Json(scheme.block_size) : Json(nullptr)},
          {"num_bits", scheme.bits},
          {"observer", "minmax"},
          {"observer_kwargs", Json::object()},
          {"strategy", grouped ? "group" : "channel"},
          {"symmetric", true},
          {"type", "int"}};
}

Json activations_of(const Scheme& scheme) {
  if (scheme.group == Group::kBlock) return nullptr;
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", true},
          {"group_size", nullptr},
          {"num_bits", 8},
          {"observer", nullptr},
          {"observer_kwargs", Json::object()},
          {"strategy", "token"},
          {"symmetric", true},
          {"type", "int"}};
}

const char* format_of(const Scheme& scheme) {
  return scheme.group == Group::kBlock ? "pack-quantized" : "int-quantized";
}

// A tied head is in no file, but it is a Linear module of the engine, which must not look for
// codes of it.
std::vector<std::string> tied_heads(const CompressPlan& plan) {
  const auto any = [&](auto test) {
    return std::any_of(
        plan.tensors.begin(), plan.tensors.end(),
        [&](const TensorPlan& tensor) { return test(tensor.header.name); });
  };
  std::vector<std::string> heads;
  // Of most networks, of BERT, of RoBERTa: a module, and how names beside it begin.
  for (const auto& [head, beside] :
       {std::pair("lm_head", ""),
        std::pair("cls.predictions.decoder", "cls.predictions."),
        std::pair("lm_head.decoder", "lm_head.dense.")}) {
    const std::string weight = std::string(head) + ".weight";
    if (any([&, begin = beside](const std::string& name) {
          return name.starts_with(begin);
        }) &&
        !any([&](const std::string& name) { return name == weight; })) {
      heads.emplace_back(head);
    }
  }
  return heads;
}

}  // namespace

Result<std::string> config_with_quantization(const CompressPlan& plan,
                                             const std::string& config) {
  Json document = Json::parse(config, nullptr, false);
  if (!document.is_object()) {
    return Status::invalid_argument("config.json of the input is no JSON object");
  }
  std::vector<ConfigGroup> groups;
  std::vector<std::string> ignore;
  for (const TensorPlan& tensor : plan.tensors) {
    const std::string module = module_of(tensor.header.name);
    if (module.empty()) continue;
    if (!tensor.record.scheme) {
      if (tensor.header.shape.rank() >= 2) ignore.push_back(module);
      continue;
    }
    Scheme scheme = *tensor.record.scheme;
    scheme.scale_type = DType::kF32;
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const ConfigGroup& known) { return known.scheme == scheme; });
    if (group == groups.end()) group = groups.insert(groups.end(), {scheme, {}});
    group->modules.push_back(module);
  }
  for (std::string& head : tied_heads(plan)) ignore.push_back(std::move(head));
  Json config_groups = Json::object();
  bool mixed = false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const ConfigGroup& group = groups[i];
    mixed =
        mixed || format_of(group.scheme) != std::string_view(format_of(groups[0].scheme));
    config_groups[fmt::format("group_{}", i)] = {
        {"format", format_of(group.scheme)},
        {"input_activations", activations_of(group.scheme)},
        {"output_activations", nullptr},
        // One group is every linear layer that is not ignored.
        {"targets", groups.size() == 1 ? Json{"Linear"} : Json(group.modules)},
        {"weights", weights_of(group.scheme)}};
  }
  document["quantization_config"] = {
      {"config_groups", std::move(config_groups)},
      {"format", mixed ? "mixed-precision" : format_of(groups[0].scheme)},
      {"global_compression_ratio", nullptr},
      {"ignore", ignore},
      {"kv_cache_scheme", nullptr},
      {"quant_method", "compressed-tensors"},
      {"quantization_status", "compressed"},
      {"sparsity_config", Json::object()},
      {"transform_config", Json::object()},
      {"version", "0.18.0"}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pith
