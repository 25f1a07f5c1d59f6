// Runs a plan: every tensor, by all threads, within the memory.
#pragma once

#include <filesystem>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/writer.h"
#include "src/pipeline/compress_plan.h"
#include "src/pipeline/compress_report.h"

namespace pith {

/// Writes the output that the plan declares and commits it. The records of the plan get
/// their checksums and figures. Fails as compress().
Result<std::vector<TensorOutcome>> run_plan(CompressPlan& plan,
                                            const std::filesystem::path& output,
                                            const CompressOptions& options);

}  // namespace pith
