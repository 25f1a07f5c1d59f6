// What comes along when a folder is rewritten.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/io/writer.h"

namespace pith {

struct FolderContent {
  std::vector<std::string> shards;  ///< file names, in the order of Checkpoint::files()
  std::vector<FolderFile> files;    ///< to be copied byte for byte
  std::vector<std::string> notes;   ///< what is left behind, and why
};

/// For an input that is a folder: its files beside the weights. Folders in it, hidden
/// files and the same weights in other formats stay behind. For an input that is a file:
/// one shard, model.safetensors. kIo if the folder cannot be read.
Result<FolderContent> list_folder_files(const Checkpoint& source,
                                        const std::filesystem::path& input);

/// Bytes of the files of a checkpoint, the index beside several of them included.
[[nodiscard]] std::int64_t bytes_on_disk(const Checkpoint& checkpoint);

}  // namespace pith
