// Reading report.json: a document that may come from anywhere. What is computed from
// other figures is passed over; everything else is checked, so that no text made of it
// can fail.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "pith/report/report.h"
#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/json.h"
#include "src/io/reader.h"

namespace pith {
namespace {

using Parsed = nlohmann::json;

// About 100 bytes each: 400 MB at most, and reports of some 25,000 tensors.
constexpr std::size_t kMaxValues = 4'000'000;
// The largest whole number that a double, and so JavaScript, holds exactly. Sums of two
// hundred thousand of them would not overflow; sums of more are checked.
constexpr std::int64_t kMaxWhole = std::int64_t{1} << 53;

using Keys = std::initializer_list<std::string_view>;

Status wrong(const std::string& where, std::string_view key, std::string_view what) {
  return Status::corrupt(fmt::format("{}{}'{}' is not {}", where,
                                     where.empty() ? "" : ": ", printable(key), what));
}

// An object of the document, and how to call it in messages.
class Object {
 public:
  // Fails if it is no object or has a key that is in neither list.
  static Result<Object> make(const Parsed& value, std::string where, Keys keys,
                             Keys computed = {}) {
    if (!value.is_object()) {
      return Status::corrupt(where.empty() ? "the document is not an object"
                                           : where + " is not an object");
    }
    const auto has = [](Keys list, const std::string& key) {
      return std::find(list.begin(), list.end(), key) != list.end();
    };
    for (const auto& [key, unused] : value.items()) {
      if (!has(keys, key) && !has(computed, key)) {
        return Status::corrupt(fmt::format("{}{}unknown key '{}'", where,
                                           where.empty() ? "" : ": ", printable(key)));
      }
    }
    return Object(value, std::move(where));
  }

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] const Parsed* find(std::string_view key) const {
    const auto found = value_->find(key);
    return found == value_->end() ? nullptr : &*found;
  }
  [[nodiscard]] Result<const Parsed*> need(std::string_view key) const {
    const Parsed* found = find(key);
    if (found == nullptr) {
      return Status::corrupt(
          fmt::format("{}{}'{}' is missing", where_, where_.empty() ? "" : ": ", key));
    }
    return found;
  }

  Status read(std::string_view key, std::string& out) const {
    PITH_TRY(const Parsed* value, need(key));
    if (!value->is_string()) return wrong(where_, key, "a string");
    out = value->get<std::string>();
    return {};
  }
  Status read(std::string_view key, std::int64_t& out,
              std::int64_t most = kMaxWhole) const {
    PITH_TRY(const Parsed* value, need(key));
    if (!value->is_number_unsigned() ||
        value->get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
      return wrong(where_, key, fmt::format("a whole number up to {}", most));
    }
    out = value->get<std::int64_t>();
    return {};
  }
  Status read(std::string_view key, int& out, int most) const {
    std::int64_t wide = 0;
    PITH_OK(read(key, wide, most));
    out = static_cast<int>(wide);
    return {};
  }
  // A number that is not negative; null is infinity where that may be.
  Status read(std::string_view key, double& out, bool may_be_infinite = false) const {
    PITH_TRY(const Parsed* value, need(key));
    if (value->is_null() && may_be_infinite) {
      out = std::numeric_limits<double>::infinity();
      return {};
    }
    if (!value->is_number() || !(value->get<double>() >= 0) ||
        !std::isfinite(value->get<double>())) {
      return wrong(where_, key, "a finite number of at least 0");
    }
    out = value->get<double>();
    return {};
  }
  [[nodiscard]] Result<const Parsed*> array(std::string_view key) const {
    PITH_TRY(const Parsed* value, need(key));
    if (!value->is_array()) return wrong(where_, key, "an array");
    return value;
  }

 private:
  Object(const Parsed& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const Parsed* value_;
  std::string where_;
};

// Adds numbers of a hostile document.
Status add(std::int64_t& sum, std::int64_t value, std::string_view what) {
  sum += value;
  if (sum <= kMaxWhole) return {};
  return Status::corrupt(
      fmt::format("all {} together are more than {}", what, kMaxWhole));
}

Status read_files(const Object& document, std::string_view key, ReportFiles& out) {
  PITH_TRY(const Parsed* value, document.need(key));
  PITH_TRY(const Object object,
           Object::make(*value, std::string(key), {"path", "format", "files", "bytes"}));
  PITH_OK(object.read("path", out.path));
  PITH_OK(object.read("format", out.format));
  PITH_OK(object.read("files", out.files));
  return object.read("bytes", out.bytes);
}

Status read_environment(const Object& document, ReportEnvironment& out) {
  PITH_TRY(const Parsed* value, document.need("environment"));
  PITH_TRY(const Object object,
           Object::make(*value, "environment", {"threads", "isa", "cpu"}));
  PITH_OK(object.read("threads", out.threads, std::numeric_limits<int>::max()));
  PITH_OK(object.read("isa", out.isa));
  return object.read("cpu", out.cpu);
}

Status read_histogram(const Object& tensor, std::string_view key, Histogram& out) {
  const Parsed* value = tensor.find(key);
  if (value == nullptr) return {};
  PITH_TRY(const Object object,
           Object::make(*value, fmt::format("{}: {}", tensor.where(), key),
                        {"low", "high", "counts"}));
  for (const auto& [name, bound] : {std::pair{"low", &out.low}, {"high", &out.high}}) {
    PITH_TRY(const Parsed* number, object.need(name));
    if (!number->is_number() || !std::isfinite(number->get<double>())) {
      return wrong(object.where(), name, "a finite number");
    }
    *bound = number->get<double>();
  }
  if (out.low > out.high) return wrong(object.where(), "high", "at least 'low'");
  PITH_TRY(const Parsed* counts, object.array("counts"));
  if (counts->empty() || counts->size() > Histogram::kMaxBins) {
    return wrong(object.where(), "counts",
                 fmt::format("an array of 1 to {}", Histogram::kMaxBins));
  }
  std::int64_t sum = 0;
  for (const Parsed& count : *counts) {
    if (!count.is_number_unsigned() ||
        count.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxWhole)) {
      return wrong(object.where(), "counts", "made of whole numbers");
    }
    out.counts.push_back(count.get<std::int64_t>());
    PITH_OK(add(sum, out.counts.back(), "counts").with_context(object.where()));
  }
  return {};
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

Status read_thumbnail(const Object& tensor, Thumbnail& out) {
  const Parsed* value = tensor.find("nonzeros");
  if (value == nullptr) return {};
  PITH_TRY(const Object object, Object::make(*value, tensor.where() + ": nonzeros",
                                             {"rows", "cols", "density"}));
  PITH_OK(object.read("rows", out.rows, Thumbnail::kMaxSide));
  PITH_OK(object.read("cols", out.cols, Thumbnail::kMaxSide));
  std::string digits;
  PITH_OK(object.read("density", digits));
  const auto cells =
      static_cast<std::size_t>(out.rows) * static_cast<std::size_t>(out.cols);
  bool good = cells > 0 && digits.size() == 2 * cells;
  for (std::size_t i = 0; good && i < cells; ++i) {
    const std::optional<int> high = hex_digit(digits[2 * i]);
    const std::optional<int> low = hex_digit(digits[2 * i + 1]);
    good = high && low;
    if (good) out.density.push_back(static_cast<std::uint8_t>(*high * 16 + *low));
  }
  if (!good) {
    return wrong(object.where(), "density",
                 "two hexadecimal digits for each of its cells");
  }
  return {};
}

Status read_error(const Object& tensor, const Shape& shape,
                  std::optional<ErrorFigures>& out) {
  const Parsed* value = tensor.find("error");
  if (value == nullptr) return {};
  PITH_TRY(
      const Object object,
      Object::make(*value, tensor.where() + ": error",
                   {"count", "non_finite", "saturated", "zeros_before", "zeros_after",
                    "sum_error", "sum_error_squared", "sum_squared_before",
                    "sum_squared_after", "max_error", "max_index"},
                   {"mae", "rmse", "sqnr_db", "cosine"}));
  ErrorFigures error;
  const std::int64_t most = shape.elements();
  PITH_OK(object.read("count", error.count, most));
  PITH_OK(object.read("non_finite", error.non_finite, most));
  PITH_OK(object.read("saturated", error.saturated, most));
  PITH_OK(object.read("zeros_before", error.zeros_before, most));
  PITH_OK(object.read("zeros_after", error.zeros_after, most));
  PITH_OK(object.read("sum_error", error.sum_error, true));
  PITH_OK(object.read("sum_error_squared", error.sum_error_squared, true));
  PITH_OK(object.read("sum_squared_before", error.sum_squared_before));
  PITH_OK(object.read("sum_squared_after", error.sum_squared_after, true));
  PITH_OK(object.read("max_error", error.max_error, true));
  if (object.find("max_index") != nullptr) {
    PITH_OK(object.read("max_index", error.max_index, most - 1));
  }
  out = error;
  return {};
}

Result<Shape> read_shape(const Object& tensor) {
  PITH_TRY(const Parsed* value, tensor.array("shape"));
  std::vector<std::int64_t> extents;
  constexpr std::size_t kMaxRank = 64;
  for (const Parsed& extent : *value) {
    if (!extent.is_number_unsigned() || extents.size() == kMaxRank ||
        extent.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxWhole)) {
      return wrong(tensor.where(), "shape", "a list of at most 64 extents");
    }
    extents.push_back(extent.get<std::int64_t>());
  }
  Result<Shape> shape = Shape::make(extents);
  if (!shape || shape->elements() > kMaxWhole) {
    return wrong(tensor.where(), "shape", "one of a tensor that could be stored");
  }
  return shape;
}

Result<TensorReport> read_tensor(const Parsed& value, std::size_t number) {
  PITH_TRY(const Object object,
           Object::make(value, fmt::format("tensors[{}]", number),
                        {"name", "shape", "dtype", "action", "rule", "scheme", "alias_of",
                         "bytes_before", "bytes_after", "checksum", "error", "weights",
                         "codes", "nonzeros"},
                        {"layer", "ratio", "sparsity"}));
  TensorReport tensor;
  PITH_OK(object.read("name", tensor.name));
  PITH_TRY(tensor.shape, read_shape(object));
  PITH_OK(object.read("dtype", tensor.dtype));
  std::string action;
  PITH_OK(object.read("action", action));
  bool known = false;
  for (const TensorAction one : {TensorAction::kKept, TensorAction::kCompressed,
                                 TensorAction::kAliased, TensorAction::kDropped}) {
    if (action != to_string(one)) continue;
    tensor.action = one;
    known = true;
  }
  if (!known) {
    return wrong(object.where(), "action", "one of kept, compressed, aliased, dropped");
  }
  PITH_OK(object.read("rule", tensor.rule));
  PITH_OK(object.read("scheme", tensor.scheme));
  if (tensor.action == TensorAction::kAliased) {
    PITH_OK(object.read("alias_of", tensor.alias_of));
  }
  PITH_OK(object.read("bytes_before", tensor.bytes_before));
  PITH_OK(object.read("bytes_after", tensor.bytes_after));
  if (object.find("checksum") != nullptr) {
    PITH_OK(object.read("checksum", tensor.checksum));
  }
  PITH_OK(read_error(object, tensor.shape, tensor.error));
  PITH_OK(read_histogram(object, "weights", tensor.weights));
  PITH_OK(read_histogram(object, "codes", tensor.codes));
  PITH_OK(read_thumbnail(object, tensor.nonzeros));
  return tensor;
}

Result<StageReport> read_stage(const Parsed& value, std::size_t number) {
  PITH_TRY(const Object object,
           Object::make(value, fmt::format("stages[{}]", number),
                        {"name", "options", "processed", "skipped", "parameters",
                         "nonzero_after", "bytes_before", "bytes_after"},
                        {"ratio", "sparsity"}));
  StageReport stage;
  PITH_OK(object.read("name", stage.name));
  PITH_OK(object.read("options", stage.options));
  PITH_OK(object.read("processed", stage.processed));
  PITH_OK(object.read("skipped", stage.skipped));
  PITH_OK(object.read("parameters", stage.parameters));
  PITH_OK(object.read("nonzero_after", stage.nonzero_after));
  PITH_OK(object.read("bytes_before", stage.bytes_before));
  PITH_OK(object.read("bytes_after", stage.bytes_after));
  return stage;
}

Status read_lists(const Object& document, Report& report) {
  PITH_TRY(const Parsed* facts, document.array("facts"));
  for (const Parsed& value : *facts) {
    PITH_TRY(const Object fact, Object::make(value, "a fact", {"name", "value"}));
    report.facts.emplace_back();
    PITH_OK(fact.read("name", report.facts.back().first));
    PITH_OK(fact.read("value", report.facts.back().second));
  }
  PITH_TRY(const Parsed* warnings, document.array("warnings"));
  for (const Parsed& value : *warnings) {
    if (!value.is_string()) return wrong("", "warnings", "made of strings");
    report.warnings.push_back(value.get<std::string>());
  }
  PITH_TRY(const Parsed* stages, document.array("stages"));
  for (const Parsed& value : *stages) {
    PITH_TRY(StageReport stage, read_stage(value, report.stages.size()));
    report.stages.push_back(std::move(stage));
  }
  PITH_TRY(const Parsed* tensors, document.array("tensors"));
  std::int64_t elements = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (const Parsed& value : *tensors) {
    PITH_TRY(TensorReport tensor, read_tensor(value, report.tensors.size()));
    PITH_OK(add(elements, tensor.shape.elements(), "elements"));
    PITH_OK(add(before, tensor.bytes_before, "bytes"));
    PITH_OK(add(after, tensor.bytes_after, "bytes"));
    report.tensors.push_back(std::move(tensor));
  }
  return {};
}

Result<Report> parse_report(ByteReader& in) {
  PITH_TRY(const Parsed tree, parse_json_tree(in, kMaxValues));
  // The version first: another one may have other keys.
  if (!tree.is_object() || !tree.contains("schema_version") ||
      !tree["schema_version"].is_number_unsigned() ||
      tree["schema_version"].get<std::uint64_t>() == 0) {
    return Status::corrupt("not a report of Pith: it has no 'schema_version'");
  }
  const auto version = tree["schema_version"].get<std::uint64_t>();
  if (version > kReportSchema) {
    return Status::unsupported(fmt::format(
        "'schema_version' is {}, but this Pith reads up to {}: use a newer one", version,
        kReportSchema));
  }
  PITH_TRY(
      const Object document,
      Object::make(tree, "",
                   {"schema_version", "tool", "source", "output", "recipe", "environment",
                    "seconds", "facts", "warnings", "stages", "tensors"},
                   {"totals"}));
  Report report;
  PITH_OK(document.read("tool", report.tool));
  PITH_OK(read_files(document, "source", report.source));
  PITH_OK(read_files(document, "output", report.output));
  PITH_OK(document.read("recipe", report.recipe));
  PITH_OK(read_environment(document, report.environment));
  PITH_OK(document.read("seconds", report.seconds));
  PITH_OK(read_lists(document, report));
  return report;
}

}  // namespace

Result<Report> parse_report(std::string_view json) {
  ByteReader in(std::as_bytes(std::span(json.data(), json.size())));
  return parse_report(in);
}

Result<Report> read_report(const std::filesystem::path& path) {
  PITH_TRY(const InputFile file, InputFile::open(path));
  if (file.size() > static_cast<std::uint64_t>(kMaxReportBytes)) {
    return Status::unsupported(fmt::format("{}: has {} bytes, but a report may have {}",
                                           file.name(), file.size(), kMaxReportBytes));
  }
  ByteReader in(file, 0, file.size());
  Result<Report> report = parse_report(in);
  if (!report) return report.error().with_context(file.name());
  return report;
}

}  // namespace pith
