#include "src/quantize/json_keys.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pith {

const nlohmann::json* find_key(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::int64_t> positive_number(const nlohmann::json* value, const char* key) {
  if (value == nullptr || !value->is_number_unsigned() ||
      value->get<std::uint64_t>() == 0 || value->get<std::uint64_t>() > INT32_MAX) {
    return Status::corrupt(fmt::format("'{}' must be a number from 1 to 2^31-1", key));
  }
  return value->get<std::int64_t>();
}

}  // namespace pith
