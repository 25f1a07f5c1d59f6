// Reading checkpoints of any format.
//
//   PITH_TRY(const auto model, pith::Checkpoint::open("model.safetensors"));
//   for (const pith::TensorInfo& t : model->tensors()) use(t.name, t.shape);
//   std::vector<float> row(cols);
//   PITH_OK(model->read_rows(0, 0, 1, row));  // row 0 of tensor 0
//
// Opening reads headers only. Data is read by pread into the caller's memory: a file that
// shrinks meanwhile is an error, never a signal. Nothing is mapped here; mmap is for
// running kernels on a file in place, where it is as fast and saves the copy. Every byte
// of a file is checked before it is used as a size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/shape.h"

namespace pith {

/// How elements are stored: plain numbers, or blocks of several that share a scale.
struct Encoding {
  std::string_view name;   ///< "F32", "Q4_0", ...: as the format calls it
  std::int64_t block = 1;  ///< elements of a block, which never crosses a row
  std::int64_t block_bytes = 0;
  std::optional<DType> dtype;  ///< of plain numbers
  bool decodable = false;  ///< read_rows gives its values; else they can only be copied
};

/// One tensor as it is stored.
struct TensorInfo {
  std::string name;
  Encoding encoding;
  Shape shape;             ///< row-major, whatever the order in the file
  std::int64_t bytes = 0;  ///< in the file
  std::size_t file = 0;    ///< index into Checkpoint::files()
  std::uint64_t offset =
      0;  ///< of its first byte in that file, if it is stored in one piece
};

enum class Format : std::uint8_t { kSafetensors, kGguf, kNpy, kNpz, kPytorch, kHivemind };
[[nodiscard]] std::string_view to_string(Format format);

/// A file or folder of tensors. Thread-safe: any number of threads may read at once.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// Opens a safetensors, GGUF, npy, npz or PyTorch file, recognised by content, or a
  /// folder with one safetensors file or a Hugging Face index.
  ///
  /// kNotFound, kIo, kCorrupt or kUnsupported; the message begins with the file and names
  /// the tensor, key or byte. A refusal costs no more memory than the header is long.
  static Result<std::unique_ptr<Checkpoint>> open(const std::filesystem::path& path);

  [[nodiscard]] virtual Format format() const = 0;
  /// The files read, as paths; shards in the order of their names.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return files_; }
  /// In the order of the file's data; shard after shard.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// Index of a tensor.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  /// Keys and values of the file as text: safetensors' `__metadata__`, GGUF's key-values
  /// (arrays shortened). Sorted as in the file.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& metadata() const {
    return metadata_;
  }
  /// What is odd but accepted: a wrong total_size, an unknown field.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// Rows [first, first + rows) of a tensor as f32 (Shape::rows, Shape::cols); `out` has
  /// rows * cols values. kUnsupported if the encoding is not decodable; kCorrupt if the
  /// file shrank or a block's scale is not finite; kInvalidArgument if rows or out do not
  /// fit.
  virtual Status read_rows(std::size_t tensor, std::int64_t first, std::int64_t rows,
                           std::span<float> out) const = 0;

  /// Bytes [offset, offset + out.size()) of a tensor in row-major order as they are
  /// stored: little-endian numbers or blocks. kCorrupt if the file shrank.
  virtual Status read_bytes(std::size_t tensor, std::int64_t offset,
                            std::span<std::byte> out) const = 0;

 protected:
  /// Called once by the reader when `tensors_` is complete.
  void index_names();

  std::vector<std::filesystem::path> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<std::string> warnings_;

 private:
  std::vector<std::size_t> by_name_;  // sorted by name
};

}  // namespace pith
