// Hazards of statistics, scales, matrix products and codecs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats.h"
#include "pith/codec/blockwise.h"
#include "pith/codec/top_k.h"
#include "pith/quantize/fp8.h"
#include "pith/quantize/quantize.h"
#include "pith/run/matvec.h"
#include "tests/golden/compare.h"
#include "tests/golden/hazard_checks.h"

namespace pith::golden {
namespace {

std::size_t count_of(const Json& inputs) { return inputs.at("count").get<std::size_t>(); }

Result<ValueStats> stats_of(const std::vector<float>& values) {
  ValueStats stats;
  PITH_OK(stats.add(values));
  return stats;
}

std::string accumulator_overflow(const Case& item) {
  const auto cols = item.inputs.at("in_size").get<std::int64_t>();
  const std::vector<std::int8_t> weight(static_cast<std::size_t>(cols), 127);
  const std::vector<float> x(static_cast<std::size_t>(cols), 1);
  const std::vector<float> scale = {to_f32(item.inputs.at("weight_scale"))};
  std::vector<float> y(1);
  MatvecScratch scratch;
  const Status status = w8a8_matvec(weight, scale, 1, cols, x, y, scratch);
  if (!status.ok()) return show(status);
  const auto want = item.recommended.at("output").at("y_close_to").get<double>();
  const auto rel = item.recommended.at("output").at("rel").get<double>();
  return unless(std::fabs(y[0] - want) <= rel * want,
                fmt::format("y: expected about {}, got {}", want, y[0]));
}

std::string percentile_1(const Case& item) {
  std::vector<float> data(count_of(item.inputs), 1);
  data[5] = 100;
  const Result<float> scale =
      compute_scale(data, to_f32(item.inputs.at("clip_val")), ScaleRule::kPercentile,
                    to_f32(item.inputs.at("mode").at("p")));
  if (!scale) return show(scale.error());
  return difference(item.recommended.at("output"), Json{{"scale", f32(*scale)}},
                    Json::object());
}

std::string mean_of_ones(const Case& item) {
  const Result<ValueStats> stats =
      stats_of(std::vector<float>(count_of(item.inputs), 1.0F));
  if (!stats) return show(stats.error());
  return difference(item.recommended.at("output"),
                    Json{{"mean", f32(static_cast<float>(stats->mean()))},
                         {"std_dev", f32(static_cast<float>(stats->std_dev()))}},
                    Json::object());
}

// Mean as expected, and a deviation that is neither infinite nor lost.
std::string moments(const Case& item, double mean) {
  const Result<ValueStats> stats = stats_of(to_f32s(item.inputs.at("data")));
  if (!stats) return show(stats.error());
  const bool good = std::fabs(stats->mean() - mean) <= 1e-6 * std::fabs(mean) &&
                    std::isfinite(stats->std_dev()) && stats->std_dev() > 0;
  return unless(
      good, fmt::format("expected mean {} and a finite deviation, got {} and {}", mean,
                        stats->mean(), stats->std_dev()));
}

std::string std_dev_overflows(const Case& item) { return moments(item, 2e20 / 3); }
std::string mean_overflows(const Case& item) { return moments(item, 1e38); }
std::string welford_overflows(const Case& item) { return moments(item, 0); }

std::string mse_overflows(const Case& item) {
  const std::vector<float> data = to_f32s(item.inputs.at("data"));
  const Result<Shape> shape = Shape::make({static_cast<std::int64_t>(data.size())});
  const Result<TensorView> view = TensorView::of(data, *shape);
  ErrorFigures figures;
  const Result<QuantizedTensor> codes =
      quantize(*view, Scheme::int8_tensor(), {.figures = &figures});
  if (!codes) return show(codes.error());
  return unless(std::isfinite(figures.sqnr_db()) && figures.sqnr_db() > 0,
                fmt::format("expected a finite ratio, got {} dB", figures.sqnr_db()));
}

// The file has the first 16 of 1000 values near 5; these are enough to see it.
std::string aciq_on_offset_data(const Case& item) {
  const std::vector<float> data = to_f32s(item.inputs.at("data"));
  const Result<ValueStats> stats = stats_of(data);
  if (!stats) return show(stats.error());
  const Result<float> scale = calibrated_scale(*stats, {.method = ScaleMethod::kAciq});
  if (!scale) return show(scale.error());
  const auto covered = std::count_if(data.begin(), data.end(), [&](float value) {
    return std::fabs(value) <= 127 * *scale;
  });
  return unless(2 * covered > static_cast<std::ptrdiff_t>(data.size()),
                fmt::format("expected most of {} values within {}, got {}", data.size(),
                            127 * *scale, covered));
}

std::vector<float> normal_values(std::size_t count) {
  std::uint64_t state = 1;
  const auto draw = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (static_cast<double>(state >> 33) + 0.5) / 2147483648.0;
  };
  std::vector<float> values(count);
  for (float& value : values) {
    const double radius = std::sqrt(-2 * std::log(draw()));
    value = static_cast<float>(radius * std::cos(2 * std::numbers::pi * draw()));
  }
  return values;
}

Result<double> true_mse(const std::vector<float>& data, float scale) {
  PITH_TRY(Shape shape, Shape::make({static_cast<std::int64_t>(data.size())}));
  PITH_TRY(TensorView view, TensorView::of(data, std::move(shape)));
  Scheme scheme = Scheme::int8_tensor();
  scheme.rule = ScaleRule::kGiven;
  scheme.given_scale = scale;
  ErrorFigures figures;
  PITH_OK(quantize(view, scheme, {.figures = &figures}).status());
  return figures.mse();
}

std::string calibration_true_mse(const Case& /*item*/) {
  const std::vector<float> data = normal_values(20000);
  const Result<ValueStats> stats = stats_of(data);
  if (!stats) return show(stats.error());
  const Result<float> scale = calibrated_scale(*stats, {.method = ScaleMethod::kMse});
  if (!scale) return show(scale.error());
  const Result<double> reached = true_mse(data, *scale);
  if (!reached) return show(reached.error());
  double best = *reached;
  for (int k = 1; k <= 100; ++k) {
    const auto candidate = static_cast<float>(double{stats->absmax()} * k / 100 / 127);
    const Result<double> cost = true_mse(data, candidate);
    if (!cost) return show(cost.error());
    best = std::min(best, *cost);
  }
  return unless(
      *reached <= 1.05 * best,
      fmt::format("expected an error within 5 % of {}, got {}", best, *reached));
}

std::string median_of_batches(const Case& /*item*/) {
  const std::vector<float> zeros(99, 0);
  const std::vector<float> one = {1};
  std::vector<float> all = zeros;
  all.push_back(1);
  ValueStats two;
  ValueStats single;
  if (Status s = two.add(zeros); !s.ok()) return show(s);
  if (Status s = two.add(one); !s.ok()) return show(s);
  if (Status s = single.add(all); !s.ok()) return show(s);
  const Result<float> median = two.percentile(0.5);
  if (!median) return show(median.error());
  return unless(two == single && *median == 0,
                fmt::format("expected one answer and median 0, got median {}", *median));
}

// Largest error of a block in parts of its largest magnitude; negative if it failed or a
// value is not finite.
double e5m2_error(const std::vector<float>& values) {
  const std::vector<float> factors(values.size(), 1);
  const Result<Fp8Blocks> blocks = quantize_fp8_blocks(
      values, 1, static_cast<std::int64_t>(values.size()), factors, DType::kF8E5M2);
  std::vector<float> back(values.size());
  if (!blocks || !dequantize(*blocks, back).ok()) return -1;
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(back[i])) return -1;
    worst =
        std::max(worst, std::fabs(double{back[i]} - values[i]) / std::fabs(values[i]));
  }
  return worst;
}

std::string e5m2_maximum(const Case& /*item*/) {
  for (int k = 1; k <= 4000; ++k) {
    const float value = 0.001F * static_cast<float>(k);
    if (e5m2_error(std::vector<float>(32, value)) < 0) {
      return fmt::format("expected finite values, got others for a block of {}", value);
    }
  }
  return {};
}

std::string e5m2_small(const Case& item) {
  const double error = e5m2_error(to_f32s(item.inputs.at("data")));
  return unless(error >= 0 && error <= 0.125,
                fmt::format("expected a relative error of at most 1/8, got {}", error));
}

// Every value within half a step of 1/127 of the block's largest, and finite.
std::string blockwise_error(const Case& item) {
  const std::vector<float> data = to_f32s(item.inputs.at("data"));
  const Result<BlockwiseCodes> codes = blockwise_compress(
      data, {.block_size = item.inputs.at("block_size").get<std::int64_t>()});
  if (!codes) return show(codes.error());
  std::vector<float> back(data.size());
  if (Status s = blockwise_decompress(*codes, back); !s.ok()) return show(s);
  float largest = 0;
  for (float value : data) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double error = std::fabs(double{data[i]} - back[i]);
    if (!(error <= double{largest} / 254 * (1 + 1e-6))) {
      return fmt::format("expected {} within 1/254 of {}, got {}", data[i], largest,
                         back[i]);
    }
  }
  return {};
}

// A message without values is all header.
std::string top_k_size(const Case& item) {
  const std::vector<float> data = to_f32s(item.inputs.at("data"));
  const auto codec = TopKCodec::make(to_f32(item.inputs.at("k_fraction")));
  if (!codec) return show(codec.error());
  std::vector<std::byte> header;
  std::vector<std::byte> message;
  if (Status s = (*codec)->compress({}, header); !s.ok()) return show(s);
  if (Status s = (*codec)->compress(data, message); !s.ok()) return show(s);
  return unless(message.size() - header.size() <= 4 * data.size(),
                fmt::format("expected at most {} bytes after the header, got {}",
                            4 * data.size(), message.size() - header.size()));
}

constexpr HazardEntry kValueChecks[] = {
    {"hazards/accumulator_overflow", accumulator_overflow},
    {"hazards/percentile_1_misses_maximum", percentile_1},
    {"hazards/mean_of_ones", mean_of_ones},
    {"hazards/std_dev_overflows", std_dev_overflows},
    {"hazards/mean_overflows", mean_overflows},
    {"hazards/welford_overflows", welford_overflows},
    {"hazards/mse_overflows", mse_overflows},
    {"hazards/aciq_on_offset_data", aciq_on_offset_data},
    {"hazards/calibration_methods_true_mse", calibration_true_mse},
    {"hazards/median_depends_on_batching", median_of_batches},
    {"hazards/e5m2_block_maximum_becomes_infinite", e5m2_maximum},
    {"hazards/e5m2_small_block_vanishes", e5m2_small},
    {"hazards/small_gradients_vanish", blockwise_error},
    {"hazards/large_values_become_inf_or_nan", blockwise_error},
    {"hazards/subnormal_scale_error", blockwise_error},
    {"hazards/topk_keeping_all_grows", top_k_size},
};

}  // namespace

std::span<const HazardEntry> value_hazards() { return kValueChecks; }

HazardCheck find_hazard_check(std::string_view name) {
  for (std::span<const HazardEntry> list : {value_hazards(), size_hazards()}) {
    for (const HazardEntry& entry : list) {
      if (entry.name == name) return entry.check;
    }
  }
  return nullptr;
}

}  // namespace pith::golden
