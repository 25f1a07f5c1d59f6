#include "src/run/find_tensor.h"

#include <fmt/format.h>

#include "src/base/text.h"

namespace pith {
namespace {

constexpr std::string_view kWeight = ".weight";

}  // namespace

std::string file_of(const Checkpoint& model) {
  return model.files().empty() ? "checkpoint"
                               : printable(model.files().front().native(), 160);
}

Result<std::size_t> find_weight(const Checkpoint& model, std::string_view name) {
  if (const auto index = model.find(name)) return *index;
  if (const auto index = model.find(std::string(name) + std::string(kWeight))) {
    return *index;
  }
  return Status::not_found(fmt::format("{}: no tensor '{}' (pith inspect lists all {})",
                                       file_of(model), printable(name),
                                       model.tensors().size()));
}

std::optional<std::size_t> find_bias(const Checkpoint& model, std::string_view weight) {
  if (!weight.ends_with(kWeight)) return std::nullopt;
  return model.find(std::string(weight.substr(0, weight.size() - kWeight.size())) +
                    ".bias");
}

Result<std::vector<float>> read_bias(const Checkpoint& model, const TensorInfo& weight) {
  std::vector<float> bias;
  const auto index = find_bias(model, weight.name);
  if (!index) return bias;
  const TensorInfo& info = model.tensors()[*index];
  if (info.shape.elements() != weight.shape.rows()) {
    return Status::corrupt(fmt::format(
        "{}: tensor '{}' has shape {}, expected one value for each of {} outputs",
        file_of(model), printable(info.name), info.shape.to_string(),
        weight.shape.rows()));
  }
  bias.resize(static_cast<std::size_t>(info.shape.elements()));
  PITH_OK(model.read_rows(*index, 0, info.shape.rows(), bias));
  return bias;
}

}  // namespace pith
