#include "src/pipeline/tensor_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "src/base/text.h"
#include "src/kernels/convert.h"
#include "src/kernels/mask.h"
#include "src/pipeline/gather.h"
#include "src/quantize/measure.h"

namespace pith {
namespace {

Status gave_up() { return {StatusCode::kCancelled, "another piece failed"}; }

}  // namespace

struct TensorRun::Part {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  PartRole role = PartRole::kValues;
  std::size_t written = 0;  // index in the layout
  std::int64_t bytes = 0;   // hashed so far
  std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};

  void add(std::span<const std::byte> some) {
    XXH3_64bits_update(hash.get(), some.data(), some.size());
    bytes += static_cast<std::int64_t>(some.size());
  }
};

struct TensorRun::PieceWork {
  TensorView source;               // of the piece, in any of three types
  std::span<const float> before;   // the same as f32, if it was needed
  std::span<const float> after;    // what is to be stored, if stages changed it
  std::span<const std::byte> out;  // codes or values as they are written
  std::span<const std::byte> scales;
  std::span<const std::byte> zero_points;
  std::span<const std::byte> mask;
  std::vector<std::int64_t> row_offsets;
  std::vector<std::int64_t> nonzero;  // after each stage
  std::int64_t base = 0;              // values kept in all pieces before
  std::int64_t kept = 0;              // in this one
  ErrorFigures figures;
};

TensorRun::TensorRun(const CompressPlan& plan, const TensorPlan& tensor,
                     CheckpointWriter& writer, const CompressOptions& options)
    : plan_(plan),
      tensor_(tensor),
      info_(plan.source->tensors()[tensor.source]),
      writer_(writer),
      options_(options),
      nonzero_(tensor.stages.size()) {
  for (std::size_t p = 0; p < tensor.record.parts.size(); ++p) {
    Part part;
    part.role = tensor.record.parts[p].role;
    part.written = tensor.written[p];
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

Status TensorRun::encode(CompressWorker& worker, const Piece& piece) {
  if (tensor_.copied) return copy(worker, piece);
  PieceWork work;
  PITH_TRY(work.source, read(worker, piece, work.before));
  if (!tensor_.stages.empty()) PITH_OK(change(worker, piece, work));
  add_sample(work.source, piece.begin);
  if (tensor_.record.scheme) {
    PITH_OK(store_codes(worker, piece, work));
  } else {
    PITH_OK(store_values(worker, piece, work));
  }
  return finish_piece(worker, piece, work);
}

Status TensorRun::copy(CompressWorker& worker, const Piece& piece) {
  PITH_TRY(const std::span<const std::byte> bytes, worker.reader.bytes(piece));
  if (!finish_turns_.wait_for(piece.number)) return gave_up();
  const std::int64_t offset = parts_[0].bytes;
  parts_[0].add(bytes);
  finish_turns_.done();
  return write_part(0, offset, bytes);
}

Result<TensorView> TensorRun::read(CompressWorker& worker, const Piece& piece,
                                   std::span<const float>& values) {
  // Codes are made of 16-bit types at once, unless something is to be changed before.
  const std::optional<DType> dtype = info_.encoding.dtype;
  const bool halves = dtype == DType::kF16 || dtype == DType::kBF16;
  if (halves && tensor_.record.scheme && tensor_.stages.empty() &&
      options_.non_finite != NonFiniteChoice::kZero) {
    PITH_TRY(const std::span<const std::byte> bytes, worker.reader.bytes(piece));
    return part_view(*dtype, piece.count, bytes);
  }
  // f64 to 16 bits is to be rounded once.
  const bool narrow = tensor_.record.dtype && *tensor_.record.dtype != DType::kF32;
  PITH_TRY(values, worker.reader.values(piece, narrow));
  if (options_.non_finite == NonFiniteChoice::kZero || !tensor_.stages.empty() ||
      !tensor_.record.scheme) {
    // The reader's own memory, which nobody else sees.
    PITH_OK(clean({const_cast<float*>(values.data()), values.size()}, piece.begin));
  }
  return part_view(DType::kF32, piece.count, std::as_bytes(values));
}

Status TensorRun::change(CompressWorker& worker, const Piece& piece, PieceWork& work) {
  const std::span<float> values = as_floats(use_buffer(worker.values, piece.count * 4));
  const Shape& shape = tensor_.header.shape;
  work.nonzero.resize(tensor_.stages.size());
  if (whole_.size() > 0) {
    std::memcpy(values.data(), whole_.data() + piece.begin * 4, values.size_bytes());
    work.nonzero.clear();  // known already
    work.after = values;
    return {};
  }
  std::copy(work.before.begin(), work.before.end(), values.begin());
  const std::int64_t row_bytes = (shape.cols() + 7) / 8;
  std::span<std::byte> mask;
  if (tensor_.sparse()) {
    mask = use_buffer(worker.mask, piece.count / shape.cols() * row_bytes);
  }
  if (!change_turns_.wait_for(piece.number)) return gave_up();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const bool masks = tensor_.sparse() && i + 1 == streams_.size();
    PITH_OK(masks ? streams_[i]->apply_with_mask(values, mask)
                  : streams_[i]->apply(values));
    work.nonzero[i] = kernels::count_nonzero(values.data(), piece.count);
  }
  work.base = kept_;
  for (std::size_t at = 0; at < mask.size(); at += static_cast<std::size_t>(row_bytes)) {
    work.row_offsets.push_back(work.base + work.kept);
    for (const std::byte bits : mask.subspan(at, static_cast<std::size_t>(row_bytes))) {
      work.kept += std::popcount(static_cast<std::uint8_t>(bits));
    }
  }
  kept_ += work.kept;
  change_turns_.done();
  work.mask = mask;
  work.after = values;
  return {};
}

Status TensorRun::store_values(CompressWorker& worker, const Piece& piece,
                               PieceWork& work) {
  const DType dtype = *tensor_.record.dtype;
  const std::span<const float> values = work.after.empty() ? work.before : work.after;
  std::span<const float> decoded = values;
  work.out = std::as_bytes(values);
  if (dtype != DType::kF32) {
    const std::span<std::byte> out = use_buffer(worker.codes, piece.count * 2);
    const std::uint32_t largest = kernels::from_f32(
        {.in = values.data(), .to = dtype, .out = out.data(), .count = piece.count});
    if (largest >= kernels::overflow_bits(dtype)) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t bits =
            std::bit_cast<std::uint32_t>(values[i]) & kernels::kMagnitudeMask;
        if (bits < kernels::overflow_bits(dtype) || bits >= kernels::kInfinityBits)
          continue;
        return Status::invalid_argument(fmt::format(
            "tensor '{}': element {} is {}, beyond the largest {}; bf16 holds "
            "it, or keep the tensor",
            printable(tensor_.header.name), piece.begin + static_cast<std::int64_t>(i),
            values[i], to_string(dtype)));
      }
    }
    const std::span<float> back = as_floats(use_buffer(worker.decoded, piece.count * 4));
    kernels::to_f32(
        {.from = dtype, .in = out.data(), .out = back.data(), .count = piece.count});
    decoded = back;
    work.out = out;
  }
  for (std::int64_t i = 0; i < piece.count; i += kErrorChunk) {
    add_chunk(work.figures, work.before.data() + i, decoded.data() + i,
              std::min(kErrorChunk, piece.count - i), piece.begin + i);
  }
  if (sample_) sample_->add_after(piece.begin, decoded);
  if (tensor_.sparse()) gather(worker, piece, work);
  return {};
}

Status TensorRun::store_codes(CompressWorker& worker, const Piece& piece,
                              PieceWork& work) {
  const Scheme& scheme = *tensor_.record.scheme;
  const Shape& shape = tensor_.header.shape;
  const std::int64_t end = piece.begin + piece.count;
  const bool one = scheme.group == Group::kTensor;
  const std::int64_t groups =
      one ? 1 : scheme.group_offset(shape, end) - scheme.group_offset(shape, piece.begin);
  const std::int64_t scale_bytes =
      scheme.layout == Layout::kBlocks ? 0 : bits_of(scheme.scale_type) / 8;
  const std::span<std::byte> codes =
      use_buffer(worker.codes,
                 scheme.code_offset(shape, end) - scheme.code_offset(shape, piece.begin));
  const std::span<std::byte> scales = use_buffer(worker.scales, groups * scale_bytes);
  const std::span<std::byte> zeros =
      use_buffer(worker.zero_points, scheme.symmetric ? 0 : groups);
  TensorView view = work.source;
  if (!work.after.empty()) {
    PITH_TRY(view, part_view(DType::kF32, piece.count, std::as_bytes(work.after)));
  }
  const bool changed = !work.after.empty();
  ErrorFigures coding;  // of what stages left
  const bool may_saturate =
      scheme.rule == ScaleRule::kPercentile || scheme.rule == ScaleRule::kGiven;
  PITH_OK(quantizer_->encode(view, piece.begin, {codes, scales, zeros},
                             !changed || may_saturate ? &coding : nullptr));
  if (changed) {
    // Against the source, not against what was pruned already.
    const std::span<float> decoded =
        as_floats(use_buffer(worker.decoded, piece.count * 4));
    PITH_OK(dequantize_part(scheme, shape, piece.begin, {codes, scales, zeros}, decoded));
    for (std::int64_t i = 0; i < piece.count; i += kErrorChunk) {
      add_chunk(work.figures, work.before.data() + i, decoded.data() + i,
                std::min(kErrorChunk, piece.count - i), piece.begin + i);
    }
    work.figures.saturated = coding.saturated;
    if (sample_) sample_->add_after(piece.begin, work.after);
  } else {
    work.figures = coding;
  }
  if (sample_) sample_->add_codes(piece.begin, piece.count, codes);
  work.out = codes;
  work.scales = scales;
  work.zero_points = zeros;
  if (tensor_.packed) pack_words(worker, piece, work);
  if (tensor_.sparse()) gather(worker, piece, work);
  return {};
}

// Offset binary in words of 32 bits, each row begins one.
void TensorRun::pack_words(CompressWorker& worker, const Piece& piece,
                           PieceWork& work) const {
  const int bits = tensor_.record.scheme->bits;
  const std::int64_t cols = tensor_.header.shape.cols();
  const std::int64_t rows = piece.count / cols;
  const std::int64_t from = (cols * bits + 7) / 8;
  const std::int64_t to = (cols * bits + 31) / 32 * 4;
  const std::span<std::byte> out = use_buffer(worker.out, rows * to);
  const std::byte flip{bits == 4 ? std::uint8_t{0x88} : std::uint8_t{0x80}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* codes = work.out.data() + row * from;
    std::byte* words = out.data() + row * to;
    for (std::int64_t i = 0; i < from; ++i) words[i] = codes[i] ^ flip;
    if (bits == 4 && cols % 2 != 0) words[from - 1] &= std::byte{0x0f};
    std::fill(words + from, words + to, std::byte{0});
  }
  work.out = out;
}

// Values or codes that the mask keeps; those of 4 bits one per byte, until the turn tells
// which half of a byte they begin in.
void TensorRun::gather(CompressWorker& worker, const Piece& piece,
                       PieceWork& work) const {
  const std::optional<Scheme>& scheme = tensor_.record.scheme;
  const bool halves = scheme && scheme->bits == 4;
  const std::int64_t size = scheme ? 1 : bits_of(*tensor_.record.dtype) / 8;
  const std::int64_t cols = tensor_.header.shape.cols();
  // Room for one more: a store comes before it is known whether it is kept.
  const std::span<std::byte> out = use_buffer(worker.out, (work.kept + 1) * size);
  const KeptRows kept{reinterpret_cast<const std::uint8_t*>(work.mask.data()),
                      piece.count / cols, cols};
  if (halves) {
    gather_halves(kept, work.out, scheme->group == Group::kFlatBlock, out.data());
  } else if (size == 1) {
    gather_rows<std::uint8_t>(kept, work.out, out.data());
  } else if (size == 2) {
    gather_rows<std::uint16_t>(kept, work.out, out.data());
  } else {
    gather_rows<std::uint32_t>(kept, work.out, out.data());
  }
  work.out = out.first(static_cast<std::size_t>(work.kept * size));
}

Status TensorRun::finish_piece(CompressWorker& worker, const Piece& piece,
                               PieceWork& work) {
  std::vector<std::byte> halves;
  std::vector<std::int64_t> offsets(parts_.size());
  const auto bytes_of = [&](PartRole role) -> std::span<const std::byte> {
    switch (role) {
      case PartRole::kValues:
      case PartRole::kCodes:
        return work.out;
      case PartRole::kScale:
        return work.scales;
      case PartRole::kZeroPoint:
        return work.zero_points;
      case PartRole::kMask:
        return work.mask;
      case PartRole::kRowOffsets:
        return std::as_bytes(std::span(work.row_offsets));
      default:
        return {};
    }
  };
  const bool one_scale =
      tensor_.record.scheme && tensor_.record.scheme->group == Group::kTensor;
  if (one_scale && piece.number > 0) {
    work.scales = {};
    work.zero_points = {};
  }
  if (!finish_turns_.wait_for(piece.number)) return gave_up();
  if (tensor_.sparse() && tensor_.record.scheme && tensor_.record.scheme->bits == 4) {
    // Two codes per byte through the whole tensor.
    const bool last = work.base + work.kept == tensor_.record.kept;
    std::int64_t at = work.base;
    for (const std::byte code : work.out) {
      if (at++ % 2 == 0) {
        half_byte_ = static_cast<std::uint8_t>(code);
      } else {
        halves.push_back(
            static_cast<std::byte>(half_byte_ | static_cast<int>(code) << 4));
      }
    }
    if (last && at % 2 != 0 && work.kept > 0) {
      halves.push_back(static_cast<std::byte>(half_byte_));
    }
    work.out = halves;
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    offsets[p] = parts_[p].bytes;
    parts_[p].add(bytes_of(parts_[p].role));
  }
  figures_.merge(work.figures, 0);
  for (std::size_t i = 0; i < work.nonzero.size(); ++i) nonzero_[i] += work.nonzero[i];
  finish_turns_.done();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::span<const std::byte> bytes = bytes_of(parts_[p].role);
    if (!bytes.empty()) PITH_OK(write_part(p, offsets[p], bytes));
  }
  static_cast<void>(worker);
  return {};
}

Status TensorRun::write_part(std::size_t part, std::int64_t offset,
                             std::span<const std::byte> bytes) {
  return writer_.write(parts_[part].written, offset, bytes);
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

void TensorRun::give_up() {
  change_turns_.give_up();
  finish_turns_.give_up();
}

Status TensorRun::finish() {
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
      part.add(bytes);
      PITH_OK(write_part(p, 0, bytes));
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
      part.add(std::span(scale).first(size));
      PITH_OK(write_part(p, 0, std::span(scale).first(size)));
      if (!tensor_.record.scheme->symmetric) {
        parts_[p + 1].add(zero);
        PITH_OK(write_part(p + 1, 0, zero));
      }
    }
    checksums_.push_back(XXH3_64bits_digest(part.hash.get()));
  }
  return {};
}

}  // namespace pith
