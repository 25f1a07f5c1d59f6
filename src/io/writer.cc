#include "pith/io/writer.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/atomic_output.h"
#include "src/io/file_plan.h"
#include "src/io/written_ranges.h"

namespace pith {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kConfigName = "config.json";

Result<FilePlan> plan_file(const CheckpointLayout& layout, std::size_t file,
                           std::span<const TensorSpec* const> tensors) {
  switch (layout.format) {
    case Format::kSafetensors: {
      Metadata metadata = layout.metadata;
      if (file < layout.shard_metadata.size()) {
        const auto& own = layout.shard_metadata[file];
        metadata.insert(metadata.end(), own.begin(), own.end());
      }
      return plan_safetensors(tensors, metadata);
    }
    case Format::kGguf:
      return plan_gguf(tensors, layout.gguf_keys);
    case Format::kNpz:
      return plan_npz(tensors);
    case Format::kNpy:
      return plan_npy(tensors);
    default:
      return Status::unsupported(
          fmt::format("Pith reads {} files, but does not write them; it writes "
                      "safetensors, gguf, npz and npy",
                      to_string(layout.format)));
  }
}

// The index of a sharded checkpoint, as the format's users write it.
std::string index_text(const CheckpointLayout& layout, std::uint64_t total_bytes) {
  nlohmann::json map = nlohmann::json::object();
  for (const TensorSpec& tensor : layout.tensors) {
    map[tensor.name] = layout.shards[tensor.file];
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total_bytes}}},
                                {"weight_map", std::move(map)}};
  return index.dump(2, ' ', true) + "\n";
}

// All files of a layout.
struct Plan {
  std::vector<FilePlan> files;
  struct Place {
    std::size_t file;   // index into files
    std::size_t index;  // of the tensor in that file's plan
  };
  std::vector<Place> tensors;
  std::string index;  // content of the index file, if there is one
  std::uint64_t bytes = 0;
};

Status check_names(const CheckpointLayout& layout) {
  std::unordered_set<std::string_view> seen;
  for (const TensorSpec& tensor : layout.tensors) {
    if (!seen.insert(tensor.name).second) {
      return Status::invalid_argument(
          fmt::format("{}: there are two of this name", shown_tensor(tensor)));
    }
    if (tensor.file >= std::max<std::size_t>(1, layout.shards.size())) {
      return Status::invalid_argument(fmt::format("{}: file {} is not one of {} shards",
                                                  shown_tensor(tensor), tensor.file,
                                                  layout.shards.size()));
    }
  }
  seen.clear();
  for (const std::string& shard : layout.shards) {
    if (!is_plain_file_name(shard) || !shard.ends_with(".safetensors") ||
        !seen.insert(shard).second) {
      return Status::invalid_argument(
          fmt::format("shard '{}': expected a plain file name that ends in .safetensors "
                      "and is there once",
                      printable(shard)));
    }
  }
  if (!layout.shard_metadata.empty() &&
      layout.shard_metadata.size() != layout.shards.size()) {
    return Status::invalid_argument(
        fmt::format("metadata of {} shards, expected that of {}",
                    layout.shard_metadata.size(), layout.shards.size()));
  }
  if (!layout.shards.empty() && layout.format != Format::kSafetensors) {
    return Status::invalid_argument(
        fmt::format("a folder holds safetensors, not {}", to_string(layout.format)));
  }
  return {};
}

Result<Plan> make_plan(const CheckpointLayout& layout) {
  PITH_OK(check_names(layout));
  const std::size_t files = std::max<std::size_t>(1, layout.shards.size());
  std::vector<std::vector<const TensorSpec*>> groups(files);
  Plan plan;
  for (const TensorSpec& tensor : layout.tensors) {
    plan.tensors.push_back({tensor.file, groups[tensor.file].size()});
    groups[tensor.file].push_back(&tensor);
  }
  CheckedSize total(0);
  CheckedSize tensor_bytes(0);
  for (std::size_t i = 0; i < files; ++i) {
    PITH_TRY(FilePlan file, plan_file(layout, i, groups[i]));
    total = total + file.size;
    for (const std::uint64_t bytes : file.bytes) tensor_bytes = tensor_bytes + bytes;
    plan.files.push_back(std::move(file));
  }
  if (layout.shards.size() > 1 && tensor_bytes.valid()) {
    plan.index = index_text(layout, tensor_bytes.value());
    total = total + plan.index.size();
  }
  if (!total.fits_int64() || !tensor_bytes.valid()) {
    return Status::invalid_argument("the output would exceed 2^63-1 bytes");
  }
  plan.bytes = total.value();
  return plan;
}

Status copy_file(const std::filesystem::path& source, const OutputFile& out,
                 const CancelToken* cancel) {
  PITH_TRY(const InputFile in, InputFile::open(source));
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(in.size(), 1 << 20)));
  for (std::uint64_t offset = 0; offset < in.size(); offset += buffer.size()) {
    PITH_OK(check_cancelled(cancel));
    const auto rest = std::span(buffer).first(static_cast<std::size_t>(
        std::min<std::uint64_t>(buffer.size(), in.size() - offset)));
    PITH_OK(in.read_exact(offset, rest));
    PITH_OK(out.write_at(offset, rest));
  }
  return {};
}

class LayoutWriter final : public CheckpointWriter {
 public:
  LayoutWriter(const CheckpointLayout& layout, Plan plan, const WriteOptions& options)
      : layout_(layout),
        plan_(std::move(plan)),
        sync_(options.sync),
        cancel_(options.cancel),
        written_(layout.tensors.size()) {}

  Status open(const std::filesystem::path& path, const WriteOptions& options) {
    std::vector<std::string> folder_files;
    for (const FolderFile& file : layout_.folder_files) folder_files.push_back(file.name);
    const OutputRules rules{options.overwrite, options.inputs, options.part_name,
                            options.continue_part, folder_files};
    if (layout_.shards.empty()) {
      PITH_TRY(file_, AtomicFile::create(path, rules));
      PITH_OK(file_->check_space(plan_.bytes));
    } else {
      PITH_TRY(folder_, AtomicFolder::create(path, rules));
      PITH_OK(folder_->check_space(plan_.bytes));
      for (const std::string& shard : layout_.shards) {
        PITH_TRY(OutputFile file, folder_->add_file(shard));
        shards_.push_back(std::move(file));
      }
    }
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      PITH_OK(output(i).reserve(plan_.files[i].size));
      for (const FilePiece& piece : plan_.files[i].pieces) {
        PITH_OK(output(i).write_at(piece.offset, piece.bytes));
      }
      plan_.files[i].pieces.clear();
    }
    if (!folder_) return {};
    for (const FolderFile& file : layout_.folder_files) {
      if (file.name != kConfigName) PITH_OK(add_folder_file(file));
    }
    return {};
  }

  Status write(std::size_t tensor, std::int64_t offset, std::span<const std::byte> first,
               std::span<const std::byte> second) override {
    if (tensor >= layout_.tensors.size()) {
      return Status::invalid_argument(
          fmt::format("tensor {} of {} is written to", tensor, layout_.tensors.size()));
    }
    const Plan::Place place = plan_.tensors[tensor];
    const FilePlan& file = plan_.files[place.file];
    const std::uint64_t size = file.bytes[place.index];
    const std::size_t bytes = first.size() + second.size();
    const CheckedSize end = CheckedSize::from_signed(offset) + bytes;
    if (!end.at_most(size)) {
      return Status::invalid_argument(
          fmt::format("{}: {} bytes at byte {} are written, but it has {}",
                      shown_tensor(layout_.tensors[tensor]), bytes, offset, size));
    }
    const auto begin = static_cast<std::uint64_t>(offset);
    uLong crc = 0;
    if (file.finish) {
      for (const std::span<const std::byte> some : {first, second}) {
        if (some.empty()) continue;  // without memory, it would begin anew
        crc = crc32_z(crc, reinterpret_cast<const Bytef*>(some.data()), some.size());
      }
    }
    {
      const std::lock_guard lock(mutex_);
      if (done_) return Status::invalid_argument("bytes are written after commit()");
      if (!written_[tensor].add(begin, bytes, static_cast<std::uint32_t>(crc))) {
        return Status::invalid_argument(
            fmt::format("{}: some of {} bytes at byte {} are written twice",
                        shown_tensor(layout_.tensors[tensor]), bytes, offset));
      }
    }
    Status status =
        output(place.file).write_at(file.offsets[place.index] + begin, first, second);
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      if (failed_.ok()) failed_ = status;
    }
    return status;
  }

  [[nodiscard]] std::int64_t place(std::size_t tensor) const override {
    const Plan::Place place = plan_.tensors[tensor];
    return static_cast<std::int64_t>(plan_.files[place.file].offsets[place.index]);
  }

  Status read_back(std::size_t tensor, std::int64_t offset,
                   std::span<std::byte> out) override {
    const Plan::Place place = plan_.tensors[tensor];
    const FilePlan& file = plan_.files[place.file];
    const CheckedSize end = CheckedSize::from_signed(offset) + out.size();
    if (!end.at_most(file.bytes[place.index])) {
      return Status::invalid_argument(
          fmt::format("{}: {} bytes at byte {} are asked for, but it has {}",
                      shown_tensor(layout_.tensors[tensor]), out.size(), offset,
                      file.bytes[place.index]));
    }
    return output(place.file)
        .read_at(file.offsets[place.index] + static_cast<std::uint64_t>(offset), out);
  }

  Status mark_written(std::size_t tensor) override {
    const Plan::Place place = plan_.tensors[tensor];
    const FilePlan& file = plan_.files[place.file];
    if (file.finish) {
      return Status::unsupported("a file with checksums of its own cannot be continued");
    }
    const std::lock_guard lock(mutex_);
    if (!written_[tensor].add(0, file.bytes[place.index], 0)) {
      return Status::invalid_argument(fmt::format("{}: some of it is written already",
                                                  shown_tensor(layout_.tensors[tensor])));
    }
    return {};
  }

  Status update_metadata(std::string_view key, std::string_view value,
                         std::size_t only) override {
    const std::lock_guard lock(mutex_);
    if (done_) return Status::invalid_argument("metadata is changed after commit()");
    std::string text = json_escape(value);
    if (find_invalid_utf8(value) != std::string_view::npos) {
      return Status::invalid_argument(
          fmt::format("metadata key '{}': the value is not UTF-8", printable(key)));
    }
    bool found = false;
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      if (only != kAllFiles && only != i) continue;
      for (const FilePlan::Slot& slot : plan_.files[i].metadata) {
        if (slot.key != key) continue;
        found = true;
        if (text.size() > slot.length) {
          return Status::invalid_argument(
              fmt::format("metadata key '{}': the new value has {} bytes of JSON text, "
                          "but only {} were set aside",
                          printable(key), text.size(), slot.length));
        }
        text.resize(slot.length, ' ');
        PITH_OK(output(i).write_at(slot.offset, text));
      }
    }
    if (found) return {};
    return Status::invalid_argument(
        fmt::format("metadata key '{}' is not in the layout", printable(key)));
  }

  Status commit() override {
    const std::lock_guard lock(mutex_);
    if (done_) return Status::invalid_argument("commit() is called twice");
    done_ = true;
    PITH_OK(failed_);
    PITH_OK(check_complete());
    PITH_OK(check_cancelled(cancel_));
    for (std::size_t i = 0; i < plan_.files.size(); ++i) PITH_OK(write_checksums(i));
    if (file_) return file_->publish(sync_, cancel_);
    for (OutputFile& shard : shards_) {
      PITH_OK(shard.finish(sync_));
      PITH_OK(check_cancelled(cancel_));
    }
    if (!plan_.index.empty()) PITH_OK(add_folder_file({kIndexName, {}, plan_.index}));
    for (const FolderFile& file : layout_.folder_files) {
      if (file.name == kConfigName) PITH_OK(add_folder_file(file));
    }
    return folder_->publish(sync_, cancel_);
  }

 private:
  OutputFile& output(std::size_t file) { return file_ ? file_->file() : shards_[file]; }

  Status add_folder_file(const FolderFile& file) {
    PITH_TRY(OutputFile out, folder_->add_file(file.name));
    if (file.source.empty()) {
      PITH_OK(out.write_at(0, file.text));
    } else {
      PITH_OK(copy_file(file.source, out, cancel_));
    }
    return out.finish(sync_);
  }

  Status check_complete() const {
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const Plan::Place place = plan_.tensors[i];
      const std::uint64_t size = plan_.files[place.file].bytes[place.index];
      if (written_[i].covers(size)) continue;
      return Status::invalid_argument(fmt::format("{}: byte {} of {} was not written",
                                                  shown_tensor(layout_.tensors[i]),
                                                  written_[i].first_gap(), size));
    }
    return {};
  }

  Status write_checksums(std::size_t file) {
    const FilePlan& plan = plan_.files[file];
    if (!plan.finish) return {};
    std::vector<std::uint32_t> crcs(plan.offsets.size());
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (plan_.tensors[i].file == file) {
        crcs[plan_.tensors[i].index] = written_[i].crc();
      }
    }
    for (const FilePiece& piece : plan.finish(crcs)) {
      PITH_OK(output(file).write_at(piece.offset, piece.bytes));
    }
    return {};
  }

  CheckpointLayout layout_;
  Plan plan_;
  bool sync_;
  const CancelToken* cancel_;
  std::optional<AtomicFile> file_;      // either this
  std::optional<AtomicFolder> folder_;  // or this and its shards
  std::vector<OutputFile> shards_;
  std::mutex mutex_;  // of what follows
  std::vector<WrittenRanges> written_;
  Status failed_;  // of the first write that failed
  bool done_ = false;
};

}  // namespace

Result<std::int64_t> stored_bytes(const CheckpointLayout& layout) {
  PITH_TRY(const Plan plan, make_plan(layout));
  return static_cast<std::int64_t>(plan.bytes);
}

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::create(
    const std::filesystem::path& path, const CheckpointLayout& layout,
    const WriteOptions& options) {
  Result<Plan> made = make_plan(layout);
  if (!made) return made.error().with_context(printable(path.native(), 160));
  Plan plan = *std::move(made);
  auto writer = std::make_unique<LayoutWriter>(layout, std::move(plan), options);
  PITH_OK(writer->open(path, options));
  return std::unique_ptr<CheckpointWriter>(std::move(writer));
}

}  // namespace pith
