#include "pith/report/report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "src/kernels/target.h"

namespace pith {
namespace {

double quotient(double above, double below) { return below > 0 ? above / below : 0; }

double quotient(std::int64_t above, std::int64_t below) {
  return quotient(static_cast<double>(above), static_cast<double>(below));
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

std::string_view to_string(TensorAction action) {
  switch (action) {
    case TensorAction::kKept:
      return "kept";
    case TensorAction::kCompressed:
      return "compressed";
    case TensorAction::kAliased:
      return "aliased";
    case TensorAction::kDropped:
      return "dropped";
  }
  return "";
}

std::int64_t Histogram::sampled() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

double TensorReport::ratio() const { return quotient(bytes_before, bytes_after); }

double TensorReport::sparsity() const {
  return error ? quotient(error->zeros_after, shape.elements()) : 0;
}

double StageReport::ratio() const { return quotient(bytes_before, bytes_after); }

double StageReport::sparsity() const {
  return quotient(parameters - std::min(nonzero_after, parameters), parameters);
}

ReportEnvironment report_environment(int threads) {
  const Result<std::string> isa = kernels::active_target();
  return {threads, isa ? *isa : "unknown", processor_name()};
}

ReportTotals report_totals(const Report& report) {
  ReportTotals totals;
  ErrorFigures all;
  for (const TensorReport& tensor : report.tensors) {
    const std::int64_t elements = tensor.shape.elements();
    ++totals.tensors;
    switch (tensor.action) {
      case TensorAction::kKept:
        ++totals.kept;
        totals.parameters += elements;
        break;
      case TensorAction::kCompressed:
        ++totals.compressed;
        totals.parameters += elements;
        totals.compressed_parameters += elements;
        break;
      case TensorAction::kAliased:
        ++totals.aliased;
        break;
      case TensorAction::kDropped:
        ++totals.dropped;
        break;
    }
    if (tensor.error) {
      all.merge(*tensor.error, 0);
      totals.zeros += tensor.error->zeros_after;
    }
  }
  totals.ratio = quotient(report.source.bytes, report.output.bytes);
  totals.bits_per_weight = 8 * quotient(report.output.bytes, totals.parameters);
  totals.bytes_per_second =
      quotient(static_cast<double>(report.source.bytes), report.seconds);
  totals.rmse = all.rmse();
  totals.sqnr_db = all.sqnr_db();
  return totals;
}

std::string layer_of(std::string_view tensor_name) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = tensor_name.find('.', begin);
    if (is_number(tensor_name.substr(begin, dot - begin))) {
      return std::string(tensor_name.substr(0, dot));
    }
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  const std::size_t last = tensor_name.rfind('.');
  if (last == std::string_view::npos || last == 0) return std::string(tensor_name);
  return std::string(tensor_name.substr(0, last));
}

std::vector<std::size_t> worst_tensors(const Report& report, std::size_t count) {
  std::vector<std::pair<double, std::size_t>> found;
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    const std::optional<ErrorFigures>& error = report.tensors[i].error;
    if (error && error->sum_error_squared > 0) found.emplace_back(error->sqnr_db(), i);
  }
  count = std::min(count, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count),
                    found.end());
  std::vector<std::size_t> worst;
  for (std::size_t i = 0; i < count; ++i) worst.push_back(found[i].second);
  return worst;
}

}  // namespace pith
