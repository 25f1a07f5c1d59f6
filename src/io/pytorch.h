// PyTorch files (.pt, .bin): zip archives with a pickle that says which tensors there
// are, and an entry for each storage.
#pragma once

#include <filesystem>
#include <memory>

#include "src/io/openers.h"
#include "src/io/zip.h"

namespace pith {

/// True if an archive has an entry FOLDER/data.pkl.
[[nodiscard]] bool is_pytorch(const ZipArchive& zip);

/// The tensors of an archive that lies in `source`. Nothing in it is executed.
CheckpointResult read_pytorch(std::unique_ptr<ByteSource> source, ZipArchive zip,
                              std::filesystem::path path);

}  // namespace pith
