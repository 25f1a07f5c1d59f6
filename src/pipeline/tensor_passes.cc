// What TensorRun does before it encodes: passes over all values of a tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/parallel.h"
#include "src/base/text.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/mask.h"
#include "src/kernels/quantize.h"
#include "src/pipeline/tensor_run.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

constexpr std::int64_t kPassElements = std::int64_t{1} << 20;  // at once

// Of a preview.
constexpr std::int64_t kRuns = 512;
constexpr std::int64_t kRun = 128;

}  // namespace

std::span<float> as_floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::shared_ptr<CompressWorker> CompressWorkers::take() {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<CompressWorker>& worker : workers_) {
    if (worker.use_count() == 1) return worker;
  }
  return workers_.emplace_back(std::make_shared<CompressWorker>(source_, max_memory_));
}

Result<TensorView> part_view(DType dtype, std::int64_t count,
                             std::span<const std::byte> bytes) {
  PITH_TRY(Shape shape, Shape::make({count}));
  return TensorView::make(dtype, std::move(shape), bytes);
}

std::int64_t TensorRun::pass_elements(std::int64_t max_memory) {
  return std::max<std::int64_t>(PieceList::kElements,
                                std::min(kPassElements, max_memory / 16));
}

Status TensorRun::make_streams(std::unique_ptr<StageStream> joint) {
  for (const StagePtr& stage : tensor_.stages) {
    if (stage->joint()) {
      streams_.push_back(std::move(joint));
      continue;
    }
    Result<std::unique_ptr<StageStream>> stream = stage->stream({&tensor_.header, 1});
    if (!stream && stream.error().code() == StatusCode::kUnsupported) {
      if (!streams_.empty() && tensor_.stages[0]->joint()) {
        return stream.error().with_context(
            fmt::format("tensor '{}': after a stage with the scope global",
                        printable(tensor_.header.name)));
      }
      streams_.clear();
      return load_whole();
    }
    if (!stream) return stream.error();
    streams_.push_back(*std::move(stream));
  }
  return {};
}

Status TensorRun::apply_whole(const Stage& stage, std::span<float> values) {
  if (!stage.scales_columns()) return stage.apply(tensor_.header, values);
  PITH_TRY(const std::unique_ptr<StageStream> stream, stage.stream({&tensor_.header, 1}));
  while (stream->needs_pass()) {
    PITH_OK(stream->feed(values));
    PITH_OK(stream->end_pass());
  }
  take_column_scale(*stream);
  return stream->apply(values);
}

void TensorRun::take_column_scale(const StageStream& stream) {
  const std::span<const float> scale = stream.column_scale();
  if (!scale.empty()) column_scale_.assign(scale.begin(), scale.end());
}

Status TensorRun::load_whole() {
  const std::int64_t bytes = tensor_.header.shape.elements() * 4;
  if (bytes > options_.max_memory) {
    return {
        StatusCode::kNoSpace,
        fmt::format("tensor '{}' has {} bytes as f32 and a stage that needs it whole, "
                    "but the memory limit is {}; raise --max-memory",
                    printable(tensor_.header.name), bytes, options_.max_memory)};
  }
  if (tensor_.sparse()) {
    return Status::unsupported(
        fmt::format("tensor '{}': a stage that needs whole tensors cannot be stored "
                    "sparse; choose 'store: dense'",
                    printable(tensor_.header.name)));
  }
  whole_ = Buffer(bytes);
  const std::span<float> values = as_floats(whole_.bytes());
  PITH_OK(
      plan_.source->read_rows(tensor_.source, 0, tensor_.header.shape.rows(), values));
  PITH_OK(clean(values, 0));
  for (std::size_t i = 0; i < tensor_.stages.size(); ++i) {
    PITH_OK(apply_whole(*tensor_.stages[i], values));
    nonzero_[i] =
        kernels::count_nonzero(values.data(), static_cast<std::int64_t>(values.size()));
  }
  return {};
}

// All values once, in the order of the tensor and after the first `streams` stages.
Status TensorRun::run_pass(std::size_t streams, CompressWorkers& workers,
                           const std::function<Status(std::int64_t)>& progress,
                           const Take& take) {
  const std::int64_t elements = tensor_.header.shape.elements();
  if (whole_.size() > 0) return take(as_floats(whole_.bytes()), 0);
  for (std::size_t i = 0; i < streams; ++i) PITH_OK(streams_[i]->rewind());
  const std::int64_t unit = alignment();
  const std::int64_t limit = pass_elements(options_.max_memory);
  const std::int64_t step = std::max<std::int64_t>(1, limit / unit) * unit;
  const std::span<float> buffer =
      as_floats(use_buffer(workers.scratch(), std::min(step, elements) * 4));
  // A quantizer refuses them by itself.
  const bool checks =
      options_.non_finite == NonFiniteChoice::kZero || (!streams_.empty() && !checked_);
  const bool forward = reads_forward(plan_.source->format());
  for (std::int64_t begin = 0; begin < elements; begin += step) {
    const std::int64_t count = std::min(step, elements - begin);
    const std::span<float> values = buffer.first(static_cast<std::size_t>(count));
    const std::int64_t piece = forward ? count : PieceList::strip(unit);
    std::vector<Status> found(static_cast<std::size_t>(piece_count(count, piece)));
    parallel_pieces(
        count, piece, [&](std::int64_t i, std::int64_t first, std::int64_t end) {
          PieceReader reader(*plan_.source);
          const std::span<float> some = values.subspan(
              static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
          Status& status = found[static_cast<std::size_t>(i)];
          if (info_.encoding.dtype == DType::kF32) {
            status = plan_.source->read_bytes(tensor_.source, (begin + first) * 4,
                                              std::as_writable_bytes(some));
          } else {
            const auto read =
                reader.values({tensor_.source, begin + first, end - first, 0});
            status = read.status();
            if (read) std::copy(read->begin(), read->end(), some.begin());
          }
          if (status.ok() && checks) status = clean(some, begin + first);
        });
    for (Status& status : found) PITH_OK(std::move(status));
    for (std::size_t i = 0; i < streams; ++i) PITH_OK(streams_[i]->apply(values));
    PITH_OK(take(values, begin));
    PITH_OK(progress(count * std::max<std::int64_t>(1, info_.bytes) / elements));
  }
  checked_ = checked_ || checks;
  return {};
}

// All values once, each piece by the thread that reads it.
Status TensorRun::feed_apart(StageStream& stream, CompressWorkers& workers,
                             const std::function<Status(std::int64_t)>& progress) {
  PieceList list(*plan_.source, options_.max_memory);
  PITH_OK(list.add_aligned(tensor_.source, alignment()));
  const ProgressFunction told = [&](const Progress&) { (void)progress(0); };
  const auto feed = [&](PieceReader& reader, const Piece& piece) -> Status {
    PITH_TRY(const std::span<const float> values, reader.values(piece));
    if (!checked_ || options_.non_finite == NonFiniteChoice::kZero) {
      // The reader's own memory, which nobody else sees.
      PITH_OK(clean({const_cast<float*>(values.data()), values.size()}, piece.begin));
    }
    return stream.feed_apart(values, piece.begin);
  };
  PITH_OK(for_each_piece(list, {options_.cancel, &told}, [&]() -> PieceFunction {
    return [&feed, worker = workers.take()](const Piece& piece) {
      return feed(worker->reader, piece);
    };
  }));
  checked_ = true;
  return {};
}

// Shows the first stage some values, which may save it a pass.
Status TensorRun::preview() {
  const std::int64_t stretch = tensor_.header.shape.elements() / kRuns;
  if (streams_.empty() || !streams_[0]->needs_pass() || !info_.encoding.dtype ||
      reads_forward(plan_.source->format()) || stretch < 8 * kRun) {
    return {};
  }
  std::vector<float> sample(static_cast<std::size_t>(kRuns * kRun));
  std::vector<Status> found(static_cast<std::size_t>(kRuns));
  parallel_pieces(
      kRuns, kRuns / 8, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        PieceReader reader(*plan_.source);
        for (std::int64_t run = begin; run < end; ++run) {
          // Not always in the same columns; any fixed function does.
          const auto jitter = static_cast<std::int64_t>(
              (static_cast<std::uint64_t>(run) * 0x9e3779b97f4a7c15u >> 32) %
              static_cast<std::uint64_t>(stretch - kRun));
          const Result<std::span<const float>> values =
              reader.values({tensor_.source, run * stretch + jitter, kRun, 0});
          found[static_cast<std::size_t>(run)] = values.status();
          if (values) std::ranges::copy(*values, sample.begin() + run * kRun);
        }
      });
  for (Status& status : found) PITH_OK(std::move(status));
  streams_[0]->preview(sample, kRun);
  return {};
}

// Pruning may know already what a scan would find.
Status TensorRun::scan_by_stages() {
  const Scheme& scheme = *tensor_.record.scheme;
  const bool by_largest = scheme.symmetric && (scheme.rule == ScaleRule::kAbsmax ||
                                               scheme.rule == ScaleRule::kHalfRange);
  if (streams_.empty() || !by_largest) return {};
  const float largest = streams_.back()->largest().value_or(INFINITY);
  if (!std::isfinite(largest)) return {};
  return quantizer_->set_largest(largest);
}

Status TensorRun::prepare(const std::function<Status(std::int64_t)>& progress,
                          CompressWorkers& workers, std::unique_ptr<StageStream> joint) {
  if (tensor_.copied) return {};
  const NonFinite policy = options_.non_finite == NonFiniteChoice::kError
                               ? NonFinite::kError
                               : NonFinite::kCount;
  if (tensor_.header.shape.elements() > 0) PITH_OK(make_streams(std::move(joint)));
  PITH_OK(preview());
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    while (streams_[i]->needs_pass()) {
      if (i == 0 && streams_[0]->works_apart() &&
          !reads_forward(plan_.source->format())) {
        PITH_OK(feed_apart(*streams_[0], workers, progress));
        PITH_OK(streams_[0]->end_pass());
        continue;
      }
      PITH_OK(run_pass(i, workers, progress, [&](std::span<float> values, std::int64_t) {
        return streams_[i]->feed(values);
      }));
      PITH_OK(streams_[i]->end_pass());
    }
    take_column_scale(*streams_[i]);
  }
  if (tensor_.record.scheme) {
    PITH_TRY(Quantizer quantizer,
             Quantizer::make(*tensor_.record.scheme, tensor_.header.shape,
                             printable(tensor_.header.name), policy));
    quantizer_.emplace(std::move(quantizer));
    if (quantizer_->needs_scan()) PITH_OK(scan_by_stages());
    while (quantizer_->needs_scan()) {
      PITH_OK(run_pass(streams_.size(), workers, progress,
                       [&](std::span<float> values, std::int64_t first) -> Status {
                         PITH_TRY(const TensorView view,
                                  part_view(DType::kF32,
                                            static_cast<std::int64_t>(values.size()),
                                            std::as_bytes(values)));
                         return quantizer_->scan(view, first);
                       }));
      PITH_OK(quantizer_->end_scan());
    }
  }
  for (const auto& stream : streams_) PITH_OK(stream->rewind());
  apart_ = std::ranges::all_of(streams_,
                               [](const auto& stream) { return stream->works_apart(); });
  return {};
}

// What the choice about NaN and infinity asks for.
Status TensorRun::clean(std::span<float> values, std::int64_t first,
                        std::atomic<std::int64_t>* zeroed) const {
  if (options_.non_finite == NonFiniteChoice::kKeep) return {};
  std::uint32_t largest = 0;
  const auto count = static_cast<std::int64_t>(values.size());
  kernels::absmax_groups({values.data(), 1, count, count}, &largest);
  if (largest < kernels::kInfinityBits) return {};
  const std::int64_t bad = first_nonfinite(values);
  if (options_.non_finite == NonFiniteChoice::kError) {
    return Status::not_finite(fmt::format(
        "tensor '{}': element {} is {}, expected a finite number; --non-finite keep or "
        "zero goes on",
        printable(tensor_.header.name), first + bad,
        values[static_cast<std::size_t>(bad)]));
  }
  std::int64_t count_zeroed = 0;
  for (float& value : values) {
    if (std::isfinite(value)) continue;
    value = 0;
    ++count_zeroed;
  }
  if (zeroed != nullptr) *zeroed += count_zeroed;
  return {};
}

}  // namespace pith
