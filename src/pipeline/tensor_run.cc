#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/base/text.h"
#include "src/kernels/convert.h"
#include "src/kernels/mask.h"
#include "src/pipeline/tensor_work.h"

namespace pith {

TensorRun::TensorRun(const CompressPlan& plan, const TensorPlan& tensor,
                     CheckpointWriter& writer, const CompressOptions& options,
                     Meeting& meeting)
    : plan_(plan),
      tensor_(tensor),
      info_(plan.source->tensors()[tensor.source]),
      writer_(writer),
      options_(options),
      meeting_(meeting),
      change_turns_(meeting),
      finishing_(meeting),
      nonzero_(tensor.stages.size()) {
  for (std::size_t p = 0; p < tensor.record.parts.size(); ++p) {
    Part part;
    part.role = tensor.record.parts[p].role;
    part.written = tensor.written[p];
    part.place = writer.place(part.written);
    if (part.hash == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(part.hash.get());
    parts_.push_back(std::move(part));
  }
  if (options.samples && !tensor.copied) {
    sample_.emplace(tensor.header.shape, SampleOptions{.pruned = !tensor.stages.empty(),
                                                       .scheme = tensor.record.scheme});
  }
}

TensorRun::~TensorRun() = default;

std::int64_t TensorRun::alignment() const {
  const Shape& shape = tensor_.header.shape;
  const std::int64_t cols = std::max<std::int64_t>(1, shape.cols());
  const std::int64_t part =
      tensor_.record.scheme ? tensor_.record.scheme->part_alignment(shape) : 1;
  // Blocks are read by rows, stages take rows.
  const bool rows = !info_.encoding.dtype || !tensor_.stages.empty();
  if (tensor_.copied && !info_.encoding.dtype) return cols;
  return rows ? std::lcm(cols, part) : part;
}

bool TensorRun::needs_passes() const {
  if (tensor_.copied || tensor_.header.shape.elements() == 0) return false;
  return !tensor_.stages.empty() ||
         (tensor_.record.scheme && tensor_.record.scheme->group == Group::kTensor);
}

// As many as are written with 256 KiB: shorter writes cost more per byte, longer ones ask
// the system for more memory in one piece than it has at hand. Where stages change one
// strip after the other, in turns, a turn is short.
std::int64_t TensorRun::strips() const {
  if (tensor_.copied || (!tensor_.stages.empty() && !apart_)) return 1;
  const auto& scheme = tensor_.record.scheme;
  return 32 / (scheme ? scheme->bits : bits_of(*tensor_.record.dtype));
}

Status TensorRun::encode(CompressWorker& worker, const Piece& piece) {
  if (tensor_.copied) return copy(worker, piece);
  const auto is_free = [](const PieceBuffers& some) { return !some.used; };
  if (!meeting_.wait_until([&] { return std::ranges::any_of(worker.pieces, is_free); })) {
    return gave_up();
  }
  PieceBuffers& buffers = *std::ranges::find_if(worker.pieces, is_free);
  buffers.used = true;
  const auto shared = std::make_shared<PieceWork>();
  PieceWork& work = *shared;
  make_room(buffers, piece, work);
  const std::int64_t end = piece.begin + piece.count;
  // As many bytes of shorter types as of f32.
  const std::int64_t step = PieceList::strip(alignment()) * (reads_halves() ? 2 : 1);
  for (Piece strip = piece; strip.begin < end; strip.begin += step) {
    strip.count = std::min(step, end - strip.begin);
    PITH_TRY(work.source, read(worker, strip, work.before));
    if (!tensor_.stages.empty()) PITH_OK(change(worker, piece, strip, work));
    add_sample(work.source, strip.begin);
    PITH_OK(tensor_.record.scheme ? store_codes(worker, piece, strip, work)
                                  : store_values(worker, piece, strip, work));
  }
  const auto finish = [this, piece, shared, &buffers] {
    Status status = finish_piece(piece, *shared);
    buffers.used = false;
    return status;
  };
  PITH_OK(finishing_.hand_in(piece.number, finish));
  // Values as they are have been read to memory that the next piece needs.
  if (tensor_.record.dtype == DType::kF32 && !finishing_.wait_for(piece.number)) {
    return gave_up();
  }
  return {};
}

Status TensorRun::copy(CompressWorker& worker, const Piece& piece) {
  PITH_TRY(const std::span<const std::byte> bytes, worker.reader.bytes(piece));
  const bool last = piece.begin + piece.count == info_.shape.elements();
  PITH_OK(finishing_.hand_in(piece.number,
                             [this, bytes, last] { return append(0, bytes, last); }));
  return finishing_.wait_for(piece.number) ? Status() : gave_up();
}

// Codes are made of 16-bit types at once, unless something is to be changed before.
bool TensorRun::reads_halves() const {
  const std::optional<DType> dtype = info_.encoding.dtype;
  return (dtype == DType::kF16 || dtype == DType::kBF16) && tensor_.record.scheme &&
         tensor_.stages.empty() && options_.non_finite != NonFiniteChoice::kZero;
}

Result<TensorView> TensorRun::read(CompressWorker& worker, const Piece& piece,
                                   std::span<const float>& values) {
  if (reads_halves()) {
    PITH_TRY(const std::span<const std::byte> bytes, worker.reader.bytes(piece));
    return part_view(*info_.encoding.dtype, piece.count, bytes);
  }
  // f64 to 16 bits is to be rounded once.
  const bool narrow = tensor_.record.dtype && *tensor_.record.dtype != DType::kF32;
  PITH_TRY(values, worker.reader.values(piece, narrow));
  if (options_.non_finite == NonFiniteChoice::kZero ||
      (!tensor_.stages.empty() && !checked_) || !tensor_.record.scheme) {
    // The reader's own memory, which nobody else sees.
    PITH_OK(
        clean({const_cast<float*>(values.data()), values.size()}, piece.begin, &zeroed_));
  }
  return part_view(DType::kF32, piece.count, std::as_bytes(values));
}

Status TensorRun::change(CompressWorker& worker, const Piece& piece, const Piece& strip,
                         PieceWork& work) {
  const std::span<float> values = as_floats(use_buffer(worker.values, strip.count * 4));
  work.after = values;
  if (whole_.size() > 0) {  // nonzero_ is known already
    std::memcpy(values.data(), whole_.data() + strip.begin * 4, values.size_bytes());
    return {};
  }
  work.nonzero.resize(streams_.size());
  std::span<const float> from = work.before;
  if (!apart_) {
    std::copy(from.begin(), from.end(), values.begin());
    if (!change_turns_.wait_for(piece.number)) return gave_up();
  }
  for (std::size_t i = 0; i < streams_.size(); ++i, from = values) {
    const bool masks = tensor_.sparse() && i + 1 == streams_.size();
    const auto mask = masks ? mask_of(piece, strip, work) : std::span<std::byte>();
    if (apart_) {
      PITH_TRY(const std::int64_t nonzero,
               streams_[i]->apply_apart(from, strip.begin, values, mask));
      work.nonzero[i] += nonzero;
      continue;
    }
    PITH_OK(masks ? streams_[i]->apply_with_mask(values, mask)
                  : streams_[i]->apply(values));
    work.nonzero[i] += kernels::count_nonzero(values.data(), strip.count);
  }
  if (!apart_) change_turns_.done();
  return {};
}

void TensorRun::add_sample(const TensorView& source, std::int64_t first) {
  if (!sample_) return;
  const std::int64_t count = source.shape().elements();
  if (source.dtype() == DType::kF32) {
    sample_->add_before(first, source.f32());
    return;
  }
  const std::int64_t stride = sample_->stride();
  for (std::int64_t i = (first + stride - 1) / stride * stride; i < first + count;
       i += stride) {
    float value = 0;
    kernels::to_f32({.from = source.dtype(),
                     .in = source.bytes().data() + (i - first) * 2,
                     .out = &value,
                     .count = 1});
    sample_->add_before(i, {&value, 1});
  }
}

Status TensorRun::finish() {
  // They have no error: figures are of the others.
  figures_.count -= zeroed_;
  figures_.zeros_before -= zeroed_;
  figures_.zeros_after -= zeroed_;
  figures_.non_finite += zeroed_;
  if (tensor_.sparse() && kept_ != tensor_.record.kept) {
    return Status::unsupported(fmt::format(
        "tensor '{}': {} weights were kept, expected {}: the floor of non-zero weights "
        "holds; choose 'store: dense' for it",
        printable(tensor_.header.name), kept_, tensor_.record.kept));
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    if (part.role == PartRole::kShape) {
      const std::int64_t shape[2] = {tensor_.header.shape.rows(),
                                     tensor_.header.shape.cols()};
      const std::span<const std::byte> bytes = std::as_bytes(std::span(shape));
      PITH_OK(append(p, bytes, true));
    }
    if (part.role == PartRole::kColumnScale) {
      // Of no elements, there is nothing to scale.
      column_scale_.resize(static_cast<std::size_t>(tensor_.header.shape.cols()), 1.0F);
      const std::span<const std::byte> bytes = std::as_bytes(std::span(column_scale_));
      PITH_OK(append(p, bytes, true));
    }
    if (part.role == PartRole::kScale && part.bytes == 0 && quantizer_ &&
        tensor_.record.scheme->group == Group::kTensor) {
      // No elements, but still a scale.
      std::byte scale[8] = {};
      std::byte zero[1] = {};
      const auto size =
          static_cast<std::size_t>(bits_of(tensor_.record.scheme->scale_type) / 8);
      PITH_TRY(const TensorView none, part_view(DType::kF32, 0, {}));
      PITH_OK(quantizer_->encode(
          none, 0,
          {{},
           std::span(scale).first(size),
           std::span(zero).first(tensor_.record.scheme->symmetric ? 0 : 1)}));
      PITH_OK(append(p, std::span(scale).first(size), true));
      if (!tensor_.record.scheme->symmetric) PITH_OK(append(p + 1, zero, true));
    }
    checksums_.push_back(XXH3_64bits_digest(part.hash.get()));
  }
  return {};
}

}  // namespace pith
