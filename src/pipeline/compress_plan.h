// What compress() will do, tensor by tensor and byte by byte, before it does any of it.
//
//   choose      a rule for every tensor                           (compress_plan.cc)
//   decide      stages, scheme, sparse or dense, fallbacks        (plan_decide.cc)
//   find ties   tensors that are stored once                      (tied.cc)
//   lay out     parts, names, files, metadata                     (plan_layout.cc)
//   describe    what people are shown                             (plan_shown.cc)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/writer.h"
#include "pith/pipeline/compress.h"
#include "src/io/output_target.h"
#include "src/quantize/manifest.h"

namespace pith {

/// One tensor of the source.
struct TensorPlan {
  TensorPlan(std::size_t index, const TensorInfo& info)
      : source(index), header{info.name, info.shape} {
    record.name = info.name;
    record.source = info.encoding.name;
    record.shape = info.shape;
  }

  std::size_t source;  ///< index in the checkpoint
  TensorHeader header;
  const Rule* rule = nullptr;    ///< null: kept
  std::vector<StagePtr> stages;  ///< that change values, without the one that stores them
  TensorRecord record;           ///< parts have no checksums yet, `error` is empty
  bool copied = false;           ///< bytes go over as they are
  bool packed =
      false;  ///< codes go into words of 32 bits, as compressed-tensors has them
  bool column_scale = false;          ///< stages scale columns: the inverse is stored
  std::vector<std::size_t> written;   ///< of each part: index in the layout
  std::vector<Storage> after_stages;  ///< of all stages of the rule, for the report
  std::string note;

  [[nodiscard]] bool sparse() const { return record.kind == StoredKind::kSparse; }
  [[nodiscard]] bool stored() const { return record.kind != StoredKind::kAlias; }
};

struct CompressPlan {
  std::filesystem::path input;
  std::unique_ptr<Checkpoint> source;
  OutputTarget target;
  CheckpointLayout layout;
  std::vector<TensorPlan> tensors;  ///< in the order of the source
  Plan shown;
  std::string recipe;  ///< text for the manifest
  Convention convention = Convention::kPith;
  bool manifests = false;                     ///< files are to have one
  std::optional<std::size_t> manifest_array;  ///< of an npz file: index in the layout
};

/// The options must outlive the plan, which points at the rules.
Result<CompressPlan> make_compress_plan(const std::filesystem::path& input,
                                        const std::filesystem::path& output,
                                        const CompressOptions& options);

/// config.json of a folder; empty if there is none, or the input is a file.
Result<std::string> read_folder_config(const std::filesystem::path& input);

/// What becomes of each tensor by its rule.
Status decide(const CompressOptions& options, CompressPlan& plan);

/// Fills plan.shown from all else.
void describe(const CompressOptions& options, CompressPlan& plan);

/// Which tensors are stored once: for each the index of the one it equals, or its own.
/// Looks at embeddings only, by storage and by bytes.
Result<std::vector<std::size_t>> find_tied(const Checkpoint& source,
                                           const EmbeddingNames& names,
                                           const CancelToken* cancel);

/// The parts of each tensor's record and the layout of the files. `config` is the text of config.json of a folder, if there is one.
Status lay_out(CompressPlan& plan, const std::string& config);

/// The manifest of file `file` as text, from the records as they are now; with room for
/// what is not known yet if `reserve`.
Result<std::string> manifest_text(const CompressPlan& plan, std::size_t file,
                                  bool reserve);

/// config.json with `quantization_config` for what the plan quantizes.
/// kInvalidArgument if it is no JSON object.
Result<std::string> config_with_quantization(const CompressPlan& plan,
                                             const std::string& config);

/// The module of a weight that compressed-tensors can hold: "a.b" for "a.b.weight"; empty
/// if it is none.
[[nodiscard]] std::string module_of(const std::string& name);

}  // namespace pith
