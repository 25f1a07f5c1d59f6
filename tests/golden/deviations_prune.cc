// Deviations of pruning and of pipelines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "pith/pipeline/pipeline.h"
#include "tests/golden/adapt_pipeline.h"
#include "tests/golden/adapters.h"
#include "tests/golden/compare.h"
#include "tests/golden/deviation_checks.h"

namespace pith::golden {
namespace {

std::string failed(const Result<Json>& answer) {
  return fmt::format("got the error '{}'", answer.error().message());
}

Json ratio_fields(std::int64_t before, std::int64_t after, const char* ratio,
                  const char* text) {
  const auto value =
      static_cast<float>(static_cast<double>(before) / static_cast<double>(after));
  return Json{{ratio, f32(value)}, {text, fmt::format("{:.3f}", value)}};
}

// Bytes of codes when every tensor that is not skipped is quantized.
std::int64_t quantized_bytes(const Json& inputs) {
  const EmbeddingNames names = EmbeddingNames::reference();
  const bool skip = inputs.at("skip_embedding_layers").get<bool>();
  std::int64_t bytes = 0;
  for (const Json& tensor : inputs.at("tensors")) {
    const auto elements = static_cast<std::int64_t>(to_f32s(tensor.at("data")).size());
    const bool skipped = skip && names.match(tensor.at("name").get<std::string>());
    bytes += skipped ? 4 * elements : elements;
  }
  return bytes;
}

// What the reference would say if a tensor stayed quantized from the first quantize stage
// on, in the run and in the estimate.
Json with_one_size_model(const Case& item) {
  Json expected = item.output;
  const std::int64_t after = quantized_bytes(item.inputs);
  bool quantized = false;
  for (Json& stage : expected.at("stages")) {
    quantized = quantized || stage.at("kind") == "quantize_int8";
    if (!quantized) continue;
    const auto before = stage.at("memory_before").get<std::int64_t>();
    stage["memory_after"] = after;
    stage.update(ratio_fields(before, after, "ratio", "ratio_3dp"));
  }
  const Json last = expected.at("stages").back();
  expected["memory_after"] = last.at("memory_after");
  expected["estimated_size"] = last.at("memory_after");
  expected["total_ratio"] = last.at("ratio");
  expected["total_ratio_3dp"] = last.at("ratio_3dp");
  return expected;
}

// The tensors after the first `stages` stages.
Result<Json> tensors_after(const Case& item, std::size_t stages) {
  if (stages == 0) return item.inputs.at("tensors");
  Json inputs = item.inputs;
  Json& list = inputs.at("stages");
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(stages), list.end());
  PITH_TRY(Json answer, find_adapter(item.function)(inputs));
  return answer.at("tensors");
}

std::int64_t zeros_of(const Json& tensor) {
  const std::vector<float> values = to_f32s(tensor.at("data"));
  return std::count(values.begin(), values.end(), 0.0F);
}

// Zeros before and after a clip stage: as many as its share, or those that were there.
std::string clipped_exactly(const Json& before, const Json& after, float percentile) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto count = static_cast<float>(to_f32s(before[i].at("data")).size());
    const auto share = static_cast<std::int64_t>(std::ceil(percentile * count));
    const std::int64_t wanted = std::max({zeros_of(before[i]), share, std::int64_t{1}});
    if (zeros_of(after[i]) != wanted) {
      return fmt::format("tensor {}: expected {} zeros after clip({}), got {}", i, wanted,
                         percentile, zeros_of(after[i]));
    }
  }
  return {};
}

// Zeroed elements of a matrix form whole rows or columns, as many as the reference has.
bool whole_units(const std::string& mask, std::int64_t rows, std::int64_t cols,
                 bool by_row) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t first = by_row ? r * cols : c;
      const auto at = static_cast<std::size_t>(r * cols + c);
      if (mask[at] != mask[static_cast<std::size_t>(first)]) return false;
    }
  }
  return true;
}

}  // namespace

std::string sparsity_is_zeros_of_total(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  Json expected = item.output;
  const auto total = expected.contains("total")
                         ? expected.at("total").get<double>()
                         : static_cast<double>(to_f32s(expected.at("data")).size());
  const auto nonzero = expected.at("nonzero").get<double>();
  expected["sparsity"] = f32(static_cast<float>((total - nonzero) / total));
  return difference(expected, *answer, item.tolerances);
}

std::string prunes_by_magnitude(const Case& item, const Result<Json>& answer) {
  Json inputs = item.inputs;
  inputs.at("config").at("metric").at("kind") = "l1";
  const Result<Json> by_magnitude = find_adapter(item.function)(inputs);
  if (!answer) return failed(answer);
  if (!by_magnitude) return failed(by_magnitude);
  return difference(*by_magnitude, *answer, Json::object());
}

std::string units_are_whole(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const Json& shape = item.inputs.at("tensor").at("shape");
  const bool by_row = item.inputs.at("config").at("granularity") == "row";
  if (!whole_units(answer->at("mask").get<std::string>(), shape[0].get<std::int64_t>(),
                   shape[1].get<std::int64_t>(), by_row)) {
    return "a row or column is kept in part";
  }
  return difference(item.output.at("pruned"), answer->at("pruned"), Json::object());
}

std::string keeps_nonzeros(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const std::vector<float> data = to_f32s(item.inputs.at("tensor").at("data"));
  const auto nonzero =
      std::count_if(data.begin(), data.end(), [](float value) { return value != 0; });
  const auto floor = item.inputs.at("config").at("min_nonzero").get<std::int64_t>();
  const auto left = answer->at("nonzero").get<std::int64_t>();
  if (left >= std::min<std::int64_t>(nonzero, floor)) return {};
  return fmt::format("{} of {} non-zero weights are left", left, nonzero);
}

std::string empty_passes_through(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  Json inputs = item.inputs;
  Json& tensors = inputs.at("tensors");
  for (std::size_t i = tensors.size(); i-- > 0;) {
    if (to_f32s(tensors[i].at("data")).empty()) tensors.erase(i);
  }
  const Result<Json> without = find_adapter(item.function)(inputs);
  if (!without) return failed(without);
  Json expected = without->at("tensors");
  Json got = Json::array();
  for (const Json& tensor : answer->at("tensors")) {
    if (!to_f32s(tensor.at("data")).empty()) got.push_back(tensor);
  }
  if (answer->at("tensors").size() != item.inputs.at("tensors").size()) {
    return "a tensor is missing";
  }
  return difference(expected, got, Json::object());
}

std::string sizes_follow_the_stages(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  return difference(with_one_size_model(item), *answer, item.tolerances);
}

// By default: names by their words. With the reference's prefixes: as the reference.
std::string knows_embeddings(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  if (std::string text = difference(item.output, *answer, item.tolerances);
      !text.empty()) {
    return text;
  }
  const Pipeline pipeline = pipeline_of(item.inputs, EmbeddingNames());
  Result<Model> model = model_of(item.inputs);
  if (!model) return model.error().message();
  const Result<PipelineResult> done = pipeline.run(*std::move(model));
  if (!done) return done.error().message();
  std::vector<std::string> skipped;
  for (const SkippedTensor& tensor : done->total().skipped)
    skipped.push_back(tensor.name);
  const std::vector<std::string> expected = {
      "embed.weight",           "Embedding_layer",
      "token_embedding.weight", "model.embed_tokens.weight",
      "transformer.wte.weight", "lm_head.weight"};
  if (skipped == expected) return {};
  return fmt::format("skipped are {}", fmt::join(skipped, ", "));
}

std::string skips_what_it_cannot_prune(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  for (const Json& stage : answer->at("stages")) {
    if (stage.at("processed") != 1 || stage.at("skipped") != 1) {
      return fmt::format("a stage took {} and skipped {}", stage.at("processed").dump(),
                         stage.at("skipped").dump());
    }
  }
  const Json& before = item.inputs.at("tensors")[1];
  const Json& after = answer->at("tensors")[1];
  return difference(f32s(to_f32s(before.at("data"))), after.at("data"), Json::object());
}

// Sizes as in the one size model, whether the case is tagged so or not.
std::string clips_exactly(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const Json& stages = item.inputs.at("stages");
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].at("kind") != "clip") continue;
    const Result<Json> before = tensors_after(item, i);
    const Result<Json> after = tensors_after(item, i + 1);
    if (!before) return failed(before);
    if (!after) return failed(after);
    std::string text =
        clipped_exactly(*before, *after, to_f32(stages[i].at("percentile")));
    if (!text.empty()) return text;
  }
  const Json expected = with_one_size_model(item);
  for (const char* key : {"memory_after", "estimated_size", "total_ratio"}) {
    std::string text = difference(expected.at(key), answer->at(key), Json::object());
    if (!text.empty()) return text;
  }
  return {};
}

std::string estimate_is_codes(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  std::int64_t elements = 0;
  for (const Json& tensor : item.inputs.at("tensors")) {
    elements += tensor.at("elements").get<std::int64_t>();
  }
  const bool quantized = !item.inputs.at("stages").empty();
  return difference(Json{{"bytes", quantized ? elements : 4 * elements}}, *answer,
                    Json::object());
}

std::string subnormals_become_zero(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  Json expected = item.output;
  Json& tensor = expected.at("tensors")[0];
  tensor["data"] = f32s(std::vector<float>(to_f32s(tensor.at("data")).size(), 0.0F));
  return difference(expected, *answer, item.tolerances);
}

}  // namespace pith::golden
