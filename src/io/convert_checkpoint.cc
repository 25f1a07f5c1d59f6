#include "pith/io/convert_checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "pith/io/writer.h"
#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/folder_files.h"
#include "src/io/gguf_rules.h"
#include "src/io/output_target.h"
#include "src/io/pieces.h"
#include "src/io/plain.h"
#include "src/kernels/convert.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

TensorSpec spec_of(const TensorInfo& tensor, const OutputTarget& target,
                   const ConvertOptions& options) {
  TensorSpec spec{tensor.name, tensor.encoding, tensor.shape, 0};
  if (!options.dtype || !is_real(tensor.encoding)) return spec;
  DType dtype = *options.dtype;
  if (target.format == Format::kGguf && gguf_wants_f32(tensor.name, tensor.shape)) {
    dtype = DType::kF32;
  }
  if (tensor.encoding.dtype != dtype) {
    spec.encoding = plain_encoding(dtype, to_string(dtype));
  }
  return spec;
}

bool same_encoding(const Encoding& a, const Encoding& b) {
  return a.dtype ? a.dtype == b.dtype : !b.dtype && a.name == b.name;
}

// A layout and where its tensors come from.
struct Job {
  CheckpointLayout layout;
  std::vector<std::size_t>
      written_as;  // of each tensor of the source: index in the layout
  std::vector<std::string> notes;
};

void add_metadata(const Checkpoint& source, bool changed, Job& job) {
  CheckpointLayout& layout = job.layout;
  if (layout.format == Format::kGguf) {
    const std::span<const GgufKey> keys = gguf_keys(source);
    if (source.format() == Format::kGguf && !changed) {
      layout.gguf_keys.assign(keys.begin(), keys.end());
    } else {
      layout.gguf_keys = gguf_keys_for(keys, layout.tensors);
    }
    if (source.format() != Format::kGguf) {
      job.notes.emplace_back(
          "a GGUF file made of tensors alone has no architecture and tokenizer keys: "
          "engines cannot run it");
    }
  }
  const bool carried = source.format() == layout.format;
  if (layout.format == Format::kSafetensors) {
    if (carried) layout.metadata = source.metadata();
    const auto is_format = [](const auto& entry) { return entry.first == "format"; };
    // Loaders of PyTorch models refuse files that do not say so.
    if (std::none_of(layout.metadata.begin(), layout.metadata.end(), is_format)) {
      layout.metadata.emplace_back("format", "pt");
    }
  }
  const auto lost =
      std::count_if(source.metadata().begin(), source.metadata().end(),
                    [](const auto& entry) { return entry.first != "format"; });
  if (!carried && lost > 0) {
    job.notes.push_back(
        fmt::format("{} metadata keys of the {} file are not carried over", lost,
                    to_string(source.format())));
  }
}

Result<Job> make_job(const Checkpoint& source, const fs::path& input,
                     const OutputTarget& target, const ConvertOptions& options) {
  Job job;
  job.layout.format = target.format;
  job.notes = source.warnings();
  bool changed = false;
  for (const TensorInfo& tensor : source.tensors()) {
    TensorSpec spec = spec_of(tensor, target, options);
    changed = changed || !same_encoding(spec.encoding, tensor.encoding);
    if (target.folder) spec.file = tensor.file;
    job.layout.tensors.push_back(std::move(spec));
  }
  if (target.format == Format::kGguf && source.format() != Format::kGguf) {
    sort_for_gguf(job.layout.tensors);
  }
  job.written_as.resize(source.tensors().size());
  for (std::size_t i = 0; i < job.layout.tensors.size(); ++i) {
    job.written_as[*source.find(job.layout.tensors[i].name)] = i;
  }
  add_metadata(source, changed, job);
  if (target.folder) {
    PITH_TRY(FolderContent content, list_folder_files(source, input));
    job.layout.shards = std::move(content.shards);
    job.layout.folder_files = std::move(content.files);
    job.notes.insert(job.notes.end(), content.notes.begin(), content.notes.end());
  }
  return job;
}

// What became of the values of one tensor.
struct ValueCounts {
  std::int64_t overflowed = 0;
  std::int64_t not_finite = 0;
};

// ValueCounts are zero for nearly every piece: the largest magnitude tells so without a look
// at the values.
ValueCounts count_exceptions(std::span<const float> values, std::uint32_t largest,
                             DType to) {
  ValueCounts counts;
  const std::uint32_t limit = kernels::overflow_bits(to);
  if (largest < limit) return counts;
  for (const float value : values) {
    const std::uint32_t bits =
        std::bit_cast<std::uint32_t>(value) & kernels::kMagnitudeMask;
    if (bits >= kernels::kInfinityBits) {
      ++counts.not_finite;
    } else if (bits >= limit) {
      ++counts.overflowed;
    }
  }
  return counts;
}

// f64 to f32: finite values that became infinite.
ValueCounts count_exceptions(std::span<const std::byte> stored) {
  ValueCounts counts;
  for (std::size_t i = 0; i < stored.size(); i += sizeof(double)) {
    double value = 0;
    std::memcpy(&value, stored.data() + i, sizeof(value));
    if (!std::isfinite(value)) {
      ++counts.not_finite;
    } else if (std::isinf(static_cast<float>(value))) {
      ++counts.overflowed;
    }
  }
  return counts;
}

class Converter {
 public:
  Converter(const Checkpoint& source, const Job& job, CheckpointWriter& writer)
      : source_(source), job_(job), writer_(writer), counts_(source.tensors().size()) {}

  Status run(const ConvertOptions& options) {
    PieceList list(source_, options.max_memory);
    for (std::size_t i = 0; i < source_.tensors().size(); ++i) PITH_OK(list.add(i));
    const PieceOptions piece_options{options.cancel, &options.progress};
    return for_each_piece(list, piece_options, [&]() -> PieceFunction {
      // Shared, because functions must be copyable.
      auto worker = std::make_shared<Worker>(source_, options.max_memory);
      return [this, worker](const Piece& piece) { return convert(*worker, piece); };
    });
  }

  [[nodiscard]] const std::vector<ValueCounts>& counts() const { return counts_; }

 private:
  struct Worker {
    Worker(const Checkpoint& source, std::int64_t max_memory)
        : reader(source, PieceReader::room_within(max_memory)) {}
    PieceReader reader;
    Buffer out;
  };

  Status convert(Worker& worker, const Piece& piece) {
    const Encoding& from = source_.tensors()[piece.tensor].encoding;
    const std::size_t written_as = job_.written_as[piece.tensor];
    const Encoding& to = job_.layout.tensors[written_as].encoding;
    const std::int64_t offset = piece.begin / to.block * to.block_bytes;
    if (same_encoding(from, to)) {
      PITH_TRY(const std::span<const std::byte> bytes, worker.reader.bytes(piece));
      return writer_.write(written_as, offset, bytes);
    }
    const bool narrow = *to.dtype != DType::kF32;
    PITH_TRY(const std::span<const float> values, worker.reader.values(piece, narrow));
    if (!narrow) {
      if (from.dtype == DType::kF64) PITH_OK(count_f64(worker, piece));
      return writer_.write(written_as, offset, std::as_bytes(values));
    }
    const std::span<std::byte> out = use_buffer(worker.out, piece.count * to.block_bytes,
                                                writer_.place(written_as) + offset);
    const std::uint32_t largest = kernels::from_f32(
        {.in = values.data(), .to = *to.dtype, .out = out.data(), .count = piece.count});
    add(piece.tensor, count_exceptions(values, largest, *to.dtype));
    return writer_.write(written_as, offset, out);
  }

  Status count_f64(Worker& worker, const Piece& piece) {
    PITH_TRY(const std::span<const std::byte> stored, worker.reader.bytes(piece));
    add(piece.tensor, count_exceptions(stored));
    return {};
  }

  void add(std::size_t tensor, ValueCounts counts) {
    if (counts.overflowed == 0 && counts.not_finite == 0) return;
    const std::lock_guard lock(mutex_);
    counts_[tensor].overflowed += counts.overflowed;
    counts_[tensor].not_finite += counts.not_finite;
  }

  const Checkpoint& source_;
  const Job& job_;
  CheckpointWriter& writer_;
  std::mutex mutex_;
  std::vector<ValueCounts> counts_;
};

Status check_overflow(const Checkpoint& source, const std::vector<ValueCounts>& counts,
                      DType dtype) {
  std::int64_t values = 0;
  std::int64_t tensors = 0;
  const TensorInfo* first = nullptr;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].overflowed == 0) continue;
    if (first == nullptr) first = &source.tensors()[i];
    values += counts[i].overflowed;
    ++tensors;
  }
  if (first == nullptr) return {};
  return {
      StatusCode::kGateFailed,
      fmt::format("{} values in {} tensors, the first of them '{}', are too large for {} "
                  "and would become infinite",
                  values, tensors, printable(first->name), to_string(dtype))};
}

Status check_options(const ConvertOptions& options) {
  if (options.dtype && *options.dtype != DType::kF32 && *options.dtype != DType::kF16 &&
      *options.dtype != DType::kBF16) {
    return Status::invalid_argument(
        fmt::format("dtype is {}, expected f32, f16 or bf16", to_string(*options.dtype)));
  }
  if (options.max_memory < PieceList::kLeastMemory) {
    return Status::invalid_argument(
        fmt::format("the memory limit is {} bytes, expected at least {}",
                    options.max_memory, PieceList::kLeastMemory));
  }
  return {};
}

}  // namespace

Result<ConvertReport> convert_checkpoint(const fs::path& input, const fs::path& output,
                                         const ConvertOptions& options) {
  PITH_OK(check_options(options));
  PITH_TRY(const std::unique_ptr<Checkpoint> source, Checkpoint::open(input));
  PITH_TRY(const OutputTarget target, find_output_target(input, output, options.format));
  PITH_TRY(const Job job, make_job(*source, input, target, options));

  WriteOptions write_options;
  write_options.overwrite = options.overwrite;
  write_options.sync = options.sync;
  write_options.cancel = options.cancel;
  write_options.inputs = source->files();
  write_options.inputs.push_back(input);
  PITH_TRY(const std::unique_ptr<CheckpointWriter> writer,
           CheckpointWriter::create(output, job.layout, write_options));
  Converter converter(*source, job, *writer);
  PITH_OK(converter.run(options));
  if (!options.allow_overflow) {
    PITH_OK(
        check_overflow(*source, converter.counts(), options.dtype.value_or(DType::kF32)));
  }
  PITH_OK(writer->commit());

  ConvertReport report;
  report.format = target.format;
  report.notes = job.notes;
  report.tensors = static_cast<std::int64_t>(source->tensors().size());
  for (std::size_t i = 0; i < source->tensors().size(); ++i) {
    const TensorInfo& tensor = source->tensors()[i];
    report.input_bytes += tensor.bytes;
    report.overflowed += converter.counts()[i].overflowed;
    report.not_finite += converter.counts()[i].not_finite;
    if (!same_encoding(tensor.encoding, job.layout.tensors[job.written_as[i]].encoding)) {
      ++report.converted;
    }
  }
  PITH_TRY(report.output_bytes, stored_bytes(job.layout));
  return report;
}

}  // namespace pith
