// Stages in a row over all tensors of a model in memory.
//
//   pith::Pipeline pipeline = pith::Pipeline::prune_then_quantize(0.5f);
//   PITH_TRY(pith::PipelineResult done, pipeline.run(std::move(model)));
//   for (const pith::StageStats& s : done.stages) print(s.stage, s.sparsity(),
//   s.ratio());
//
// A stage runs over all tensors before the next one begins. The result depends neither
// on the number of threads nor on the instruction set; permuting tensors permutes the
// result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/pipeline/embeddings.h"
#include "pith/pipeline/stage.h"

namespace pith {

/// A named tensor of f32 values, row-major.
struct ModelTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};
using Model = std::vector<ModelTensor>;

/// A tensor that a stage left as it was.
struct SkippedTensor {
  std::string name;
  std::string reason;
};

/// bytes_before / bytes_after; 1 if nothing is left.
[[nodiscard]] double ratio_of(std::int64_t bytes_before, std::int64_t bytes_after);

/// What a stage did. Counts and bytes are those of all tensors, skipped ones too.
struct StageStats {
  std::string stage;
  std::int64_t processed = 0;  ///< tensors
  std::vector<SkippedTensor> skipped;
  std::vector<std::string> warnings;  ///< of tensors that were cleared altogether
  std::int64_t params_before = 0;
  std::int64_t nonzero_after = 0;
  std::int64_t bytes_before = 0;  ///< of the model as it came: 4 per parameter
  std::int64_t code_bytes = 0;    ///< after the stage: Storage::code_bytes
  std::int64_t stored_bytes = 0;  ///< after the stage: Storage::stored_bytes

  /// Sparsity::sparsity of what is left; 0 if more is left than was there.
  [[nodiscard]] float sparsity() const;
  /// By all bytes that are stored.
  [[nodiscard]] double ratio() const { return ratio_of(bytes_before, stored_bytes); }
  /// By the codes alone: the reference's measure, 4 for int8 whatever the scales cost.
  [[nodiscard]] double code_ratio() const { return ratio_of(bytes_before, code_bytes); }
};

/// The model as it is now, how each tensor is stored, and what each stage did. Overall
/// figures are those after the last stage: a tensor that was quantized stays quantized
/// when it is pruned afterwards.
struct PipelineResult {
  Model model;                   ///< values as they are read back from what is stored
  std::vector<Storage> storage;  ///< of each tensor
  std::vector<StageStats> stages;

  [[nodiscard]] const StageStats& total() const { return stages.back(); }
};

struct PipelineOptions {
  /// Tensors with the name of an embedding pass through all stages unchanged.
  bool skip_embeddings = false;
  EmbeddingNames embedding_names = {};
};

class Pipeline {
 public:
  explicit Pipeline(std::vector<StagePtr> stages = {}, PipelineOptions options = {})
      : stages_(std::move(stages)), options_(std::move(options)) {}

  /// Element pruning by magnitude, then int8 with one scale per tensor.
  static Pipeline prune_then_quantize(float sparsity, PipelineOptions options = {});
  static Pipeline quantize_only(PipelineOptions options = {});
  static Pipeline prune_only(float sparsity, PipelineOptions options = {});

  [[nodiscard]] const std::vector<StagePtr>& stages() const { return stages_; }
  [[nodiscard]] const PipelineOptions& options() const { return options_; }

  /// kInvalidArgument if an option of any stage is out of its range; the message begins
  /// with the number of the stage.
  [[nodiscard]] Status validate() const;

  /// Why a stage leaves a tensor as it is, or empty.
  [[nodiscard]] std::string skip_reason(const Stage& stage,
                                        const TensorHeader& tensor) const;

  /// kInvalidArgument if there are no tensors, no stages, an option is out of its range,
  /// values do not fit their shape, or two tensors have the same name; all this before
  /// anything is done. Else the errors of the stages, which name the tensor.
  Result<PipelineResult> run(Model model) const;

 private:
  std::vector<StagePtr> stages_;
  PipelineOptions options_;
};

}  // namespace pith
