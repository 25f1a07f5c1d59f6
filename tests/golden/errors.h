// The reference's kinds of errors and Pith's.
#pragma once

#include <string>
#include <string_view>

#include "pith/base/status.h"
#include "tests/golden/encoding.h"

namespace pith::golden {

/// What is wrong with `status` as an error of that kind, or "": its code is not the
/// one that stands for the kind, its message does not say it, or lacks a number of
/// `info`.
[[nodiscard]] std::string not_of_kind(const Status& status, std::string_view kind,
                                      const Json& info);

}  // namespace pith::golden
