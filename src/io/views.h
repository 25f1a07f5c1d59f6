// Checkpoints whose tensors are views of byte sources: npy, npz, PyTorch. A reader fills
// in the tables; rows and bytes are read here, in row-major order and little-endian
// whatever the file says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "pith/io/checkpoint.h"
#include "src/io/strided.h"

namespace pith {

/// Where the elements of a tensor are.
struct TensorBytes {
  StridedView view;
  bool big_endian = false;
  bool row_major = false;  ///< is_row_major(view), asked once
};

class ViewCheckpoint : public Checkpoint {
 public:
  Status read_rows(std::size_t tensor, std::int64_t first, std::int64_t rows,
                   std::span<float> out) const override;
  Status read_bytes(std::size_t tensor, std::int64_t offset,
                    std::span<std::byte> out) const override;

 protected:
  /// The one file that all sources are in; `name` is for messages.
  void set_file(std::filesystem::path path, std::string name);
  /// Adds a tensor of plain numbers whose view fits its source; sets row_major and
  /// TensorInfo::bytes.
  void add_tensor(TensorInfo info, TensorBytes bytes);

 private:
  // Elements [first, first + count) of a tensor, little-endian.
  Status read_elements(std::size_t tensor, std::int64_t first, std::int64_t count,
                       std::span<std::byte> out) const;

  std::string name_;
  std::vector<TensorBytes> places_;  // one per tensor
};

/// An error with the file's name in front, if it does not begin with it already.
[[nodiscard]] Status in_file(const Status& status, const std::string& name);

}  // namespace pith
