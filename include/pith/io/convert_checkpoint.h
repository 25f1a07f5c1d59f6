// Another format or element type for a whole checkpoint, streamed in bounded memory.
//
//   pith::ConvertOptions options;
//   options.dtype = pith::DType::kF16;
//   PITH_TRY(pith::ConvertReport report,
//            pith::convert_checkpoint("model.safetensors", "half.gguf", options));
//
// A folder gives a folder, shards kept one to one and the other files copied byte for
// byte, unless the output is named like a file. What the output's format cannot hold is
// an error that names the tensor; no tensor is left out. The bytes of the output do not
// depend on the number of threads.
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
#include "pith/tensor/dtype.h"

namespace pith {

struct ConvertOptions {
  /// Of the output; by default what its name says (.safetensors, .gguf, .npz, .npy), or
  /// safetensors for a folder.
  std::optional<Format> format = {};
  /// kF32, kF16 or kBF16 for all floating-point and quantized tensors; integers and truth
  /// values stay. In GGUF, vectors and norms become or stay f32, because the engines that
  /// read it want them so. By default every tensor keeps its encoding.
  std::optional<DType> dtype = {};
  bool allow_overflow = false;  ///< finite values may become infinite; they are counted
  bool overwrite = false;       ///< an output that exists may be replaced
  bool sync = true;             ///< return when the data is on the disk
  /// Bytes of buffers, at least 1 MiB. A few MiB per thread are used, whatever the size
  /// of a tensor.
  std::int64_t max_memory = std::int64_t{1} << 30;
  const CancelToken* cancel = nullptr;
  ProgressFunction progress = {};
};

struct ConvertReport {
  Format format = Format::kSafetensors;
  std::int64_t tensors = 0;
  std::int64_t converted = 0;      ///< tensors whose encoding changed
  std::int64_t input_bytes = 0;    ///< of tensors
  std::int64_t output_bytes = 0;   ///< of files, headers included
  std::int64_t overflowed = 0;     ///< finite values that became infinite
  std::int64_t not_finite = 0;     ///< NaN and infinities in tensors that were narrowed
  std::vector<std::string> notes;  ///< what did not come along, or is odd
};

/// Reads `input` and writes `output`.
///
/// Fails as Checkpoint::open and CheckpointWriter::create do; kInvalidArgument for an
/// option out of its range; kUnsupported if a tensor cannot be held by the output's
/// format (the message says which --dtype can); kGateFailed if values overflow and may
/// not; kCancelled. After a failure the output is what it was.
Result<ConvertReport> convert_checkpoint(const std::filesystem::path& input,
                                         const std::filesystem::path& output,
                                         const ConvertOptions& options = {});

}  // namespace pith
