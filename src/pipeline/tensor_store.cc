// How TensorRun turns the values of a piece into what is written.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "src/base/bits.h"
#include "src/base/text.h"
#include "src/kernels/convert.h"
#include "src/pipeline/gather.h"
#include "src/pipeline/tensor_work.h"
#include "src/quantize/measure.h"

namespace pith {
namespace {

// Shorter writes cost more per byte, and so do those that end elsewhere in the file, as the
// system's memory for it has pieces of as many pages as fit between multiples of them.
constexpr std::int64_t kWriteBytes = 128 * 1024;
constexpr std::int64_t kWriteUnit = 64 * 1024;

// Bytes of a row in words of 32 bits.
std::int64_t word_row_bytes(std::int64_t cols, int bits) {
  return (cols * bits + 31) / 32 * 4;
}

std::span<std::byte> part_of(std::span<std::byte> all, std::int64_t begin,
                             std::int64_t end) {
  return all.subspan(static_cast<std::size_t>(begin),
                     static_cast<std::size_t>(end - begin));
}

}  // namespace

void TensorRun::make_room(PieceBuffers& buffers, const Piece& piece,
                          PieceWork& work) const {
  if (const double known = known_error_; known >= 0) {
    work.known.max_error = known;
    work.known.max_index = 0;
  }
  if (tensor_.sparse()) {
    const std::int64_t cols = tensor_.header.shape.cols();
    work.mask = use_buffer(buffers.mask, piece.count / cols * ((cols + 7) / 8));
    // Stores come before it is known what is kept.
    work.gathered = use_buffer(buffers.out, (piece.count + 8) * kept_bytes());
  }
  const std::int64_t place = parts_[0].place;
  if (!tensor_.record.scheme) {
    if (tensor_.record.dtype == DType::kF32) return;
    work.out = work.codes =
        use_buffer(buffers.codes, piece.count * 2, place + piece.begin * 2);
    return;
  }
  const Scheme& scheme = *tensor_.record.scheme;
  const Shape& shape = tensor_.header.shape;
  const std::int64_t end = piece.begin + piece.count;
  const std::int64_t groups =
      scheme.group == Group::kTensor
          ? 1
          : scheme.group_offset(shape, end) - scheme.group_offset(shape, piece.begin);
  const std::int64_t scale_bytes =
      scheme.layout == Layout::kBlocks ? 0 : bits_of(scheme.scale_type) / 8;
  const std::int64_t code = scheme.code_offset(shape, piece.begin);
  work.out = work.codes =
      use_buffer(buffers.codes, scheme.code_offset(shape, end) - code, place + code);
  work.scales = use_buffer(buffers.scales, groups * scale_bytes);
  work.zero_points = use_buffer(buffers.zero_points, scheme.symmetric ? 0 : groups);
  if (tensor_.packed) {
    const std::int64_t row_bytes = word_row_bytes(shape.cols(), scheme.bits);
    work.out = work.words =
        use_buffer(buffers.out, piece.count / shape.cols() * row_bytes,
                   place + piece.begin / shape.cols() * row_bytes);
  }
}

Status TensorRun::store_values(CompressWorker& worker, const Piece& piece,
                               const Piece& strip, PieceWork& work) {
  const DType dtype = *tensor_.record.dtype;
  const std::span<const float> values = work.after.empty() ? work.before : work.after;
  std::span<const float> decoded = values;
  if (dtype == DType::kF32) {
    work.out = std::as_bytes(values);
    if (!column_scale_.empty()) {
      const std::span<float> back =
          as_floats(use_buffer(worker.decoded, strip.count * 4));
      std::copy(values.begin(), values.end(), back.begin());
      undo_column_scale(strip, back);
      decoded = back;
    }
  } else {
    const std::int64_t at = (strip.begin - piece.begin) * 2;
    const std::span<std::byte> out = part_of(work.codes, at, at + strip.count * 2);
    const std::uint32_t largest = kernels::from_f32(
        {.in = values.data(), .to = dtype, .out = out.data(), .count = strip.count});
    if (largest >= kernels::overflow_bits(dtype)) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t bits =
            std::bit_cast<std::uint32_t>(values[i]) & kernels::kMagnitudeMask;
        if (bits < kernels::overflow_bits(dtype) || bits >= kernels::kInfinityBits)
          continue;
        return Status::invalid_argument(fmt::format(
            "tensor '{}': element {} is {}, beyond the largest {}; bf16 holds "
            "it, or keep the tensor",
            printable(tensor_.header.name), strip.begin + static_cast<std::int64_t>(i),
            values[i], to_string(dtype)));
      }
    }
    const std::span<float> back = as_floats(use_buffer(worker.decoded, strip.count * 4));
    kernels::to_f32(
        {.from = dtype, .in = out.data(), .out = back.data(), .count = strip.count});
    undo_column_scale(strip, back);
    decoded = back;
  }
  add_figures(strip, work.before, decoded, work);
  if (sample_) sample_->add_after(strip.begin, decoded);
  if (tensor_.sparse()) {
    const auto first = static_cast<std::size_t>((strip.begin - piece.begin) * 2);
    gather(piece, strip, dtype == DType::kF32 ? work.out : work.out.subspan(first), work);
  }
  return {};
}

// As whoever reads the tensor does.
void TensorRun::undo_column_scale(const Piece& strip, std::span<float> values) const {
  if (column_scale_.empty()) return;
  const std::int64_t cols = tensor_.header.shape.cols();
  for (std::int64_t row = 0; row < strip.count / cols; ++row) {
    float* const of_row = values.data() + row * cols;
    for (std::int64_t c = 0; c < cols; ++c) {
      of_row[c] *= column_scale_[static_cast<std::size_t>(c)];
    }
  }
}

void TensorRun::add_figures(const Piece& strip, std::span<const float> before,
                            std::span<const float> after, PieceWork& work) const {
  ErrorFigures& figures = work.figures.emplace_back();
  for (std::int64_t i = 0; i < strip.count; i += kErrorChunk) {
    add_chunk(figures, before.data() + i, after.data() + i,
              std::min(kErrorChunk, strip.count - i), strip.begin + i);
  }
}

Status TensorRun::store_codes(CompressWorker& worker, const Piece& piece,
                              const Piece& strip, PieceWork& work) {
  const Scheme& scheme = *tensor_.record.scheme;
  const Shape& shape = tensor_.header.shape;
  const std::int64_t begin = strip.begin;
  const std::int64_t end = begin + strip.count;
  const auto code = [&](std::int64_t element) {
    return scheme.code_offset(shape, element) - scheme.code_offset(shape, piece.begin);
  };
  CodeSpans out = {part_of(work.codes, code(begin), code(end)), work.scales,
                   work.zero_points};
  if (scheme.group != Group::kTensor && scheme.layout != Layout::kBlocks) {
    const std::int64_t before = scheme.group_offset(shape, piece.begin);
    const std::int64_t first = scheme.group_offset(shape, begin) - before;
    const std::int64_t last = scheme.group_offset(shape, end) - before;
    const std::int64_t bytes = bits_of(scheme.scale_type) / 8;
    out.scales = part_of(work.scales, first * bytes, last * bytes);
    if (!scheme.symmetric) out.zero_points = part_of(work.zero_points, first, last);
  }
  const bool changed = !work.after.empty();
  TensorView view = work.source;
  if (changed) {
    PITH_TRY(view, part_view(DType::kF32, strip.count, std::as_bytes(work.after)));
  }
  // Against the source, not against what was pruned already; once its columns are as they
  // were, if they were scaled.
  ErrorFigures figures;
  if (column_scale_.empty()) {
    figures = figures_after(work.known);
    const auto originals = changed ? work.before : std::span<const float>();
    PITH_OK(quantizer_->encode(view, begin, out, &figures, originals));
    work.known = figures;
    work.figures.push_back(figures);
    if (sample_ && changed) sample_->add_after(begin, work.after);
  } else {
    const bool may_saturate =
        scheme.rule == ScaleRule::kPercentile || scheme.rule == ScaleRule::kGiven;
    PITH_OK(quantizer_->encode(view, begin, out, may_saturate ? &figures : nullptr));
    const std::span<float> decoded =
        as_floats(use_buffer(worker.decoded, strip.count * 4));
    PITH_OK(dequantize_part(scheme, shape, begin,
                            {out.codes, out.scales, out.zero_points}, decoded));
    undo_column_scale(strip, decoded);
    add_figures(strip, work.before, decoded, work);
    work.figures.back().saturated = figures.saturated;
    if (sample_) sample_->add_after(begin, decoded);
  }
  if (sample_) sample_->add_codes(begin, strip.count, out.codes);
  if (tensor_.packed) {
    const std::int64_t row = (begin - piece.begin) / shape.cols();
    const std::int64_t at = row * word_row_bytes(shape.cols(), scheme.bits);
    pack_words(out.codes, work.words.subspan(static_cast<std::size_t>(at)));
  }
  if (tensor_.sparse()) gather(piece, strip, out.codes, work);
  return {};
}

// Offset binary in words of 32 bits, each row begins one.
void TensorRun::pack_words(std::span<const std::byte> codes,
                           std::span<std::byte> words) const {
  const int bits = tensor_.record.scheme->bits;
  const std::int64_t cols = tensor_.header.shape.cols();
  const std::int64_t from = (cols * bits + 7) / 8;
  const std::int64_t to = word_row_bytes(cols, bits);
  const std::byte flip{bits == 4 ? std::uint8_t{0x88} : std::uint8_t{0x80}};
  const std::int64_t rows = from == 0 ? 0 : std::ssize(codes) / from;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* in = codes.data() + row * from;
    std::byte* out = words.data() + row * to;
    for (std::int64_t i = 0; i < from; ++i) out[i] = in[i] ^ flip;
    if (bits == 4 && cols % 2 != 0) out[from - 1] &= std::byte{0x0f};
    std::fill(out + from, out + to, std::byte{0});
  }
}

// Of a kept value or code; those of 4 bits are one per byte, until the turn tells which
// half of a byte they begin in.
std::int64_t TensorRun::kept_bytes() const {
  return tensor_.record.scheme ? 1 : bits_of(*tensor_.record.dtype) / 8;
}

std::span<std::byte> TensorRun::mask_of(const Piece& piece, const Piece& strip,
                                        const PieceWork& work) const {
  const std::int64_t cols = tensor_.header.shape.cols();
  const std::int64_t row_bytes = (cols + 7) / 8;
  const std::int64_t first = (strip.begin - piece.begin) / cols;
  return part_of(work.mask, first * row_bytes, (first + strip.count / cols) * row_bytes);
}

// Values or codes of a strip that the mask keeps.
void TensorRun::gather(const Piece& piece, const Piece& strip,
                       std::span<const std::byte> from, PieceWork& work) const {
  const std::optional<Scheme>& scheme = tensor_.record.scheme;
  const std::int64_t cols = tensor_.header.shape.cols();
  const std::span<std::byte> mask = mask_of(piece, strip, work);
  const KeptRows kept{reinterpret_cast<const std::uint8_t*>(mask.data()),
                      strip.count / cols, cols};
  std::byte* const to = work.gathered.data() + work.kept * kept_bytes();
  if (scheme && scheme->bits == 4) {
    gather_halves(kept, from, scheme->group == Group::kFlatBlock, to);
  } else if (kept_bytes() == 1) {
    gather_rows<std::uint8_t>(kept, from, to);
  } else if (kept_bytes() == 2) {
    gather_rows<std::uint16_t>(kept, from, to);
  } else {
    gather_rows<std::uint32_t>(kept, from, to);
  }
  const auto row_bytes = static_cast<std::size_t>((cols + 7) / 8);
  for (std::size_t at = 0; at < mask.size(); at += row_bytes) {
    work.row_offsets.push_back(work.kept);
    work.kept += count_bits(mask.subspan(at, row_bytes));
  }
}

Status TensorRun::finish_piece(const Piece& piece, PieceWork& work) {
  std::vector<std::byte> halves;
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
  if (tensor_.sparse()) {
    for (std::int64_t& offset : work.row_offsets) offset += kept_;
    work.out = work.gathered.first(static_cast<std::size_t>(work.kept * kept_bytes()));
    kept_ += work.kept;
  }
  if (tensor_.sparse() && tensor_.record.scheme && tensor_.record.scheme->bits == 4) {
    // Two codes per byte through the whole tensor.
    const bool last = kept_ == tensor_.record.kept;
    std::int64_t at = kept_ - work.kept;
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
  for (const ErrorFigures& figures : work.figures) figures_.merge(figures, 0);
  known_error_ = figures_.max_index < 0 ? -1 : figures_.max_error;
  for (std::size_t i = 0; i < work.nonzero.size(); ++i) nonzero_[i] += work.nonzero[i];
  // One after the other, too: two writes to one file would wait for each other in the
  // system, and go on to meet in every piece.
  const bool last = piece.begin + piece.count == tensor_.header.shape.elements();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    PITH_OK(append(p, bytes_of(parts_[p].role), last));
  }
  return {};
}

Status TensorRun::append(std::size_t p, std::span<const std::byte> bytes, bool last) {
  Part& part = parts_[p];
  const std::int64_t begin = part.bytes - std::ssize(part.waiting);
  part.add(bytes);
  const std::int64_t left = last ? 0 : (part.place + part.bytes) % kWriteUnit;
  const std::int64_t now = std::ssize(bytes) - left;
  if (now < 0 || (!last && part.bytes - begin - left < kWriteBytes)) {
    part.waiting.insert(part.waiting.end(), bytes.begin(), bytes.end());
    return {};
  }
  if (part.bytes == begin) return {};
  const auto at = static_cast<std::size_t>(now);
  PITH_OK(writer_.write(part.written, begin, part.waiting, bytes.first(at)));
  part.waiting.assign(bytes.begin() + now, bytes.end());
  if (last) part.waiting.shrink_to_fit();
  return {};
}

}  // namespace pith
