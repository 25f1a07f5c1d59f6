// Figures as people read them; the same in the summary, in Markdown and in HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pith/report/report.h"

namespace pith::report {

std::string with_commas(std::int64_t number);  ///< 1,234,567
std::string human_bytes(double bytes);         ///< "16 B", "4.0 KiB", "1.5 GiB"
std::string human_seconds(double seconds);     ///< "0.25 s", "3:07 min", "1:02 h"
std::string percent(double share);             ///< 0.5 is "50.0 %"; "< 0.1 %"
std::string significant(double number);        ///< three digits: "0.00123"
std::string decibels(double number);           ///< "41.2 dB"; "exact" for infinity
std::string times(double ratio);               ///< "3.98x"; "-" for 0
std::string counted(std::int64_t count, std::string_view word);  ///< "1 tensor"

/// "3.98x smaller", "0.2 % larger", "the same size"
std::string size_change(std::int64_t before, std::int64_t after);

/// The place of an element: "[3, 17]". Empty if there is none.
std::string place_of(const Shape& shape, std::int64_t index);

/// `part of whole (share)`: "5 of 10 (50.0 %)"
std::string part_of(std::int64_t part, std::int64_t whole);

/// Text on one line of a terminal: control characters become \n or \x1b, and what is not
/// UTF-8 too; those that turn the direction of text become \u202e.
std::string one_line(std::string_view text);

/// Rows of cells, aligned; two spaces between columns and before the first. Columns in
/// `right` are aligned to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::vector<bool>& right);

}  // namespace pith::report
