#include <fmt/format.h>

#include <string>

#include "pith/quantize/dense.h"
#include "pith/run/linear.h"
#include "src/base/text.h"

namespace pith {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string file_of(const Checkpoint& model) {
  return model.files().empty() ? "checkpoint"
                               : printable(model.files().front().native(), 160);
}

// Of the name itself, or of the weight of a module of that name.
Result<std::size_t> find_weight(const Checkpoint& model, std::string_view name) {
  if (const auto index = model.find(name)) return *index;
  if (const auto index = model.find(std::string(name) + std::string(kWeight))) {
    return *index;
  }
  return Status::not_found(fmt::format("{}: no tensor '{}' (pith inspect lists all {})",
                                       file_of(model), printable(name),
                                       model.tensors().size()));
}

// Empty if the weight has none.
Result<std::vector<float>> read_bias(const Checkpoint& model, const TensorInfo& weight) {
  std::vector<float> bias;
  if (!weight.name.ends_with(kWeight)) return bias;
  const std::string name =
      weight.name.substr(0, weight.name.size() - kWeight.size()) + ".bias";
  const auto index = model.find(name);
  if (!index) return bias;
  const Shape& shape = model.tensors()[*index].shape;
  if (shape.elements() != weight.shape.rows()) {
    return Status::corrupt(fmt::format(
        "{}: tensor '{}' has shape {}, expected one value for each of {} outputs",
        file_of(model), printable(name), shape.to_string(), weight.shape.rows()));
  }
  bias.resize(static_cast<std::size_t>(shape.elements()));
  PITH_OK(model.read_rows(*index, 0, shape.rows(), bias));
  return bias;
}

}  // namespace

Result<Linear> Linear::load(const Checkpoint& model, std::string_view name,
                            const LinearOptions& options) {
  PITH_TRY(const std::size_t index, find_weight(model, name));
  const TensorInfo& info = model.tensors()[index];
  const auto in_file = [&](const Status& status) {
    return status.with_context(
        fmt::format("{}: tensor '{}'", file_of(model), printable(info.name)));
  };
  PITH_TRY(const std::vector<float> bias, read_bias(model, info));
  PITH_TRY(const std::optional<StoredCodes> stored, read_codes(model, index));
  if (stored) {
    LinearOptions used = options;
    if (!stored->column_scale.empty()) {
      if (!options.input_scale.empty()) {
        return in_file(Status::invalid_argument(
            "linear: it has factors of its own, so input_scale must be empty"));
      }
      used.input_scale = stored->column_scale;
    }
    Result<Linear> layer = make(stored->tensor, bias, used);
    if (!layer) return in_file(layer.error());
    return layer;
  }
  std::vector<float> values(static_cast<std::size_t>(info.shape.elements()));
  PITH_OK(model.read_rows(index, 0, info.shape.rows(), values));
  PITH_TRY(const TensorView view, TensorView::of(values, info.shape, info.name));
  Result<Linear> layer = make(view, bias, options);
  if (!layer) return in_file(layer.error());
  return layer;
}

Result<Linear> Linear::load(const std::filesystem::path& path, std::string_view name,
                            const LinearOptions& options) {
  PITH_TRY(const std::unique_ptr<Checkpoint> model, open_dense(path));
  return load(*model, name, options);
}

}  // namespace pith
