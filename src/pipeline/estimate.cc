#include "pith/pipeline/estimate.h"

#include <fmt/format.h>

#include "src/base/checked.h"
#include "src/base/text.h"

namespace pith {
namespace {

// More than any scheme stores per element: a code, a scale and a zero point. Where this
// fits an int64, every size below does.
constexpr std::uint64_t kMostBytes = 16;

}  // namespace

Result<Estimate> estimate(const Pipeline& pipeline,
                          std::span<const TensorHeader> tensors) {
  PITH_OK(pipeline.validate());
  Estimate total;
  CheckedSize most = 0;
  for (const TensorHeader& tensor : tensors) {
    most = most + CheckedSize::from_signed(tensor.shape.elements()) * kMostBytes;
    if (!most.fits_int64()) {
      return Status::invalid_argument(fmt::format(
          "estimate: tensor '{}' of shape {} makes the model larger than an int64 counts",
          printable(tensor.name), tensor.shape.to_string()));
    }
    Storage storage;
    total.bytes_before += storage.stored_bytes(tensor.shape);
    for (const StagePtr& stage : pipeline.stages()) {
      if (!pipeline.skip_reason(*stage, tensor).empty()) continue;
      PITH_OK(stage->fits(tensor));
      storage = stage->storage(storage);
    }
    total.code_bytes += storage.code_bytes(tensor.shape);
    total.stored_bytes += storage.stored_bytes(tensor.shape);
  }
  return total;
}

}  // namespace pith
