// Tensors of a report gathered by layer, for pictures and tables of large models.
#pragma once

#include <string>
#include <vector>

#include "pith/report/report.h"

namespace pith::report {

struct Layer {
  std::string name;
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  ErrorFigures error;  ///< of its compressed tensors; count 0 if there is none
};

/// In the order of their first tensors. Aliased and dropped tensors are in the bytes
/// before, but are no parameters.
std::vector<Layer> layers_of(const Report& report);

}  // namespace pith::report
