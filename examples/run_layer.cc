// An engine's linear layer with compressed weights: quantize, pack, run, and see what it cost.
//
//   run_layer                          a layer made here
//   run_layer MODEL NAME [ROWS]        the layer NAME of a checkpoint, with random input
#include <pith/pith.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

std::vector<float> random_values(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// Runs a layer twice: the second call allocates nothing, and is the one that is timed.
pith::Result<double> run(pith::Linear& layer, const std::vector<float>& x,
                         std::int64_t rows, std::vector<float>& y) {
  y.resize(static_cast<std::size_t>(rows * layer.outputs()));
  PITH_OK(layer.forward(x, rows, y));
  const auto start = std::chrono::steady_clock::now();
  PITH_OK(layer.forward(x, rows, y));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print(const std::string& name, const pith::Linear& layer, double seconds,
           double error) {
  std::printf("%-20s %8.2f MiB  packed in %6.1f ms  runs in %8.3f ms  error %.2f %%\n",
              name.c_str(), static_cast<double>(layer.packed_bytes()) / (1 << 20),
              1e3 * layer.pack_seconds(), 1e3 * seconds, 100 * error);
}

pith::Status run_own() {
  constexpr std::int64_t kOutputs = 1024;
  constexpr std::int64_t kInputs = 1024;
  constexpr std::int64_t kRows = 4;
  const std::vector<float> weights = random_values(kOutputs * kInputs, 1);
  const std::vector<float> bias = random_values(kOutputs, 2);
  const std::vector<float> x = random_values(kRows * kInputs, 3);
  PITH_TRY(const pith::Shape shape, pith::Shape::make({kOutputs, kInputs}));
  PITH_TRY(const pith::TensorView view, pith::TensorView::of(weights, shape, "weight"));

  PITH_TRY(pith::Linear exact, pith::Linear::make(view, bias));
  std::vector<float> expected;
  PITH_TRY(const double f32_seconds, run(exact, x, kRows, expected));
  print("f32", exact, f32_seconds, 0);

  for (const pith::Scheme& scheme :
       {pith::Scheme::int8_rows(), pith::Scheme::q8_0(), pith::Scheme::q4_0()}) {
    PITH_TRY(const pith::QuantizedTensor codes, pith::quantize(view, scheme));
    PITH_TRY(pith::Linear layer, pith::Linear::make(codes, bias));
    std::vector<float> y;
    PITH_TRY(const double seconds, run(layer, x, kRows, y));
    double error = 0;
    double energy = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      error += std::pow(double{y[i]} - double{expected[i]}, 2);
      energy += std::pow(double{expected[i]}, 2);
    }
    const double relative = std::sqrt(error / energy);
    print(scheme.to_string(), layer, seconds, relative);
    if (relative > 0.15) {
      return {pith::StatusCode::kGateFailed, "the error is larger than expected"};
    }
  }
  return {};
}

pith::Status run_file(const char* model, const char* name, std::int64_t rows) {
  PITH_TRY(pith::Linear layer, pith::Linear::load(model, name));
  const std::vector<float> x = random_values(rows * layer.inputs(), 1);
  std::vector<float> y;
  PITH_TRY(const double seconds, run(layer, x, rows, y));
  print(layer.scheme() ? layer.scheme()->to_string() : "f32", layer, seconds, 0);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const pith::Status status =
      argc > 2 ? run_file(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 1)
               : run_own();
  if (!status.ok()) std::fprintf(stderr, "run_layer: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
