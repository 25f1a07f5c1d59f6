#include "pith/io/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>

#include "src/io/file.h"
#include "src/io/openers.h"

namespace pith {
namespace {

// Enough to tell formats apart.
constexpr std::size_t kMagicBytes = 64;

bool starts_with(std::string_view start, std::string_view magic) {
  return start.substr(0, magic.size()) == magic;
}

// No magic number: a length, then white space and the opening brace of a JSON object.
bool looks_like_safetensors(std::string_view start, std::uint64_t file_size) {
  if (start.size() < 9) return false;
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof(length));
  const std::size_t brace = start.find_first_not_of(" \t\r\n", 8);
  return length <= file_size && brace != std::string_view::npos && start[brace] == '{';
}

// Pickles of protocol 2 and later begin with the PROTO opcode.
bool looks_like_pickle(std::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
}

}  // namespace

std::string_view to_string(Format format) {
  switch (format) {
    case Format::kSafetensors:
      return "safetensors";
    case Format::kGguf:
      return "gguf";
    case Format::kNpy:
      return "npy";
    case Format::kNpz:
      return "npz";
    case Format::kPytorch:
      return "pytorch";
    case Format::kHivemind:
      return "hivemind";
  }
  return "unknown";
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::filesystem::path& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    PITH_TRY(const InputFolder folder, InputFolder::open(path));
    return open_safetensors_folder(folder);
  }
  PITH_TRY(InputFile file, InputFile::open(path));
  std::array<char, kMagicBytes> bytes;
  const std::size_t known =
      static_cast<std::size_t>(std::min<std::uint64_t>(kMagicBytes, file.size()));
  PITH_OK(file.read_exact(0, std::as_writable_bytes(std::span(bytes).first(known))));
  const std::string_view start(bytes.data(), known);

  if (starts_with(start, "GGUF")) return open_gguf(std::move(file));
  if (starts_with(start, "\x93NUMPY")) return open_npy(std::move(file));
  // A local file, or the end of an archive without files.
  if (starts_with(start, "PK\x03\x04") || starts_with(start, "PK\x05\x06")) {
    return open_zip(std::move(file));
  }
  if (looks_like_safetensors(start, file.size()))
    return open_safetensors(std::move(file));
  // Damaged or of a format without magic number: the name tells which reader explains it.
  const std::filesystem::path extension = path.extension();
  if (extension == ".gguf") return open_gguf(std::move(file));
  if (extension == ".npy") return open_npy(std::move(file));
  if (extension == ".npz") return open_zip(std::move(file));
  if (extension == ".safetensors") return open_safetensors(std::move(file));
  if (extension == ".pb") return open_hivemind(std::move(file));
  if (looks_like_pickle(start)) return open_legacy_pickle(std::move(file));
  return Status::unsupported(file.name() +
                             ": neither safetensors, GGUF, npy, npz, PyTorch (zip) nor a "
                             "hivemind message (.pb)");
}

std::optional<std::size_t> Checkpoint::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](std::size_t i, std::string_view key) { return tensors_[i].name < key; });
  if (found == by_name_.end() || tensors_[*found].name != name) return std::nullopt;
  return *found;
}

void Checkpoint::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(), [this](std::size_t a, std::size_t b) {
    return tensors_[a].name < tensors_[b].name;
  });
}

}  // namespace pith
