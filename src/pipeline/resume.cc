#include "src/pipeline/resume.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>

#include "pith/base/version.h"

namespace pith {
namespace {

constexpr std::int64_t kHashChunk = std::int64_t{1} << 20;

// Names, types, shapes and places of all tensors: what headers say.
std::uint64_t header_hash(const Checkpoint& source) {
  std::string text;
  for (const TensorInfo& info : source.tensors()) {
    text += fmt::format("{}\n{} {} {} {} {}\n", info.name, info.encoding.name,
                        info.shape.to_string(), info.bytes, info.file, info.offset);
  }
  return XXH3_64bits(text.data(), text.size());
}

// Of every byte that does not depend on values.
std::uint64_t layout_hash(const CheckpointLayout& layout) {
  std::string text;
  for (const TensorSpec& spec : layout.tensors) {
    text += fmt::format("{}\n{} {} {}\n", spec.name, spec.encoding.name,
                        spec.shape.to_string(), spec.file);
  }
  for (const std::string& shard : layout.shards) text += shard + "\n";
  return XXH3_64bits(text.data(), text.size());
}

std::int64_t part_bytes(const CheckpointLayout& layout, std::size_t written) {
  const TensorSpec& spec = layout.tensors[written];
  return spec.shape.elements() / spec.encoding.block * spec.encoding.block_bytes;
}

}  // namespace

Fingerprint fingerprint_of(const CompressPlan& plan, const CompressOptions& options) {
  Fingerprint lines = {
      {"version", PITH_VERSION},
      {"recipe", plan.recipe},
      {"treatment of NaN and infinity",
       std::to_string(static_cast<int>(options.non_finite))},
      {"format", fmt::format("{} {}", to_string(plan.target.format),
                             static_cast<int>(plan.convention))},
  };
  for (const std::filesystem::path& path : plan.source->files()) {
    struct stat status {};
    ::stat(path.c_str(), &status);
    lines.emplace_back(
        "input", fmt::format("{} {} bytes of {}.{:09}", path.string(), status.st_size,
                             status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
  }
  std::uint64_t data = 0;
  for (const Rule& rule : options.recipe.rules) {
    for (const StagePtr& stage : rule.stages) data = data * 31 + stage->data_hash();
  }
  lines.emplace_back("statistics", fmt::format("{:016x}", data));
  lines.emplace_back("input header", fmt::format("{:016x}", header_hash(*plan.source)));
  lines.emplace_back("output layout", fmt::format("{:016x}", layout_hash(plan.layout)));
  return lines;
}

Result<bool> take_entry(CompressPlan& plan, const JournalEntry& entry,
                        CheckpointWriter& writer) {
  if (entry.tensor >= plan.tensors.size()) return false;
  TensorPlan& tensor = plan.tensors[entry.tensor];
  if (!tensor.stored() || entry.checksums.size() != tensor.written.size() ||
      entry.nonzero.size() != tensor.stages.size() ||
      entry.has_figures == tensor.copied) {
    return false;
  }
  std::vector<std::byte> buffer(kHashChunk);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      &XXH3_freeState);
  if (hash == nullptr) throw std::bad_alloc();
  for (std::size_t p = 0; p < tensor.written.size(); ++p) {
    const std::int64_t size = part_bytes(plan.layout, tensor.written[p]);
    XXH3_64bits_reset(hash.get());
    for (std::int64_t at = 0; at < size; at += kHashChunk) {
      const auto some = std::span(buffer).first(
          static_cast<std::size_t>(std::min(kHashChunk, size - at)));
      PITH_OK(writer.read_back(tensor.written[p], at, some));
      XXH3_64bits_update(hash.get(), some.data(), some.size());
    }
    if (XXH3_64bits_digest(hash.get()) != entry.checksums[p]) return false;
  }
  for (std::size_t p = 0; p < tensor.written.size(); ++p) {
    PITH_OK(writer.mark_written(tensor.written[p]));
    tensor.record.parts[p].checksum = entry.checksums[p];
  }
  if (entry.has_figures) tensor.record.error = entry.figures;
  return true;
}

}  // namespace pith
