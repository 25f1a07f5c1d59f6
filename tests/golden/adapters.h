// Which function of the library answers which function of the golden files.
//
// An adapter reads the inputs, calls the library, and writes the answer down in the
// encoding of the files. It computes nothing that the library computes.
#pragma once

#include <span>
#include <string_view>

#include "pith/base/result.h"
#include "tests/golden/encoding.h"

namespace pith::golden {

using Adapter = Result<Json> (*)(const Json& inputs);

struct AdapterEntry {
  std::string_view function;
  Adapter adapter;
};

// One list per folder of the library, in adapt_<folder>.cc.
[[nodiscard]] std::span<const AdapterEntry> tensor_adapters();

/// The adapter of a function, or nullptr.
[[nodiscard]] Adapter find_adapter(std::string_view function);

}  // namespace pith::golden
