// The report of a run, from its plan and what was found on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "pith/report/report.h"
#include "pith/report/sample.h"
#include "src/pipeline/compress_plan.h"

namespace pith {

/// What is known of a tensor beside its record.
struct TensorOutcome {
  std::size_t source = 0;
  std::vector<std::int64_t> nonzero;  ///< after each of TensorPlan::stages
  std::optional<TensorSample> sample;
};

/// Everything but the time. Records have their checksums and figures.
Report make_report(const CompressPlan& plan, const CompressOptions& options,
                   const std::vector<TensorOutcome>& outcomes,
                   const std::filesystem::path& input,
                   const std::filesystem::path& output);

}  // namespace pith
