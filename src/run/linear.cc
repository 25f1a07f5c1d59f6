#include "pith/run/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "pith/quantize/dynamic.h"
#include "src/base/checked.h"
#include "src/base/parallel.h"
#include "src/kernels/convert.h"
#include "src/run/packed_weights.h"
#include "src/run/unpack.h"

namespace pith {

using kernels::TileKind;

struct Linear::Weights {
  Weights(PackedWeights packed_weights, const LinearOptions& given,
          std::span<const float> bias_values)
      : packed(std::move(packed_weights)),
        options(given),
        input_scale(given.input_scale.begin(), given.input_scale.end()),
        bias(bias_values.begin(), bias_values.end()) {
    options.input_scale = {};  // the caller's
  }

  PackedWeights packed;
  LinearOptions options;
  std::vector<float> input_scale;
  std::vector<float> bias;
  std::optional<Scheme> scheme;
  std::shared_ptr<const void> owner;  // of codes that are used in place
  bool decoded = true;
  bool in_place = false;
  double pack_seconds = 0;
};

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status check(const Shape& shape, std::span<const float> bias,
             const LinearOptions& options) {
  if (shape.rank() != 2) {
    return Status::invalid_argument(
        fmt::format("linear: the weight has shape {}, expected [outputs, inputs]",
                    shape.to_string()));
  }
  const std::int64_t outputs = shape[0];
  const std::int64_t inputs = shape[1];
  if (!bias.empty() && static_cast<std::int64_t>(bias.size()) != outputs) {
    return Status::invalid_argument(
        fmt::format("linear: the bias has {} values, expected {}, one per output",
                    bias.size(), outputs));
  }
  if (options.activations == Activations::kStatic &&
      !(options.static_scale > 0 && std::isfinite(options.static_scale))) {
    return Status::invalid_argument(
        fmt::format("linear: static_scale is {}, expected a finite value above 0",
                    options.static_scale));
  }
  if (options.input_scale.empty()) return {};
  if (static_cast<std::int64_t>(options.input_scale.size()) != inputs) {
    return Status::invalid_argument(
        fmt::format("linear: input_scale has {} values, expected {}, one per input",
                    options.input_scale.size(), inputs));
  }
  for (std::size_t i = 0; i < options.input_scale.size(); ++i) {
    if (std::isfinite(options.input_scale[i])) continue;
    return Status::invalid_argument(
        fmt::format("linear: input_scale[{}] is {}, expected a finite value", i,
                    options.input_scale[i]));
  }
  return {};
}

// The form of activations that codes of this scheme are multiplied with.
Result<TileKind> tile_kind(const CodesView& weight, Activations activations) {
  const Scheme& scheme = weight.scheme;
  switch (activations) {
    case Activations::kF32:
      return TileKind::kF32;
    case Activations::kInt7Rows:
      if (packed_bits(scheme) == 8 && PackedWeights::takes(scheme, weight.shape) &&
          (scheme.group == Group::kTensor || scheme.group == Group::kRow)) {
        return TileKind::kU7;
      }
      return Status::unsupported(fmt::format(
          "linear: 7-bit activations need int8 weights with one scale per row or tensor, "
          "but the scheme is {}",
          scheme.to_string()));
    default:
      return packed_bits(scheme) == 8 ? TileKind::kS16 : TileKind::kS8;
  }
}

}  // namespace

Result<Linear> Linear::make(const QuantizedTensor& weight, std::span<const float> bias,
                            const LinearOptions& options) {
  return make(CodesView(weight), nullptr, bias, options);
}

Result<Linear> Linear::make(const CodesView& weight, std::shared_ptr<const void> owner,
                            std::span<const float> bias, const LinearOptions& options) {
  PITH_OK(check(weight.shape, bias, options));
  PITH_OK(weight.scheme.validate(weight.shape));
  PITH_TRY(const TileKind kind, tile_kind(weight, options.activations));
  const auto start = Clock::now();
  std::shared_ptr<Weights> weights;
  if (PackedWeights::takes(weight.scheme, weight.shape)) {
    const Packing packing = options.in_place ? Packing::kInPlace : Packing::kOnce;
    weights =
        std::make_shared<Weights>(PackedWeights(weight, kind, packing), options, bias);
    weights->decoded = false;
    weights->in_place = options.in_place;
    if (options.in_place) weights->owner = std::move(owner);
  } else {
    std::vector<float> values(static_cast<std::size_t>(weight.shape.elements()));
    PITH_OK(dequantize_part(weight.scheme, weight.shape, 0, weight.parts, values));
    weights = std::make_shared<Weights>(
        PackedWeights(values, weight.shape[0], weight.shape[1]), options, bias);
  }
  weights->scheme = weight.scheme;
  weights->pack_seconds = seconds_since(start);
  Linear linear;
  linear.weights_ = std::move(weights);
  return linear;
}

Result<Linear> Linear::make(TensorView weight, std::span<const float> bias,
                            const LinearOptions& options) {
  PITH_OK(check(weight.shape(), bias, options));
  if (options.activations == Activations::kInt7Rows) {
    return Status::unsupported("linear: 7-bit activations need int8 weights");
  }
  const DType dtype = weight.dtype();
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return Status::unsupported(fmt::format(
        "linear: the weight has type {}, expected f32, f16 or bf16", to_string(dtype)));
  }
  const auto start = Clock::now();
  std::vector<float> values;
  std::span<const float> floats = weight.f32();
  if (dtype != DType::kF32) {
    values.resize(static_cast<std::size_t>(weight.shape().elements()));
    kernels::to_f32({.from = dtype,
                     .in = weight.bytes().data(),
                     .out = values.data(),
                     .count = weight.shape().elements()});
    floats = values;
  }
  auto weights = std::make_shared<Weights>(
      PackedWeights(floats, weight.shape()[0], weight.shape()[1]), options, bias);
  weights->pack_seconds = seconds_since(start);
  Linear linear;
  linear.weights_ = std::move(weights);
  return linear;
}

std::int64_t Linear::inputs() const { return weights_->packed.inputs(); }
std::int64_t Linear::outputs() const { return weights_->packed.outputs(); }
const std::optional<Scheme>& Linear::scheme() const { return weights_->scheme; }
bool Linear::decoded() const { return weights_->decoded; }
bool Linear::in_place() const { return weights_->in_place; }
double Linear::pack_seconds() const { return weights_->pack_seconds; }
std::int64_t Linear::packed_bytes() const { return weights_->packed.bytes(); }

namespace {

template <typename T>
void grow(std::vector<T>& memory, std::int64_t size) {
  if (static_cast<std::int64_t>(memory.size()) < size)
    memory.resize(static_cast<std::size_t>(size));
}

}  // namespace

Status Linear::forward(std::span<const float> x, std::int64_t rows, std::span<float> y) {
  const Weights& w = *weights_;
  const CheckedSize count = CheckedSize::from_signed(rows);
  const CheckedSize in = count * CheckedSize::from_signed(inputs());
  const CheckedSize out = count * CheckedSize::from_signed(outputs());
  if (!in.fits_int64() || in.value() != x.size() || !out.fits_int64() ||
      out.value() != y.size()) {
    return Status::invalid_argument(fmt::format(
        "linear: {} values of x and {} of y, expected {} rows of {} and of {}", x.size(),
        y.size(), rows, inputs(), outputs()));
  }
  if (rows == 0) return {};
  std::span<const float> input = x;
  if (!w.input_scale.empty()) {
    grow(scratch_.scaled, static_cast<std::int64_t>(x.size()));
    parallel_for(rows, [&](std::int64_t r) {
      const float* from = x.data() + r * inputs();
      float* to = scratch_.scaled.data() + r * inputs();
      const float* scale = w.input_scale.data();
      for (std::int64_t c = 0; c < inputs(); ++c) to[c] = from[c] * scale[c];
    });
    input = std::span(scratch_.scaled.data(), x.size());
  }
  if (w.packed.kind() != TileKind::kF32) {
    grow(scratch_.codes, static_cast<std::int64_t>(x.size()));
    grow(scratch_.scales, rows);
    PITH_OK(quantize_input(input, rows));
  }
  grow(scratch_.tiles, w.packed.tile_bytes(rows));
  w.packed.pack_tiles(input.data(), scratch_.codes.data(), rows, scratch_.tiles.data());
  grow(scratch_.panels, w.packed.work_bytes());
  w.packed.multiply(scratch_.tiles.data(), scratch_.scales.data(), rows, w.bias, y.data(),
                    scratch_.panels.data());
  return {};
}

Status Linear::quantize_input(std::span<const float> x, std::int64_t rows) {
  const LinearOptions& options = weights_->options;
  const std::span codes(scratch_.codes.data(), x.size());
  const std::span scales(scratch_.scales.data(), static_cast<std::size_t>(rows));
  DynamicOptions dynamic;
  switch (options.activations) {
    case Activations::kInt7Rows:
      dynamic.bits = 7;
      break;
    case Activations::kStatic:
      dynamic.rule = ScaleRule::kGiven;
      dynamic.given_scale = options.static_scale;
      break;
    case Activations::kInt8Tensor: {
      PITH_TRY(const float scale, dynamic_quantize(x, dynamic, codes));
      std::fill(scales.begin(), scales.end(), scale);
      return {};
    }
    default:
      break;
  }
  return dynamic_quantize_rows(x, rows, inputs(), dynamic, codes, scales);
}

Status Linear::forward_bf16(std::span<const std::uint16_t> x, std::int64_t rows,
                            std::span<float> y) {
  grow(scratch_.converted, static_cast<std::int64_t>(x.size()));
  kernels::to_f32({.from = DType::kBF16,
                   .in = x.data(),
                   .out = scratch_.converted.data(),
                   .count = static_cast<std::int64_t>(x.size())});
  return forward(std::span(scratch_.converted.data(), x.size()), rows, y);
}

}  // namespace pith
