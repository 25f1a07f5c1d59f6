#include "tests/golden/adapters.h"

#include <cstring>

namespace pith::golden {

Adapter find_adapter(std::string_view function) {
  const std::span<const AdapterEntry> lists[] = {
      tensor_adapters(),    dynamic_adapters(), weights_adapters(),
      smooth_adapters(),    codec_adapters(),   run_adapters(),
      calibrate_adapters(), prune_adapters(),   pipeline_adapters()};
  for (std::span<const AdapterEntry> list : lists) {
    for (const AdapterEntry& entry : list) {
      if (entry.function == function) return entry.adapter;
    }
  }
  return nullptr;
}

Result<Shape> to_shape(const Json& extents) { return Shape::make(to_extents(extents)); }

std::int64_t to_size(const Json& value) {
  return static_cast<std::int64_t>(to_u64(value));
}

Json extents_of(const Shape& shape) { return integers(shape.extents()); }

Status unchanged(Status status, const std::vector<float>& before,
                 const std::vector<float>& after) {
  const bool same = before.size() == after.size() &&
                    (before.empty() ||
                     std::memcmp(before.data(), after.data(), 4 * before.size()) == 0);
  if (!status.ok() && !same) throw BadCase("a call that failed has changed its input");
  return status;
}

}  // namespace pith::golden
