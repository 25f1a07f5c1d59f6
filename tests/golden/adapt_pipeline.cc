// compression.jsonl: pith/pipeline/.
#include "tests/golden/adapt_pipeline.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "pith/pipeline/estimate.h"
#include "pith/pipeline/pipeline.h"
#include "tests/golden/adapt_prune.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

constexpr std::string_view kInt8 = "quantize_int8";

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", static_cast<float>(value), digits);
}

StagePtr stage_of(const Json& stage) {
  const auto kind = stage.at("kind").get<std::string>();
  if (kind == "prune") return prune_stage(prune_options_of(stage.at("config")));
  if (kind == "clip") return clip_stage(to_f32(stage.at("percentile")));
  if (kind == kInt8) return quantize_stage(Scheme::int8_tensor());
  throw BadCase("unknown stage " + kind);
}

Json stats_of(const StageStats& stats) {
  return Json{{"kind", stats.stage == "quantize" ? kInt8 : stats.stage},
              {"processed", stats.processed},
              {"skipped", stats.skipped.size()},
              {"params_before", stats.params_before},
              {"nonzero_after", stats.nonzero_after},
              {"memory_before", stats.bytes_before},
              {"memory_after", stats.code_bytes},
              {"sparsity", f32(stats.sparsity())},
              {"ratio", f32_of(stats.code_ratio())},
              {"sparsity_4dp", fixed(stats.sparsity(), 4)},
              {"ratio_3dp", fixed(stats.code_ratio(), 3)}};
}

Result<std::vector<TensorHeader>> specs_of(const Json& tensors) {
  std::vector<TensorHeader> specs;
  for (const Json& tensor : tensors) {
    PITH_TRY(Shape shape, to_shape(tensor.at("shape")));
    specs.push_back({tensor.at("name").get<std::string>(), std::move(shape)});
  }
  return specs;
}

Result<Json> compress(const Json& inputs) {
  return compress_with(inputs, EmbeddingNames::reference());
}

Result<Json> estimate_case(const Json& inputs) {
  const Pipeline pipeline = pipeline_of(inputs, EmbeddingNames::reference());
  PITH_TRY(std::vector<TensorHeader> specs, specs_of(inputs.at("tensors")));
  PITH_TRY(Estimate found, estimate(pipeline, specs));
  return Json{{"bytes", found.code_bytes}};
}

Result<Json> stage_stats(const Json& inputs) {
  StageStats stats;
  stats.params_before = to_size(inputs.at("params_before"));
  stats.nonzero_after = to_size(inputs.at("nonzero_after"));
  stats.bytes_before = to_size(inputs.at("memory_before"));
  stats.code_bytes = to_size(inputs.at("memory_after"));
  return Json{{"sparsity", f32(stats.sparsity())}, {"ratio", f32_of(stats.code_ratio())}};
}

constexpr AdapterEntry kPipelineAdapters[] = {
    {"compress_model", compress},
    {"estimate_compressed_size", estimate_case},
    {"stage_stats", stage_stats},
};

}  // namespace

Pipeline pipeline_of(const Json& inputs, const EmbeddingNames& names) {
  std::vector<StagePtr> stages;
  for (const Json& stage : inputs.at("stages")) stages.push_back(stage_of(stage));
  return Pipeline(std::move(stages),
                  {.skip_embeddings = inputs.at("skip_embedding_layers").get<bool>(),
                   .embedding_names = names});
}

Result<Model> model_of(const Json& inputs) {
  Model model;
  for (const Json& tensor : inputs.at("tensors")) {
    PITH_TRY(Shape shape, to_shape(tensor.at("shape")));
    model.push_back({tensor.at("name").get<std::string>(), std::move(shape),
                     to_f32s(tensor.at("data"))});
  }
  return model;
}

Result<Json> compress_with(const Json& inputs, const EmbeddingNames& names) {
  const Pipeline pipeline = pipeline_of(inputs, names);
  PITH_TRY(Model model, model_of(inputs));
  PITH_TRY(PipelineResult done, pipeline.run(std::move(model)));
  PITH_TRY(std::vector<TensorHeader> specs, specs_of(inputs.at("tensors")));
  PITH_TRY(Estimate estimated, estimate(pipeline, specs));
  Json tensors = Json::array();
  for (const ModelTensor& tensor : done.model) {
    tensors.push_back({{"name", tensor.name},
                       {"data", f32s(tensor.values)},
                       {"shape", extents_of(tensor.shape)}});
  }
  Json stages = Json::array();
  for (const StageStats& stats : done.stages) stages.push_back(stats_of(stats));
  const StageStats& total = done.total();
  return Json{{"tensors", std::move(tensors)},
              {"stages", std::move(stages)},
              {"total_params", total.params_before},
              {"total_nonzero", total.nonzero_after},
              {"overall_sparsity", f32(total.sparsity())},
              {"memory_before", total.bytes_before},
              {"memory_after", total.code_bytes},
              {"total_ratio", f32_of(total.code_ratio())},
              {"estimated_size", estimated.code_bytes},
              {"overall_sparsity_4dp", fixed(total.sparsity(), 4)},
              {"total_ratio_3dp", fixed(total.code_ratio(), 3)}};
}

std::span<const AdapterEntry> pipeline_adapters() { return kPipelineAdapters; }

}  // namespace pith::golden
