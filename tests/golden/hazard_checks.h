// Hazards whose answer is a value or a property: one check each.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "pith/base/status.h"
#include "tests/golden/case.h"

namespace pith::golden {

/// What is wrong with the library's answer, or "".
using HazardCheck = std::string (*)(const Case& item);

/// The check of a hazard, or nullptr.
[[nodiscard]] HazardCheck find_hazard_check(std::string_view name);

struct HazardEntry {
  std::string_view name;
  HazardCheck check;
};

// Hazards of large or extreme inputs (hazard_values.cc), and of compression
// (hazard_sizes.cc).
[[nodiscard]] std::span<const HazardEntry> value_hazards();
[[nodiscard]] std::span<const HazardEntry> size_hazards();

/// "" if `holds`, else the text.
[[nodiscard]] inline std::string unless(bool holds, std::string text) {
  return holds ? std::string() : std::move(text);
}

/// What is wrong where an output was expected.
[[nodiscard]] inline std::string show(const Status& status) {
  return fmt::format("expected an output, got the error '{}'", status.message());
}

}  // namespace pith::golden
