// Text from files: names are data, never terminal commands.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

/// `text` on one line, for a message: control bytes, quotes, backslashes and what is not
/// UTF-8 become \n, \" or \x1b; what is longer than `limit` bytes is shortened in the
/// middle, so that messages stay short whatever a file says; at most half as much again
/// with escapes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 96);

/// Length of the UTF-8 character at the start of `text`, 1 to 4; 0 if it is none:
/// overlong, a surrogate, above U+10FFFF, cut off. `text` must not be empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// Index of the first byte that belongs to no UTF-8 character, or npos.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text);

/// One of `names` that is there twice, if any. Sorts, and does not hash: no choice of names
/// makes it slow.
[[nodiscard]] std::optional<std::string_view> find_duplicate(
    std::vector<std::string_view> names);

}  // namespace pith
