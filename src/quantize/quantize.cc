#include "pith/quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/select.h"
#include "src/quantize/coder.h"
#include "src/quantize/extremes.h"
#include "src/quantize/group_scale.h"
#include "src/quantize/measure.h"

namespace pith {
namespace {

// Codes of this many bytes would only push other data out of the caches.
constexpr std::int64_t kStreamBytes = std::int64_t{32} << 20;

std::string tensor_prefix(std::string_view name) {
  return name.empty() ? "quantize: " : fmt::format("tensor '{}': ", name);
}

Status check_type(DType type, std::string_view name) {
  if (type == DType::kF32 || type == DType::kF16 || type == DType::kBF16) return {};
  return Status::unsupported(
      fmt::format("{}element type is {}, expected f32, f16 or bf16", tensor_prefix(name),
                  to_string(type)));
}

Status check_span(std::string_view what, std::size_t found, std::int64_t expected,
                  std::string_view name) {
  if (std::cmp_equal(found, expected)) return {};
  return Status::invalid_argument(fmt::format(
      "{}{} has {} bytes, expected {}", tensor_prefix(name), what, found, expected));
}

float value_at(const Values& values, std::int64_t index) {
  float scratch = 0;
  return *values.read(index, 1, &scratch);
}

Status non_finite_status(const Values& values, std::int64_t element, std::int64_t first,
                         std::string_view name) {
  return Status::not_finite(fmt::format("{}element {} is {}, expected a finite value",
                                        tensor_prefix(name), first + element,
                                        value_at(values, element)));
}

Status overflow_status(const Scheme& scheme, float extreme, std::int64_t element,
                       std::string_view name) {
  return Status::invalid_argument(fmt::format(
      "{}the group of element {} reaches {}: its scale is beyond the largest "
      "{}; use scale_type {}",
      tensor_prefix(name), element, extreme, to_string(scheme.scale_type),
      scheme.layout == Layout::kBlocks ? "f32 with another layout" : "bf16 or f32"));
}

Status to_status(const Failure& failure, const Scheme& scheme, const Values& values,
                 std::int64_t first, std::string_view name) {
  switch (failure.kind) {
    case Failure::kNone:
      break;
    case Failure::kNonFinite:
      return non_finite_status(values, failure.element, first, name);
    case Failure::kOverflow:
      return overflow_status(scheme, failure.value, first + failure.element, name);
    case Failure::kBadScale:
      return Status::invalid_argument(fmt::format(
          "{}the scale of element {} is {}, expected a finite value, at least 0",
          tensor_prefix(name), first + failure.element, failure.value));
    case Failure::kChanged:
      return Status::invalid_argument(fmt::format(
          "{}a value from element {} on is larger than all that were scanned: the tensor "
          "has changed",
          tensor_prefix(name), first + failure.element));
  }
  return {};
}

}  // namespace

std::int64_t QuantizedTensor::stored_bytes() const {
  return codes.size() + scales.size() + zero_points.size();
}

float QuantizedTensor::scale(std::int64_t group) const {
  const std::int64_t bytes = bits_of(scheme.scale_type) / 8;
  if (scheme.layout == Layout::kBlocks) {
    const std::int64_t stride = group_stride(scheme, scheme.block_size);
    return load_scale(scheme.scale_type, codes.data() + group * stride);
  }
  return load_scale(scheme.scale_type, scales.data() + group * bytes);
}

int QuantizedTensor::zero_point(std::int64_t group) const {
  return scheme.symmetric ? 0 : static_cast<std::int8_t>(zero_points.data()[group]);
}

struct Quantizer::Scan {
  std::int64_t seen = 0;  // elements of this pass
  Extremes extremes;
  std::unique_ptr<kernels::MagnitudeHistogram> histogram;  // for a percentile
  float percentile = 0;
  GroupScale scale;  // in the end
};

Quantizer::Quantizer(const Scheme& scheme, const Shape& shape, std::string_view name,
                     NonFinite non_finite)
    : scheme_(scheme), shape_(shape), name_(name), non_finite_(non_finite) {}

Quantizer::Quantizer(Quantizer&& other) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&& other) noexcept = default;
Quantizer::~Quantizer() = default;

Result<Quantizer> Quantizer::make(const Scheme& scheme, const Shape& shape,
                                  std::string_view name, NonFinite non_finite) {
  if (Status status = scheme.validate(shape); !status.ok()) {
    return name.empty() ? status : status.with_context(fmt::format("tensor '{}'", name));
  }
  Quantizer quantizer(scheme, shape, name, non_finite);
  if (scheme.group != Group::kTensor) return quantizer;
  quantizer.scan_ = std::make_unique<Scan>();
  const bool percentile = scheme.rule == ScaleRule::kPercentile;
  if (shape.elements() == 0 || scheme.rule == ScaleRule::kGiven) {
    PITH_OK(quantizer.finish_scan());
  } else {
    quantizer.scans_left_ = percentile ? 2 : 1;
  }
  return quantizer;
}

Status Quantizer::check_part(const TensorView& part, std::int64_t first) const {
  PITH_OK(check_type(part.dtype(), name_));
  const std::int64_t n = part.shape().elements();
  const std::int64_t all = shape_.elements();
  if (first < 0 || first > all || n > all - first) {
    return Status::invalid_argument(fmt::format(
        "{}a part has {} elements from {} on, expected at most {} of shape {}", prefix(),
        n, first, all, shape_.to_string()));
  }
  return {};
}

std::string Quantizer::prefix() const { return tensor_prefix(name_); }

Status Quantizer::scan(TensorView part, std::int64_t first) {
  PITH_OK(check_part(part, first));
  if (!needs_scan()) {
    return Status::invalid_argument(prefix() + "no scan is needed, expected encode()");
  }
  const Values values(part);
  const std::int64_t n = values.count();
  if (n > shape_.elements() - scan_->seen) {
    return Status::invalid_argument(
        fmt::format("{}parts of a scan have {} elements, expected {}", prefix(),
                    scan_->seen + n, shape_.elements()));
  }
  scan_->seen += n;
  const bool percentile = scheme_.rule == ScaleRule::kPercentile;
  if (!percentile || scans_left_ == 2) {
    const bool signs = needs_signs(scheme_);
    Extremes extremes = find_extremes(values, 0, n, signs, false);
    if (!extremes.finite()) {
      if (non_finite_ == NonFinite::kError) {
        return non_finite_status(values, values.first_non_finite(0, n), first, name_);
      }
      extremes = find_extremes(values, 0, n, signs, true);
    }
    scan_->extremes.merge(extremes);
  }
  if (percentile) {
    if (scan_->histogram == nullptr) {
      scan_->histogram =
          std::make_unique<kernels::MagnitudeHistogram>(kernels::percentile_rank(
              static_cast<float>(scheme_.percentile), shape_.elements()));
    }
    std::vector<float> converted(
        static_cast<std::size_t>(values.is_f32() ? 0 : std::min(n, kPieceElements)));
    const std::int64_t step =
        values.is_f32() ? std::max<std::int64_t>(n, 1) : kPieceElements;
    for (std::int64_t i = 0; i < n; i += step) {
      const std::int64_t some = std::min(step, n - i);
      scan_->histogram->add(values.read(i, some, converted.data()), some);
    }
  }
  return {};
}

Status Quantizer::end_scan() {
  if (!needs_scan()) {
    return Status::invalid_argument(prefix() + "no scan is under way, expected encode()");
  }
  if (scan_->seen != shape_.elements()) {
    return Status::invalid_argument(fmt::format("{}a scan saw {} elements, expected {}",
                                                prefix(), scan_->seen,
                                                shape_.elements()));
  }
  scan_->seen = 0;
  --scans_left_;
  if (scan_->histogram != nullptr) {
    if (scan_->histogram->next_pass()) return {};
    scan_->percentile = percentile_or(scan_->histogram->result().bits,
                                      std::bit_cast<float>(scan_->extremes.magnitude()));
    scan_->histogram.reset();
  }
  return finish_scan();
}

Status Quantizer::set_largest(float magnitude) {
  if (!needs_scan() || !scheme_.symmetric ||
      (scheme_.rule != ScaleRule::kAbsmax && scheme_.rule != ScaleRule::kHalfRange)) {
    return Status::invalid_argument(
        prefix() + "the scale does not come from one largest magnitude, expected scan()");
  }
  if (!(magnitude >= 0 && std::isfinite(magnitude))) {
    return Status::invalid_argument(fmt::format(
        "{}the largest magnitude is {}, expected a finite number of 0 or more", prefix(),
        magnitude));
  }
  scan_->extremes.positive = std::bit_cast<std::uint32_t>(magnitude);
  return finish_scan();
}

Status Quantizer::finish_scan() {
  scans_left_ = 0;
  const Extremes& extremes = scan_->extremes;
  const float largest = std::bit_cast<float>(extremes.magnitude());
  scan_->scale = !scheme_.symmetric
                     ? asymmetric_scale(scheme_, -std::bit_cast<float>(extremes.negative),
                                        std::bit_cast<float>(extremes.positive))
                     : symmetric_scale(scheme_, scheme_.rule == ScaleRule::kPercentile
                                                    ? scan_->percentile
                                                    : largest);
  if (std::isinf(scan_->scale.scale)) return overflow_status(scheme_, largest, 0, name_);
  return {};
}

Status Quantizer::scan_whole(const TensorView& tensor) {
  if (scheme_.rule != ScaleRule::kPercentile) {
    PITH_OK(scan(tensor, 0));
    return end_scan();
  }
  // In memory a percentile is found faster than by the two passes of a stream.
  const Values values(tensor);
  const std::int64_t n = values.count();
  if (const FinitePercentile found = finite_percentile(values, scheme_.percentile);
      found.percentile >= 0) {
    scan_->extremes.positive = found.largest;
    scan_->percentile = found.percentile;
    return finish_scan();
  }
  Extremes extremes = find_extremes(values, 0, n, false, false);
  if (!extremes.finite()) {
    if (non_finite_ == NonFinite::kError) {
      return non_finite_status(values, values.first_non_finite(0, n), 0, name_);
    }
    extremes = find_extremes(values, 0, n, false, true);
  }
  scan_->extremes = extremes;
  scan_->percentile = percentile_magnitude(values, 0, n, scheme_.percentile,
                                           std::bit_cast<float>(extremes.magnitude()));
  return finish_scan();
}

Status Quantizer::encode(TensorView part, std::int64_t first, const CodeSpans& out,
                         ErrorFigures* figures, std::span<const float> originals) const {
  if (needs_scan()) {
    return Status::invalid_argument(
        prefix() + "encode() before the scale of the tensor is known, expected scan()");
  }
  return encode_part(part, first, out, false, figures, originals);
}

Status Quantizer::encode_with_scales(TensorView part, std::int64_t first,
                                     const CodeSpans& out, ErrorFigures* figures) const {
  if (scheme_.layout == Layout::kBlocks) {
    return Status::invalid_argument(
        prefix() + "stored scales with layout kBlocks, expected layout kSplit");
  }
  return encode_part(part, first, out, true, figures, {});
}

Status Quantizer::encode_part(const TensorView& part, std::int64_t first,
                              const CodeSpans& out, bool scales_are_stored,
                              ErrorFigures* figures,
                              std::span<const float> originals) const {
  PITH_OK(check_part(part, first));
  const Values values(part);
  const std::int64_t n = values.count();
  if (!originals.empty() && std::ssize(originals) != n) {
    return Status::invalid_argument(
        fmt::format("{}{} originals given, expected as many as the part has values, {}",
                    prefix(), originals.size(), n));
  }
  const std::int64_t end = first + n;
  const std::int64_t alignment = scheme_.part_alignment(shape_);
  if (first % alignment != 0 || (end % alignment != 0 && end != shape_.elements())) {
    return Status::invalid_argument(fmt::format(
        "{}a part has elements {} to {}, expected multiples of {} or the end of shape {}",
        prefix(), first, end, alignment, shape_.to_string()));
  }
  const bool one = scheme_.group == Group::kTensor;
  const std::int64_t groups_of_part =
      one ? 1 : scheme_.group_offset(shape_, end) - scheme_.group_offset(shape_, first);
  const std::int64_t scale_bytes =
      scheme_.layout == Layout::kBlocks ? 0 : bits_of(scheme_.scale_type) / 8;
  PITH_OK(check_span(
      "codes", out.codes.size(),
      scheme_.code_offset(shape_, end) - scheme_.code_offset(shape_, first), name_));
  PITH_OK(check_span("scales", out.scales.size(), groups_of_part * scale_bytes, name_));
  PITH_OK(check_span("zero_points", out.zero_points.size(),
                     scheme_.symmetric ? 0 : groups_of_part, name_));

  CoderOptions options;
  options.non_finite = non_finite_;
  options.figures = figures != nullptr;
  options.originals = originals.empty() ? nullptr : originals.data();
  options.stream = std::cmp_greater_equal(out.codes.size(), kStreamBytes);
  std::int64_t size = scheme_.group_size(shape_);
  if (scales_are_stored) options.scales = CoderOptions::Scales::kStored;
  if (one) {
    options.scales = CoderOptions::Scales::kOne;
    if (scales_are_stored) {
      const float scale = load_scale(scheme_.scale_type, out.scales.data());
      const int zero_point =
          scheme_.symmetric ? 0 : static_cast<std::int8_t>(out.zero_points[0]);
      if (!(scale >= 0 && std::isfinite(scale))) {
        return to_status({Failure::kBadScale, 0, scale}, scheme_, values, first, name_);
      }
      options.one = stored_scale(scheme_, scale, zero_point);
    } else {
      options.one = scan_->scale;
      std::memcpy(out.scales.data(), scan_->scale.stored, out.scales.size());
      if (!scheme_.symmetric) {
        out.zero_points[0] = static_cast<std::byte>(scan_->scale.stored_zero_point);
      }
    }
    const bool scanned = !scales_are_stored && scheme_.rule != ScaleRule::kGiven;
    options.magnitude =
        scanned ? scan_->extremes.magnitude() : std::numeric_limits<std::uint32_t>::max();
    // Rows of packed codes begin a byte each; else the tensor is one run of chunks.
    const bool rows = scheme_.bits == 4 && shape_.cols() % 2 != 0;
    size = rows ? shape_.cols() : kErrorChunk;
  }
  if (n == 0) return {};

  const std::int64_t groups = piece_count(n, size);
  const std::int64_t piece_elements = options.figures ? kPieceElements : kLongPiece;
  const std::int64_t per_piece = std::max<std::int64_t>(1, piece_elements / size);
  const std::int64_t stride = group_stride(scheme_, size);
  const Coder coder(scheme_, values, out, options);
  const auto pieces = static_cast<std::size_t>(piece_count(groups, per_piece));
  std::vector<ErrorFigures> figures_of(
      options.figures ? pieces : 1,
      options.figures ? figures_after(*figures) : ErrorFigures());
  std::vector<Failure> failures(pieces);
  std::atomic<std::int64_t> first_failed = std::numeric_limits<std::int64_t>::max();
  parallel_pieces(
      groups, per_piece, [&](std::int64_t piece, std::int64_t begin, std::int64_t stop) {
        if (piece > first_failed.load(std::memory_order_relaxed)) return;
        const auto p = static_cast<std::size_t>(piece);
        const std::int64_t last = stop == groups ? n - (groups - 1) * size : size;
        const Run run = {begin * size, begin, begin * stride, stop - begin, size, last};
        ErrorFigures unused;
        failures[p] = coder.encode(run, options.figures ? figures_of[p] : unused);
        if (!failures[p]) return;
        std::int64_t lowest = first_failed.load(std::memory_order_relaxed);
        while (piece < lowest && !first_failed.compare_exchange_weak(lowest, piece)) {
        }
      });
  if (const auto lowest = static_cast<std::size_t>(first_failed.load());
      lowest < pieces) {
    return to_status(failures[lowest], scheme_, values, first, name_);
  }
  if (figures != nullptr) {
    for (std::size_t p = 0; p < pieces; ++p) {
      figures->merge(figures_of[p],
                     first + static_cast<std::int64_t>(p) * per_piece * size);
    }
  }
  return {};
}

Result<QuantizedTensor> quantize(TensorView weight, const Scheme& scheme,
                                 const QuantizeOptions& options) {
  PITH_OK(check_type(weight.dtype(), weight.name()));
  PITH_TRY(Quantizer quantizer,
           Quantizer::make(scheme, weight.shape(), weight.name(), options.non_finite));
  if (quantizer.needs_scan()) PITH_OK(quantizer.scan_whole(weight));
  const Shape& shape = weight.shape();
  QuantizedTensor result = {.scheme = scheme,
                            .shape = shape,
                            .codes = Buffer(scheme.code_bytes(shape)),
                            .scales = Buffer(scheme.scale_bytes(shape)),
                            .zero_points = Buffer(scheme.zero_point_bytes(shape))};
  ErrorFigures figures;
  PITH_OK(quantizer.encode(
      weight, 0,
      {result.codes.bytes(), result.scales.bytes(), result.zero_points.bytes()},
      options.figures == nullptr ? nullptr : &figures));
  if (options.figures != nullptr) *options.figures = figures;
  return result;
}

Result<float> compute_scale(std::span<const float> values, float largest_code,
                            ScaleRule rule, double percentile, NonFinite non_finite) {
  if (!(largest_code > 0 && std::isfinite(largest_code))) {
    return Status::invalid_argument(
        fmt::format("compute_scale: largest_code is {}, expected a finite value above 0",
                    largest_code));
  }
  if (rule != ScaleRule::kAbsmax && rule != ScaleRule::kPercentile) {
    return Status::invalid_argument(
        "compute_scale: rule is neither kAbsmax nor kPercentile, expected one of them");
  }
  if (rule == ScaleRule::kPercentile && !(percentile >= 0 && percentile <= 1)) {
    return Status::invalid_argument(fmt::format(
        "compute_scale: percentile is {}, expected a value in [0, 1]", percentile));
  }
  const auto n = static_cast<std::int64_t>(values.size());
  if (n == 0) return 0.0F;
  PITH_TRY(Shape shape, Shape::make({n}));
  PITH_TRY(TensorView view, TensorView::of(values, shape));
  const Values source(view);
  if (rule == ScaleRule::kPercentile) {
    if (const float magnitude = finite_percentile(source, percentile).percentile;
        magnitude >= 0) {
      return magnitude / largest_code;
    }
  }
  Extremes extremes = find_extremes(source, 0, n, false, false);
  if (!extremes.finite()) {
    if (non_finite == NonFinite::kError) {
      const std::int64_t index = source.first_non_finite(0, n);
      return Status::not_finite(
          fmt::format("compute_scale: value {} is {}, expected a finite one", index,
                      values[static_cast<std::size_t>(index)]));
    }
    extremes = find_extremes(source, 0, n, false, true);
  }
  float magnitude = std::bit_cast<float>(extremes.magnitude());
  if (rule == ScaleRule::kPercentile) {
    magnitude = percentile_magnitude(source, 0, n, percentile, magnitude);
  }
  return magnitude / largest_code;
}

}  // namespace pith
