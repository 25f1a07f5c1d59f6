#include "pith/pipeline/compress.h"

#include <chrono>

#include "src/pipeline/compress_engine.h"

namespace pith {

namespace fs = std::filesystem;

Result<Plan> plan(const fs::path& input, const fs::path& output,
                  const CompressOptions& options) {
  PITH_TRY(CompressPlan made, make_compress_plan(input, output, options));
  return std::move(made.shown);
}

Result<Report> compress(const fs::path& input, const fs::path& output,
                        const CompressOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (output.empty()) return Status::invalid_argument("the output has no name");
  PITH_TRY(CompressPlan plan, make_compress_plan(input, output, options));
  PITH_TRY(const std::vector<TensorOutcome> outcomes, run_plan(plan, output, options));
  Report report = make_report(plan, options, outcomes, input, output);
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace pith
