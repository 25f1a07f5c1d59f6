// npz files: zip archives of npy arrays. Entry NAME.npy is tensor NAME.
#pragma once

#include <filesystem>
#include <memory>

#include "src/io/openers.h"
#include "src/io/zip.h"

namespace pith {

/// Opens a zip archive over any source, a file or memory: PyTorch if there is a data.pkl
/// below a folder, npz otherwise. Archives of at most kVerifyAtOpen bytes are verified.
/// `path` is for Checkpoint::files(). kCorrupt or kUnsupported with one line that names
/// the entry.
CheckpointResult open_zip_source(std::unique_ptr<ByteSource> source,
                                 std::filesystem::path path);

/// The arrays of an archive that lies in `source`.
CheckpointResult read_npz(std::unique_ptr<ByteSource> source, ZipArchive zip,
                          std::filesystem::path path);

}  // namespace pith
