// Hazards of pruning, of sizes and of whole models.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "pith/pipeline/estimate.h"
#include "pith/pipeline/pipeline.h"
#include "pith/prune/importance.h"
#include "pith/prune/prune.h"
#include "pith/quantize/quantize.h"
#include "tests/golden/hazard_checks.h"

namespace pith::golden {
namespace {

Model model_of(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {{"w", *Shape::make({count}), std::move(values)}};
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

std::string int8_size(const Case& item) {
  const auto count = item.inputs.at("count").get<std::size_t>();
  const Result<PipelineResult> done =
      Pipeline::quantize_only().run(model_of(std::vector<float>(count)));
  if (!done) return show(done.error());
  const auto want = item.recommended.at("output").at("memory_after").get<std::int64_t>();
  return unless(
      done->total().code_bytes == want,
      fmt::format("memory_after: expected {}, got {}", want, done->total().code_bytes));
}

std::string prune_count(const Case& item) {
  std::vector<float> values = counting(item.inputs.at("count").get<std::size_t>());
  PruneOptions options;
  options.sparsity = to_f32(item.inputs.at("sparsity"));
  const auto count = static_cast<std::int64_t>(values.size());
  const Result<Pruned> pruned = prune({"w", values, *Shape::make({count})}, options);
  if (!pruned) return show(pruned.error());
  const auto want = item.recommended.at("output").at("pruned").get<std::int64_t>();
  return unless(pruned->pruned == want,
                fmt::format("pruned: expected {}, got {}", want, pruned->pruned));
}

std::string random_below_one(const Case& item) {
  const Result<std::vector<float>> scores = importance_scores(
      to_f32s(item.inputs.at("data")), {.importance = Importance::kRandom,
                                        .seed = to_u64(item.inputs.at("seed")),
                                        .column_norms = {}});
  if (!scores) return show(scores.error());
  return unless((*scores)[0] < 1,
                fmt::format("expected a score below 1, got {}", (*scores)[0]));
}

// Which of `rows` rows of ones are kept: '1' or '0' for each.
Result<std::string> kept_rows(std::int64_t rows, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(2 * rows), 1);
  PITH_TRY(Shape shape, Shape::make({rows, 2}));
  PruneOptions options;
  options.importance = Importance::kRandom;
  options.granularity = Granularity::kRow;
  options.seed = seed;
  PITH_TRY(Pruned pruned, prune({"w", values, shape}, options));
  std::string kept;
  for (std::int64_t row = 0; row < rows; ++row) {
    kept += pruned.mask.kept(row, 0) ? '1' : '0';
  }
  return kept;
}

// Scores that step by a constant give a pattern with at most 2 n different windows of n
// rows; a choice without a pattern has almost all 2^n.
std::string random_rows(const Case& /*item*/) {
  const Result<std::string> few = kept_rows(12, 0);
  if (!few) return show(few.error());
  if (std::count(few->begin(), few->end(), '1') != 6) {
    return fmt::format("expected 6 of 12 rows kept, got {}", *few);
  }
  const Result<std::string> many = kept_rows(2048, 0);
  if (!many) return show(many.error());
  std::set<std::string> windows;
  for (std::size_t i = 0; i + 8 <= many->size(); ++i) windows.insert(many->substr(i, 8));
  return unless(
      windows.size() > 200,
      fmt::format("expected most of 256 windows of 8 rows, got {}", windows.size()));
}

std::string memory_claim(const Case& item) {
  const auto count = item.inputs.at("count").get<std::int64_t>();
  const std::vector<float> values = counting(static_cast<std::size_t>(count));
  const Result<TensorView> view = TensorView::of(values, *Shape::make({count}));
  const Result<QuantizedTensor> codes = quantize(*view, Scheme::int8_tensor());
  if (!codes) return show(codes.error());
  const std::int64_t held =
      codes->codes.size() + codes->scales.size() + codes->zero_points.size();
  return unless(
      codes->codes.size() == count && held == codes->stored_bytes() && held <= count + 4,
      fmt::format("expected {} bytes and a scale, got {}", count, held));
}

std::string quantize_then_prune(const Case& item) {
  const Pipeline pipeline(
      {quantize_stage(Scheme::int8_tensor()), prune_stage(PruneOptions())});
  const Result<PipelineResult> done =
      pipeline.run(model_of(counting(item.inputs.at("elements").get<std::size_t>())));
  if (!done) return show(done.error());
  return unless(done->total().code_ratio() == 4 && done->total().ratio() > 3.7,
                fmt::format("expected a ratio near 4, got {} by codes and {} by bytes",
                            done->total().code_ratio(), done->total().ratio()));
}

std::string estimate_equals_run(const Case& item) {
  const StagePtr int8 = quantize_stage(Scheme::int8_tensor());
  const Pipeline pipeline({int8, int8});
  Model model = model_of(counting(item.inputs.at("elements").get<std::size_t>()));
  const TensorHeader spec{model[0].name, model[0].shape};
  const Result<PipelineResult> done = pipeline.run(std::move(model));
  if (!done) return show(done.error());
  const Result<Estimate> estimated = estimate(pipeline, std::span(&spec, 1));
  if (!estimated) return show(estimated.error());
  return unless(estimated->code_bytes == done->total().code_bytes &&
                    estimated->stored_bytes == done->total().stored_bytes,
                fmt::format("expected {} bytes, estimated {}", done->total().stored_bytes,
                            estimated->stored_bytes));
}

// Documented in pipeline.h: 1.
std::string ratio_of_nothing(const Case& /*item*/) {
  const Result<PipelineResult> done = Pipeline::prune_only(0.5F).run(model_of({}));
  if (!done) return show(done.error());
  return unless(done->total().code_ratio() == 1 && done->total().ratio() == 1,
                fmt::format("expected a ratio of 1, got {}", done->total().ratio()));
}

// What pruning, scores and stages say of the same zeros.
std::string one_sparsity(const Case& /*item*/) {
  for (std::int64_t total = 1; total < 400; ++total) {
    std::vector<float> scores(static_cast<std::size_t>(total), 1);
    for (std::int64_t zeros = 0; zeros <= total; ++zeros) {
      if (zeros > 0) scores[static_cast<std::size_t>(zeros - 1)] = 0;
      const float counted = count_sparsity(scores).sparsity();
      StageStats stats;
      stats.params_before = total;
      stats.nonzero_after = total - zeros;
      if (stats.sparsity() != counted || sparsity_at(scores, 0) != counted) {
        return fmt::format("{} zeros of {}: got {}, {} and {}", zeros, total, counted,
                           stats.sparsity(), sparsity_at(scores, 0));
      }
    }
  }
  return {};
}

std::string min_nonzero(const Case& item) {
  std::vector<float> values = to_f32s(item.inputs.at("data"));
  PruneOptions options;
  options.sparsity = to_f32(item.inputs.at("sparsity"));
  options.importance = Importance::kRandom;
  options.seed = 1;
  options.min_nonzero = item.inputs.at("min_nonzero").get<std::int64_t>();
  const auto count = static_cast<std::int64_t>(values.size());
  const Result<Pruned> pruned = prune({"w", values, *Shape::make({count})}, options);
  if (!pruned) return show(pruned.error());
  return unless(pruned->after.nonzero >= 1, "expected a non-zero weight, got none");
}

constexpr HazardEntry kSizeChecks[] = {
    {"hazards/int8_size_in_f32", int8_size},
    {"hazards/prune_count_above_target", prune_count},
    {"hazards/random_score_is_one", random_below_one},
    {"hazards/random_rows_are_regular", random_rows},
    {"hazards/memory_claim", memory_claim},
    {"hazards/quantize_then_prune_ratio", quantize_then_prune},
    {"hazards/estimate_disagrees_with_run", estimate_equals_run},
    {"hazards/empty_tensor_ratio", ratio_of_nothing},
    {"hazards/two_sparsity_formulas", one_sparsity},
    {"hazards/min_nonzero_not_kept", min_nonzero},
};

}  // namespace

std::span<const HazardEntry> size_hazards() { return kSizeChecks; }

}  // namespace pith::golden
