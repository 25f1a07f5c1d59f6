// One line of a golden file, and what came of running it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "tests/golden/encoding.h"

namespace pith::golden {

struct Case {
  std::string name;                  // "<file>/<group>/<name>"
  std::string function;              // which adapter runs it
  std::vector<std::string> defects;  // slugs of its `defect:` tags
  Json inputs;
  Json output;        // null if `error` is set, and in hazards
  std::string error;  // the kind that is expected; "" for none
  Json error_info;    // numbers and names that the message must contain
  Json tolerances;    // {} for none
  Json recommended;   // of a hazard; null otherwise

  [[nodiscard]] bool has_defect(std::string_view slug) const;
};

/// Throws BadCase if the line is no case.
[[nodiscard]] Case parse_case(std::string_view line);

enum class Verdict : std::uint8_t { kPassed, kDeviates, kFailed, kSkipped };

/// kDeviates: differs from the reference, as the table of deviations says it must.
struct Finding {
  Verdict verdict = Verdict::kPassed;
  std::string text;  // of a failure: what was expected, what was got
};

/// Runs a case against the library. Never throws but for lack of memory.
[[nodiscard]] Finding run_case(const Case& item);

/// Answers a hazard: its inputs, short or in words, are built, and the library must do
/// what `recommended` says. Throws BadCase for one that it does not know.
[[nodiscard]] std::string run_hazard(const Case& item);

}  // namespace pith::golden
