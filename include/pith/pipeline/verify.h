// Looks at what was written: is it whole, is it what the source says, how far off is it?
//
//   PITH_TRY(pith::VerifyResult result, pith::verify("model.safetensors",
//                                                    "small.safetensors", {}));
//   if (!result.problems.empty()) complain(result.problems.front());
//
// Both sides are read and every figure is computed again, from the bytes on the disk; what the
// output claims of itself (checksums, figures) is compared with that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pith/base/cancel.h"
#include "pith/base/progress.h"
#include "pith/base/result.h"
#include "pith/quantize/error.h"
#include "pith/tensor/shape.h"

namespace pith {

struct VerifyOptions {
  std::optional<double> max_rmse = {};  ///< of any tensor
  std::optional<double> min_sqnr = {};  ///< of any tensor that was changed, in dB
  std::int64_t max_memory = std::int64_t{1} << 30;
  const CancelToken* cancel = nullptr;
  ProgressFunction progress = {};
};

/// One tensor on both sides.
struct ComparedTensor {
  std::string name;
  Shape shape;
  std::string dtype_a;  ///< as its format calls it; empty if it is not there
  std::string dtype_b;
  bool same = false;  ///< the same values, bit for bit (zeros of any sign are alike)
  std::optional<ErrorFigures> error;  ///< b against a, if both are there and fit
  std::string problem;                ///< "missing", "shape [2, 3], expected [3, 2]", ...
};

struct VerifyResult {
  std::vector<ComparedTensor> tensors;  ///< in the order of the source
  std::int64_t checksums = 0;           ///< that were there and agreed
  std::int64_t figures = 0;             ///< likewise
  std::int64_t aliased = 0;             ///< tensors that are stored by another name alone
  std::int64_t files = 0;         ///< that came along with the weights, and are the same
  std::int64_t source_bytes = 0;  ///< of files
  std::int64_t output_bytes = 0;
  /// What is wrong, one line each: tensors that are missing or too many, checksums that
  /// differ, figures that are not those claimed, limits exceeded.
  std::vector<std::string> problems;
};

/// Compares an output with its source. Fails only if one of them cannot be read; what is
/// wrong with the output is told in `problems`.
Result<VerifyResult> verify(const std::filesystem::path& source,
                            const std::filesystem::path& output,
                            const VerifyOptions& options);

struct DiffResult {
  std::vector<ComparedTensor> tensors;  ///< those of a in its order, then those only in b
  std::int64_t same = 0;
  std::int64_t differ = 0;  ///< in values, shape or by being on one side only
};

/// Compares any two checkpoints, each read as if it were dense. The limits of the options
/// are not looked at.
Result<DiffResult> diff(const std::filesystem::path& a, const std::filesystem::path& b,
                        const VerifyOptions& options);

}  // namespace pith
