#include "src/pipeline/compress_report.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "src/base/parallel.h"

namespace pith {
namespace {

// One checksum for a tensor of several parts: that of their checksums.
std::string checksum_text(const TensorRecord& record) {
  std::vector<std::uint64_t> sums;
  for (const StoredPart& part : record.parts) {
    if (part.checksum) sums.push_back(*part.checksum);
  }
  if (sums.empty()) return {};
  const std::uint64_t all =
      sums.size() == 1 ? sums[0]
                       : XXH3_64bits(sums.data(), sums.size() * sizeof(std::uint64_t));
  return fmt::format("{:016x}", all);
}

// What a stage of a rule did to all tensors of the model.
class StageTable {
 public:
  explicit StageTable(const CompressPlan& plan) : plan_(plan) {
    std::vector<const Rule*> seen;
    for (const TensorPlan& tensor : plan.tensors) {
      if (tensor.rule == nullptr ||
          std::find(seen.begin(), seen.end(), tensor.rule) != seen.end()) {
        continue;
      }
      seen.push_back(tensor.rule);
      for (const StagePtr& stage : tensor.rule->stages) find(*stage);
    }
  }

  void add(const TensorPlan& tensor, const std::vector<std::int64_t>& nonzero) {
    if (!tensor.stored()) return;  // what it equals is counted
    const TensorInfo& info = plan_.source->tensors()[tensor.source];
    const std::int64_t elements = tensor.header.shape.elements();
    // What is not looked at counts as it came.
    std::int64_t left = elements;
    std::int64_t bytes = info.bytes;
    std::size_t next = 0;
    std::size_t values = 0;
    for (StageReport& row : rows_) {
      row.parameters += elements;
      row.bytes_before += info.bytes;
      const auto* stages = tensor.rule == nullptr ? nullptr : &tensor.rule->stages;
      if (stages != nullptr && next < stages->size() && is(row, *(*stages)[next])) {
        const Stage& stage = *(*stages)[next];
        ++row.processed;
        // The last one has what is in the file: sparse tensors are smaller there.
        bytes = next + 1 == stages->size()
                    ? plan_.shown.tensors[tensor.source].bytes_after
                    : tensor.after_stages[next].stored_bytes(tensor.header.shape);
        if (!stage.stores() && values < nonzero.size()) left = nonzero[values++];
        if (stage.stores() && tensor.record.error) {
          left = elements - tensor.record.error->zeros_after;
        }
        ++next;
      } else {
        ++row.skipped;
      }
      row.nonzero_after += left;
      row.bytes_after += bytes;
    }
  }

  [[nodiscard]] const std::vector<StageReport>& rows() const { return rows_; }

 private:
  static bool is(const StageReport& row, const Stage& stage) {
    return row.name == stage.name() && row.options == stage.describe();
  }

  void find(const Stage& stage) {
    for (const StageReport& row : rows_) {
      if (is(row, stage)) return;
    }
    StageReport row;
    row.name = stage.name();
    row.options = stage.describe();
    rows_.push_back(std::move(row));
  }

  const CompressPlan& plan_;
  std::vector<StageReport> rows_;
};

// What became of values that are not finite.
std::string not_finite_note(const ErrorFigures& figures, const TensorPlan& tensor,
                            NonFiniteChoice choice) {
  const char* const fate =
      choice == NonFiniteChoice::kZero ? "became 0"
      : tensor.record.scheme
          ? "cannot be kept in codes: NaN became 0, infinity the largest code"
          : "were kept";
  return fmt::format("{} of its values {} not finite, and {}", figures.non_finite,
                     figures.non_finite == 1 ? "is" : "are", fate);
}

// What is noted of tensors: one line for all that have the same note.
class Notes {
 public:
  void add(const std::string& tensor, const std::string& note) {
    const auto same = std::find_if(lines_.begin(), lines_.end(),
                                   [&](const Line& line) { return line.note == note; });
    if (same != lines_.end()) {
      ++same->others;
    } else {
      lines_.push_back({tensor, note});
    }
  }
  void append_to(std::vector<std::string>& warnings) const {
    for (const Line& line : lines_) {
      warnings.push_back(line.others == 0 ? fmt::format("{}: {}", line.first, line.note)
                                          : fmt::format("{} and {} more: {}", line.first,
                                                        line.others, line.note));
    }
  }

 private:
  struct Line {
    std::string first;
    std::string note;
    int others = 0;
  };
  std::vector<Line> lines_;
};

}  // namespace

Report make_report(const CompressPlan& plan, const CompressOptions& options,
                   const std::vector<TensorOutcome>& outcomes,
                   const std::filesystem::path& input,
                   const std::filesystem::path& output) {
  Report report;
  report.source = {input.string(), std::string(to_string(plan.source->format())),
                   static_cast<std::int64_t>(plan.source->files().size()),
                   plan.shown.input_bytes};
  report.output = {
      output.string(), std::string(to_string(plan.target.format)),
      std::max<std::int64_t>(1, static_cast<std::int64_t>(plan.layout.shards.size())),
      plan.shown.output_bytes};
  report.recipe = plan.recipe;
  report.environment = report_environment(static_cast<int>(most_threads()));
  report.warnings = plan.shown.warnings;
  std::vector<const TensorOutcome*> outcome_of(plan.tensors.size());
  for (const TensorOutcome& outcome : outcomes) outcome_of[outcome.source] = &outcome;
  StageTable stages(plan);
  Notes notes;
  for (const TensorPlan& tensor : plan.tensors) {
    const PlannedTensor& shown = plan.shown.tensors[tensor.source];
    const TensorOutcome* outcome = outcome_of[tensor.source];
    TensorReport row;
    row.name = shown.name;
    row.shape = shown.shape;
    row.dtype = shown.dtype;
    row.action = shown.action;
    row.rule = shown.rule;
    row.scheme = shown.scheme;
    row.alias_of = shown.alias_of;
    row.bytes_before = shown.bytes_before;
    row.bytes_after = shown.bytes_after;
    row.error = tensor.record.error;
    row.checksum = checksum_text(tensor.record);
    if (outcome != nullptr && outcome->sample) outcome->sample->describe(row);
    if (!shown.note.empty()) notes.add(shown.name, shown.note);
    if (row.error && row.error->non_finite > 0) {
      notes.add(shown.name, not_finite_note(*row.error, tensor, options.non_finite));
    }
    static const std::vector<std::int64_t> kNone;
    stages.add(tensor, outcome == nullptr ? kNone : outcome->nonzero);
    report.tensors.push_back(std::move(row));
  }
  notes.append_to(report.warnings);
  report.stages = stages.rows();
  return report;
}

}  // namespace pith
