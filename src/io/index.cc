#include "src/io/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/json.h"

namespace pith {
namespace {

// More than any folder holds: a hostile index must not fill memory with names of shards.
constexpr std::size_t kMaxShards = 100'000;

}  // namespace

class IndexHandler : public JsonHandler {
 public:
  explicit IndexHandler(ShardIndex& index) : index_(index) {}

  Status begin_object() override {
    if (state_ == State::kStart) return go(State::kTop);
    if (state_ == State::kMap) return go(State::kNames);
    if (state_ == State::kMetadata) return go(State::kMetadataKeys);
    return begin_skipped("an object");
  }
  Status end_object() override {
    if (state_ == State::kTop) return go(State::kEnd);
    if (state_ == State::kNames || state_ == State::kMetadataKeys) return go(State::kTop);
    return end_skipped();
  }
  Status begin_array() override { return begin_skipped("an array"); }
  Status end_array() override { return end_skipped(); }

  Status key(std::string& key) override {
    switch (state_) {
      case State::kTop:
        if (key == "weight_map") return once(map_seen_, key, State::kMap);
        if (key == "metadata") return once(metadata_seen_, key, State::kMetadata);
        return skip(State::kTop);
      case State::kMetadataKeys:
        if (key == "total_size") return once(size_seen_, key, State::kTotalSize);
        return skip(State::kMetadataKeys);
      case State::kNames:
        entry_.name = static_cast<std::uint32_t>(index_.names_.size());
        entry_.name_size = static_cast<std::uint32_t>(key.size());
        index_.names_ += key;
        return go(State::kShard);
      default:
        return {};  // inside a value that is skipped
    }
  }

  Status string(std::string& value) override {
    if (state_ == State::kShard) return shard(value);
    return scalar("a string");
  }
  Status number(std::uint64_t value) override {
    if (state_ == State::kTotalSize) {
      index_.total_size_ = value;
      return go(State::kMetadataKeys);
    }
    return scalar("a number");
  }
  Status other_number(double /*value*/) override { return scalar("a number"); }
  Status boolean(bool /*value*/) override { return scalar("a boolean"); }
  Status null() override { return scalar("null"); }

  Status finish() {
    if (!map_seen_) return Status::corrupt("'weight_map' is missing");
    if (!metadata_seen_) return Status::corrupt("'metadata' is missing");
    sort_shards();
    auto& entries = index_.entries_;
    const auto name = [&](const ShardIndex::Entry& e) { return index_.name_of(e); };
    std::sort(entries.begin(), entries.end(),
              [&](const auto& a, const auto& b) { return name(a) < name(b); });
    const auto twice = std::adjacent_find(
        entries.begin(), entries.end(),
        [&](const auto& a, const auto& b) { return name(a) == name(b); });
    if (twice == entries.end() || is_planted(3)) return {};
    return Status::corrupt(
        fmt::format("weight_map: tensor '{}' is given twice", printable(name(*twice))));
  }

 private:
  enum class State : std::uint8_t {
    kStart,
    kTop,
    kMap,    // the object of weight_map follows
    kNames,  // in it: a name follows
    kShard,  // a shard's name follows
    kMetadata,
    kMetadataKeys,
    kTotalSize,
    kSkip,
    kEnd,
  };

  Status go(State state) {
    state_ = state;
    return {};
  }
  Status once(bool& seen, std::string_view key, State state) {
    if (seen) return Status::corrupt(fmt::format("'{}' is given twice", key));
    seen = true;
    return go(state);
  }
  Status skip(State after) {
    after_skip_ = after;
    return go(State::kSkip);
  }

  Status shard(std::string_view value) {
    if (!is_plain_file_name(value)) {
      return Status::corrupt(fmt::format(
          "weight_map: the shard '{}' of tensor '{}' is not a plain file name",
          printable(value), printable(index_.name_of(entry_))));
    }
    const auto [found, added] = shards_.try_emplace(
        std::string(value), static_cast<std::uint32_t>(shards_.size()));
    if (added && shards_.size() > kMaxShards) {
      return Status::corrupt(fmt::format("weight_map: more than {} shards", kMaxShards));
    }
    entry_.shard = found->second;
    index_.entries_.push_back(entry_);
    return go(State::kNames);
  }

  // From the order of their first use to that of their names.
  void sort_shards() {
    std::vector<std::uint32_t> place(shards_.size());
    for (const auto& [name, number] : shards_) {
      place[number] = static_cast<std::uint32_t>(index_.shards_.size());
      index_.shards_.push_back(name);
    }
    for (ShardIndex::Entry& entry : index_.entries_) entry.shard = place[entry.shard];
  }

  Status begin_skipped(std::string_view found) {
    if (state_ == State::kTotalSize) PITH_OK(skip(State::kMetadataKeys));
    if (state_ != State::kSkip) return unexpected(found);
    ++skip_depth_;
    return {};
  }
  Status end_skipped() {
    if (--skip_depth_ == 0) state_ = after_skip_;
    return {};
  }
  Status scalar(std::string_view found) {
    if (state_ == State::kTotalSize) return go(State::kMetadataKeys);
    if (state_ != State::kSkip) return unexpected(found);
    if (skip_depth_ == 0) state_ = after_skip_;
    return {};
  }

  [[nodiscard]] Status unexpected(std::string_view found) const {
    switch (state_) {
      case State::kMap:
        return Status::corrupt(
            fmt::format("'weight_map' is {}, expected an object of file names", found));
      case State::kMetadata:
        return Status::corrupt(
            fmt::format("'metadata' is {}, expected an object", found));
      case State::kShard:
        return Status::corrupt(fmt::format(
            "weight_map: the shard of tensor '{}' is {}, expected a file name",
            printable(index_.name_of(entry_)), found));
      default:
        return Status::corrupt(fmt::format("the index is {}, expected an object", found));
    }
  }

  ShardIndex& index_;
  State state_ = State::kStart;
  State after_skip_ = State::kTop;
  int skip_depth_ = 0;
  ShardIndex::Entry entry_;
  bool map_seen_ = false;
  bool metadata_seen_ = false;
  bool size_seen_ = false;
  std::map<std::string, std::uint32_t, std::less<>> shards_;
};

Result<ShardIndex> ShardIndex::parse(ByteReader& in) {
  if (in.remaining() > kMaxIndex) {
    return Status::corrupt(fmt::format("the index has {} bytes, at most {} are allowed",
                                       in.remaining(), kMaxIndex));
  }
  ShardIndex index;
  IndexHandler handler(index);
  PITH_OK(parse_json(in, handler));
  PITH_OK(handler.finish());
  return index;
}

std::optional<std::size_t> ShardIndex::shard_of(std::string_view name) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [this](const Entry& entry, std::string_view key) { return name_of(entry) < key; });
  if (found == entries_.end() || name_of(*found) != name) return std::nullopt;
  return found->shard;
}

Result<FolderChoice> choose_safetensors(const std::vector<std::string>& entries) {
  std::vector<std::string> indexes;
  std::vector<std::string> files;
  for (const std::string& name : entries) {
    if (name.front() == '.') continue;
    // A variant has its name in the middle: model.safetensors.index.fp16.json.
    if (name.find(".safetensors.index.") != name.npos && name.ends_with(".json")) {
      indexes.push_back(name);
    } else if (name.ends_with(".safetensors")) {
      files.push_back(name);
    }
  }
  const auto has = [](const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  constexpr std::string_view kIndex = "model.safetensors.index.json";
  constexpr std::string_view kFile = "model.safetensors";
  FolderChoice choice;
  choice.is_index = !indexes.empty();
  if (indexes.size() == 1 || has(indexes, kIndex)) {
    choice.name = has(indexes, kIndex) ? kIndex : indexes.front();
    return choice;
  }
  if (!indexes.empty()) {
    return Status::unsupported(fmt::format(
        "the folder has {} indexes, '{}' and '{}' among them, and none is '{}'",
        indexes.size(), printable(indexes[0]), printable(indexes[1]), kIndex));
  }
  if (files.empty()) {
    return Status::not_found(
        "the folder has no safetensors file: name the file to be read itself");
  }
  if (files.size() > 1 && !has(files, kFile)) {
    return Status::unsupported(
        fmt::format("the folder has {} safetensors files, '{}' and '{}' among them, but "
                    "no index: name "
                    "one of them itself",
                    files.size(), printable(files[0]), printable(files[1])));
  }
  choice.name = files.size() == 1 ? files.front() : std::string(kFile);
  for (std::string& name : files) {
    if (name != choice.name) choice.ignored.push_back(std::move(name));
  }
  return choice;
}

}  // namespace pith
