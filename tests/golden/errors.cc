#include "tests/golden/errors.h"

#include <fmt/format.h>

#include "tests/golden/compare.h"

namespace pith::golden {
namespace {

struct Kind {
  std::string_view name;
  StatusCode code;
  std::string_view word;  // what the message speaks of
};

constexpr Kind kKinds[] = {
    {"InvalidSparsity", StatusCode::kInvalidArgument, "sparsity"},
    {"EmptyTensor", StatusCode::kInvalidArgument, "no "},
    {"NotTwoDimensional", StatusCode::kInvalidArgument, "dimensions"},
    {"BelowMinNonzero", StatusCode::kInvalidArgument, "min_nonzero"},
    {"EmptyModel", StatusCode::kInvalidArgument, "no tensors"},
    {"EmptyPipeline", StatusCode::kInvalidArgument, "no stages"},
    {"InvalidPercentile", StatusCode::kInvalidArgument, "percentile"},
    {"ShapeMismatch", StatusCode::kInvalidArgument, "expected"},
    {"EmptyInput", StatusCode::kInvalidArgument, "empty"},
    {"FeatureDimMismatch", StatusCode::kInvalidArgument, "factors"},
    {"InFeaturesMismatch", StatusCode::kInvalidArgument, "factors"},
    {"QuantizationError", StatusCode::kInvalidArgument, "weights"},
    {"ChannelMismatch", StatusCode::kInvalidArgument, "channels"},
    {"LayerNotFound", StatusCode::kNotFound, "layer"},
    {"TensorError", StatusCode::kInvalidArgument, "room for"},
};

}  // namespace

std::string not_of_kind(const Status& status, std::string_view kind, const Json& info) {
  constexpr std::string_view kPruning = "Pruning/";
  if (kind.starts_with(kPruning)) kind.remove_prefix(kPruning.size());
  for (const Kind& entry : kKinds) {
    if (entry.name != kind) continue;
    if (status.code() != entry.code) {
      return fmt::format("expected the code '{}' for {}, got '{}': {}",
                         to_string(entry.code), kind, to_string(status.code()),
                         status.message());
    }
    if (status.message().find(entry.word) == std::string::npos) {
      return fmt::format("expected a message about '{}' for {}, got: {}", entry.word,
                         kind, status.message());
    }
    const std::string missing = missing_from(status.message(), info);
    if (missing.empty()) return {};
    return fmt::format("expected {} in the message, got: {}", missing, status.message());
  }
  return fmt::format("no error of Pith stands for the kind {}", kind);
}

}  // namespace pith::golden
