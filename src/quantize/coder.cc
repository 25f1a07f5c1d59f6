#include "src/quantize/coder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/kernels/float_bits.h"

namespace pith {
namespace {

using Scales = CoderOptions::Scales;

constexpr std::int64_t kChunk = kErrorChunk;
constexpr std::int64_t kLongRow = 2048;  // longer ones are read and encoded one by one
constexpr std::int64_t kBatchGroups = 256;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// True if quantize_groups() knows the scheme.
bool is_plain(const Scheme& scheme) {
  if (!scheme.symmetric) return false;
  return packing_of(scheme) == kernels::Packing::kInt4Halves
             ? scheme.rule == ScaleRule::kSignedMax
             : scheme.rule == ScaleRule::kAbsmax || scheme.rule == ScaleRule::kHalfRange;
}

// NaN becomes 0, infinity becomes `infinity` with its sign.
void make_finite(const float* values, std::int64_t n, float infinity, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = values[i];
    out[i] = std::isfinite(v) ? v : std::isnan(v) ? 0.0F : std::copysign(infinity, v);
  }
}

}  // namespace

// A batch under way, and the memory for it.
struct Coder::Batch {
  ErrorFigures* figures;
  std::int64_t offset = 0;          // of the batch among the elements of the figures
  const float* original = nullptr;  // the values
  const float* values = nullptr;    // the same, finite
  const float* against = nullptr;   // what errors are measured against
  const float* scales = nullptr;
  const float* divisors = nullptr;
  const float* zero_points = nullptr;  // null for a symmetric scheme
  bool one_scale = false;
  bool limit = false;
  bool inverse = false;  // 1 / scale is infinite somewhere

  alignas(64) float converted[kChunk];
  alignas(64) float finite[kChunk];
  alignas(64) std::int8_t bytes[kChunk];
  float all_extremes[kBatchGroups];
  float all_scales[kBatchGroups];
  float all_divisors[kBatchGroups];
  float all_zero_points[kBatchGroups];
  std::uint32_t positive[kBatchGroups];  // bits of the largest of each group
  std::uint32_t negative[kBatchGroups];

  [[nodiscard]] Measured measured() const { return {figures, offset, against, scales}; }
  void use(const GroupScale& one, bool symmetric) {
    one_scale = true;
    scales = &one.scale;
    divisors = &one.divisor;
    zero_points = symmetric ? nullptr : &one.zero_point;
    limit = one.limit;
    inverse = one.inverse;
  }
  void use_all(bool symmetric) {
    one_scale = false;
    scales = all_scales;
    divisors = all_divisors;
    zero_points = symmetric ? nullptr : all_zero_points;
    limit = true;
    inverse = false;
  }
};

Coder::Coder(const Scheme& scheme, const Values& values, const CodeSpans& out,
             const CoderOptions& options)
    : scheme_(scheme),
      values_(values),
      out_(out),
      options_(options),
      plain_(options.scales == Scales::kFind && is_plain(scheme)),
      halves_(packing_of(scheme) != kernels::Packing::kInt8),
      reach_(reach_of(scheme)),
      code_args_{.in = {},
                 .divisors = nullptr,
                 .zero_points = nullptr,
                 .one_scale = false,
                 .inverse = scheme.coding == Coding::kInverse,
                 .limit = !is_bounded(scheme),
                 .low = scheme.min_code(),
                 .high = scheme.max_code(),
                 .rounding = scheme.rounding,
                 .packing = packing_of(scheme),
                 .codes = reinterpret_cast<std::uint8_t*>(out.codes.data()),
                 .stride = 0,
                 .stream = options.stream},
      scale_args_(scale_args(scheme)) {
  if (scheme.layout == Layout::kBlocks) {
    scale_args_.stored = code_args_.codes;
    code_args_.codes += bits_of(scheme.scale_type) / 8;
  } else {
    scale_args_.stored = reinterpret_cast<std::uint8_t*>(out.scales.data());
  }
}

kernels::EncodeGroups Coder::code_args(std::int64_t code, std::int64_t size) const {
  kernels::EncodeGroups args = code_args_;
  args.codes += code;
  args.stride = group_stride(scheme_, size);
  return args;
}

kernels::FindScales Coder::scale_args_at(std::int64_t group, std::int64_t code,
                                         std::int64_t size) const {
  kernels::FindScales args = scale_args_;
  if (scheme_.layout == Layout::kBlocks) {
    args.stored += code;
    args.stored_stride = group_stride(scheme_, size);
  } else {
    args.stored += group * args.stored_stride;
  }
  return args;
}

// Encodes the first groups of a run and returns how many: none if one of them is not
// ordinary. `largest`: bits of the largest magnitude, if it is known of one long group.
std::int64_t Coder::encode_plain(const Run& run, const float* values, Plain& left,
                                 std::uint32_t largest) const {
  if (!plain_ || run.size % 32 != 0) return 0;
  return kernels::quantize_groups(plain_args(run, values, left, largest));
}

kernels::QuantizeGroups Coder::plain_args(const Run& run, const float* values,
                                          Plain& left, std::uint32_t largest) const {
  kernels::QuantizeGroups args = {.scales = scale_args_at(run.group, run.code, run.size),
                                  .codes = code_args(run.code, run.size),
                                  .largest = largest,
                                  .bytes = left.bytes,
                                  .saturated = &left.saturated};
  args.scales.scales = left.scales;
  args.scales.divisors = left.divisors;
  args.codes.in = {values, run.groups, run.size, run.last};
  return args;
}

// Encodes a run of chunks with the scale they share. False if that is left to others: its
// values are not what they were, or the scheme is another.
bool Coder::encode_with_one_scale(const Run& run, const float* values) const {
  if (options_.scales != Scales::kOne || !scheme_.symmetric || options_.one.inverse ||
      packing_of(scheme_) == kernels::Packing::kInt4Halves ||
      group_stride(scheme_, 2 * run.size) != 2 * group_stride(scheme_, run.size)) {
    return false;
  }
  kernels::EncodeGroups args = code_args(run.code, run.size);
  const std::int64_t n = run.elements();
  args.in = {values, 1, n, n};
  args.divisors = &options_.one.divisor;
  args.one_scale = true;
  args.limit = options_.one.limit;
  const std::uint32_t largest = kernels::encode_one_scale(args);
  return largest < kernels::kInfinityBits && largest <= options_.magnitude;
}

Failure Coder::encode(const Run& run, ErrorFigures& figures) const {
  const bool is_long = run.size > (plain_ ? kLongRow : kChunk);
  const std::int64_t step =
      is_long ? 1
              : std::clamp<std::int64_t>(kChunk / std::max<std::int64_t>(run.size, 1), 1,
                                         kBatchGroups);
  Batch batch;
  batch.figures = &figures;
  const std::int64_t stride = group_stride(scheme_, run.size);
  const bool whole = values_.is_f32() && !options_.figures && run.size <= kPieceElements;
  std::int64_t g = 0;
  if (whole) {
    const float* const values = values_.read(run.first, 0, nullptr);
    if (encode_with_one_scale(run, values)) return {};
    Plain nothing;
    g = encode_plain(run, values, nothing);
  }
  for (; g < run.groups; g += step) {
    if (is_long && !whole) {
      g += encode_long_rows(run.part(g, run.groups, stride), figures, g * run.size);
      if (g == run.groups) break;
    }
    const Run part = run.part(g, step, stride);
    batch.offset = g * run.size;
    const Failure failure = is_long ? encode_long_group(part, figures, batch.offset)
                                    : encode_batch(part, batch);
    if (failure) return failure;
  }
  return {};
}

Failure Coder::encode_batch(const Run& run, Batch& batch) const {
  const std::int64_t n = run.elements();
  if (n == 0) return {};
  Plain left = {.scales = batch.all_scales,
                .divisors = batch.all_divisors,
                .bytes = halves_ && options_.figures ? batch.bytes : nullptr};
  if (encode_measured(run, left, *batch.figures)) return {};
  batch.original = batch.values = values_.read(run.first, n, batch.converted);
  batch.against = originals(run.first, batch.original);
  if (encode_plain(run, batch.values, left) == run.groups) {
    if (!options_.figures) return {};
    batch.use_all(true);
    kernels::EncodeGroups args = code_args(run.code, run.size);
    args.in = {batch.values, run.groups, run.size, run.last};
    args.divisors = batch.divisors;
    Measured of = batch.measured();
    of.bytes = left.bytes;
    of.counted = args.packing == kernels::Packing::kInt4Halves;
    of.reach = reach_;
    if (of.counted) batch.figures->saturated += left.saturated;
    measure(args, of);
    return {};
  }
  if (encode_with_one_scale(run, batch.values)) {
    if (!options_.figures) return {};
    batch.use(options_.one, true);
    measure(value_args(run, batch), batch.measured());
    return {};
  }
  std::uint32_t largest = 0;
  if (options_.scales == Scales::kFind) {
    kernels::absmax_groups({batch.values, run.groups, run.size, run.last},
                           batch.positive);
    largest = *std::max_element(batch.positive, batch.positive + run.groups);
  } else if (!options_.checked) {
    kernels::absmax_groups({batch.values, 1, n, n}, &largest);
  }
  const bool finite = largest < kernels::kInfinityBits;
  if (!finite) {
    if (options_.non_finite == NonFinite::kError) {
      return {Failure::kNonFinite, values_.first_non_finite(run.first, n), 0};
    }
    make_finite(batch.original, n, 0, batch.finite);
    batch.values = batch.finite;
    kernels::absmax_groups({batch.values, run.groups, run.size, run.last},
                           batch.positive);
  }
  Failure failure;
  switch (options_.scales) {
    case Scales::kFind:
      failure = find_scales(run, batch);
      break;
    case Scales::kStored:
      failure = read_scales(run, batch);
      break;
    case Scales::kOne:
      batch.use(options_.one, scheme_.symmetric);
      if (finite && largest > options_.magnitude) {
        failure = {Failure::kChanged, run.first, 0};
      }
      break;
  }
  if (failure) return failure;
  if (!finite) {
    make_finite(batch.original, n, std::numeric_limits<float>::max(), batch.finite);
    batch.limit = true;
  }
  encode_values(run, batch);
  return {};
}

// Extremes of a symmetric scheme's groups, whose magnitudes are in batch.positive.
void Coder::find_symmetric_extremes(const Run& run, Batch& batch) const {
  float* extremes = batch.all_extremes;
  const auto size_of = [&](std::int64_t g) {
    return g + 1 < run.groups ? run.size : run.last;
  };
  switch (scheme_.rule) {
    case ScaleRule::kAbsmax:
    case ScaleRule::kHalfRange:
      std::memcpy(extremes, batch.positive,
                  static_cast<std::size_t>(run.groups) * sizeof(float));
      break;
    case ScaleRule::kGiven:
      std::fill_n(extremes, run.groups, scheme_.given_scale);
      break;
    case ScaleRule::kPercentile:
      for (std::int64_t g = 0; g < run.groups; ++g) {
        extremes[g] = percentile_magnitude(batch.values + g * run.size, size_of(g),
                                           scheme_.percentile,
                                           std::bit_cast<float>(batch.positive[g]));
      }
      break;
    case ScaleRule::kSignedMax:
      kernels::extremes_groups({batch.values, run.groups, run.size, run.last},
                               batch.positive, batch.negative);
      for (std::int64_t g = 0; g < run.groups; ++g) {
        extremes[g] = signed_extreme(batch.values + g * run.size, size_of(g),
                                     {batch.positive[g], batch.negative[g]});
      }
      break;
  }
}

Failure Coder::find_scales(const Run& run, Batch& batch) const {
  batch.use_all(scheme_.symmetric);
  if (!scheme_.symmetric) return find_asymmetric_scales(run, batch);
  find_symmetric_extremes(run, batch);
  kernels::FindScales args = scale_args_at(run.group, run.code, run.size);
  args.extreme = batch.all_extremes;
  args.groups = run.groups;
  args.scales = batch.all_scales;
  args.divisors = batch.all_divisors;
  const kernels::ScaleFlags flags = kernels::find_scales(args);
  batch.limit = !is_bounded(scheme_) || flags.coarse;
  batch.inverse = flags.inverse;
  if (!flags.overflow) return {};
  const std::int64_t g =
      std::find(args.scales, args.scales + args.groups, kInfinity) - args.scales;
  return {Failure::kOverflow, run.first + g * run.size, args.extreme[g]};
}

// One group after the other: the rule has more steps than vectors would save.
Failure Coder::find_asymmetric_scales(const Run& run, Batch& batch) const {
  kernels::extremes_groups({batch.values, run.groups, run.size, run.last}, batch.positive,
                           batch.negative);
  for (std::int64_t g = 0; g < run.groups; ++g) {
    const float smallest = -std::bit_cast<float>(batch.negative[g]);
    const float largest = std::bit_cast<float>(batch.positive[g]);
    const GroupScale scale = asymmetric_scale(scheme_, smallest, largest);
    if (scale.scale == kInfinity) {
      return {Failure::kOverflow, run.first + g * run.size, std::max(largest, -smallest)};
    }
    batch.all_scales[g] = scale.scale;
    batch.all_divisors[g] = scale.divisor;
    batch.all_zero_points[g] = scale.zero_point;
    write_scale(run.group + g, scale);
  }
  return {};
}

Failure Coder::read_scales(const Run& run, Batch& batch) const {
  batch.use_all(scheme_.symmetric);
  for (std::int64_t g = 0; g < run.groups; ++g) {
    const GroupScale scale = read_scale(run.group + g);
    if (!(scale.scale >= 0 && scale.scale < kInfinity)) {
      return {Failure::kBadScale, run.first + g * run.size, scale.scale};
    }
    batch.all_scales[g] = scale.scale;
    batch.all_divisors[g] = scale.divisor;
    batch.all_zero_points[g] = scale.zero_point;
  }
  return {};
}

kernels::EncodeGroups Coder::value_args(const Run& run, const Batch& batch) const {
  kernels::EncodeGroups args = code_args(run.code, run.size);
  args.in = {batch.values, run.groups, run.size, run.last};
  args.divisors = batch.divisors;
  args.zero_points = batch.zero_points;
  args.one_scale = batch.one_scale;
  args.limit = batch.limit;
  return args;
}

void Coder::encode_values(const Run& run, Batch& batch) const {
  const kernels::EncodeGroups args = value_args(run, batch);
  kernels::encode_groups(args);
  if (batch.inverse) {  // as in GGUF, where infinite quotients leave bytes of 0
    for (std::int64_t g = 0; g < run.groups; ++g) {
      const std::int64_t s = batch.one_scale ? 0 : g;
      const bool zeros = !batch.one_scale && batch.all_extremes[g] == 0;
      if (batch.divisors[s] == 0 && !zeros) {
        std::memset(
            args.codes + g * args.stride, 0,
            static_cast<std::size_t>(scheme_.bits == 8 ? run.size : run.size / 2));
      }
    }
  }
  if (options_.figures) measure(args, batch.measured());
}

GroupScale Coder::read_scale(std::int64_t group) const {
  const std::int64_t bytes = bits_of(scheme_.scale_type) / 8;
  const float scale = load_scale(scheme_.scale_type, out_.scales.data() + group * bytes);
  const int zero_point =
      scheme_.symmetric
          ? 0
          : static_cast<std::int8_t>(out_.zero_points[static_cast<std::size_t>(group)]);
  return stored_scale(scheme_, scale, zero_point);
}

void Coder::write_scale(std::int64_t group, const GroupScale& scale) const {
  const auto bytes = static_cast<std::size_t>(bits_of(scheme_.scale_type) / 8);
  std::memcpy(out_.scales.data() + static_cast<std::size_t>(group) * bytes, scale.stored,
              bytes);
  if (!scheme_.symmetric) {
    out_.zero_points[static_cast<std::size_t>(group)] =
        static_cast<std::byte>(scale.stored_zero_point);
  }
}

}  // namespace pith
