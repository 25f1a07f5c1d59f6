// The codes of a stored tensor without a copy of them.
#pragma once

#include <optional>

#include "pith/base/result.h"
#include "pith/quantize/dense.h"
#include "src/io/file.h"

namespace pith {

struct MappedCodes {
  StoredCodes rest;  ///< all but the codes: rest.tensor.codes is empty
  MappedFile codes;  ///< scheme.code_bytes(shape), as QuantizedTensor has them
};

/// As read_codes (dense.h) for codes that lie in a file as QuantizedTensor has them: those
/// of Pith and of GGUF. Nothing if they do not: sparse ones, compressed-tensors, zip files.
/// The scales of blocks that are mapped with their codes are not looked at.
Result<std::optional<MappedCodes>> map_codes(const Checkpoint& model, std::size_t tensor);

}  // namespace pith
