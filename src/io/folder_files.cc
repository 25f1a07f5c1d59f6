#include "src/io/folder_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include "src/base/text.h"
#include "src/io/file.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

// The weights once more, as other frameworks store them.
bool is_other_weights(const std::string& name) {
  const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  return ends(".safetensors") || ends(".gguf") || ends(".h5") || ends(".msgpack") ||
         ends(".ot") || ends(".onnx") || ends(".pth") ||
         (name.starts_with("pytorch_model") &&
          (ends(".bin") || ends(".bin.index.json"))) ||
         (name.starts_with("flax_model") && ends(".index.json")) ||
         (name.starts_with("tf_model") && ends(".index.json"));
}

bool is_index(const std::string& name) {
  return name.starts_with("model.safetensors.index") && name.ends_with(".json");
}

}  // namespace

Result<FolderContent> list_folder_files(const Checkpoint& source, const fs::path& input) {
  FolderContent content;
  std::error_code ignored;
  if (!fs::is_directory(input, ignored)) {
    content.shards.emplace_back("model.safetensors");
    return content;
  }
  for (const fs::path& file : source.files()) content.shards.push_back(file.filename());
  PITH_TRY(const InputFolder folder, InputFolder::open(input));
  PITH_TRY(const std::vector<std::string> names, folder.entries());
  std::vector<std::string> left;
  for (const std::string& name : names) {
    const bool is_shard = std::find(content.shards.begin(), content.shards.end(), name) !=
                          content.shards.end();
    if (is_shard || is_index(name) || name.starts_with(".pith-")) continue;
    struct stat status {};
    const bool regular =
        ::stat((input / name).c_str(), &status) == 0 && S_ISREG(status.st_mode);
    if (!regular || !is_plain_file_name(name) || is_other_weights(name)) {
      left.push_back(printable(name));
      continue;
    }
    content.files.push_back({name, input / name, {}});
  }
  if (!left.empty()) {
    const std::size_t shown = std::min<std::size_t>(left.size(), 3);
    std::string list;
    for (std::size_t i = 0; i < shown; ++i) list += (i == 0 ? "" : ", ") + left[i];
    content.notes.push_back(fmt::format(
        "{}: {}{} stay behind: only plain files beside the weights are copied",
        folder.name(), list,
        left.size() > shown ? fmt::format(" and {} more", left.size() - shown) : ""));
  }
  return content;
}

std::int64_t bytes_on_disk(const Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  const auto add = [&](const fs::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0) bytes += status.st_size;
  };
  const std::vector<fs::path>& files = checkpoint.files();
  for (const fs::path& file : files) add(file);
  if (files.size() > 1) add(files[0].parent_path() / "model.safetensors.index.json");
  return bytes;
}

}  // namespace pith
