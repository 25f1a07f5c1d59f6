// The plan as people see it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>

#include "src/base/parallel.h"
#include "src/io/folder_files.h"
#include "src/io/pieces.h"
#include "src/pipeline/compress_plan.h"
#include "src/pipeline/tensor_run.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

std::int64_t file_bytes(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_size : 0;
}

// How a tensor is stored, for people.
std::string scheme_text(const TensorPlan& tensor, const TensorInfo& source) {
  if (!tensor.stored()) return "alias";
  if (tensor.copied) return std::string(source.encoding.name);
  std::vector<std::string> words;
  for (const StagePtr& stage : tensor.stages) words.push_back(stage->describe());
  words.push_back(tensor.record.scheme ? tensor.record.scheme->to_string()
                                       : std::string(to_string(*tensor.record.dtype)));
  if (tensor.sparse()) words.emplace_back("sparse");
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

void describe(const CompressOptions& options, CompressPlan& plan) {
  Plan& shown = plan.shown;
  shown.format = plan.target.format;
  shown.input_bytes = bytes_on_disk(*plan.source);
  for (const FolderFile& file : plan.layout.folder_files) {
    shown.copied_bytes += file.source.empty()
                              ? static_cast<std::int64_t>(file.text.size())
                              : file_bytes(file.source);
  }
  bool only_pith = false;
  std::int64_t most = 0;  // bytes that one tensor needs beside the buffers of threads
  for (TensorPlan& tensor : plan.tensors) {
    const TensorInfo& source = plan.source->tensors()[tensor.source];
    PlannedTensor& row = shown.tensors[tensor.source];
    row.scheme = scheme_text(tensor, source);
    row.note = tensor.note;
    row.alias_of = tensor.record.alias_of;
    row.action = !tensor.stored() ? TensorAction::kAliased
                 : tensor.copied  ? TensorAction::kKept
                                  : TensorAction::kCompressed;
    only_pith = only_pith || !tensor.stored() || tensor.record.scheme ||
                tensor.sparse() || tensor.column_scale;
    int passes = 1;
    std::int64_t bytes = 0;
    for (const StagePtr& stage : tensor.stages) {
      const Result<std::unique_ptr<StageStream>> stream =
          stage->stream({&tensor.header, 1});
      if (!stream) bytes = std::max(bytes, 4 * tensor.header.shape.elements());
      if (stream) bytes += (*stream)->memory_bytes();
      if (stream && (*stream)->needs_pass()) passes += stage->joint() ? 3 : 2;
    }
    if (tensor.record.scheme && tensor.record.scheme->group == Group::kTensor) ++passes;
    if (passes > 1) {
      bytes += 4 * std::min(tensor.header.shape.elements(),
                            TensorRun::pass_elements(options.max_memory));
    }
    shown.passes = std::max(shown.passes, passes);
    most = std::max(most, bytes);
  }
  const std::int64_t buffers =
      std::min(options.max_memory,
               (PieceList::kThreadBytes + PieceReader::room_within(options.max_memory)) *
                   most_threads());
  shown.memory_bytes = buffers + most;
  switch (plan.target.format) {
    case Format::kGguf:
      if (plan.source->format() == Format::kGguf) {
        shown.loads.emplace_back("llama.cpp and other engines that read GGUF");
      } else {
        shown.warnings.emplace_back(
            "a GGUF file made of tensors alone has no architecture and tokenizer keys: "
            "engines cannot run it");
      }
      break;
    case Format::kNpz:
    case Format::kNpy:
      shown.loads.emplace_back("NumPy, as arrays");
      if (plan.manifests) {
        shown.loads.emplace_back("Pith; 'pith restore' decodes it for others");
      }
      break;
    default:
      if (plan.convention == Convention::kCompressedTensors) {
        shown.loads.emplace_back("transformers and vLLM (compressed-tensors)");
      } else if (!only_pith) {
        shown.loads.emplace_back("every reader of safetensors");
      }
      shown.loads.emplace_back("Pith; 'pith restore' decodes it for others");
  }
}

}  // namespace pith
