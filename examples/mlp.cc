// A network of linear layers with rectifiers between them, run from a checkpoint, compressed
// or not: it reads digits.
//
//   mlp MODEL TEST
//
// MODEL has fc1.weight, fc2.weight ... and their biases; TEST has `images`, one row of pixels
// each, and `labels`. The demo's files (examples/demo) are such, and what pith compress makes
// of them.
#include <pith/pith.h>
#include <pith/quantize/dense.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

pith::Result<std::vector<float>> read(const pith::Checkpoint& file,
                                      const std::string& name) {
  const auto index = file.find(name);
  if (!index) return pith::Status::not_found("the test has no tensor '" + name + "'");
  const pith::Shape& shape = file.tensors()[*index].shape;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  PITH_OK(file.read_rows(*index, 0, shape.rows(), values));
  return values;
}

pith::Status run(const char* model_path, const char* test_path) {
  PITH_TRY(const auto test, pith::Checkpoint::open(test_path));
  PITH_TRY(std::vector<float> values, read(*test, "images"));
  PITH_TRY(const std::vector<float> labels, read(*test, "labels"));
  if (values.empty() || labels.empty()) {
    return pith::Status::invalid_argument("the test has no images or no labels");
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  const float largest = *std::max_element(values.begin(), values.end());
  for (float& pixel : values) pixel /= largest;  // from 0 to 1

  PITH_TRY(const auto model, pith::open_dense(model_path));
  std::int64_t bytes = 0;
  for (int i = 1; model->find("fc" + std::to_string(i) + ".weight"); ++i) {
    PITH_TRY(pith::Linear layer, pith::Linear::load(*model, "fc" + std::to_string(i)));
    if (i > 1) {
      for (float& value : values) value = std::max(value, 0.0f);
    }
    std::vector<float> next(static_cast<std::size_t>(count * layer.outputs()));
    PITH_OK(layer.forward(values, count, next));
    values = std::move(next);
    bytes += layer.packed_bytes();
    std::printf("fc%d: %lld x %lld, %s\n", i, static_cast<long long>(layer.outputs()),
                static_cast<long long>(layer.inputs()),
                layer.scheme() ? layer.scheme()->to_string().c_str() : "f32");
  }
  if (bytes == 0) return pith::Status::not_found("the model has no layer 'fc1'");

  const std::int64_t classes = static_cast<std::int64_t>(values.size()) / count;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = values.begin() + i * classes;
    const auto best = std::max_element(begin, begin + classes) - begin;
    right += static_cast<float>(best) == labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  const double accuracy = static_cast<double>(right) / static_cast<double>(count);
  std::printf("%.1f %% of %lld images are right; %.1f KiB of weights in memory\n",
              100 * accuracy, static_cast<long long>(count),
              static_cast<double>(bytes) / 1024);
  if (accuracy < 0.5)
    return {pith::StatusCode::kGateFailed, "that is no better than chance"};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: mlp MODEL TEST\n");
    return 2;
  }
  const pith::Status status = run(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "mlp: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
