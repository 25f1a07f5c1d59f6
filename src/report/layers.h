// Tensors of a report gathered by layer, for pictures and tables of large models.
#pragma once

#include <string>
#include <vector>

#include "pith/report/report.h"

namespace pith::report {

struct Layer {
  std::string name;
  std::vector<std::size_t> tensors;  ///< their numbers in the report
  std::int64_t parameters = 0;
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  ErrorFigures error;  ///< of its compressed tensors; count 0 if there is none
};

/// In the order of their first tensors, but counted: 2 comes before 10, as in the page.
/// Aliased and dropped tensors are in the bytes before, but are no parameters.
std::vector<Layer> layers_of(const Report& report);

/// Numbers of all tensors, layer by layer.
std::vector<std::size_t> tensors_by_layer(const Report& report);

/// Indices of `names` in their order, but names that differ by numbers only are sorted by
/// these among the places they have: {"b10", "a", "b2"} gives 2, 1, 0.
std::vector<std::size_t> counted_order(const std::vector<std::string>& names);

}  // namespace pith::report
