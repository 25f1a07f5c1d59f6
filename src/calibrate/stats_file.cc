#include "pith/calibrate/stats_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/text.h"

namespace pith {
namespace {

constexpr std::string_view kKey = "pith_statistics";
constexpr std::string_view kVersion = "1";
constexpr std::int64_t kPiece = 1 << 20;  // values read at a time

// Endings of names, each a figure of a layer.
constexpr std::string_view kCounts = ".counts";           // I64 [3]: rows, and values not
                                                          // finite of columns and of all
constexpr std::string_view kAbsmax = ".absmax";           // F32 [cols]
constexpr std::string_view kMin = ".min";                 // F32 [cols]
constexpr std::string_view kMax = ".max";                 // F32 [cols]
constexpr std::string_view kSum = ".sum";                 // F64 [cols]
constexpr std::string_view kSquares = ".sum_squares";     // F64 [cols]
constexpr std::string_view kRange = ".range";             // F32 [2]: of all values
constexpr std::string_view kSums = ".exact_sums";         // U64 [3, 10]
constexpr std::string_view kMagnitudes = ".magnitudes";   // F32 [n]
constexpr std::string_view kTimes = ".magnitude_counts";  // I64 [n]
constexpr std::string_view kSuffixes[] = {kCounts,  kAbsmax, kMin,  kMax,        kSum,
                                          kSquares, kRange,  kSums, kMagnitudes, kTimes};

class FileWriter {
 public:
  template <typename T>
  void add(std::string name, DType dtype, std::initializer_list<std::int64_t> shape,
           const std::vector<T>& values) {
    layout_.tensors.push_back(
        TensorSpec::plain(std::move(name), dtype, Shape::make(shape).value()));
    std::vector<std::byte>& bytes = data_.emplace_back(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  }

  void add_layer(const std::string& name, const LayerStats& layer) {
    const ColumnStats& columns = layer.columns;
    const std::int64_t cols = columns.cols();
    const auto to_vector = [](std::span<const float> values) {
      return std::vector<float>(values.begin(), values.end());
    };
    const ValueState values = layer.values.state();
    add<std::int64_t>(name + std::string(kCounts), DType::kI64, {3},
                      {columns.rows(), columns.nonfinite(), values.nonfinite});
    add(name + std::string(kAbsmax), DType::kF32, {cols}, to_vector(columns.absmax()));
    add(name + std::string(kMin), DType::kF32, {cols}, to_vector(columns.min()));
    add(name + std::string(kMax), DType::kF32, {cols}, to_vector(columns.max()));
    add(name + std::string(kSum), DType::kF64, {cols}, columns.sum());
    add(name + std::string(kSquares), DType::kF64, {cols}, columns.sum_squares());
    add<float>(name + std::string(kRange), DType::kF32, {2}, {values.min, values.max});
    std::vector<std::uint64_t> limbs;
    for (const ExactSum* sum : {&values.sum, &values.sum_abs, &values.sum_squares}) {
      limbs.insert(limbs.end(), sum->limbs().begin(), sum->limbs().end());
    }
    add(name + std::string(kSums), DType::kU64, {3, ExactSum::kLimbs}, limbs);
    std::vector<float> magnitudes;
    std::vector<std::int64_t> times;
    for (const MagnitudeCount& entry : values.magnitudes) {
      magnitudes.push_back(entry.magnitude);
      times.push_back(entry.count);
    }
    const auto n = static_cast<std::int64_t>(magnitudes.size());
    add(name + std::string(kMagnitudes), DType::kF32, {n}, magnitudes);
    add(name + std::string(kTimes), DType::kI64, {n}, times);
  }

  Status write(const std::filesystem::path& path, const WriteOptions& options) {
    layout_.metadata = {{"format", "pt"}, {std::string(kKey), std::string(kVersion)}};
    PITH_TRY(const auto writer, CheckpointWriter::create(path, layout_, options));
    for (std::size_t i = 0; i < data_.size(); ++i) {
      PITH_OK(writer->write(i, 0, data_[i]));
    }
    return writer->commit();
  }

 private:
  CheckpointLayout layout_;
  std::vector<std::vector<std::byte>> data_;
};

bool is_statistics(const Checkpoint& file) {
  const auto& metadata = file.metadata();
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& entry) { return entry.first == kKey; });
}

class FileReader {
 public:
  explicit FileReader(const Checkpoint& file) : file_(file) {}

  Result<Observer> run() {
    for (const auto& [key, value] : file_.metadata()) {
      if (key == kKey && value != kVersion) {
        return Status::unsupported(fmt::format("statistics of version '{}', expected {}",
                                               printable(value, 16), kVersion));
      }
    }
    std::set<std::string> layers;
    for (const TensorInfo& info : file_.tensors()) {
      const auto* suffix =
          std::find_if(std::begin(kSuffixes), std::end(kSuffixes),
                       [&](std::string_view end) { return info.name.ends_with(end); });
      if (suffix == std::end(kSuffixes)) {
        return Status::corrupt(
            fmt::format("tensor '{}' is no figure of statistics", printable(info.name)));
      }
      layers.insert(info.name.substr(0, info.name.size() - suffix->size()));
    }
    Observer observer;
    for (const std::string& layer : layers) {
      if (Status s = read_layer(layer, observer); !s.ok()) {
        return s.with_context(fmt::format("layer '{}'", printable(layer)));
      }
    }
    return observer;
  }

 private:
  // The values of a tensor of that type and with `rows` rows.
  template <typename T>
  Result<std::vector<T>> read(const std::string& layer, std::string_view suffix,
                              DType dtype, std::optional<std::int64_t> elements) {
    const auto index = file_.find(layer + std::string(suffix));
    if (!index) return Status::corrupt(fmt::format("{} is missing", suffix.substr(1)));
    const TensorInfo& info = file_.tensors()[*index];
    if (info.encoding.dtype != dtype ||
        (elements && info.shape.elements() != *elements)) {
      return Status::corrupt(fmt::format(
          "{} is {} {}, expected {}{}", suffix.substr(1), info.encoding.name,
          info.shape.to_string(), to_string(dtype),
          elements ? fmt::format(" with {} elements", *elements) : std::string()));
    }
    std::vector<T> values(static_cast<std::size_t>(info.shape.elements()));
    PITH_OK(file_.read_bytes(*index, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }

  // Sums of columns: numbers that an ExactSum holds.
  Result<std::vector<ExactSum>> read_sums(const std::string& layer,
                                          std::string_view suffix, std::int64_t cols) {
    PITH_TRY(const std::vector<double> values,
             read<double>(layer, suffix, DType::kF64, cols));
    std::vector<ExactSum> sums(values.size());
    for (std::size_t j = 0; j < values.size(); ++j) {
      const double units = std::ldexp(values[j], -ExactSum::kLowestExponent);
      if (!(std::fabs(values[j]) < 0x1p300) || std::trunc(units) != units) {
        return Status::corrupt(
            fmt::format("{} of column {} is {}, which no floats add up to",
                        suffix.substr(1), j, values[j]));
      }
      sums[j].add(values[j]);
    }
    return sums;
  }

  Status read_layer(const std::string& name, Observer& observer) {
    PITH_TRY(const auto counts, read<std::int64_t>(name, kCounts, DType::kI64, 3));
    ColumnState columns;
    columns.rows = counts[0];
    columns.nonfinite = counts[1];
    PITH_TRY(columns.absmax, read<float>(name, kAbsmax, DType::kF32, std::nullopt));
    const auto cols = static_cast<std::int64_t>(columns.absmax.size());
    PITH_TRY(columns.min, read<float>(name, kMin, DType::kF32, cols));
    PITH_TRY(columns.max, read<float>(name, kMax, DType::kF32, cols));
    PITH_TRY(columns.sum, read_sums(name, kSum, cols));
    PITH_TRY(columns.sum_squares, read_sums(name, kSquares, cols));

    ValueState values;
    values.nonfinite = counts[2];
    PITH_TRY(const auto range, read<float>(name, kRange, DType::kF32, 2));
    values.min = range[0];
    values.max = range[1];
    PITH_TRY(const auto limbs,
             read<std::uint64_t>(name, kSums, DType::kU64, 3 * ExactSum::kLimbs));
    ExactSum* const sums[] = {&values.sum, &values.sum_abs, &values.sum_squares};
    for (std::size_t i = 0; i < 3; ++i) {
      std::array<std::uint64_t, ExactSum::kLimbs> number;
      std::copy_n(limbs.begin() + static_cast<std::ptrdiff_t>(i * ExactSum::kLimbs),
                  ExactSum::kLimbs, number.begin());
      *sums[i] = ExactSum::from_limbs(number);
    }
    PITH_TRY(const auto magnitudes,
             read<float>(name, kMagnitudes, DType::kF32, std::nullopt));
    PITH_TRY(const auto times,
             read<std::int64_t>(name, kTimes, DType::kI64,
                                static_cast<std::int64_t>(magnitudes.size())));
    for (std::size_t i = 0; i < magnitudes.size(); ++i) {
      values.magnitudes.push_back({magnitudes[i], times[i]});
    }
    LayerStats stats;
    PITH_TRY(stats.columns, ColumnStats::from_state(std::move(columns)));
    PITH_TRY(stats.values, ValueStats::from_state(values));
    return observer.add(name, stats);
  }

  const Checkpoint& file_;
};

std::string name_of(const Checkpoint& file) {
  return printable(file.files().front().native(), 160);
}

Status record_tensor(Observer& observer, const Checkpoint& file, std::size_t tensor,
                     std::string_view layer, const CancelToken* cancel,
                     RecordedFile& done) {
  const Shape& shape = file.tensors()[tensor].shape;
  const std::int64_t cols = shape.cols();
  if (shape.elements() == 0) return {};
  const std::int64_t step = std::max<std::int64_t>(1, kPiece / cols);
  std::vector<float> values;
  for (std::int64_t first = 0; first < shape.rows(); first += step) {
    PITH_OK(check_cancelled(cancel));
    const std::int64_t rows = std::min(step, shape.rows() - first);
    values.resize(static_cast<std::size_t>(rows * cols));
    PITH_OK(file.read_rows(tensor, first, rows, values));
    if (const Status s = observer.record(layer, values, cols); !s.ok()) {
      return s.with_context(fmt::format("{}: rows from {} on", name_of(file), first));
    }
  }
  ++done.layers;
  done.rows += shape.rows();
  done.values += shape.elements();
  return {};
}

}  // namespace

Status write_statistics(const Observer& observer, const std::filesystem::path& path,
                        const WriteOptions& options) {
  if (observer.layers().empty()) {
    return Status::invalid_argument("statistics: there is no layer to write");
  }
  FileWriter file;
  for (const auto& [name, layer] : observer.layers()) file.add_layer(name, layer);
  return file.write(path, options);
}

Result<Observer> read_statistics(const std::filesystem::path& path) {
  PITH_TRY(const std::unique_ptr<Checkpoint> file, Checkpoint::open(path));
  if (!is_statistics(*file)) {
    return Status::unsupported(fmt::format(
        "{}: it has no statistics; pith calibrate writes such files", name_of(*file)));
  }
  Result<Observer> observer = FileReader(*file).run();
  if (!observer) return observer.error().with_context(name_of(*file));
  return observer;
}

Result<RecordedFile> record_activations(Observer& observer,
                                        const std::filesystem::path& path,
                                        std::string_view layer,
                                        const CancelToken* cancel) {
  PITH_TRY(const std::unique_ptr<Checkpoint> file, Checkpoint::open(path));
  RecordedFile done;
  if (is_statistics(*file)) {
    Result<Observer> other = FileReader(*file).run();
    if (!other) return other.error().with_context(name_of(*file));
    PITH_OK(observer.merge(*other));
    done.statistics = true;
    for (const auto& [name, stats] : other->layers()) {
      ++done.layers;
      done.rows += stats.columns.rows();
      done.values += stats.values.count();
    }
    return done;
  }
  std::vector<std::size_t> real;
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    const Encoding& encoding = file->tensors()[i].encoding;
    const bool is_real = encoding.dtype == DType::kF32 || encoding.dtype == DType::kF64 ||
                         encoding.dtype == DType::kF16 || encoding.dtype == DType::kBF16;
    if (is_real && encoding.decodable) real.push_back(i);
  }
  if (real.empty()) {
    return Status::unsupported(
        fmt::format("{}: it has no tensor of real numbers", name_of(*file)));
  }
  if (!layer.empty() && real.size() != 1) {
    return Status::invalid_argument(
        fmt::format("{}: it has {} tensors, which cannot all be layer '{}'",
                    name_of(*file), real.size(), printable(layer)));
  }
  if (layer.empty() && file->format() == Format::kNpy) {
    return Status::invalid_argument(
        fmt::format("{}: an npy file has no name for its layer: give it as LAYER=FILE",
                    name_of(*file)));
  }
  for (const std::size_t i : real) {
    PITH_OK(record_tensor(observer, *file, i,
                          layer.empty() ? file->tensors()[i].name : layer, cancel, done));
  }
  return done;
}

}  // namespace pith
