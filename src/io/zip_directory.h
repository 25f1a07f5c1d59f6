// The directory of a zip archive: the structures at its end, and their checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "src/io/source.h"
#include "src/io/zip.h"

namespace pith {

/// The extra field that holds sizes of 64 bits.
inline constexpr std::uint16_t kZip64Extra = 1;

struct ZipDirectory {
  std::vector<ZipEntry> entries;
  std::vector<std::string> warnings;
};

/// See ZipArchive::open.
Result<ZipDirectory> read_zip_directory(const ByteSource& file);

}  // namespace pith
