// Which function of the library answers which function of the golden files.
//
// An adapter reads the inputs, calls the library, and writes the answer down in the
// encoding of the files. It computes nothing that the library computes. Where the library
// can do as the reference did and does better by default, an adapter asks for the former;
// deviations.h shows the latter.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/tensor/shape.h"
#include "tests/golden/encoding.h"

namespace pith::golden {

using Adapter = Result<Json> (*)(const Json& inputs);

struct AdapterEntry {
  std::string_view function;
  Adapter adapter;
};

// One list per file adapt_<name>.cc.
[[nodiscard]] std::span<const AdapterEntry> tensor_adapters();     // tensor/half.h
[[nodiscard]] std::span<const AdapterEntry> calibrate_adapters();  // calibrate/
[[nodiscard]] std::span<const AdapterEntry> prune_adapters();      // prune/
[[nodiscard]] std::span<const AdapterEntry> dynamic_adapters();    // quantize/dynamic.h
[[nodiscard]] std::span<const AdapterEntry> weights_adapters();    // quantize/quantize.h
[[nodiscard]] std::span<const AdapterEntry> smooth_adapters();     // quantize/smooth.h
[[nodiscard]] std::span<const AdapterEntry> codec_adapters();      // codec/
[[nodiscard]] std::span<const AdapterEntry> run_adapters();        // run/matvec.h
[[nodiscard]] std::span<const AdapterEntry> pipeline_adapters();   // pipeline/

/// The adapter of a function, or nullptr.
[[nodiscard]] Adapter find_adapter(std::string_view function);

// What several adapters read and write.

[[nodiscard]] Result<Shape> to_shape(const Json& extents);
/// A size; one above the largest int64 becomes negative, as it would in a call.
[[nodiscard]] std::int64_t to_size(const Json& value);
[[nodiscard]] Json extents_of(const Shape& shape);
/// The status of a call that works in place. Throws BadCase if it failed and has changed
/// its input all the same.
[[nodiscard]] Status unchanged(Status status, const std::vector<float>& before,
                               const std::vector<float>& after);

}  // namespace pith::golden
