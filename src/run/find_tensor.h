// Tensors of a checkpoint by the name of their module.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"

namespace pith {

/// The first file, for messages.
std::string file_of(const Checkpoint& model);

/// The tensor of that name, or the weight of a module of that name. kNotFound if there is
/// none.
Result<std::size_t> find_weight(const Checkpoint& model, std::string_view name);

/// The tensor with ".bias" in place of ".weight" at the end of `weight`.
std::optional<std::size_t> find_bias(const Checkpoint& model, std::string_view weight);

/// The bias of a matrix, one value per row; empty if it has none. kCorrupt if it has another
/// size.
Result<std::vector<float>> read_bias(const Checkpoint& model, const TensorInfo& weight);

}  // namespace pith
