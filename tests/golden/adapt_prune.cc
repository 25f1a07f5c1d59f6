// pruning.jsonl: pith/prune/.
#include "tests/golden/adapt_prune.h"

#include <string>
#include <vector>

#include "pith/prune/importance.h"
#include "pith/prune/prune.h"
#include "pith/prune/sparsity.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

ImportanceOptions metric_of(const Json& metric) {
  const auto kind = metric.at("kind").get<std::string>();
  ImportanceOptions options;
  if (kind == "l1") {
    options.importance = Importance::kL1;
  } else if (kind == "l2") {
    options.importance = Importance::kL2;
  } else if (kind == "taylor_proxy") {
    options.importance = Importance::kTaylorProxy;
  } else if (kind == "random") {
    options.importance = Importance::kRandom;
    options.seed = to_u64(metric.at("seed"));
  } else {
    throw BadCase("unknown metric " + kind);
  }
  return options;
}

Granularity granularity_of(const std::string& text) {
  if (text == "element") return Granularity::kElement;
  if (text == "row") return Granularity::kRow;
  if (text == "column") return Granularity::kColumn;
  throw BadCase("unknown granularity " + text);
}

std::string mask_text(const BitMask& mask) {
  std::string text;
  for (std::int64_t i = 0; i < mask.elements(); ++i) text += mask.kept(i) ? '1' : '0';
  return text;
}

Result<Json> prune_case(const Json& inputs) {
  const Json& tensor = inputs.at("tensor");
  const auto name = tensor.at("name").get<std::string>();
  std::vector<float> values = to_f32s(tensor.at("data"));
  PITH_TRY(Shape shape, to_shape(tensor.at("shape")));
  const std::vector<float> before = values;
  const Result<Pruned> pruned =
      prune({name, values, shape}, prune_options_of(inputs.at("config")));
  PITH_OK(unchanged(pruned.status(), before, values));
  return Json{{"data", f32s(values)},
              {"mask", mask_text(pruned->mask)},
              {"pruned", pruned->pruned},
              {"nonzero", pruned->after.nonzero},
              {"sparsity", f32(pruned->sparsity())}};
}

Result<Json> prune_all(const Json& inputs) {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  std::vector<Shape> shapes;
  for (const Json& tensor : inputs.at("tensors")) {
    names.push_back(tensor.at("name").get<std::string>());
    values.push_back(to_f32s(tensor.at("data")));
    PITH_TRY(Shape shape, to_shape(tensor.at("shape")));
    shapes.push_back(std::move(shape));
  }
  std::vector<PruneTensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors.push_back({names[i], values[i], shapes[i]});
  }
  PITH_OK(prune_model(tensors, prune_options_of(inputs.at("config"))).status());
  Json out = Json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.push_back({{"name", names[i]},
                   {"data", f32s(values[i])},
                   {"shape", extents_of(shapes[i])}});
  }
  return Json{{"tensors", std::move(out)}};
}

Result<Json> importance(const Json& inputs) {
  const Json metric = inputs.value("metric", Json{{"kind", "l1"}});
  PITH_TRY(std::vector<float> scores,
           importance_scores(to_f32s(inputs.at("data")), metric_of(metric)));
  const float default_threshold = 0;
  const float threshold = to_f32(inputs.at("threshold"));
  const ScoreStats stats = score_stats(scores);
  return Json{{"scores", f32s(scores)},
              {"default_threshold", f32(default_threshold)},
              {"sparsity_at_default", f32(sparsity_at(scores, default_threshold))},
              {"sparsity_at_threshold", f32(sparsity_at(scores, threshold))},
              {"top_k", f32s(top_scores(scores, to_size(inputs.at("top_k"))))},
              {"stats",
               {{"min", f32(stats.min)},
                {"max", f32(stats.max)},
                {"mean", f32(stats.mean)},
                {"median", f32(stats.median)},
                {"std_dev", f32(stats.std_dev)}}}};
}

Result<Json> report(const Json& inputs) {
  const Sparsity found = count_sparsity(to_f32s(inputs.at("tensor").at("data")));
  return Json{{"total", found.total},
              {"nonzero", found.nonzero},
              {"sparsity", f32(found.sparsity())},
              {"zero_fraction", f32(found.sparsity())},
              {"density", f32(found.density())}};
}

Result<Json> summary(const Json& inputs) {
  Sparsity found;
  for (const Json& tensor : inputs.at("tensors")) {
    found += count_sparsity(to_f32s(tensor.at("data")));
  }
  return Json{{"layers", inputs.at("tensors").size()},
              {"total", found.total},
              {"nonzero", found.nonzero},
              {"sparsity", f32(found.sparsity())}};
}

constexpr AdapterEntry kPruneAdapters[] = {
    {"prune_tensor", prune_case},        {"prune_model", prune_all},
    {"compute_importance", importance},  {"sparsity_report", report},
    {"model_sparsity_summary", summary},
};

}  // namespace

PruneOptions prune_options_of(const Json& config) {
  const ImportanceOptions metric = metric_of(config.at("metric"));
  PruneOptions options;
  options.sparsity = to_f32(config.at("sparsity"));
  options.importance = metric.importance;
  options.seed = metric.seed;
  options.granularity = granularity_of(config.at("granularity").get<std::string>());
  options.min_nonzero = to_size(config.at("min_nonzero"));
  return options;
}

std::span<const AdapterEntry> prune_adapters() { return kPruneAdapters; }

}  // namespace pith::golden
