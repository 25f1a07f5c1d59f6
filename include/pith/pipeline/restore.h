// Compressed checkpoints made dense again, for tools that cannot read them.
//
//   PITH_TRY(pith::RestoreReport report, pith::restore("small.safetensors",
//                                                      "dense.safetensors", {}));
//
// Values are those that codes and scales stand for, bit for bit in f32. A folder gives a
// folder, without `quantization_config` in its config.json.
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

struct RestoreOptions {
  std::optional<Format> format = {};  ///< by default what the output's name says
  /// kF32, kF16 or kBF16: of tensors that were compressed. Others keep their type.
  DType dtype = DType::kF32;
  bool overwrite = false;
  bool sync = true;
  std::int64_t max_memory = std::int64_t{1} << 30;
  const CancelToken* cancel = nullptr;
  ProgressFunction progress = {};
};

struct RestoreReport {
  Format format = Format::kSafetensors;
  std::int64_t tensors = 0;
  std::int64_t restored = 0;  ///< that were compressed
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;  ///< of files
  std::vector<std::string> notes;
};

/// Fails as open_dense and CheckpointWriter do; kInvalidArgument if a value is beyond the
/// largest of the type. After a failure the output is what it was.
Result<RestoreReport> restore(const std::filesystem::path& input,
                              const std::filesystem::path& output,
                              const RestoreOptions& options);

}  // namespace pith
