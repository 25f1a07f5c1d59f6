// Pipelines of compression.jsonl, for its adapters and for the checks of deviations.
#pragma once

#include "pith/pipeline/pipeline.h"
#include "tests/golden/encoding.h"

namespace pith::golden {

[[nodiscard]] Pipeline pipeline_of(const Json& inputs, const EmbeddingNames& names);
[[nodiscard]] Result<Model> model_of(const Json& inputs);

/// Runs a case of compress_model and writes down what came of it.
[[nodiscard]] Result<Json> compress_with(const Json& inputs, const EmbeddingNames& names);

}  // namespace pith::golden
