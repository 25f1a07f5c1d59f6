// Writing checkpoints: the whole layout first, then bytes in any order by any thread.
//
//   pith::CheckpointLayout layout;
//   layout.tensors.push_back(pith::TensorSpec::plain("w", pith::DType::kF16, shape));
//   PITH_TRY(auto writer, pith::CheckpointWriter::create("small.safetensors", layout));
//   PITH_OK(writer->write(0, 0, bytes));  // tensor 0 from its byte 0 on
//   PITH_OK(writer->commit());
//
// Nothing is seen under the output's name before commit(), which makes all of it appear
// at once: a run that fails or is killed leaves what was there before. Data goes to a
// temporary file in the same folder (".pith-...tmp"), or a temporary folder beside the
// output folder, is flushed to the disk and then renamed. A writer that is destroyed
// without commit() removes its temporary files; those of a run that was killed are
// removed by the next one that writes into the same folder.
//
// An output that is a symbolic link is replaced itself; what it points to stays as it is.
// A replaced file hands its permissions on; a new one gets 0666 less the umask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/cancel.h"
#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/io/gguf.h"

namespace pith {

/// One tensor that is to be written.
struct TensorSpec {
  std::string name;
  Encoding encoding;     ///< plain numbers, or for GGUF any of its block types
  Shape shape;           ///< row-major, whatever the order in the file
  std::size_t file = 0;  ///< index into CheckpointLayout::shards, if there are any

  /// A tensor of plain numbers.
  static TensorSpec plain(std::string name, DType dtype, Shape shape);
};

/// A file that stands beside the weights in a folder, such as config.json.
struct FolderFile {
  std::string name;              ///< plain file name
  std::filesystem::path source;  ///< copied byte for byte, if not empty
  std::string text;              ///< the content otherwise
};

/// What the output will hold: enough to know the place of every byte.
struct CheckpointLayout {
  Format format = Format::kSafetensors;  ///< kSafetensors, kGguf, kNpz or kNpy
  /// Safetensors are laid out by type and name as the format's own library does it, so
  /// that equal content gives equal bytes; the other formats keep this order.
  std::vector<TensorSpec> tensors;
  /// Safetensors only; written in the order of the keys.
  std::vector<std::pair<std::string, std::string>> metadata;
  /// Beside it, of each shard alone: as many as there are shards, or none.
  std::vector<std::vector<std::pair<std::string, std::string>>> shard_metadata;
  /// GGUF only; written in this order. `general.alignment` (u32) is obeyed.
  std::vector<GgufKey> gguf_keys;
  /// If not empty, the output is a folder with these safetensors files and, if there are
  /// several, `model.safetensors.index.json`.
  std::vector<std::string> shards;
  std::vector<FolderFile> folder_files;  ///< for a folder
};

struct WriteOptions {
  bool overwrite = false;  ///< an output that exists may be replaced
  bool sync = true;        ///< commit() returns when the data is on the disk
  /// Files and folders the data comes from. The output may be none of them by any name,
  /// nor a folder that holds one.
  std::vector<std::filesystem::path> inputs = {};
  const CancelToken* cancel = nullptr;  ///< asked by commit() until the output appears
  /// If not empty, the temporary has this name, so that a later run finds it if this one is
  /// killed; with `continue_part` what is there stays (mark_written).
  std::string part_name = {};
  bool continue_part = false;
};

/// Bytes of all files that `layout` will give, headers and padding included; without
/// folder_files. Fails as CheckpointWriter::create does for a layout.
Result<std::int64_t> stored_bytes(const CheckpointLayout& layout);

class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;

  /// Checks the layout, then the space on the disk, and reserves it.
  ///
  /// kInvalidArgument for a layout that cannot be written: a name that is there
  /// twice or too long for the format, a shape that does not fit the encoding, an output
  /// that is an input; kUnsupported for an encoding the format cannot hold;
  /// kAlreadyExists if there is an output and it may not be replaced; kNoSpace if it
  /// would not fit; kIo if a system call fails. A folder is replaced only if it holds
  /// nothing but files and looks like a checkpoint.
  static Result<std::unique_ptr<CheckpointWriter>> create(
      const std::filesystem::path& path, const CheckpointLayout& layout,
      const WriteOptions& options = {});

  /// Bytes of a tensor in row-major order, from byte `offset` of it on. Every byte is to
  /// be written exactly once; any order, any thread.
  ///
  /// kInvalidArgument if the bytes are not in the tensor or were written before; kNoSpace
  /// or kIo if the disk refuses them.
  Status write(std::size_t tensor, std::int64_t offset,
               std::span<const std::byte> bytes) {
    return write(tensor, offset, {}, bytes);
  }
  /// Two stretches of memory, one behind the other.
  virtual Status write(std::size_t tensor, std::int64_t offset,
                       std::span<const std::byte> first,
                       std::span<const std::byte> second) = 0;

  /// Byte of its file that a tensor begins at: a system takes bytes faster from one multiple
  /// of many pages to another.
  [[nodiscard]] virtual std::int64_t place(std::size_t tensor) const = 0;

  /// Bytes of a tensor that the temporary output has, written or not.
  virtual Status read_back(std::size_t tensor, std::int64_t offset,
                           std::span<std::byte> out) = 0;
  /// Says that all bytes of a tensor are there from the run before. kUnsupported for formats
  /// with checksums of their own (npz).
  virtual Status mark_written(std::size_t tensor) = 0;

  /// Puts a value that is known only now in the place of one of the layout's metadata,
  /// which must have been at least as long (as JSON text); it is filled up with spaces.
  /// For checksums and measured errors. kInvalidArgument if the key is not there or the
  /// value too long. `file` is a shard, or all of them.
  static constexpr std::size_t kAllFiles = ~std::size_t{0};
  virtual Status update_metadata(std::string_view key, std::string_view value,
                                 std::size_t file = kAllFiles) = 0;

  /// Makes the output appear. kInvalidArgument if a byte of a tensor was not written;
  /// kCancelled; kAlreadyExists if an output appeared meanwhile; kNoSpace or kIo. On
  /// failure the output is what it was, except when only the last flush of the folder
  /// failed, which the message says.
  virtual Status commit() = 0;

 protected:
  CheckpointWriter() = default;
};

}  // namespace pith
