#include "bench/operations.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "pith/prune/mask.h"
#include "pith/quantize/convert.h"
#include "pith/quantize/quantize.h"
#include "pith/quantize/scheme.h"
#include "pith/tensor/buffer.h"
#include "pith/tensor/view.h"
#include "src/base/parallel.h"
#include "src/kernels/select.h"

namespace pith::bench {
namespace {

// A benchmark that fails tells nothing.
void expect(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "bench: {}\n", status.message());
  std::exit(1);
}

template <typename T>
T expect(Result<T> result) {
  expect(result.status());
  return *std::move(result);
}

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A standard normal value for each index.
float normal(std::int64_t index) {
  const std::uint64_t bits =
      mixed(static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15u);
  const float radius = static_cast<float>((bits >> 40) + 1) * 0x1p-24f;
  const float angle = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  return std::sqrt(-2 * std::log(radius)) * std::cos(angle * 6.28318531f);
}

template <typename Value>
Buffer filled(Value value) {
  Buffer buffer(kCount * 4);
  parallel_pieces(kCount, kCols, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      buffer.as<float>()[static_cast<std::size_t>(i)] = value(i);
    }
  });
  return buffer;
}

// Codes and scales of a tensor.
struct Coded {
  Buffer codes;
  Buffer scales;

  Coded(const Scheme& scheme, const Shape& shape)
      : codes(scheme.code_bytes(shape)), scales(scheme.scale_bytes(shape)) {}
};

}  // namespace

struct Tensors::Impl {
  Shape shape = expect(Shape::make({kRows, kCols}));
  Buffer weights = filled(normal);
  Buffer out = filled(normal);
  Buffer half{kCount * 2};          // the weights in f16
  Buffer group_scales{kCount / 8};  // of the smallest groups
  Buffer ties = filled([](std::int64_t i) { return std::round(normal(i) * 8) / 8; });
  Buffer constant = filled([](std::int64_t) { return 0.5f; });
  Buffer sorted = filled([](std::int64_t i) { return static_cast<float>(i) * 0x1p-26f; });
  Buffer half_zero = filled([](std::int64_t i) {
    return (mixed(static_cast<std::uint64_t>(i)) & 1) != 0 ? normal(i) : 0.0f;
  });

  [[nodiscard]] TensorView view(DType dtype, const Buffer& buffer) const {
    const std::int64_t bytes = expect(bytes_of(dtype, shape));
    return expect(TensorView::make(
        dtype, shape, buffer.bytes().first(static_cast<std::size_t>(bytes))));
  }

  [[nodiscard]] std::span<std::byte> result(DType dtype) {
    return out.bytes().first(static_cast<std::size_t>(expect(bytes_of(dtype, shape))));
  }

  // ---- operations: each returns a function without arguments

  std::function<void()> convert_to(DType to) {
    return [this, to] { expect(convert(view(DType::kF32, weights), to, result(to))); };
  }

  std::function<void()> convert_half() {
    expect(convert(view(DType::kF32, weights), DType::kF16, half.bytes()));
    return [this] {
      expect(convert(view(DType::kF16, half), DType::kF32, result(DType::kF32)));
    };
  }

  void encode(const Scheme& scheme, const CodeSpans& to,
              ErrorFigures* figures = nullptr) {
    const TensorView weight = view(DType::kF32, weights);
    Quantizer quantizer = expect(Quantizer::make(scheme, shape));
    while (quantizer.needs_scan()) {
      expect(quantizer.scan(weight, 0));
      expect(quantizer.end_scan());
    }
    expect(quantizer.encode(weight, 0, to, figures));
  }

  std::function<void()> quantize_to(const Scheme& scheme, bool measured = false) {
    return [this, scheme, measured] {
      const auto codes = static_cast<std::size_t>(scheme.code_bytes(shape));
      const auto scales = static_cast<std::size_t>(scheme.scale_bytes(shape));
      ErrorFigures figures;
      encode(scheme, {out.bytes().first(codes), group_scales.bytes().first(scales)},
             measured ? &figures : nullptr);
    };
  }

  std::function<void()> dequantize_from(const Scheme& scheme) {
    auto coded = std::make_shared<Coded>(scheme, shape);
    encode(scheme, {coded->codes.bytes(), coded->scales.bytes()});
    return [this, scheme, coded] {
      expect(dequantize_part(scheme, shape, 0,
                             {coded->codes.bytes(), coded->scales.bytes()},
                             out.as<float>()));
    };
  }

  std::function<void()> scale_by(ScaleRule rule) {
    return [this, rule] { expect(compute_scale(weights.as<float>(), 127, rule, 0.99)); };
  }

  std::function<void()> select(const Buffer& values, double quantile) {
    return [&values, quantile] {
      const auto k =
          static_cast<std::int64_t>(quantile * static_cast<double>(kCount - 1));
      kernels::select_magnitude(values.as<float>().data(), kCount, k);
    };
  }

  std::function<void()> apply_half_mask() {
    BitMask mask(shape);
    std::uint64_t state = 0;
    for (std::byte& byte : mask.bytes()) byte = static_cast<std::byte>(mixed(++state));
    return [this, mask] { expect(apply_mask(out.as<float>(), mask)); };
  }
};

Tensors::Tensors() : impl_(new Impl) {}
Tensors::~Tensors() = default;

const std::byte* Tensors::in() const { return impl_->weights.data(); }
std::byte* Tensors::out() { return impl_->out.data(); }

std::vector<Operation> Tensors::operations() {
  using enum Traffic;
  Impl& t = *impl_;
  return {
      {"absmax", {kRead}, 0, 0, t.scale_by(ScaleRule::kAbsmax)},
      {"int8 tensor",
       {kRead, kRead4Write1},
       0.72,
       0,
       t.quantize_to(Scheme::int8_tensor())},
      {"int8 row", {kRead4Write1}, 0.70, 0, t.quantize_to(Scheme::int8_rows())},
      {"int8 block 32", {kRead4Write1}, 0.75, 0, t.quantize_to(Scheme::int8_blocks(32))},
      {"int8 block 64", {kRead4Write1}, 0.75, 0, t.quantize_to(Scheme::int8_blocks(64))},
      {"int8 flat block 64",
       {kRead4Write1},
       0.75,
       0,
       t.quantize_to(Scheme::int8_flat_blocks(64))},
      {"int4 block 32",
       {kRead4WriteHalf},
       0.70,
       0,
       t.quantize_to(Scheme::int4_blocks(32))},
      {"Q8_0", {kRead4Write1}, 0.75, 0, t.quantize_to(Scheme::q8_0())},
      {"Q4_0", {kRead4WriteHalf}, 0.70, 0, t.quantize_to(Scheme::q4_0())},
      {"int8 block 32 and its error",
       {kRead4Write1},
       0,
       0,
       t.quantize_to(Scheme::int8_blocks(32), true)},
      {"int8 row and its error",
       {kRead4Write1},
       0,
       0,
       t.quantize_to(Scheme::int8_rows(), true)},
      {"dequantize int8 row",
       {kRead1Write4},
       0.90,
       0,
       t.dequantize_from(Scheme::int8_rows())},
      {"dequantize int8 block 64",
       {kRead1Write4},
       0.90,
       0,
       t.dequantize_from(Scheme::int8_blocks(64))},
      {"dequantize int4 block 32",
       {kReadHalfWrite4},
       0.90,
       0,
       t.dequantize_from(Scheme::int4_blocks(32))},
      {"dequantize Q8_0", {kRead1Write4}, 0.90, 0, t.dequantize_from(Scheme::q8_0())},
      {"dequantize Q4_0", {kReadHalfWrite4}, 0.90, 0, t.dequantize_from(Scheme::q4_0())},
      {"f32 to f16", {kRead4Write2}, 0.80, 0, t.convert_to(DType::kF16)},
      {"f32 to bf16", {kRead4Write2}, 0.80, 0, t.convert_to(DType::kBF16)},
      {"f32 to f8e4m3", {kRead4Write1}, 0, 0, t.convert_to(DType::kF8E4M3)},
      {"f16 to f32", {kRead2Write4}, 0, 0, t.convert_half()},
      {"median magnitude, normal", {kRead}, 0, 12, t.select(t.weights, 0.5)},
      {"0.99 magnitude, normal", {kRead}, 0, 12, t.select(t.weights, 0.99)},
      {"median magnitude, ties", {kRead}, 0, 6, t.select(t.ties, 0.5)},
      {"median magnitude, constant", {kRead}, 0, 6, t.select(t.constant, 0.5)},
      {"median magnitude, sorted", {kRead}, 0, 6, t.select(t.sorted, 0.5)},
      {"median magnitude, half zero", {kRead}, 0, 6, t.select(t.half_zero, 0.5)},
      {"percentile scale", {kRead}, 0, 12, t.scale_by(ScaleRule::kPercentile)},
      {"apply mask", {kUpdate}, 0.70, 0, t.apply_half_mask()},
  };
}

}  // namespace pith::bench
