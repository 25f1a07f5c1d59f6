#include "tests/golden/deviations.h"

namespace pith::golden {
namespace {

constexpr std::string_view kOutOfScope = "does not offer this";

constexpr Deviation kDeviations[] = {
    {"", "tensor_ops/*", kOutOfScope, nullptr, "", ""},
};

}  // namespace

std::span<const Deviation> deviations() { return kDeviations; }

bool glob_matches(std::string_view glob, std::string_view text) {
  // The last `*` seen may take one more character whenever the rest does not fit.
  std::size_t g = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

const Deviation* find_deviation(const Case& item) {
  for (const Deviation& entry : kDeviations) {
    if (!glob_matches(entry.cases, item.name)) continue;
    const bool named_in_full = entry.cases.find('*') == std::string_view::npos;
    if (named_in_full || entry.defect.empty() || item.has_defect(entry.defect)) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace pith::golden
