#include "src/report/layers.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace pith::report {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A name with its numbers taken out. Those are of any length, so they stay text.
struct Counted {
  std::string frame;
  std::vector<std::string> numbers;
};

Counted counted_name(std::string_view name) {
  Counted out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) {
      out.frame += name[i];
      continue;
    }
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const std::size_t first = std::min(name.find_first_not_of('0', i), end);
    out.numbers.emplace_back(name.substr(first, end - first));
    out.frame += '0';
    i = end - 1;
  }
  return out;
}

bool less(const Counted& a, const Counted& b) {
  return std::lexicographical_compare(
      a.numbers.begin(), a.numbers.end(), b.numbers.begin(), b.numbers.end(),
      [](const std::string& x, const std::string& y) {
        return x.size() != y.size() ? x.size() < y.size() : x < y;
      });
}

}  // namespace

std::vector<std::size_t> counted_order(const std::vector<std::string>& names) {
  std::vector<Counted> counted;
  std::map<std::string, std::vector<std::size_t>> frames;
  for (const std::string& name : names) {
    counted.push_back(counted_name(name));
    frames[counted.back().frame].push_back(counted.size() - 1);
  }
  std::vector<std::size_t> order(names.size());
  for (const auto& [frame, places] : frames) {
    std::vector<std::size_t> sorted = places;
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
      return less(counted[a], counted[b]);
    });
    for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = sorted[i];
  }
  return order;
}

std::vector<Layer> layers_of(const Report& report) {
  std::vector<Layer> layers;
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    const TensorReport& tensor = report.tensors[i];
    const std::string name = layer_of(tensor.name);
    const auto [found, fresh] = numbers.try_emplace(name, layers.size());
    if (fresh) {
      layers.emplace_back();
      layers.back().name = name;
      names.push_back(name);
    }
    Layer& layer = layers[found->second];
    layer.tensors.push_back(i);
    layer.bytes_before += tensor.bytes_before;
    layer.bytes_after += tensor.bytes_after;
    if (tensor.action == TensorAction::kKept ||
        tensor.action == TensorAction::kCompressed) {
      layer.parameters += tensor.shape.elements();
    }
    if (tensor.error) layer.error.merge(*tensor.error, 0);
  }
  std::vector<Layer> ordered;
  for (const std::size_t i : counted_order(names)) {
    ordered.push_back(std::move(layers[i]));
  }
  return ordered;
}

std::vector<std::size_t> tensors_by_layer(const Report& report) {
  std::vector<std::size_t> all;
  for (const Layer& layer : layers_of(report)) {
    std::vector<std::string> names;
    for (const std::size_t i : layer.tensors) names.push_back(report.tensors[i].name);
    for (const std::size_t i : counted_order(names)) all.push_back(layer.tensors[i]);
  }
  return all;
}

}  // namespace pith::report
