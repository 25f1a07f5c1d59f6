// hazards.jsonl: inputs on which the reference crashes or misleads. `recommended` says
// what must happen: `reject`, `value` or `property`.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/golden/adapters.h"
#include "tests/golden/case.h"
#include "tests/golden/hazard_checks.h"

namespace pith::golden {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Json tensor_of(const Json& inputs) {
  const auto count = to_f32s(inputs.at("data")).size();
  return {{"name", "w"},
          {"data", inputs.at("data")},
          {"shape", inputs.value("shape", Json{count})}};
}

Json prune_inputs(const Case& item) {
  const char* granularity = has(item.name, "_row_")      ? "row"
                            : has(item.name, "_column_") ? "column"
                                                         : "element";
  return {{"tensor", tensor_of(item.inputs)},
          {"config",
           {{"sparsity", item.inputs.at("sparsity")},
            {"metric", {{"kind", "l1"}}},
            {"granularity", granularity},
            {"min_nonzero", 1}}}};
}

Json clip_inputs(const Json& inputs) {
  return {{"tensors", {tensor_of(inputs)}},
          {"stages", {{{"kind", "clip"}, {"percentile", inputs.at("percentile")}}}},
          {"skip_embedding_layers", false}};
}

Json importance_inputs(const Json& inputs) {
  Json full = inputs;
  full["threshold"] = f32(0);
  return full;
}

Json mode_of(const Json& inputs) {
  if (!inputs.contains("channels")) return {{"kind", "per_tensor"}};
  return {{"kind", "per_channel"}, {"channels", inputs.at("channels")}};
}

Json matvec_inputs(const Json& inputs) {
  const std::size_t count = to_f32s(inputs.at("weights")).size();
  const auto rows = inputs.value("channels", std::size_t{1});
  const auto length = inputs.at("x_len").get<std::size_t>();
  return {{"q", std::vector<int>(count, 1)},
          {"scales", f32s(std::vector<float>(rows, 1))},
          {"mode", mode_of(inputs)},
          {"x", f32s(std::vector<float>(length, 1))}};
}

Json given_codes(const Json& inputs) {
  Json full = inputs;
  full["mode"] = mode_of(inputs);
  return full;
}

Json row_codes(const Json& inputs) {
  Json full = inputs;
  full["format"] = "int8_per_row";
  full["shape"] = {to_f32s(inputs.at("scales")).size(), 1};
  return full;
}

Json error_inputs(const Json& inputs) {
  const std::size_t count = to_f32s(inputs.at("data")).size();
  return {{"original", inputs.at("data")},
          {"quantized",
           {{"q", std::vector<int>(count, 127)},
            {"scales", f32(1.0F / 127)},
            {"mode", {{"kind", "per_tensor"}}}}}};
}

Json calibrator_inputs(const Json& inputs) {
  Json records = Json::array();
  for (const char* key : {"first_in_features", "second_in_features"}) {
    const auto features = inputs.at(key).get<std::size_t>();
    records.push_back({{"layer", "l"},
                       {"activations", f32s(std::vector<float>(2 * features, 1))},
                       {"in_features", features}});
  }
  const auto features = inputs.at("first_in_features").get<std::size_t>();
  return {{"alpha", f32(0.5F)},
          {"records", std::move(records)},
          {"layer", "l"},
          {"weights", f32s(std::vector<float>(features, 1))},
          {"out_features", 1}};
}

// The inputs in full, where a hazard gives them short.
Json full_inputs(const Case& item) {
  const Json& inputs = item.inputs;
  if (item.function == "prune_tensor") return prune_inputs(item);
  if (item.function == "compress_model") return clip_inputs(inputs);
  if (item.function == "calib_stats_collect") return {{"batches", {inputs.at("data")}}};
  if (item.function == "compute_importance") return importance_inputs(inputs);
  if (item.function == "int8_matvec") return matvec_inputs(inputs);
  if (item.function == "int8_dequantize") return given_codes(inputs);
  if (item.function == "dequantize") return row_codes(inputs);
  if (item.function == "analyze_int8_error") return error_inputs(inputs);
  if (item.function == "smoothquant_calibrator") return calibrator_inputs(inputs);
  return inputs;
}

std::string expect_rejection(const Case& item) {
  const Adapter adapter = find_adapter(item.function);
  if (adapter == nullptr) return fmt::format("no adapter for '{}'", item.function);
  const Result<Json> answer = adapter(full_inputs(item));
  if (!answer) return {};
  return fmt::format("expected an error, got the output {}",
                     answer->dump().substr(0, 200));
}

}  // namespace

std::string run_hazard(const Case& item) {
  const auto must = item.recommended.at("must").get<std::string>();
  if (must == "reject") return expect_rejection(item);
  const HazardCheck check = find_hazard_check(item.name);
  if (check == nullptr) {
    throw BadCase(fmt::format("no check for a hazard that must be a {}", must));
  }
  return check(item);
}

}  // namespace pith::golden
