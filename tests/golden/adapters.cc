#include "tests/golden/adapters.h"

namespace pith::golden {

Adapter find_adapter(std::string_view function) {
  const std::span<const AdapterEntry> folders[] = {tensor_adapters()};
  for (std::span<const AdapterEntry> folder : folders) {
    for (const AdapterEntry& entry : folder) {
      if (entry.function == function) return entry.adapter;
    }
  }
  return nullptr;
}

}  // namespace pith::golden
