#include "pith/quantize/dynamic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/checked.h"
#include "src/base/parallel.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/quantize.h"
#include "src/kernels/select.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

constexpr std::int64_t kBatch = 64;              // rows whose scales lie on the stack
constexpr std::int64_t kDynamicPiece = 1 << 16;  // elements per task

Status check(const DynamicOptions& options) {
  if (options.bits != 8 && options.bits != 7 && options.bits != 4) {
    return Status::invalid_argument(
        fmt::format("dynamic: bits is {}, expected 8, 7 or 4", options.bits));
  }
  if (options.rule != ScaleRule::kAbsmax && options.rule != ScaleRule::kPercentile &&
      options.rule != ScaleRule::kGiven) {
    return Status::invalid_argument(
        "dynamic: the rule must be absmax, percentile or given");
  }
  if (options.rule == ScaleRule::kGiven &&
      !(options.given_scale > 0 && std::isfinite(options.given_scale))) {
    return Status::invalid_argument(
        fmt::format("dynamic: given_scale is {}, expected a finite value above 0",
                    options.given_scale));
  }
  if (options.rule == ScaleRule::kPercentile &&
      !(options.percentile >= 0 && options.percentile <= 1)) {
    return Status::invalid_argument(fmt::format(
        "dynamic: percentile is {}, expected a value in [0, 1]", options.percentile));
  }
  return {};
}

// Quantizes rows [begin, end). False if a value is not finite.
bool quantize_rows(const float* x, std::int64_t begin, std::int64_t end,
                   std::int64_t cols, const DynamicOptions& options, std::int8_t* codes,
                   float* scales) {
  const int largest = (1 << (options.bits - 1)) - 1;
  for (std::int64_t row = begin; row < end; row += kBatch) {
    const std::int64_t rows = std::min(kBatch, end - row);
    const kernels::Groups in{x + row * cols, rows, cols, cols};
    std::array<std::uint32_t, kBatch> magnitudes;
    kernels::absmax_groups(in, magnitudes.data());
    std::array<float, kBatch> divisors;
    bool limit = options.rule != ScaleRule::kAbsmax;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (magnitudes[i] >= kernels::kInfinityBits) return false;
      std::uint32_t chosen = magnitudes[i];
      if (options.rule == ScaleRule::kPercentile) {
        const std::int64_t rank =
            kernels::percentile_rank(static_cast<float>(options.percentile), cols);
        const std::uint32_t bits =
            kernels::select_magnitude(in.values + r * cols, cols, rank).bits;
        if (bits != 0) chosen = bits;
      }
      const float scale =
          options.rule == ScaleRule::kGiven
              ? options.given_scale
              : std::bit_cast<float>(chosen) / static_cast<float>(largest);
      scales[row + r] = scale;
      // A scale below the smallest float: codes are 0, and so is what they decode to.
      divisors[i] = scale > 0 ? scale : std::numeric_limits<float>::infinity();
      // In steps of a subnormal scale the largest value may lie beyond the last code.
      limit = limit || scale < std::numeric_limits<float>::min();
    }
    kernels::EncodeGroups encode{};
    encode.in = in;
    encode.divisors = divisors.data();
    encode.limit = limit;
    encode.low = -largest;
    encode.high = largest;
    encode.rounding = Rounding::kHalfAway;
    encode.packing = kernels::Packing::kInt8;
    encode.codes = reinterpret_cast<std::uint8_t*>(codes + row * cols);
    encode.stride = cols;
    kernels::encode_groups(encode);
  }
  return true;
}

}  // namespace

Result<float> dynamic_quantize(std::span<const float> x, const DynamicOptions& options,
                               std::span<std::int8_t> codes) {
  PITH_OK(check(options));
  if (codes.size() != x.size()) {
    return Status::invalid_argument(
        fmt::format("dynamic: {} values and room for {} codes, expected as many",
                    x.size(), codes.size()));
  }
  if (x.empty()) return 0.0f;
  float scale = 0;
  if (!quantize_rows(x.data(), 0, 1, static_cast<std::int64_t>(x.size()), options,
                     codes.data(), &scale)) {
    PITH_OK(require_finite(x, "dynamic"));
  }
  return scale;
}

Status dynamic_quantize_rows(std::span<const float> x, std::int64_t rows,
                             std::int64_t cols, const DynamicOptions& options,
                             std::span<std::int8_t> codes, std::span<float> scales) {
  PITH_OK(check(options));
  const CheckedSize size =
      CheckedSize::from_signed(rows) * CheckedSize::from_signed(cols);
  if (!size.fits_int64() || size.value() != x.size()) {
    return Status::invalid_argument(
        fmt::format("dynamic: {} values are not {} rows of {}", x.size(), rows, cols));
  }
  if (codes.size() != x.size() || scales.size() != static_cast<std::size_t>(rows)) {
    return Status::invalid_argument(
        fmt::format("dynamic: room for {} codes and {} scales, expected {} and {}",
                    codes.size(), scales.size(), x.size(), rows));
  }
  if (x.empty()) {
    std::fill(scales.begin(), scales.end(), 0.0f);
    return {};
  }
  std::atomic<bool> finite = true;
  parallel_pieces(rows, std::max<std::int64_t>(1, kDynamicPiece / cols),
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    if (!quantize_rows(x.data(), begin, end, cols, options, codes.data(),
                                       scales.data())) {
                      finite = false;
                    }
                  });
  return finite ? Status() : require_finite(x, "dynamic");
}

std::int64_t DynamicCodes::memory_bytes() const {
  return static_cast<std::int64_t>(codes.size() + sizeof(float) * scales.size());
}

float DynamicCodes::compression_ratio() const {
  if (memory_bytes() == 0) return 1;
  return static_cast<float>(sizeof(float) * codes.size()) /
         static_cast<float>(memory_bytes());
}

Result<DynamicCodes> dynamic_quantize(std::span<const float> x,
                                      const DynamicOptions& options) {
  DynamicCodes result;
  result.bits = options.bits;
  PITH_TRY(result.shape, Shape::make({static_cast<std::int64_t>(x.size())}));
  result.codes.resize(x.size());
  PITH_TRY(const float scale, dynamic_quantize(x, options, result.codes));
  result.scales = {scale};
  return result;
}

Result<DynamicCodes> dynamic_quantize_rows(std::span<const float> x, std::int64_t rows,
                                           std::int64_t cols,
                                           const DynamicOptions& options) {
  PITH_OK(check(options));
  DynamicCodes result;
  result.bits = options.bits;
  result.per_row = true;
  PITH_TRY(result.shape, Shape::make({rows, cols}));
  if (x.empty() || rows == 0 || cols == 0) return result;
  if (static_cast<std::int64_t>(x.size()) != result.shape.elements()) {
    return Status::invalid_argument(
        fmt::format("dynamic: {} values are not {} rows of {}", x.size(), rows, cols));
  }
  result.codes.resize(x.size());
  result.scales.resize(static_cast<std::size_t>(rows));
  PITH_OK(dynamic_quantize_rows(x, rows, cols, options, result.codes, result.scales));
  return result;
}

Result<std::vector<float>> dequantize(const DynamicCodes& tensor) {
  const std::size_t n = tensor.codes.size();
  if (tensor.per_row && tensor.scales.empty()) return std::vector<float>();
  const std::size_t rows = tensor.per_row ? tensor.scales.size() : 1;
  if (n % rows != 0) {
    return Status::invalid_argument(fmt::format(
        "dynamic: {} codes do not fill {} rows, one for each scale", n, rows));
  }
  const std::size_t cols = n / rows;
  std::vector<float> out(n);
  for (std::size_t r = 0; r < rows; ++r) {
    const float scale = tensor.scales.empty() ? 0 : tensor.scales[r];
    for (std::size_t i = r * cols; i < (r + 1) * cols; ++i) {
      out[i] = static_cast<float>(tensor.codes[i]) * scale;
    }
  }
  return out;
}

}  // namespace pith
