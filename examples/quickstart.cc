// One layer, pruned to half and quantized to int8: what it costs in bytes and in error.
#include <pith/pith.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

// A layer of 1024 x 1024 weights that look like trained ones: bell-shaped, rows of different size.
std::vector<float> make_weights(std::int64_t rows, std::int64_t cols) {
  std::vector<float> weights(static_cast<std::size_t>(rows * cols));
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double sum = 0;
    for (int draw = 0; draw < 4; ++draw) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 40) / (1 << 24) - 0.5;
    }
    const double row_size = 0.02 * (1 + 0.5 * std::sin(static_cast<double>(i) / 4096));
    weights[i] = static_cast<float>(sum * row_size);
  }
  return weights;
}

pith::Status run() {
  PITH_TRY(const pith::Shape shape, pith::Shape::make({1024, 1024}));
  const std::vector<float> original = make_weights(1024, 1024);

  std::vector<float> weights = original;
  PITH_TRY(const pith::Pruned pruned,
           pith::prune({"layer.weight", weights, shape}, {.sparsity = 0.5f}));
  std::printf("pruned     %.1f %% of %lld weights\n", 100.0 * pruned.sparsity(),
              static_cast<long long>(shape.elements()));

  PITH_TRY(const pith::TensorView view,
           pith::TensorView::of(weights, shape, "layer.weight"));
  std::printf("%-22s %10s %7s %9s %9s\n", "scheme", "bytes", "ratio", "rmse", "sqnr dB");
  for (const pith::Scheme& scheme :
       {pith::Scheme::int8_tensor(), pith::Scheme::int8_rows(),
        pith::Scheme::int8_blocks(64), pith::Scheme::int4_blocks(32),
        pith::Scheme::q8_0(), pith::Scheme::q4_0()}) {
    PITH_TRY(const pith::QuantizedTensor quantized, pith::quantize(view, scheme));
    std::vector<float> decoded(weights.size());
    PITH_OK(pith::dequantize(quantized, decoded));
    PITH_TRY(const pith::ErrorFigures error, pith::measure_error(weights, decoded));
    const auto before = static_cast<double>(view.bytes().size());
    std::printf("%-22s %10lld %6.2fx %9.2e %9.2f\n", scheme.to_string().c_str(),
                static_cast<long long>(quantized.stored_bytes()),
                before / static_cast<double>(quantized.stored_bytes()), error.rmse(),
                error.sqnr_db());
  }
  return {};
}

}  // namespace

int main() {
  const pith::Status status = run();
  if (!status.ok()) std::fprintf(stderr, "quickstart: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
