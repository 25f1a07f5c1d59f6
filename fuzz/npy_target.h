// What both npy targets do with a file.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fuzz/check.h"
#include "src/io/npy.h"

namespace pith::fuzz {

/// An npy file in memory.
class MemoryNpy : public ViewCheckpoint {
 public:
  MemoryNpy(std::span<const std::byte> file, const NpyHeader& header) : source_(file) {
    TensorInfo info;
    info.encoding = header.encoding;
    info.shape = header.shape;
    info.offset = header.data_begin;
    add_tensor(std::move(info), npy_tensor_bytes(header, source_));
  }
  [[nodiscard]] Format format() const override { return Format::kNpy; }

 private:
  MemorySource source_;
};

inline void run_npy(std::span<const std::byte> file) {
  const auto start = file.first(std::min(file.size(), kNpyMaxStart));
  const Result<NpyHeader> header = parse_npy(start, file.size());
  if (!header) return check_refusal(header.error());
  const MemoryNpy checkpoint(file, *header);
  check_shape(checkpoint.tensors()[0]);
  check_place(checkpoint.tensors()[0], file.size());
  require(
      header->data_begin + static_cast<std::uint64_t>(checkpoint.tensors()[0].bytes) ==
          file.size(),
      "bytes that belong to nothing");
  read_tensors(checkpoint);
}

}  // namespace pith::fuzz
