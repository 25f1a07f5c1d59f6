// The report for a terminal.
#include <fmt/format.h>

#include "pith/report/format.h"
#include "pith/report/report.h"

namespace pith {
namespace {

using namespace report;

constexpr std::size_t kWorst = 5;

std::string actions(const ReportTotals& totals) {
  std::string text =
      fmt::format("{}: {} compressed, {} kept", counted(totals.tensors, "tensor"),
                  with_commas(totals.compressed), with_commas(totals.kept));
  if (totals.aliased > 0)
    text += fmt::format(", {} aliased", with_commas(totals.aliased));
  if (totals.dropped > 0)
    text += fmt::format(", {} dropped", with_commas(totals.dropped));
  return text;
}

std::string worst_table(const Report& report) {
  std::vector<std::vector<std::string>> rows = {
      {"worst tensors", "sqnr", "rmse", "max error", "at", "scheme"}};
  for (const std::size_t i : worst_tensors(report, kWorst)) {
    const TensorReport& tensor = report.tensors[i];
    rows.push_back(
        {one_line(tensor.name), decibels(tensor.error->sqnr_db()),
         significant(tensor.error->rmse()), significant(tensor.error->max_error),
         place_of(tensor.shape, tensor.error->max_index), one_line(tensor.scheme)});
  }
  if (rows.size() == 1) return "";
  return aligned(rows, {false, true, true, true, false, false});
}

}  // namespace

std::string report_summary(const Report& report) {
  const ReportTotals totals = report_totals(report);
  std::string text = fmt::format("{} -> {}\n", one_line(report.source.path),
                                 one_line(report.output.path));
  const std::string share =
      part_of(totals.compressed_parameters, totals.parameters) + " parameters compressed";
  text +=
      fmt::format("  {}; {}\n", totals.compressed > 0 ? share : "nothing was compressed",
                  actions(totals));
  text += fmt::format("  {} -> {} on disk, {}, {:.2f} bits per weight\n",
                      human_bytes(static_cast<double>(report.source.bytes)),
                      human_bytes(static_cast<double>(report.output.bytes)),
                      size_change(report.source.bytes, report.output.bytes),
                      totals.bits_per_weight);
  if (totals.compressed > 0) {
    const double zeros = static_cast<double>(totals.zeros) /
                         static_cast<double>(totals.compressed_parameters);
    text +=
        fmt::format("  error: rmse {}, sqnr {}; {} of the compressed weights are zero\n",
                    significant(totals.rmse), decibels(totals.sqnr_db),
                    percent(totals.compressed_parameters > 0 ? zeros : 0));
  }
  text += worst_table(report);
  for (const auto& [name, value] : report.facts) {
    text += fmt::format("  {}: {}\n", one_line(name), one_line(value));
  }
  for (const std::string& warning : report.warnings) {
    text += fmt::format("  warning: {}\n", one_line(warning));
  }
  text += fmt::format("  {}, {}/s, {}, {}\n", human_seconds(report.seconds),
                      human_bytes(totals.bytes_per_second),
                      counted(report.environment.threads, "thread"),
                      one_line(report.environment.isa));
  return text;
}

}  // namespace pith
