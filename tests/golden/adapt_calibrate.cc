// calibration.jsonl: pith/calibrate/.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "pith/calibrate/observer.h"
#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

Result<ValueStats> stats_of(const Json& batches, NonFinite policy) {
  ValueStats stats;
  for (const Json& batch : batches) PITH_OK(stats.add(to_f32s(batch), policy));
  return stats;
}

Result<Json> collect(const Json& inputs) {
  PITH_TRY(ValueStats stats, stats_of(inputs.at("batches"), NonFinite::kError));
  PITH_TRY(float p99, stats.percentile(0.99));
  return Json{{"min", f32(stats.min())},
              {"max", f32(stats.max())},
              {"mean", f32_of(stats.mean())},
              {"std_dev", f32_of(stats.std_dev())},
              {"p99", f32(p99)},
              {"suggested_scale", f32(suggested_scale(stats))}};
}

Result<Json> both_scales(const ValueStats& stats, ScaleOptions options) {
  options.reference = true;
  options.bits = 8;
  PITH_TRY(float int8, calibrated_scale(stats, options));
  options.bits = 4;
  PITH_TRY(float int4, calibrated_scale(stats, options));
  return Json{{"int8", f32(int8)}, {"int4", f32(int4)}};
}

Result<Json> scales_of(const ValueStats& stats) {
  PITH_TRY(Json min_max, both_scales(stats, {.method = ScaleMethod::kMinMax}));
  PITH_TRY(Json p99,
           both_scales(stats, {.method = ScaleMethod::kPercentile, .percentile = 0.99}));
  PITH_TRY(Json p50,
           both_scales(stats, {.method = ScaleMethod::kPercentile, .percentile = 0.5}));
  PITH_TRY(Json aciq, both_scales(stats, {.method = ScaleMethod::kAciq}));
  PITH_TRY(Json mse, both_scales(stats, {.method = ScaleMethod::kMse}));
  return Json{{"min_max", min_max},
              {"percentile_0.99", p99},
              {"percentile_0.5", p50},
              {"aciq", aciq},
              {"mse", mse}};
}

Result<Json> layer(const Json& inputs) {
  PITH_TRY(ValueStats stats, stats_of(inputs.at("batches"), NonFinite::kCount));
  Json percentiles = Json::array();
  for (float p : {0.0F, 0.01F, 0.25F, 0.5F, 0.9F, 0.99F, 0.999F, 1.0F}) {
    PITH_TRY(float value, stats.percentile_256(p));
    percentiles.push_back({{"p", f32(p)}, {"value", f32(value)}});
  }
  PITH_TRY(Json scales, scales_of(stats));
  PITH_TRY(float p99, stats.percentile_256(0.99));
  PITH_TRY(float p9999, stats.percentile_256(0.9999));
  PITH_TRY(float suggested,
           calibrated_scale(stats, {.percentile = 0.9999, .reference = true}));
  return Json{{"num_samples", stats.count()},
              {"min", f32(stats.min())},
              {"max", f32(stats.max())},
              {"mean", f32_of(stats.mean())},
              {"m2", f32_of(stats.squared_deviations())},
              {"std_dev", f32_of(stats.std_dev())},
              // A step on the way to the scales below, which are what Pith gives.
              {"aciq_clip", f32(2.83F * static_cast<float>(stats.std_dev()))},
              {"percentile_abs", std::move(percentiles)},
              {"scales", std::move(scales)},
              {"summary_min", f32(stats.min())},
              {"summary_max", f32(stats.max())},
              {"summary_p99", f32(p99)},
              {"summary_p9999", f32(p9999)},
              {"suggested_int8_scale", f32(suggested)}};
}

ScaleOptions method_of(const Json& method) {
  const auto kind = method.at("kind").get<std::string>();
  ScaleOptions options{.reference = true};
  if (kind == "min_max") {
    options.method = ScaleMethod::kMinMax;
  } else if (kind == "percentile") {
    options.method = ScaleMethod::kPercentile;
    options.percentile = to_f32(method.at("p"));
  } else if (kind == "aciq") {
    options.method = ScaleMethod::kAciq;
  } else if (kind == "mse") {
    options.method = ScaleMethod::kMse;
  } else {
    throw BadCase("unknown method " + kind);
  }
  return options;
}

Result<Json> database(const Json& inputs) {
  Observer observer(NonFinite::kCount);
  for (const Json& record : inputs.at("records")) {
    PITH_OK(observer.record(record.at("layer").get<std::string>(),
                            to_f32s(record.at("data"))));
  }
  Json layers = Json::array();
  for (const auto& [name, stats] : observer.layers()) {
    PITH_TRY(float scale, calibrated_scale(stats.values, method_of(inputs.at("method"))));
    const std::size_t findings = check_scale(scale, stats.values).size();
    layers.push_back({{"layer", name},
                      {"scale", f32(scale)},
                      {"is_valid", findings == 0},
                      {"issue_count", findings}});
  }
  const auto missing = inputs.at("query_missing").get<std::string>();
  return Json{{"num_layers", layers.size()},
              {"layers", std::move(layers)},
              {"missing_is_none", observer.find(missing) == nullptr}};
}

Result<Json> validate(const Json& inputs) {
  PITH_TRY(ValueStats stats, stats_of(inputs.at("batches"), NonFinite::kCount));
  const std::size_t findings = check_scale(to_f32(inputs.at("scale")), stats).size();
  return Json{{"is_valid", findings == 0}, {"issue_count", findings}};
}

// The values are random, by the rule of the golden files; what is tested is what is said
// of them.
Result<Json> simulate(const Json& inputs) {
  std::uint64_t state = to_u64(inputs.at("seed"));
  const auto samples = inputs.at("samples_per_layer").get<std::size_t>();
  Json layers = Json::array();
  for (const Json& name : inputs.at("layers")) {
    const float width = 1 + 0.5F * static_cast<float>(layers.size());
    std::vector<float> values(samples);
    for (float& value : values) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const float draw = static_cast<float>(state >> 32) / 4294967296.0F;
      value = (2 * draw - 1) * width;
    }
    ValueStats stats;
    PITH_OK(stats.add(values));
    PITH_TRY(float scale, calibrated_scale(stats, {.method = ScaleMethod::kMinMax}));
    layers.push_back({{"layer", name},
                      {"min", f32(stats.min())},
                      {"max", f32(stats.max())},
                      {"scale", f32(scale)}});
  }
  return Json{{"layers", std::move(layers)}};
}

constexpr AdapterEntry kCalibrateAdapters[] = {
    {"calib_stats_collect", collect},   {"layer_calibration", layer},
    {"calibration_database", database}, {"validate_scale", validate},
    {"simulate_calibration", simulate},
};

}  // namespace

std::span<const AdapterEntry> calibrate_adapters() { return kCalibrateAdapters; }

}  // namespace pith::golden
