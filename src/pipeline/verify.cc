#include "pith/pipeline/verify.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "pith/quantize/dense.h"
#include "src/base/parallel.h"
#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/folder_files.h"
#include "src/pipeline/compare.h"
#include "src/pipeline/compress_plan.h"
#include "src/quantize/manifest.h"
#include "src/quantize/quantization_config.h"

namespace pith {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 18;

Status checksum_of(const Checkpoint& checkpoint, std::size_t tensor,
                   const CancelToken* cancel, std::uint64_t& sum) {
  const std::int64_t size = checkpoint.tensors()[tensor].bytes;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kChunk, size)));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      &XXH3_freeState);
  if (hash == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(hash.get());
  for (std::int64_t at = 0; at < size; at += kChunk) {
    PITH_OK(check_cancelled(cancel));
    const auto some =
        std::span(buffer).first(static_cast<std::size_t>(std::min(kChunk, size - at)));
    PITH_OK(checkpoint.read_bytes(tensor, at, some));
    XXH3_64bits_update(hash.get(), some.data(), some.size());
  }
  sum = XXH3_64bits_digest(hash.get());
  return {};
}

// Other pieces may have been summed, and totals of a few values are f32.
bool close(double claimed, double found) {
  return claimed == found || std::fabs(claimed - found) <=
                                 1e-6 * std::max(std::fabs(claimed), std::fabs(found));
}

bool agree(const ErrorFigures& claimed, const ErrorFigures& found) {
  return claimed.count == found.count && claimed.non_finite == found.non_finite &&
         claimed.zeros_before == found.zeros_before &&
         claimed.zeros_after == found.zeros_after &&
         close(claimed.sum_error, found.sum_error) &&
         close(claimed.sum_error_squared, found.sum_error_squared) &&
         close(claimed.sum_squared_before, found.sum_squared_before) &&
         close(claimed.sum_squared_after, found.sum_squared_after) &&
         close(claimed.max_error, found.max_error);
}

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options) : options_(options) {}

  Result<VerifyResult> run(const std::filesystem::path& source,
                           const std::filesystem::path& output) {
    PITH_TRY(const std::unique_ptr<Checkpoint> before, open_dense(source));
    PITH_TRY(const std::unique_ptr<Checkpoint> stored, Checkpoint::open(output));
    PITH_TRY(const std::unique_ptr<Checkpoint> after, open_dense(output));
    result_.source_bytes = bytes_on_disk(*before);
    result_.output_bytes = bytes_on_disk(*stored);
    PITH_TRY(FoundManifests found, find_manifests(*stored));
    manifests_ = std::move(found.manifests);
    PITH_OK(check_checksums(*stored));
    PITH_TRY(result_.tensors, compare_checkpoints(*before, *after, options_));
    PITH_TRY(const std::vector<bool> tied, find_aliases(*before, *after, output));
    for (std::size_t i = 0; i < result_.tensors.size(); ++i) {
      if (i < tied.size() && tied[i]) {
        ++result_.aliased;
      } else {
        check(result_.tensors[i]);
      }
    }
    PITH_OK(check_files(*before, source, output));
    return std::move(result_);
  }

 private:
  template <typename... Args>
  void problem(const std::string& name, fmt::format_string<Args...> text,
               Args&&... args) {
    result_.problems.push_back(
        fmt::format("tensor '{}': {}", printable(name),
                    fmt::format(text, std::forward<Args>(args)...)));
  }

  Status check_checksums(const Checkpoint& stored) {
    struct Check {
      const TensorRecord* record;
      const StoredPart* part;
      std::uint64_t found = 0;
      Status status = {};
    };
    std::vector<Check> checks;
    for (const Manifest& manifest : manifests_) {
      for (const TensorRecord& record : manifest.tensors) {
        records_.emplace(record.name, &record);
        for (const StoredPart& part : record.parts) {
          if (part.checksum) checks.push_back({&record, &part});
        }
      }
    }
    parallel_for(static_cast<std::int64_t>(checks.size()), [&](std::int64_t i) {
      Check& check = checks[static_cast<std::size_t>(i)];
      const std::optional<std::size_t> tensor = stored.find(check.part->name);
      if (tensor)
        check.status = checksum_of(stored, *tensor, options_.cancel, check.found);
    });
    for (const Check& check : checks) {
      PITH_OK(check.status);
      if (check.found == check.part->checksum) {
        ++result_.checksums;
        continue;
      }
      problem(check.record->name, "its part '{}' has checksum {:016x}, expected {:016x}",
              printable(check.part->name), check.found, *check.part->checksum);
    }
    return {};
  }

  // Tensors of the source that the output has by another name, as its config says.
  Result<std::vector<bool>> find_aliases(const Checkpoint& before,
                                         const Checkpoint& after,
                                         const std::filesystem::path& output) {
    std::vector<bool> aliases(before.tensors().size());
    PITH_TRY(const std::string config, read_folder_config(output));
    if (!ties_embeddings(config)) return aliases;
    PITH_TRY(const std::vector<std::size_t> tied,
             find_tied(before, EmbeddingNames(), options_.cancel));
    for (std::size_t i = 0; i < tied.size(); ++i) {
      aliases[i] = tied[i] != i && !after.find(before.tensors()[i].name) &&
                   after.find(before.tensors()[tied[i]].name);
    }
    return aliases;
  }

  // What comes along with the weights of a folder is the same, but for config.json.
  Status check_files(const Checkpoint& before, const std::filesystem::path& source,
                     const std::filesystem::path& output) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(source, ignored) ||
        !std::filesystem::is_directory(output, ignored)) {
      return {};
    }
    PITH_TRY(const FolderContent content, list_folder_files(before, source));
    PITH_TRY(const InputFolder folder, InputFolder::open(output));
    for (const FolderFile& file : content.files) {
      const Result<InputFile> copy = folder.open_file(file.name);
      if (!copy) {
        result_.problems.push_back(
            fmt::format("file '{}': is missing", printable(file.name)));
        continue;
      }
      if (file.name == "config.json") continue;
      PITH_TRY(const InputFile original, InputFile::open(file.source));
      PITH_TRY(const bool same, same_content(original, *copy));
      if (!same) {
        result_.problems.push_back(fmt::format("file '{}': is not as it is in the source",
                                               printable(file.name)));
      } else {
        ++result_.files;
      }
    }
    return {};
  }

  Result<bool> same_content(const InputFile& a, const InputFile& b) const {
    if (a.size() != b.size()) return false;
    const auto size = static_cast<std::int64_t>(a.size());
    std::vector<std::byte> left(static_cast<std::size_t>(std::min(kChunk, size)));
    std::vector<std::byte> right(left.size());
    for (std::int64_t at = 0; at < size; at += kChunk) {
      PITH_OK(check_cancelled(options_.cancel));
      const auto some = static_cast<std::size_t>(std::min(kChunk, size - at));
      const auto offset = static_cast<std::uint64_t>(at);
      PITH_OK(a.read_exact(offset, std::span(left).first(some)));
      PITH_OK(b.read_exact(offset, std::span(right).first(some)));
      if (!std::ranges::equal(std::span(left).first(some), std::span(right).first(some)))
        return false;
    }
    return true;
  }

  void check(const ComparedTensor& tensor) {
    if (tensor.dtype_a.empty()) return problem(tensor.name, "is not in the source");
    if (tensor.dtype_b.empty()) return problem(tensor.name, "is missing");
    if (!tensor.problem.empty() && tensor.problem != "cannot be decoded") {
      return problem(tensor.name, "{}", tensor.problem);
    }
    if (!tensor.error) return;
    const auto record = records_.find(tensor.name);
    if (record != records_.end()) {
      const TensorRecord& claimed = *record->second;
      if (claimed.kind == StoredKind::kKept && !tensor.same) {
        problem(tensor.name, "is not as it was, though it says so");
      }
      if (claimed.error && agree(*claimed.error, *tensor.error)) ++result_.figures;
      if (claimed.error && !agree(*claimed.error, *tensor.error)) {
        problem(tensor.name, "its error is rmse {:.6g}, but it claims {:.6g}",
                tensor.error->rmse(), claimed.error->rmse());
      }
    }
    if (options_.max_rmse && !(tensor.error->rmse() <= *options_.max_rmse)) {
      problem(tensor.name, "rmse {:.6g} is above the limit of {:.6g}",
              tensor.error->rmse(), *options_.max_rmse);
    }
    if (options_.min_sqnr && !tensor.same &&
        !(tensor.error->sqnr_db() >= *options_.min_sqnr)) {
      problem(tensor.name, "SQNR {:.2f} dB is below the limit of {:.2f}",
              tensor.error->sqnr_db(), *options_.min_sqnr);
    }
  }

  const VerifyOptions& options_;
  std::vector<Manifest> manifests_;
  std::unordered_map<std::string_view, const TensorRecord*> records_;
  VerifyResult result_;
};

}  // namespace

Result<VerifyResult> verify(const std::filesystem::path& source,
                            const std::filesystem::path& output,
                            const VerifyOptions& options) {
  return Verifier(options).run(source, output);
}

}  // namespace pith
