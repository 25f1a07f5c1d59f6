#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "pith/quantize/quantize.h"
#include "src/base/parallel.h"
#include "src/kernels/convert.h"
#include "src/kernels/quantize.h"
#include "src/quantize/extremes.h"
#include "src/quantize/group_scale.h"

namespace pith {
namespace {

constexpr std::int64_t kDecodeGroups = 512;
// Blocks with their scales inside are read for these first: so few that the batch before
// has fetched them.
constexpr std::int64_t kBatchBlocks = 128;
// Values of this many bytes would only push other data out of the caches.
constexpr std::int64_t kDecodeStreamBytes = std::int64_t{32} << 20;

// A part that is decoded: its groups follow each other.
struct Part {
  const Scheme& scheme;
  const ConstCodeSpans& in;
  float* out;
  std::int64_t size;  // of a group
  std::int64_t stride;
  bool one_scale;
  bool stream;
};

// Scales and zero points of some groups as f32.
struct LoadedScales {
  float scales[kDecodeGroups];
  float zero_points[kDecodeGroups];

  void load(const Part& part, std::int64_t group, std::int64_t groups) {
    const DType type = part.scheme.scale_type;
    const std::int64_t bytes = bits_of(type) / 8;
    if (part.scheme.layout == Layout::kBlocks) {
      std::uint16_t gathered[kDecodeGroups];
      for (std::int64_t g = 0; g < groups; ++g) {
        std::memcpy(gathered + g, part.in.codes.data() + (group + g) * part.stride,
                    sizeof(std::uint16_t));
      }
      kernels::to_f32({type, gathered, scales, groups});
      return;
    }
    kernels::to_f32({type, part.in.scales.data() + group * bytes, scales, groups});
    if (part.scheme.symmetric) return;
    kernels::to_f32(
        {DType::kI8, part.in.zero_points.data() + group, zero_points, groups});
  }
};

kernels::DecodeGroups args_of(const Part& part, const LoadedScales& loaded,
                              std::int64_t code) {
  const bool blocks = part.scheme.layout == Layout::kBlocks;
  return {.codes = reinterpret_cast<const std::uint8_t*>(part.in.codes.data()) + code +
                   (blocks ? bits_of(part.scheme.scale_type) / 8 : 0),
          .stride = part.stride,
          .packing = packing_of(part.scheme),
          .scales = loaded.scales,
          .zero_points = part.scheme.symmetric ? nullptr : loaded.zero_points,
          .one_scale = part.one_scale,
          .out = part.out,
          .groups = 1,
          .size = part.size,
          .last = part.size,
          .stream = part.stream};
}

// Groups [begin, end), the last of `last` elements.
void decode_groups(const Part& part, std::int64_t begin, std::int64_t end,
                   std::int64_t last) {
  LoadedScales loaded;
  if (part.one_scale) loaded.load(part, 0, 1);
  const std::int64_t step =
      part.scheme.layout == Layout::kBlocks ? kBatchBlocks : kDecodeGroups;
  for (std::int64_t g = begin; g < end; g += step) {
    const std::int64_t groups = std::min(step, end - g);
    if (!part.one_scale) loaded.load(part, g, groups);
    kernels::DecodeGroups args = args_of(part, loaded, g * part.stride);
    args.out += g * part.size;
    args.groups = groups;
    args.last = g + groups < end ? part.size : last;
    kernels::decode_groups(args);
  }
  if (part.stream) kernels::finish_streams();
}

// A group that is longer than a piece, by all threads.
void decode_long_group(const Part& part, std::int64_t group, std::int64_t n) {
  LoadedScales loaded;
  loaded.load(part, part.one_scale ? 0 : group, 1);
  parallel_pieces(
      n, kPieceElements, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        kernels::DecodeGroups args =
            args_of(part, loaded, group * part.stride + group_stride(part.scheme, begin));
        args.out += group * part.size + begin;
        args.size = args.last = end - begin;
        kernels::decode_groups(args);
        if (part.stream) kernels::finish_streams();
      });
}

Status check(std::string_view what, std::size_t found, std::int64_t expected) {
  if (std::cmp_equal(found, expected)) return {};
  return Status::invalid_argument(
      fmt::format("dequantize: {} has {} bytes, expected {}", what, found, expected));
}

}  // namespace

int QuantizedTensor::code(std::int64_t index) const {
  const bool blocks = scheme.layout == Layout::kBlocks;
  const std::int64_t row =
      scheme.bits == 4 && !blocks && scheme.group != Group::kFlatBlock
          ? std::max<std::int64_t>(shape.cols(), 1)
      : blocks ? scheme.block_size
               : shape.elements();
  const std::int64_t stride = group_stride(scheme, row);
  const std::int64_t i = index % row;
  const std::byte* bytes = codes.data() + index / row * stride;
  if (blocks) bytes += bits_of(scheme.scale_type) / 8;
  if (scheme.bits == 8) return static_cast<std::int8_t>(bytes[i]);
  if (blocks) return (std::to_integer<int>(bytes[i % 16] >> (i / 16 * 4)) & 15) - 8;
  return ((std::to_integer<int>(bytes[i / 2] >> (i % 2 * 4)) & 15) ^ 8) - 8;
}

Status dequantize_part(const Scheme& scheme, const Shape& shape, std::int64_t first,
                       const ConstCodeSpans& in, std::span<float> out) {
  PITH_OK(scheme.validate(shape));
  const auto n = static_cast<std::int64_t>(out.size());
  const std::int64_t all = shape.elements();
  const std::int64_t alignment = scheme.part_alignment(shape);
  if (first < 0 || first > all || n > all - first || first % alignment != 0 ||
      ((first + n) % alignment != 0 && first + n != all)) {
    return Status::invalid_argument(fmt::format(
        "dequantize: a part has elements {} to {}, expected multiples of {} or "
        "the end of shape {}",
        first, first + n, alignment, shape.to_string()));
  }
  const bool one = scheme.group == Group::kTensor;
  const std::int64_t groups_of_part =
      one ? 1 : scheme.group_offset(shape, first + n) - scheme.group_offset(shape, first);
  const bool blocks = scheme.layout == Layout::kBlocks;
  PITH_OK(check("codes", in.codes.size(),
                scheme.code_offset(shape, first + n) - scheme.code_offset(shape, first)));
  PITH_OK(check("scales", in.scales.size(),
                blocks ? 0 : groups_of_part * (bits_of(scheme.scale_type) / 8)));
  PITH_OK(
      check("zero_points", in.zero_points.size(), scheme.symmetric ? 0 : groups_of_part));
  if (n == 0) return {};

  // With one scale, rows of packed codes begin a byte each; else all is one run.
  const bool rows = one && scheme.bits == 4 && shape.cols() % 2 != 0;
  const std::int64_t size = rows  ? shape.cols()
                            : one ? kPieceElements
                                  : scheme.group_size(shape);
  const Part part = {
      .scheme = scheme,
      .in = in,
      .out = out.data(),
      .size = size,
      .stride = group_stride(scheme, size),
      .one_scale = one,
      .stream = std::cmp_greater_equal(out.size_bytes(), kDecodeStreamBytes)};
  const std::int64_t groups = piece_count(n, size);
  const std::int64_t last = n - (groups - 1) * size;
  const std::int64_t per_piece = size > kPieceElements ? 1 : kLongPiece / size;
  parallel_pieces(groups, per_piece,
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    const std::int64_t tail = end == groups ? last : size;
                    if (size > kPieceElements) {
                      decode_long_group(part, begin, tail);
                    } else {
                      decode_groups(part, begin, end, tail);
                    }
                  });
  return {};
}

Status dequantize(const QuantizedTensor& tensor, std::span<float> out) {
  if (std::cmp_not_equal(out.size(), tensor.elements())) {
    return Status::invalid_argument(
        fmt::format("dequantize: out has {} values, expected {} of shape {}", out.size(),
                    tensor.elements(), tensor.shape.to_string()));
  }
  return dequantize_part(
      tensor.scheme, tensor.shape, 0,
      {tensor.codes.bytes(), tensor.scales.bytes(), tensor.zero_points.bytes()}, out);
}

}  // namespace pith
