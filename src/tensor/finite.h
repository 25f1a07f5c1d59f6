// Checks for NaN and infinity in values that come from outside.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pith/base/status.h"

namespace pith {

/// Index of the first value that is NaN or infinite, or -1.
std::int64_t first_nonfinite(std::span<const float> values);

/// kNotFinite with index and value if there is one: "activations: value 17 is nan, ...".
Status require_finite(std::span<const float> values, std::string_view what);

}  // namespace pith
