#include "src/io/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/io/npy.h"
#include "src/io/pytorch.h"
#include "src/io/views.h"

namespace pith {
namespace {

constexpr std::string_view kExtension = ".npy";

class NpzCheckpoint : public ViewCheckpoint {
 public:
  NpzCheckpoint(std::unique_ptr<ByteSource> source, ZipArchive zip,
                std::filesystem::path path)
      : source_(std::move(source)), zip_(std::move(zip)) {
    set_file(std::move(path), source_->name());
    warnings_ = zip_.warnings();
  }

  [[nodiscard]] Format format() const override { return Format::kNpz; }

  Status read_headers() {
    for (std::size_t i = 0; i < zip_.entries().size(); ++i) {
      if (Status s = add_array(i); !s.ok()) {
        return s.with_context(
            fmt::format("array '{}'", printable(zip_.entries()[i].name)));
      }
    }
    index_names();
    return {};
  }

 private:
  Status add_array(std::size_t index) {
    const ZipEntry& entry = zip_.entries()[index];
    if (!entry.name.ends_with(kExtension)) {
      return Status::unsupported(
          "its name does not end in .npy: only arrays are read from a zip archive");
    }
    std::vector<std::byte> start(static_cast<std::size_t>(
        std::min<std::uint64_t>(kNpyMaxStart, entry.uncompressed)));
    PITH_OK(zip_.read_start(index, start));
    PITH_TRY(const NpyHeader header, parse_npy(start, entry.uncompressed));
    sources_.push_back(zip_.open_entry(index));
    TensorInfo info;
    info.name = entry.name.substr(0, entry.name.size() - kExtension.size());
    info.encoding = header.encoding;
    info.shape = header.shape;
    if (!entry.deflated && !header.fortran_order && !header.big_endian) {
      info.offset = entry.data_begin + header.data_begin;
    }
    add_tensor(std::move(info), npy_tensor_bytes(header, *sources_.back()));
    return {};
  }

  std::unique_ptr<ByteSource> source_;
  ZipArchive zip_;
  std::vector<std::unique_ptr<ByteSource>> sources_;  // of the tensors
};

}  // namespace

CheckpointResult read_npz(std::unique_ptr<ByteSource> source, ZipArchive zip,
                          std::filesystem::path path) {
  auto checkpoint =
      std::make_unique<NpzCheckpoint>(std::move(source), std::move(zip), std::move(path));
  PITH_OK(checkpoint->read_headers());
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

CheckpointResult open_zip_source(std::unique_ptr<ByteSource> source,
                                 std::filesystem::path path) {
  PITH_TRY(ZipArchive zip, ZipArchive::open(*source));
  PITH_OK(zip.verify(kVerifyAtOpen));
  return is_pytorch(zip)
             ? read_pytorch(std::move(source), std::move(zip), std::move(path))
             : read_npz(std::move(source), std::move(zip), std::move(path));
}

CheckpointResult open_zip(InputFile file) {
  const std::string name = file.name();
  std::filesystem::path path = file.path();
  CheckpointResult result =
      open_zip_source(std::make_unique<FileSource>(std::move(file)), std::move(path));
  if (!result) return in_file(result.error(), name);
  return result;
}

}  // namespace pith
