#include "pith/pipeline/stage.h"

#include <fmt/format.h>

#include "src/base/parallel.h"

namespace pith {

std::int64_t Storage::code_bytes(const Shape& shape) const {
  if (scheme) return scheme->code_bytes(shape);
  return shape.elements() * bits_of(dtype) / 8;
}

std::int64_t Storage::stored_bytes(const Shape& shape) const {
  const std::int64_t columns = column_scale ? 4 * shape.cols() : 0;
  if (!scheme) return code_bytes(shape) + columns;
  return scheme->code_bytes(shape) + scheme->scale_bytes(shape) +
         scheme->zero_point_bytes(shape) + columns;
}

void StageStream::preview(std::span<const float> /*sample*/, std::int64_t /*run*/) {}

Status StageStream::feed(std::span<const float> /*values*/) { return {}; }

Status StageStream::end_pass() { return {}; }

Result<std::unique_ptr<StageStream>> StageStream::part(std::size_t /*tensor*/) const {
  return Status::unsupported("the stage takes all its tensors together only");
}

Status StageStream::apply_with_mask(std::span<float> /*values*/,
                                    std::span<std::byte> /*mask*/) {
  return Status::unsupported("the stage makes no masks");
}

Status StageStream::feed_apart(std::span<const float> /*values*/,
                               std::int64_t /*first*/) {
  return Status::unsupported("the stage takes rows in their order only");
}

Result<std::int64_t> StageStream::apply_apart(std::span<const float> /*values*/,
                                              std::int64_t /*first*/,
                                              std::span<float> /*out*/,
                                              std::span<std::byte> /*mask*/) {
  return Status::unsupported("the stage takes rows in their order only");
}

std::string Stage::describe() const { return std::string(name()); }

std::optional<std::int64_t> Stage::kept(const TensorHeader& /*tensor*/) const {
  return std::nullopt;
}

std::string Stage::skip_reason(const TensorHeader& /*tensor*/) const { return {}; }

Status Stage::fits(const TensorHeader& /*tensor*/) const { return {}; }

Status Stage::apply_all(std::span<const StageTensor> tensors) const {
  std::vector<Status> found(tensors.size());
  parallel_for(static_cast<std::int64_t>(tensors.size()), [&](std::int64_t i) {
    const StageTensor& tensor = tensors[static_cast<std::size_t>(i)];
    found[static_cast<std::size_t>(i)] = apply(tensor.spec, tensor.values);
  });
  for (Status& status : found) PITH_OK(std::move(status));
  return {};
}

Result<std::unique_ptr<StageStream>> Stage::stream(
    std::span<const TensorHeader> /*tensors*/) const {
  return Status::unsupported(fmt::format(
      "stage '{}' works on whole tensors only: it needs them in memory", name()));
}

}  // namespace pith
