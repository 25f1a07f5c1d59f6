// What was done to a checkpoint and what it cost: plain structs that compression fills,
// and the texts that are made of them.
//
//   PITH_TRY(pith::Report report, pith::read_report("report.json"));
//   fmt::print("{}", pith::report_summary(report));
//   PITH_OK(pith::write_report(report, "report.html"));
//
// Every size is one of files or of bytes in them. Ratios, rates and means are not kept but
// computed, so no two figures of a report can disagree. docs/report.md explains each
// figure, docs/report.schema.json is the schema of the JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/base/version.h"
#include "pith/quantize/error.h"
#include "pith/tensor/shape.h"

namespace pith {

/// `schema_version` of report.json. A greater one is refused.
inline constexpr int kReportSchema = 1;

/// What became of a tensor of the source.
enum class TensorAction : std::uint8_t {
  kKept,        ///< the same bytes
  kCompressed,  ///< pruned, quantized or converted
  kAliased,     ///< equal to another one, which is stored
  kDropped,     ///< left out on request
};
/// "kept", "compressed", "aliased", "dropped"
[[nodiscard]] std::string_view to_string(TensorAction action);

/// Counts of values in equal bins over [low, high]. Empty if nothing was counted.
struct Histogram {
  double low = 0;
  double high = 0;
  std::vector<std::int64_t> counts;  ///< at most kMaxBins

  static constexpr std::size_t kMaxBins = 256;
  [[nodiscard]] bool empty() const { return counts.empty(); }
  [[nodiscard]] std::int64_t sampled() const;  ///< sum of counts
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

/// How much is left where: the tensor as a matrix, cut into rows x cols cells. Empty for
/// a tensor that was not pruned.
struct Thumbnail {
  int rows = 0;  ///< at most kMaxSide
  int cols = 0;
  std::vector<std::uint8_t> density;  ///< 255 * share of nonzeros, row-major

  static constexpr int kMaxSide = 32;
  [[nodiscard]] bool empty() const { return density.empty(); }
  friend bool operator==(const Thumbnail&, const Thumbnail&) = default;
};

/// One tensor of the source.
struct TensorReport {
  std::string name;
  Shape shape;
  std::string dtype;  ///< in the source: "f32", "bf16", "Q4_0"
  TensorAction action = TensorAction::kKept;
  std::string rule;      ///< what decided: "match: *.weight", "rank below 2"
  std::string scheme;    ///< how it is stored: "int8 row f32", "prune 0.5, int8", "f16"
  std::string alias_of;  ///< for kAliased: the tensor that is stored
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;       ///< of all its parts; 0 if aliased or dropped
  std::optional<ErrorFigures> error;  ///< against the source; of compressed tensors
  std::string checksum;               ///< xxh3 of the stored parts, 16 hexadecimal digits
  Histogram weights;                  ///< before; see sample.h
  Histogram codes;                    ///< of a quantized tensor
  Thumbnail nonzeros;                 ///< after pruning

  [[nodiscard]] double ratio() const;     ///< before / after; 0 if nothing is stored
  [[nodiscard]] double sparsity() const;  ///< zeros after / elements; 0 if not known

  friend bool operator==(const TensorReport&, const TensorReport&) = default;
};

/// What a stage did to all tensors: those it skipped are in the counts and bytes too.
struct StageReport {
  std::string name;            ///< "prune", "quantize", ...
  std::string options;         ///< "0.5 by L1", "int8 row f32": for people
  std::int64_t processed = 0;  ///< tensors
  std::int64_t skipped = 0;
  std::int64_t parameters = 0;
  std::int64_t nonzero_after = 0;
  std::int64_t bytes_before = 0;  ///< of the tensors as they came
  std::int64_t bytes_after = 0;   ///< as they would be stored after this stage

  [[nodiscard]] double ratio() const;  ///< before / after; 0 if nothing is stored
  [[nodiscard]] double sparsity() const;
  friend bool operator==(const StageReport&, const StageReport&) = default;
};

/// A checkpoint on disk.
struct ReportFiles {
  std::string path;        ///< as the user wrote it
  std::string format;      ///< "safetensors", "gguf", ...
  std::int64_t files = 1;  ///< with weights
  std::int64_t bytes = 0;  ///< of these files on disk: headers, padding and all
  friend bool operator==(const ReportFiles&, const ReportFiles&) = default;
};

/// Where it ran. No result depends on it; speeds do.
struct ReportEnvironment {
  int threads = 0;
  std::string isa;  ///< "avx2", ...
  std::string cpu;  ///< empty if not known
  friend bool operator==(const ReportEnvironment&, const ReportEnvironment&) = default;
};
/// Of this process: the set in use and the processor's name by the system.
[[nodiscard]] ReportEnvironment report_environment(int threads);

struct Report {
  std::string tool = "pith " PITH_VERSION;
  ReportFiles source;
  ReportFiles output;
  std::string recipe;  ///< as text, YAML or flags
  ReportEnvironment environment;
  double seconds = 0;
  std::vector<StageReport> stages;
  std::vector<TensorReport> tensors;  ///< all of the source, in its order
  std::vector<std::string> warnings;
  /// What else is worth knowing, as name and text: accuracy before and after, ...
  std::vector<std::pair<std::string, std::string>> facts;

  friend bool operator==(const Report&, const Report&) = default;
};

/// Sums over the tensors of a report, and what follows from the files.
struct ReportTotals {
  std::int64_t tensors = 0;
  std::int64_t kept = 0, compressed = 0, aliased = 0, dropped = 0;
  std::int64_t parameters = 0;             ///< of kept and compressed tensors
  std::int64_t compressed_parameters = 0;  ///< of those: in compressed tensors
  std::int64_t zeros = 0;                  ///< after, in compressed tensors with figures
  double ratio = 0;             ///< bytes of the source files / of the output files
  double bits_per_weight = 0;   ///< 8 * bytes of the output files / parameters
  double bytes_per_second = 0;  ///< of the source files; 0 if no time was taken
  double rmse = 0;              ///< over all elements with figures
  double sqnr_db = 0;           ///< likewise; infinite if there is no error
};
[[nodiscard]] ReportTotals report_totals(const Report& report);

/// Tensors of one layer, by their names: "model.layers.3" for
/// "model.layers.3.mlp.up_proj.weight". What stands before the number and the number; or
/// all but the last part of a name without one.
[[nodiscard]] std::string layer_of(std::string_view tensor_name);

/// Numbers of tensors with the lowest SQNR, the worst first; at most `count`. Without
/// those that have no error at all.
[[nodiscard]] std::vector<std::size_t> worst_tensors(const Report& report,
                                                     std::size_t count);

/// A dozen lines for a terminal: what was done, sizes, worst tensors, speed.
[[nodiscard]] std::string report_summary(const Report& report);
/// For a model card. Many tensors are shown by layer.
[[nodiscard]] std::string report_markdown(const Report& report);
/// One page that needs nothing else and loads nothing from anywhere.
[[nodiscard]] std::string report_html(const Report& report);
/// One document, keys in a fixed order; docs/report.schema.json.
[[nodiscard]] std::string report_json(const Report& report);

/// What report_json wrote; figures that are computed are computed again. kCorrupt names
/// the key; kUnsupported for a greater schema_version.
Result<Report> parse_report(std::string_view json);
/// The same of a file of at most kMaxReportBytes; the message begins with its name.
Result<Report> read_report(const std::filesystem::path& path);
inline constexpr std::int64_t kMaxReportBytes = std::int64_t{256} << 20;

/// Writes the report as .json, .md, .html or .txt (the summary), all at once or not at
/// all. kInvalidArgument for another ending; kAlreadyExists unless `overwrite`.
Status write_report(const Report& report, const std::filesystem::path& path,
                    bool overwrite = false);
/// Fails as write_report() would, and writes nothing: for a look before long work.
Status check_report_path(const std::filesystem::path& path, bool overwrite = false);

}  // namespace pith
