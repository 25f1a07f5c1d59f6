// Groups that are longer than a chunk: by rows that fit a cache, or by all threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "src/base/parallel.h"
#include "src/quantize/coder.h"

namespace pith {
namespace {

using Scales = CoderOptions::Scales;

// Of a longer group no copy is made.
constexpr std::int64_t kMostRow = 32768;

}  // namespace

// Encodes the first rows of a run, as encode_plain(), and adds their figures.
std::int64_t Coder::encode_long_rows(const Run& run, ErrorFigures& figures,
                                     std::int64_t offset) const {
  if (!plain_ || run.size > kMostRow) return 0;
  alignas(64) float converted[kMostRow];
  alignas(64) std::int8_t bytes[kMostRow];
  for (std::int64_t g = 0; g < run.groups; ++g) {
    const Run row = run.part(g, 1, group_stride(scheme_, run.size));
    std::uint32_t largest = 0;
    const float* values = values_.read(row.first, row.last, converted, &largest);
    float scale = 0;
    float divisor = 0;
    Plain left = {&scale, &divisor, halves_ && options_.figures ? bytes : nullptr};
    if (encode_plain(row, values, left, largest) == 0) return g;
    if (!options_.figures) continue;
    measure_long_group(row, values, left, figures, offset + g * run.size);
  }
  return run.groups;
}

Failure Coder::encode_long_group(const Run& group, ErrorFigures& figures,
                                 std::int64_t offset) const {
  CoderOptions options = options_;
  if (const Failure failure = scan_long_group(group, options)) return failure;
  const Coder coder(scheme_, values_, out_, options);
  const std::int64_t n = group.last;
  std::vector<ErrorFigures> figures_of(
      static_cast<std::size_t>(piece_count(n, kPieceElements)));
  std::vector<Failure> failures(figures_of.size());
  parallel_pieces(n, kPieceElements,
                  [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
                    const auto p = static_cast<std::size_t>(piece);
                    const std::int64_t chunks = piece_count(end - begin, kErrorChunk);
                    const Run run = {group.first + begin,
                                     group.group,
                                     group.code + group_stride(scheme_, begin),
                                     chunks,
                                     kErrorChunk,
                                     end - begin - (chunks - 1) * kErrorChunk};
                    failures[p] = coder.encode(run, figures_of[p]);
                  });
  for (std::size_t p = 0; p < failures.size(); ++p) {
    if (failures[p]) return failures[p];
    figures.merge(figures_of[p], offset + static_cast<std::int64_t>(p) * kPieceElements);
  }
  return {};
}

// Finds the scale of a group, and leaves in `options` how to encode it.
Failure Coder::scan_long_group(const Run& group, CoderOptions& options) const {
  if (options_.scales == Scales::kOne) return {};
  options.scales = Scales::kOne;
  if (options_.scales == Scales::kStored) {
    options.one = read_scale(group.group);
    options.magnitude = std::numeric_limits<std::uint32_t>::max();
    if (!(options.one.scale >= 0 && std::isfinite(options.one.scale))) {
      return {Failure::kBadScale, group.first, options.one.scale};
    }
    return {};
  }
  const bool signs = needs_signs(scheme_);
  Extremes extremes = find_extremes(values_, group.first, group.last, signs, false);
  options.checked = extremes.finite();
  if (!options.checked) {
    if (options.non_finite == NonFinite::kError) {
      return {Failure::kNonFinite, values_.first_non_finite(group.first, group.last), 0};
    }
    extremes = find_extremes(values_, group.first, group.last, signs, true);
  }
  options.magnitude = extremes.magnitude();
  float extreme = std::bit_cast<float>(extremes.magnitude());
  if (scheme_.rule == ScaleRule::kPercentile) {
    extreme = percentile_magnitude(values_, group.first, group.last, scheme_.percentile,
                                   extreme);
  }
  if (scheme_.rule == ScaleRule::kSignedMax) {
    std::vector<float> copy(static_cast<std::size_t>(group.last));
    extreme = signed_extreme(values_.read(group.first, group.last, copy.data()),
                             group.last, extremes);
  }
  options.one = scheme_.symmetric
                    ? symmetric_scale(scheme_, extreme)
                    : asymmetric_scale(scheme_, -std::bit_cast<float>(extremes.negative),
                                       std::bit_cast<float>(extremes.positive));
  if (std::isinf(options.one.scale)) {
    return {Failure::kOverflow, group.first, extreme};
  }
  write_scale(group.group, options.one);
  return {};
}

}  // namespace pith
