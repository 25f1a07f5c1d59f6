// Where Pith does not do what the reference did: on purpose, and written down.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pith/base/result.h"
#include "tests/golden/case.h"

namespace pith::golden {

/// Says what is wrong with Pith's answer to a case, or "" if it is what the table states.
using DeviationCheck = std::string (*)(const Case& item, const Result<Json>& answer);

struct Deviation {
  std::string_view defect;  // slug of the `defect:` tag that it overrides
  std::string_view cases;   // globs on case names, separated by spaces; `*` is any text
  std::string_view pith;    // what Pith does instead
  DeviationCheck check;     // nullptr: the case is skipped
  std::string_view file;    // where that is tested: a file of this repository
  std::string_view test;    // and a test in it, as "Suite.Name"
};

/// The whole table, first match first.
[[nodiscard]] std::span<const Deviation> deviations();

/// True if the case carries the entry's tag and matches one of its globs. A glob without
/// `*` covers that case with or without the tag, for the few that depend on a defect and
/// do not say so; an entry without a tag is for what Pith does not offer.
[[nodiscard]] bool covers(const Deviation& entry, const Case& item);

/// The entry that a case falls under, or nullptr.
[[nodiscard]] const Deviation* find_deviation(const Case& item);

/// True if `text` matches `glob`.
[[nodiscard]] bool glob_matches(std::string_view glob, std::string_view text);

}  // namespace pith::golden
