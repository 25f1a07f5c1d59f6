#include "pith/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "pith/prune/sparsity.h"
#include "src/base/parallel.h"
#include "src/base/text.h"

namespace pith {
namespace {

constexpr std::string_view kEmbedding = "is an embedding";

Status check_model(const Model& model) {
  if (model.empty()) {
    return Status::invalid_argument(
        "pipeline: the model has no tensors, expected at least one");
  }
  std::unordered_set<std::string_view> names;
  for (const ModelTensor& tensor : model) {
    const auto count = static_cast<std::int64_t>(tensor.values.size());
    if (count != tensor.shape.elements()) {
      return Status::invalid_argument(
          fmt::format("pipeline: tensor '{}' has {} values, but its shape {} has {}",
                      printable(tensor.name), count, tensor.shape.to_string(),
                      tensor.shape.elements()));
    }
    if (!names.insert(tensor.name).second) {
      return Status::invalid_argument(fmt::format(
          "pipeline: two tensors have the name '{}', expected different names",
          printable(tensor.name)));
    }
  }
  return {};
}

// A run under way: what is known of each tensor, stage after stage.
class Run {
 public:
  Run(const Pipeline& pipeline, Model& model) : pipeline_(pipeline), model_(model) {
    specs_.reserve(model.size());
    for (const ModelTensor& tensor : model) specs_.push_back({tensor.name, tensor.shape});
    storage_.resize(model.size());
    nonzero_ = count_nonzero();
  }

  Result<StageStats> stage(const Stage& stage) {
    StageStats stats;
    stats.stage = stage.name();
    std::vector<StageTensor> taken;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const std::string reason = pipeline_.skip_reason(stage, specs_[i]);
      if (!reason.empty()) {
        stats.skipped.push_back({specs_[i].name, reason});
        continue;
      }
      PITH_OK(stage.fits(specs_[i]));
      taken.push_back({specs_[i], model_[i].values});
      indices.push_back(i);
    }
    PITH_OK(stage.apply_all(taken));
    stats.processed = static_cast<std::int64_t>(taken.size());
    for (std::size_t i : indices) storage_[i] = stage.storage(storage_[i]);
    count(stats);
    return stats;
  }

  std::vector<Storage> take_storage() { return std::move(storage_); }

 private:
  std::vector<std::int64_t> count_nonzero() const {
    std::vector<std::int64_t> counts(model_.size());
    parallel_for(static_cast<std::int64_t>(model_.size()), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      counts[at] = count_sparsity(model_[at].values).nonzero;
    });
    return counts;
  }

  void count(StageStats& stats) {
    const std::vector<std::int64_t> before = std::exchange(nonzero_, count_nonzero());
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const Shape& shape = specs_[i].shape;
      if (before[i] != 0 && nonzero_[i] == 0) {
        stats.warnings.push_back(
            fmt::format("{}: tensor '{}' has no value other than 0 any more", stats.stage,
                        printable(specs_[i].name)));
      }
      stats.params_before += shape.elements();
      stats.nonzero_after += nonzero_[i];
      stats.bytes_before += Storage{}.stored_bytes(shape);
      stats.code_bytes += storage_[i].code_bytes(shape);
      stats.stored_bytes += storage_[i].stored_bytes(shape);
    }
  }

  const Pipeline& pipeline_;
  Model& model_;
  std::vector<TensorHeader> specs_;
  std::vector<Storage> storage_;
  std::vector<std::int64_t> nonzero_;
};

PruneOptions elements(float sparsity) {
  PruneOptions options;
  options.sparsity = sparsity;
  return options;
}

}  // namespace

double ratio_of(std::int64_t bytes_before, std::int64_t bytes_after) {
  if (bytes_after == 0) return 1;
  return static_cast<double>(bytes_before) / static_cast<double>(bytes_after);
}

float StageStats::sparsity() const {
  return Sparsity{params_before, std::min(nonzero_after, params_before)}.sparsity();
}

Pipeline Pipeline::prune_then_quantize(float sparsity, PipelineOptions options) {
  return Pipeline(
      {prune_stage(elements(sparsity)), quantize_stage(Scheme::int8_tensor())},
      std::move(options));
}

Pipeline Pipeline::quantize_only(PipelineOptions options) {
  return Pipeline({quantize_stage(Scheme::int8_tensor())}, std::move(options));
}

Pipeline Pipeline::prune_only(float sparsity, PipelineOptions options) {
  return Pipeline({prune_stage(elements(sparsity))}, std::move(options));
}

Status Pipeline::validate() const {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Status status = stages_[i]->validate();
    if (!status.ok()) return status.with_context(fmt::format("stage {}", i + 1));
  }
  return {};
}

std::string Pipeline::skip_reason(const Stage& stage, const TensorHeader& tensor) const {
  if (options_.skip_embeddings && options_.embedding_names.match(tensor.name)) {
    return std::string(kEmbedding);
  }
  return stage.skip_reason(tensor);
}

Result<PipelineResult> Pipeline::run(Model model) const {
  PITH_OK(check_model(model));
  if (stages_.empty()) {
    return Status::invalid_argument(
        "pipeline: there are no stages, expected at least one");
  }
  PITH_OK(validate());
  PipelineResult result;
  result.model = std::move(model);
  Run run(*this, result.model);
  for (const StagePtr& stage : stages_) {
    PITH_TRY(StageStats stats, run.stage(*stage));
    result.stages.push_back(std::move(stats));
  }
  result.storage = run.take_storage();
  return result;
}

}  // namespace pith
