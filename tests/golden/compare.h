// Comparison of an expected output with the one that was got.
//
// Numbers agree in every bit, zeros with their sign, and any NaN equals any NaN, unless
// the case states a tolerance for the field: {"abs": x}, {"ulp": n} or {"rel": r}.
#pragma once

#include <string>
#include <string_view>

#include "tests/golden/encoding.h"

namespace pith::golden {

/// The first difference as "field: expected .., got ..", or "" if there is none.
///
/// `tolerances` maps a field to its tolerance; dots step into objects, and a field of the
/// objects of a list is `list.field`. Keys of `got` that are not expected are a
/// difference too; `dec` and `scheme` are for people and are passed over.
[[nodiscard]] std::string difference(const Json& expected, const Json& got,
                                     const Json& tolerances);

/// True if `number` stands in `message` as a word of its own: 4 is in "4 rows", not in
/// "48".
[[nodiscard]] bool mentions(std::string_view message, std::string_view number);

/// Every number of `info` (and every name) that `message` does not contain, separated by
/// commas; "" if it has all.
[[nodiscard]] std::string missing_from(std::string_view message, const Json& info);

}  // namespace pith::golden
