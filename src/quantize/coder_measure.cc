// Error figures of values that have been encoded.
#include <algorithm>

#include "src/quantize/coder.h"
#include "src/quantize/measure.h"

namespace pith {

// Steps that a value of an ordinary group can be away from its code: a half, what the
// stored scale is away from the one that codes were made with, and a little for
// roundings. 0 if values may lie outside.
double Coder::reach_of(const Scheme& scheme) {
  if (!is_bounded(scheme)) return 0;
  const double last_place = scheme.scale_type == DType::kF32   ? 0x1p-24
                            : scheme.scale_type == DType::kF16 ? 0x1p-11
                                                               : 0x1p-8;
  return (0.5 + scheme.max_code() * last_place) * 1.001;
}

// Encodes a run and adds its figures, in one go. False if that is left to others, as where
// the largest error may be among its own.
bool Coder::encode_measured(const Run& run, Plain& left, ErrorFigures& figures) const {
  if (!plain_ || !options_.figures || options_.originals != nullptr || reach_ == 0) {
    return false;
  }
  kernels::ErrorSums sums;
  const float scale = kernels::quantize_measured(
      plain_args(run, nullptr, left, 0), values_.type(), values_.stored(run.first), sums);
  const std::int64_t n = run.elements();
  if (scale < 0 || is_largest(figures, reach_ * double{scale}) || !are_figures(sums, n)) {
    return false;
  }
  add_sums(figures, sums, n, -1);
  return true;
}

void Coder::measure(const kernels::EncodeGroups& args, const Measured& of) const {
  kernels::DecodeGroups codes = {.codes = args.codes,
                                 .stride = args.stride,
                                 .packing = args.packing,
                                 .scales = of.scales,
                                 .zero_points = args.zero_points,
                                 .one_scale = args.one_scale,
                                 .out = nullptr,
                                 .groups = args.in.groups,
                                 .size = args.in.size,
                                 .last = args.in.last};
  if (of.bytes != nullptr) {
    codes.codes = reinterpret_cast<const std::uint8_t*>(of.bytes);
    codes.stride = args.in.size;
    codes.packing = kernels::Packing::kInt8;
  }
  if (args.limit && !of.counted) {
    of.figures->saturated += kernels::count_saturated(args);
  }
  const std::int64_t n = (args.in.groups - 1) * args.in.size + args.in.last;
  alignas(64) float decoded[kErrorChunk];
  codes.out = decoded;
  if (const float scale = kernels::code_error_scale(codes); scale > 0) {
    const bool known = of.reach > 0 && of.originals == args.in.values &&
                       !is_largest(*of.figures, of.reach * double{scale});
    const kernels::ErrorSums sums = kernels::code_error_sums(codes, of.originals, !known);
    if (are_figures(sums, n)) {
      std::int64_t at = -1;
      if (is_largest(*of.figures, sums.max_error)) {
        kernels::decode_groups(codes);
        at = of.offset + kernels::first_error(of.originals, decoded, n, sums.max_error);
      }
      add_sums(*of.figures, sums, n, at);
      return;
    }
  }
  kernels::decode_groups(codes);
  add_chunk(*of.figures, of.originals, decoded, n, of.offset);
}

void Coder::measure_long_group(const Run& group, const float* values, const Plain& left,
                               ErrorFigures& figures, std::int64_t offset) const {
  ErrorFigures total = figures_after(figures);
  for (std::int64_t i = 0; i < group.last; i += kErrorChunk) {
    const std::int64_t n = std::min(kErrorChunk, group.last - i);
    kernels::EncodeGroups args =
        code_args(group.code + group_stride(scheme_, i), group.size);
    args.in = {values + i, 1, n, n};
    args.divisors = left.divisors;
    args.one_scale = true;
    measure(args, {.figures = &total,
                   .offset = i,
                   .originals = originals(group.first + i, values + i),
                   .scales = left.scales,
                   .bytes = left.bytes == nullptr ? nullptr : left.bytes + i,
                   .reach = reach_});
  }
  figures.merge(total, offset);
}

}  // namespace pith
