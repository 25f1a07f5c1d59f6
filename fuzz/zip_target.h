// What all zip targets do with a file.
#pragma once

#include <cstring>
#include <memory>
#include <span>

#include "fuzz/check.h"
#include "src/io/npz.h"

namespace pith::fuzz {

/// Opens an npz or PyTorch file and reads the tensors of an accepted one.
inline void run_zip(std::span<const std::byte> file) {
  const CheckpointResult checkpoint =
      open_zip_source(std::make_unique<MemorySource>(file), "memory");
  if (!checkpoint) return check_refusal(checkpoint.error());
  for (const TensorInfo& tensor : (*checkpoint)->tensors()) {
    check_shape(tensor);
    if (tensor.offset != 0) check_place(tensor, file.size());
  }
  read_tensors(**checkpoint);
}

}  // namespace pith::fuzz
