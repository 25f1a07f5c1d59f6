// What both pickle targets do with a pickle.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "fuzz/check.h"
#include "src/io/pickle.h"
#include "src/io/strided.h"

namespace pith::fuzz {

/// Every element of a view is inside its storage.
inline void check_view(const PickledTensor& tensor, const PickledStorage& storage) {
  __extension__ typedef unsigned __int128 Wide;
  require(tensor.sizes.size() == tensor.strides.size(), "sizes and strides differ");
  require(tensor.offset >= 0 && storage.elements >= 0, "a negative number");
  Wide last = static_cast<Wide>(tensor.offset);
  Wide elements = 1;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    require(tensor.sizes[i] >= 0 && tensor.strides[i] >= 0, "a negative number");
    elements *= static_cast<Wide>(tensor.sizes[i]);
    require(elements <= Wide{INT64_MAX}, "a shape overflows");
    if (tensor.sizes[i] == 0) continue;
    // At most 64 terms of less than 2^126: no carry is lost that matters.
    const Wide term =
        static_cast<Wide>(tensor.sizes[i] - 1) * static_cast<Wide>(tensor.strides[i]);
    last += std::min(term, Wide{1} << 100);
  }
  require(elements == 0 || last < static_cast<Wide>(storage.elements),
          "a tensor runs past its storage");
}

inline void run_pickle(std::span<const std::byte> pickle) {
  const Result<PickledModel> model = read_state_dict(pickle);
  if (!model) return check_refusal(model.error());
  std::vector<std::string> names;
  for (const PickledTensor& tensor : model->tensors) {
    require(tensor.storage < model->storages.size(), "a storage that is not there");
    const PickledStorage& storage = model->storages[tensor.storage];
    check_view(tensor, storage);
    names.push_back(tensor.name);
    if (storage.elements > 1 << 12) continue;
    // All elements, gathered from a storage of that size.
    const std::vector<std::byte> bytes(static_cast<std::size_t>(storage.elements) * 4);
    const MemorySource source(bytes);
    const StridedView view{&source, 4, static_cast<std::uint64_t>(tensor.offset) * 4,
                           tensor.sizes, tensor.strides};
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.sizes) elements *= extent;
    elements = std::min<std::int64_t>(elements, 1 << 14);
    std::vector<std::byte> out(static_cast<std::size_t>(elements) * 4);
    require(read_strided(view, 0, elements, out).ok(), "a view cannot be read");
  }
  std::sort(names.begin(), names.end());
  require(std::adjacent_find(names.begin(), names.end()) == names.end(),
          "a name is twice there");
}

}  // namespace pith::fuzz
