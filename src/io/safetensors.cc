// Safetensors: single files, and folders of shards with an index.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/index.h"
#include "src/io/openers.h"
#include "src/io/reader.h"
#include "src/io/safetensors_header.h"
#include "src/io/stored.h"

namespace pith {
namespace {

class SafetensorsCheckpoint : public StoredCheckpoint {
 public:
  [[nodiscard]] Format format() const override { return Format::kSafetensors; }

  // The next shard. Messages begin with its name.
  Status add_shard(InputFile file) {
    ByteReader in(file, 0, file.size());
    auto header = read_safetensors_header(in, file.size());
    if (!header) return header.error().with_context(file.name());
    for (TensorInfo& info : header->tensors) {
      info.file = files_.size();
      tensors_.push_back(std::move(info));
    }
    for (auto& pair : header->metadata) {
      // Shards repeat what is said of the whole model.
      if (known_.insert(pair).second) metadata_.push_back(std::move(pair));
    }
    for (const std::string& warning : header->warnings) warn(file.name(), warning);
    add_file(std::move(file));
    return {};
  }

  void warn(std::string_view where, std::string_view what) {
    warnings_.push_back(fmt::format("{}: {}", where, what));
  }

  // After the last shard: every tensor of the shards is in the map, in that shard, and
  // the other way round.
  Status check_index(const ShardIndex& index, std::string_view index_name) {
    CheckedSize total(0);
    for (const TensorInfo& info : tensors_) {
      total = total + CheckedSize::from_signed(info.bytes);
      const std::optional<std::size_t> shard = index.shard_of(info.name);
      if (!shard) {
        return Status::corrupt(fmt::format("{}: tensor '{}' is not in the index {}",
                                           input(info.file).name(), printable(info.name),
                                           index_name));
      }
      if (*shard != info.file) {
        return Status::corrupt(fmt::format(
            "{}: tensor '{}' belongs to shard '{}' by the index", input(info.file).name(),
            printable(info.name), printable(index.shards()[*shard])));
      }
    }
    finish();
    Status missing;
    index.each([&](std::string_view name, std::size_t shard) {
      if (missing.ok() && !find(name)) {
        missing =
            Status::corrupt(fmt::format("{}: the shard lacks tensor '{}' of the index",
                                        input(shard).name(), printable(name)));
      }
    });
    PITH_OK(missing);
    if (index.total_size() && *index.total_size() != total.value()) {
      warn(index_name, fmt::format("total_size is {}, but the tensors have {} bytes",
                                   *index.total_size(), total.value()));
    }
    return {};
  }

  void finish() {
    index_names();
    known_.clear();
  }

 private:
  std::set<std::pair<std::string, std::string>>
      known_;  // metadata, while shards are added
};

CheckpointResult open_shards(const InputFolder& folder, const InputFile& index_file,
                             const std::vector<std::string>& entries) {
  ByteReader in(index_file, 0, index_file.size());
  auto index = ShardIndex::parse(in);
  if (!index) return index.error().with_context(index_file.name());
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>();
  for (const std::string& shard : index->shards()) {
    auto file = folder.open_file(shard);
    if (!file) {
      return file.error().code() == StatusCode::kNotFound
                 ? Status::corrupt(fmt::format("{}: shard '{}' is missing",
                                               index_file.name(), printable(shard)))
                 : file.error();
    }
    PITH_OK(checkpoint->add_shard(*std::move(file)));
  }
  PITH_OK(checkpoint->check_index(*index, index_file.name()));
  for (const std::string& name : entries) {
    if (name.ends_with(".safetensors") &&
        !std::binary_search(index->shards().begin(), index->shards().end(), name)) {
      checkpoint->warn(
          folder.name(),
          fmt::format("'{}' is not named by the index and not read", printable(name)));
    }
  }
  return CheckpointResult(std::move(checkpoint));
}

}  // namespace

CheckpointResult open_safetensors(InputFile file) {
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>();
  PITH_OK(checkpoint->add_shard(std::move(file)));
  checkpoint->finish();
  return CheckpointResult(std::move(checkpoint));
}

CheckpointResult open_safetensors_folder(const InputFolder& folder) {
  PITH_TRY(const std::vector<std::string> entries, folder.entries());
  const auto choice = choose_safetensors(entries);
  if (!choice) return choice.error().with_context(folder.name());
  PITH_TRY(InputFile file, folder.open_file(choice->name));
  if (choice->is_index) return open_shards(folder, file, entries);
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>();
  PITH_OK(checkpoint->add_shard(std::move(file)));
  checkpoint->finish();
  for (const std::string& name : choice->ignored) {
    checkpoint->warn(folder.name(), fmt::format("'{}' is not read", printable(name)));
  }
  return CheckpointResult(std::move(checkpoint));
}

}  // namespace pith
