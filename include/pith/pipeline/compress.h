// Compression of a whole checkpoint, file to file, in bounded memory.
//
//   pith::CompressOptions options;
//   PITH_TRY(options.recipe, pith::recipe_from_flags({.quantize = "int8-row"}));
//   PITH_TRY(pith::Plan plan, pith::plan("model.safetensors", "small.safetensors",
//                                        options));               // reads headers only
//   PITH_TRY(pith::Report report, pith::compress("model.safetensors",
//                                                "small.safetensors", options));
//
// A plan declares the place of every byte of the output; compress() makes the same plan and
// fills it in, so plan.output_bytes is the size of the files, to the byte. Rows are read,
// changed, measured, coded, checksummed and written while they are in cache: the file is read once
// for schemes with a scale per row or block, once more for a scale per tensor, and once or
// twice more for pruning.
//
// The bytes of the output depend on the input, the recipe and the version alone: neither on
// the number of threads, nor on the instruction set, nor on the memory. Every tensor of the
// input is kept, compressed or aliased, and the report says which. A run that fails leaves
// nothing behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pith/base/cancel.h"
#include "pith/base/progress.h"
#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/pipeline/recipe.h"
#include "pith/report/report.h"

namespace pith {

/// Whose rules safetensors files follow. GGUF and npz have but one.
enum class FileConvention : std::uint8_t {
  kAuto,               ///< compressed-tensors if a folder can be said in it, else Pith's
  kPith,               ///< docs/formats/pith.md: everything, but only Pith reads it back
  kCompressedTensors,  ///< w8a8, w8a16, w4a16 and plain types, in a folder with config.json
};

/// What to do about NaN and infinity in tensors that are compressed. Tensors that are kept
/// are copied byte for byte, whatever they hold.
enum class NonFiniteChoice : std::uint8_t {
  kError,  ///< kNotFinite names the tensor and the index
  kKeep,   ///< stay where the type can hold them; as codes NaN is 0, infinity the largest
  kZero,   ///< become 0 before anything else is done
};

struct CompressOptions {
  Recipe recipe;
  /// Of the output; by default what its name says, or safetensors for a folder.
  std::optional<Format> format = {};
  FileConvention convention = FileConvention::kAuto;
  NonFiniteChoice non_finite = NonFiniteChoice::kError;
  bool allow_requantize = false;  ///< tensors that are quantized already may be decoded
  bool overwrite = false;         ///< an output that exists may be replaced
  bool sync = true;               ///< return when the data is on the disk
  /// Keep a journal beside the output, so that the run can be continued if it is killed.
  bool journal = false;
  /// Continue a run with a journal that was killed, if there is one: kInvalidArgument unless
  /// version, recipe, options and input are the same. Tensors of that run have no pictures
  /// in the report.
  bool resume = false;
  bool samples = true;  ///< histograms and sparsity pictures for the report
  /// Bytes of buffers, at least 1 MiB. A few MiB are used unless a stage needs whole tensors.
  std::int64_t max_memory = std::int64_t{1} << 30;
  const CancelToken* cancel = nullptr;
  ProgressFunction progress = {};
};

/// What will become of one tensor.
struct PlannedTensor {
  std::string name;
  Shape shape;
  std::string dtype;  ///< in the input, as its format calls it
  TensorAction action = TensorAction::kKept;
  std::string rule;      ///< patterns of the rule, or why none takes it
  std::string scheme;    ///< "prune 0.5 l1, int8 row f32, sparse"; the dtype if kept
  std::string alias_of;  ///< for kAliased
  std::string note;      ///< where it gets something else than the rule says, and why
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;  ///< of all its parts
};

struct Plan {
  Format format = Format::kSafetensors;
  FileConvention convention = FileConvention::kPith;  ///< of safetensors; never kAuto
  std::vector<PlannedTensor> tensors;                 ///< in the order of the input
  std::int64_t input_bytes = 0;                       ///< of the files with weights
  std::int64_t output_bytes =
      0;  ///< of these, headers and padding included, and the index
  std::int64_t copied_bytes = 0;      ///< of other files that come along in a folder
  std::int64_t memory_bytes = 0;      ///< of buffers
  int passes = 1;                     ///< how often most of the input is read
  std::vector<std::string> loads;     ///< what can read the output
  std::vector<std::string> warnings;  ///< what is odd or does not come along
};

/// Reads headers (and, of embeddings that may be tied, the bytes). Nothing is written.
///
/// Fails as Checkpoint::open does; kInvalidArgument if a rule takes nothing, a stage does
/// not fit a tensor, the output's format cannot hold a scheme, or an option is out of its
/// range; kUnsupported for input that is quantized already; kNoSpace if --max-memory is
/// too small for a tensor. An empty output plans for safetensors.
Result<Plan> plan(const std::filesystem::path& input, const std::filesystem::path& output,
                  const CompressOptions& options);

/// Compresses `input` into `output`. Fails as plan() and CheckpointWriter do; kNotFinite
/// with tensor and index; kCancelled. After a failure the output is what it was.
Result<Report> compress(const std::filesystem::path& input,
                        const std::filesystem::path& output,
                        const CompressOptions& options);

}  // namespace pith
