// Deviations of scales, codes and statistics.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "pith/calibrate/scale.h"
#include "pith/calibrate/stats.h"
#include "pith/codec/blockwise.h"
#include "pith/codec/top_k.h"
#include "pith/pipeline/pipeline.h"
#include "pith/quantize/quantize.h"
#include "pith/tensor/half.h"
#include "tests/golden/adapters.h"
#include "tests/golden/compare.h"
#include "tests/golden/deviation_checks.h"

namespace pith::golden {
namespace {

std::string failed(const Result<Json>& answer) {
  return fmt::format("got the error '{}'", answer.error().message());
}

float largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// The reference's output with some fields as Pith has them.
std::string differs(const Case& item, const Json& changes, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  Json expected = item.output;
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) {
      expected.erase(key);
    } else {
      expected[key] = value;
    }
  }
  return difference(expected, *answer, item.tolerances);
}

}  // namespace

std::string is_refused(const Case& /*item*/, const Result<Json>& answer) {
  if (answer) return fmt::format("got the output {}", answer->dump().substr(0, 200));
  if (answer.error().code() == StatusCode::kInvalidArgument) return {};
  return failed(answer);
}

std::string is_not_finite(const Case& /*item*/, const Result<Json>& answer) {
  if (answer) return fmt::format("got the output {}", answer->dump().substr(0, 200));
  if (answer.error().code() == StatusCode::kNotFinite) return {};
  return failed(answer);
}

std::string falls_back_to_maximum(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const float codes = item.inputs.contains("clip_val")
                          ? to_f32(item.inputs.at("clip_val"))
                      : item.function == "dynamic_quantize_int4" ? 7.0F
                                                                 : 127.0F;
  const Json expected = f32(largest_of(to_f32s(item.inputs.at("data"))) / codes);
  const char* key = answer->contains("scale") ? "scale" : "scales";
  return difference(expected, answer->at(key), Json::object());
}

// 127 is reached, whatever the size of the weights.
std::string has_no_scale_floor(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const float largest = largest_of(to_f32s(item.inputs.at("weights")));
  int code = 0;
  for (const Json& q : answer->at("q")) code = std::max(code, std::abs(q.get<int>()));
  if (code != 127) return fmt::format("the largest code is {}", code);
  return difference(f32(largest / 127), answer->at("scale"), Json::object());
}

std::string zeros_have_scale_0(const Case& item, const Result<Json>& answer) {
  return differs(item, {{"scale", f32(0)}}, answer);
}

std::string empty_ratio_is_1(const Case& item, const Result<Json>& answer) {
  return differs(item, {{"scale", f32(0)}, {"compression_ratio", f32(1)}}, answer);
}

std::string ratio_is_1(const Case& item, const Result<Json>& answer) {
  return differs(item, {{"compression_ratio", f32(1)}}, answer);
}

std::string has_zero_codes(const Case& item, const Result<Json>& answer) {
  const std::vector<int> zeros(item.output.at("q").size(), 0);
  return differs(item, {{"q", zeros}}, answer);
}

// As the reference, which counts codes; a pipeline counts the scales too.
std::string counts_all_bytes(const Case& item, const Result<Json>& answer) {
  if (std::string text = differs(item, Json::object(), answer); !text.empty())
    return text;
  Model model;
  std::int64_t codes = 0;
  for (const Json& layer : item.inputs.at("layers")) {
    const Result<Shape> shape = to_shape(layer.at("shape"));
    model.push_back(
        {layer.at("name").get<std::string>(), *shape, to_f32s(layer.at("weights"))});
    codes += shape->elements();
  }
  const auto tensors = static_cast<std::int64_t>(model.size());
  const Result<PipelineResult> done = Pipeline::quantize_only().run(std::move(model));
  if (!done) return done.error().message();
  if (done->total().stored_bytes == codes + 4 * tensors) return {};
  return fmt::format("{} bytes for {} codes and {} scales", done->total().stored_bytes,
                     codes, tensors);
}

std::string has_no_one_bit(const Case& item, const Result<Json>& answer) {
  return differs(item, {{"one_bit", nullptr}}, answer);
}

// By default scales that f16 cannot hold are stored in f32.
std::string keeps_blocks(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const std::vector<float> data = to_f32s(item.inputs.at("data"));
  const auto block = item.inputs.at("block_size").get<std::size_t>();
  const Result<BlockwiseCodes> codes =
      blockwise_compress(data, {.block_size = static_cast<std::int64_t>(block)});
  if (!codes) return codes.error().message();
  if (codes->scale_type != DType::kF32) return "scales are not f32";
  std::vector<float> back(data.size());
  if (Status s = blockwise_decompress(*codes, back); !s.ok()) return s.message();
  for (std::size_t begin = 0; begin < data.size(); begin += block) {
    const std::size_t end = std::min(begin + block, data.size());
    const std::vector<float> values(data.begin() + static_cast<std::ptrdiff_t>(begin),
                                    data.begin() + static_cast<std::ptrdiff_t>(end));
    // Half a step, and what a scale among the smallest floats is rounded by.
    const double allowed = double{largest_of(values)} / 254 * (1 + 1e-6) + 127 * 1e-45;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(std::fabs(double{data[i]} - back[i]) <= allowed)) {
        return fmt::format("{} became {}", data[i], back[i]);
      }
    }
  }
  return {};
}

// Half a step of the larger numbers is 1/8 of them (e5m2; 1/16 for e4m3); that of the
// smallest is at most 2^-10 scales.
std::string fp8_is_close(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const std::vector<float> weights = to_f32s(item.inputs.at("weights"));
  const std::vector<float> factors = to_f32s(item.inputs.at("factors"));
  const std::vector<float> back = to_f32s(answer->at("dequantized"));
  const std::vector<std::uint16_t> scales = to_f16s(answer->at("scales"));
  for (std::size_t i = 0; i < back.size(); ++i) {
    const double value = double{weights[i]} * factors[i % factors.size()];
    const double step = f16_to_f32(scales[i / 32]) / 1024.0;
    if (!(std::fabs(back[i] - value) <= std::fabs(value) * 0.126 + step)) {
      return fmt::format("{} became {}", value, back[i]);
    }
  }
  return {};
}

// Between the largest finite value and half a step above it the reference gives infinity,
// Pith the largest finite value; any NaN is a NaN.
std::string e5m2_rounds_to_nearest(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  const std::vector<float> values = to_f32s(item.inputs.at("values"));
  const std::vector<std::uint8_t> want = to_bytes(item.output.at("codes"));
  const std::vector<std::uint8_t> got = to_bytes(answer->at("codes"));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float magnitude = std::fabs(values[i]);
    const bool near_end = magnitude > 57344 && magnitude < 61440;
    const bool nan = std::isnan(values[i]) && std::isnan(f8e5m2_to_f32(got[i]));
    const bool finite = std::fabs(f8e5m2_to_f32(got[i])) == 57344;
    if (got[i] == want[i] || nan || (near_end && finite)) continue;
    return fmt::format("{}: expected {:02x}, got {:02x}", values[i], want[i], got[i]);
  }
  return {};
}

// The values are those of the reference; on the wire they take no more than all of them.
std::string message_is_not_larger(const Case& item, const Result<Json>& answer) {
  if (std::string text = differs(item, Json::object(), answer); !text.empty())
    return text;
  const std::vector<float> data = to_f32s(item.inputs.at("data"));
  const auto codec = TopKCodec::make(to_f32(item.inputs.at("k_fraction")));
  if (!codec) return codec.error().message();
  std::vector<std::byte> header;
  std::vector<std::byte> message;
  if (Status s = (*codec)->compress({}, header); !s.ok()) return s.message();
  if (Status s = (*codec)->compress(data, message); !s.ok()) return s.message();
  if (message.size() - header.size() <= 4 * data.size()) return {};
  return fmt::format("{} bytes for {} values", message.size(), data.size());
}

std::string keeps_nothing(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  if (!answer->at("compressed").at("indices").empty()) return "values are kept";
  const std::vector<float> zeros(to_f32s(item.inputs.at("data")).size(), 0);
  return difference(f32s(zeros), answer->at("decompressed"), Json::object());
}

std::string limits_are_0(const Case& item, const Result<Json>& answer) {
  return differs(item, {{"min", f32(0)}, {"max", f32(0)}}, answer);
}

std::string batching_does_not_matter(const Case& item, const Result<Json>& answer) {
  if (!answer) return failed(answer);
  std::vector<float> all;
  for (const Json& batch : item.inputs.at("batches")) {
    const std::vector<float> values = to_f32s(batch);
    all.insert(all.end(), values.begin(), values.end());
  }
  const Result<Json> once = find_adapter(item.function)(Json{{"batches", {f32s(all)}}});
  if (!once) return failed(once);
  return difference(*once, *answer, Json::object());
}

std::string aciq_covers_the_data(const Case& item, const Result<Json>& answer) {
  if (std::string text = differs(item, Json::object(), answer); !text.empty())
    return text;
  ValueStats stats;
  std::vector<float> all;
  for (const Json& batch : item.inputs.at("batches")) {
    const std::vector<float> values = to_f32s(batch);
    if (Status s = stats.add(values); !s.ok()) return s.message();
    all.insert(all.end(), values.begin(), values.end());
  }
  const Result<float> scale = calibrated_scale(stats, {.method = ScaleMethod::kAciq});
  if (!scale) return scale.error().message();
  const auto covered = std::count_if(all.begin(), all.end(), [&](float value) {
    return std::fabs(value) <= 127 * *scale;
  });
  if (10 * covered >= 9 * static_cast<std::ptrdiff_t>(all.size())) return {};
  return fmt::format("{} of {} values are within {}", covered, all.size(), 127 * *scale);
}

}  // namespace pith::golden
