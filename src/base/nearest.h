// "Did you mean ...?"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pith {

/// The word of `known` with the fewest edits from `word`, if they are few enough for a slip; else empty.
/// The first of equals.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string_view> known);

/// " Did you mean 'x'?", or a list of all known words.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     std::span<const std::string_view> known);

}  // namespace pith
