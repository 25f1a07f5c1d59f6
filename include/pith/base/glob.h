// Names chosen by patterns.
#pragma once

#include <string_view>

namespace pith {

/// True if all of `text` matches `pattern`: '*' stands for any bytes, also none, '?' for
/// one byte, [a-z] and [!a-z] for one of these or none of these; everything else for
/// itself. Time is at most the product of the lengths, whatever the pattern.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace pith
