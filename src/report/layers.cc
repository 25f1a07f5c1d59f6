#include "src/report/layers.h"

#include <unordered_map>

namespace pith::report {

std::vector<Layer> layers_of(const Report& report) {
  std::vector<Layer> layers;
  std::unordered_map<std::string, std::size_t> numbers;
  for (const TensorReport& tensor : report.tensors) {
    const std::string name = layer_of(tensor.name);
    const auto [found, fresh] = numbers.try_emplace(name, layers.size());
    if (fresh) {
      layers.emplace_back();
      layers.back().name = name;
    }
    Layer& layer = layers[found->second];
    ++layer.tensors;
    layer.bytes_before += tensor.bytes_before;
    layer.bytes_after += tensor.bytes_after;
    if (tensor.action == TensorAction::kKept ||
        tensor.action == TensorAction::kCompressed) {
      layer.parameters += tensor.shape.elements();
    }
    if (tensor.error) layer.error.merge(*tensor.error, 0);
  }
  return layers;
}

}  // namespace pith::report
