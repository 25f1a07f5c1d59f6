// Checkpoints whose tensors lie in one piece in their files, rows one after another:
// safetensors, GGUF, npy. A reader fills in the tables; bytes and rows are read here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pith/io/checkpoint.h"
#include "src/io/file.h"

namespace pith {

class StoredCheckpoint : public Checkpoint {
 public:
  Status read_rows(std::size_t tensor, std::int64_t first, std::int64_t rows,
                   std::span<float> out) const override;
  Status read_bytes(std::size_t tensor, std::int64_t offset,
                    std::span<std::byte> out) const override;

  /// The bytes of a tensor, mapped. They may be read as long as the file does not shrink;
  /// beyond a new end the process gets a signal. Fails as MappedFile::map.
  [[nodiscard]] Result<MappedFile> map(std::size_t tensor) const {
    const TensorInfo& info = tensors_[tensor];
    return MappedFile::map(inputs_[info.file], info.offset,
                           static_cast<std::uint64_t>(info.bytes));
  }

 protected:
  /// Adds a file to files(), in the order of TensorInfo::file.
  void add_file(InputFile file);
  [[nodiscard]] const InputFile& input(std::size_t file) const { return inputs_[file]; }

  /// Values of `bytes`, which are whole blocks of `tensor` from its element `begin` on.
  /// Called for decodable encodings only. The default knows plain numbers.
  virtual Status decode(const TensorInfo& tensor, std::int64_t begin,
                        std::span<const std::byte> bytes, std::span<float> out) const;

 private:
  std::vector<InputFile> inputs_;
};

/// kInvalidArgument unless `tensor` is one of the tensors, rows [first, first + rows) are
/// in it and out_size is rows * cols; kUnsupported if it is not decodable. For every
/// read_rows.
Status check_rows(const Checkpoint& checkpoint, std::size_t tensor, std::int64_t first,
                  std::int64_t rows, std::size_t out_size);
/// The same for read_bytes.
Status check_bytes(const Checkpoint& checkpoint, std::size_t tensor, std::int64_t offset,
                   std::size_t out_size);

}  // namespace pith
