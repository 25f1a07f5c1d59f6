// Pickles of PyTorch state dicts, read without an unpickler.
//
//   PITH_TRY(PickledModel model, read_state_dict(bytes));
//
// A pickle is a program for a stack machine that can name and call any function. This
// reader knows the few opcodes a state dict needs, and four kinds of things they may
// make: plain values, dicts, storages and tensors. Nothing is looked up, called or
// executed; whatever is not on the list is refused by its name. docs/formats/pytorch.md
// has the list.
//
// Memory and time are bounded by the length of the pickle: stack, memo and values have
// limits, and so has the walk through dicts that share parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/tensor/dtype.h"

namespace pith {

/// A run of elements of one type: entry `data/KEY` of the archive.
struct PickledStorage {
  DType dtype = DType::kF32;
  std::string key;
  std::int64_t elements = 0;
};

/// A view of a storage. Sizes, strides and the offset are not negative; that it lies
/// inside the storage is checked.
struct PickledTensor {
  std::string name;  ///< keys of the dicts on the way to it, joined by dots
  std::size_t storage = 0;
  std::int64_t offset = 0;  ///< in elements
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

struct PickledModel {
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;  ///< in the order of the pickle
  /// Numbers and strings that stand among the tensors, by name, as text.
  std::vector<std::pair<std::string, std::string>> values;
};

/// kUnsupported for what is not a dict of tensors by the opcodes listed; kCorrupt for a
/// pickle that breaks its own rules. The message names the byte and what was found.
Result<PickledModel> read_state_dict(std::span<const std::byte> pickle);

}  // namespace pith
