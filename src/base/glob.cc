#include "pith/base/glob.h"

#include <cstddef>

namespace pith {
namespace {

// Length of the bracket expression that `pattern` begins with, and whether `c` is in it;
// 0 if it is none, since its end is missing.
std::size_t match_bracket(std::string_view pattern, char c, bool& matches) {
  std::size_t i = 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  bool found = false;
  const auto byte = static_cast<unsigned char>(c);
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) {
      matches = found != negated;
      return i + 1;
    }
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = static_cast<unsigned char>(pattern[i + 2]);
      i += 2;
    }
    found = found || (low <= byte && byte <= high);
    ++i;
  }
  return 0;
}

// Length of the first element of `pattern` if it matches `c`, else 0. Not for '*'.
std::size_t match_one(std::string_view pattern, char c) {
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '[') {
    bool matches = false;
    const std::size_t length = match_bracket(pattern, c, matches);
    if (length > 0) return matches ? length : 0;
  }
  return pattern[0] == c ? 1 : 0;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  // After the last '*': where the pattern goes on, and the first byte it has not eaten.
  // Only the last one can need to eat more, so there is no search.
  std::size_t after_star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      resume = t;
      continue;
    }
    const std::size_t length =
        p < pattern.size() ? match_one(pattern.substr(p), text[t]) : 0;
    if (length > 0) {
      p += length;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace pith
