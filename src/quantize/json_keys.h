// Keys of JSON objects that other programs wrote.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "pith/base/result.h"

namespace pith {

/// The value at `key`, or null if it is missing or null.
const nlohmann::json* find_key(const nlohmann::json& object, const char* key);

/// `value` of `key` (null if it is missing); kCorrupt if it is no number from 1 to 2^31-1.
Result<std::int64_t> positive_number(const nlohmann::json* value, const char* key);

}  // namespace pith
