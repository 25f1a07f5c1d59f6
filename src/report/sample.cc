#include "pith/report/sample.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace pith {
namespace {

constexpr std::int64_t kFewest = 4096;
constexpr std::int64_t kMost = 16384;
constexpr std::int64_t kShare = 64;
constexpr std::int64_t kPerCell = 100;
constexpr double kLongest = 4;  // of the sides of a thumbnail; page.js has it too
constexpr int kWeightBins = 64;
constexpr std::uint8_t kUnseenZero = 2;
constexpr std::int16_t kUnseenCode = std::numeric_limits<std::int16_t>::min();

// A picture has a row per first index: those of a kernel's taps would be narrow strips.
std::int64_t picture_rows(const Shape& shape) { return shape.rank() > 1 ? shape[0] : 1; }

std::int64_t picture_cols(const Shape& shape) {
  return shape.elements() / std::max<std::int64_t>(1, picture_rows(shape));
}

std::int64_t stride_of(const Shape& shape) {
  const std::int64_t elements = shape.elements();
  if (elements <= kFewest) return 1;
  const std::int64_t wanted = std::clamp(elements / kShare, kFewest, kMost);
  const std::int64_t stride = (elements + wanted - 1) / wanted;
  // A stride that shares a divisor with the rows would see some columns only. The nearest:
  // of 64 x 96 elements every second would else become every fifth.
  const std::int64_t cols = picture_cols(shape);
  for (std::int64_t away = 0;; ++away) {
    if (away < stride && std::gcd(stride - away, cols) == 1) return stride - away;
    if (std::gcd(stride + away, cols) == 1) return stride + away;
  }
}

// Calls visit(slot, i) for the sampled elements among `count` from `first` on; i counts
// from `first`.
template <typename Visit>
void for_each_sampled(std::int64_t first, std::int64_t count, std::int64_t stride,
                      Visit visit) {
  std::int64_t slot = (first + stride - 1) / stride;
  for (std::int64_t i = slot * stride - first; i < count; i += stride) {
    visit(static_cast<std::size_t>(slot++), i);
  }
}

// How many cells a matrix is cut into, down and across: in its own shape, at most `most`.
std::pair<std::int64_t, std::int64_t> cells_of(std::int64_t rows, std::int64_t cols,
                                               std::int64_t most) {
  const std::int64_t longer = std::max(rows, cols);
  const std::int64_t shorter = std::min(rows, cols);
  const double ratio =
      std::min(kLongest, static_cast<double>(longer) / static_cast<double>(shorter));
  const auto side =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(most) * ratio));
  const std::int64_t along = std::clamp<std::int64_t>(
      side, 1, std::min<std::int64_t>(longer, Thumbnail::kMaxSide));
  const std::int64_t beside = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(static_cast<double>(along) / ratio), 1, shorter);
  return rows > cols ? std::pair{along, beside} : std::pair{beside, along};
}

int sign_extended(int nibble) { return nibble >= 8 ? nibble - 16 : nibble; }

// Code number i of a part that begins with a row, a flat block or a GGUF block.
int code_at(const Scheme& scheme, std::int64_t cols, std::span<const std::byte> codes,
            std::int64_t i) {
  const auto byte = [&](std::int64_t at) {
    return std::to_integer<int>(codes[static_cast<std::size_t>(at)]);
  };
  if (scheme.layout == Layout::kBlocks) {
    const std::int64_t block = i / 32;
    const std::int64_t inside = i % 32;
    // Two bytes of scale, then the codes.
    if (scheme.bits == 8) {
      return static_cast<std::int8_t>(byte(block * 34 + 2 + inside));
    }
    const int pair = byte(block * 18 + 2 + inside % 16);
    return (inside < 16 ? pair & 15 : pair >> 4) - 8;
  }
  if (scheme.bits == 8) return static_cast<std::int8_t>(byte(i));
  if (scheme.group == Group::kFlatBlock) {
    return sign_extended(byte(i / 2) >> (i % 2 * 4) & 15);
  }
  const std::int64_t row = i / cols;
  const std::int64_t col = i % cols;
  return sign_extended(byte(row * ((cols + 1) / 2) + col / 2) >> (col % 2 * 4) & 15);
}

}  // namespace

TensorSample::TensorSample(const Shape& shape, const SampleOptions& options)
    : shape_(shape), scheme_(options.scheme), stride_(stride_of(shape)) {
  const auto slots = static_cast<std::size_t>((shape.elements() + stride_ - 1) / stride_);
  before_.assign(slots, std::numeric_limits<float>::quiet_NaN());
  if (options.pruned) nonzero_.assign(slots, kUnseenZero);
  if (scheme_) codes_.assign(slots, kUnseenCode);
}

void TensorSample::add_before(std::int64_t first, std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  assert(first >= 0 && first + count <= shape_.elements());
  for_each_sampled(first, count, stride_, [&](std::size_t slot, std::int64_t i) {
    before_[slot] = values[static_cast<std::size_t>(i)];
  });
}

void TensorSample::add_after(std::int64_t first, std::span<const float> values) {
  if (nonzero_.empty()) return;
  const auto count = static_cast<std::int64_t>(values.size());
  assert(first >= 0 && first + count <= shape_.elements());
  for_each_sampled(first, count, stride_, [&](std::size_t slot, std::int64_t i) {
    nonzero_[slot] = values[static_cast<std::size_t>(i)] != 0 ? 1 : 0;
  });
}

void TensorSample::add_codes(std::int64_t first, std::int64_t count,
                             std::span<const std::byte> codes) {
  if (!scheme_) return;
  assert(first >= 0 && first + count <= shape_.elements());
  for_each_sampled(first, count, stride_, [&](std::size_t slot, std::int64_t i) {
    codes_[slot] = static_cast<std::int16_t>(code_at(*scheme_, shape_.cols(), codes, i));
  });
}

Histogram TensorSample::weights() const {
  float largest = 0;
  bool any = false;
  for (const float value : before_) {
    if (!std::isfinite(value)) continue;
    any = true;
    largest = std::max(largest, std::fabs(value));
  }
  if (!any) return {};
  Histogram histogram{-largest, largest, std::vector<std::int64_t>(kWeightBins)};
  // In double: twice the largest float is no float.
  const double width = 2.0 * largest / kWeightBins;
  for (const float value : before_) {
    if (!std::isfinite(value)) continue;
    const double bin = width > 0 ? (value - histogram.low) / width : kWeightBins / 2.0;
    ++histogram.counts[static_cast<std::size_t>(std::clamp(bin, 0.0, kWeightBins - 1.0))];
  }
  return histogram;
}

Histogram TensorSample::codes() const {
  if (!scheme_) return {};
  const int lowest = -(1 << (scheme_->bits - 1));
  const int per_bin = scheme_->bits == 8 ? 4 : 1;
  const auto bins = static_cast<std::size_t>((1 << scheme_->bits) / per_bin);
  Histogram histogram{static_cast<double>(lowest), static_cast<double>(-lowest),
                      std::vector<std::int64_t>(bins)};
  bool any = false;
  for (const std::int16_t code : codes_) {
    if (code == kUnseenCode) continue;
    any = true;
    ++histogram.counts[static_cast<std::size_t>((code - lowest) / per_bin)];
  }
  return any ? histogram : Histogram{};
}

Thumbnail TensorSample::nonzeros() const {
  if (nonzero_.empty()) return {};
  const std::int64_t rows = picture_rows(shape_);
  const std::int64_t cols = picture_cols(shape_);
  const auto samples = static_cast<std::int64_t>(nonzero_.size());
  Thumbnail thumbnail;
  // A cell has enough samples to tell its density: 100 are right within ten points.
  const auto [down, across] = cells_of(
      rows, cols,
      stride_ > 1 ? samples / kPerCell : Thumbnail::kMaxSide * Thumbnail::kMaxSide);
  thumbnail.rows = static_cast<int>(down);
  thumbnail.cols = static_cast<int>(across);
  const auto cells = static_cast<std::size_t>(down * across);
  std::vector<std::int64_t> seen(cells);
  std::vector<std::int64_t> left(cells);
  for (std::int64_t slot = 0; slot < samples; ++slot) {
    const std::uint8_t state = nonzero_[static_cast<std::size_t>(slot)];
    if (state == kUnseenZero) continue;
    const std::int64_t element = slot * stride_;
    // Rows times cells may exceed an int64; a share in double is exact enough for both.
    const auto place = [](std::int64_t at, std::int64_t of, std::int64_t parts) {
      const double share = static_cast<double>(at) / static_cast<double>(of);
      return std::min(parts - 1,
                      static_cast<std::int64_t>(share * static_cast<double>(parts)));
    };
    const auto cell = static_cast<std::size_t>(
        place(element / cols, rows, down) * across + place(element % cols, cols, across));
    ++seen[cell];
    left[cell] += state;
  }
  for (std::size_t i = 0; i < cells; ++i) {
    thumbnail.density.push_back(static_cast<std::uint8_t>(
        seen[i] > 0 ? (left[i] * 255 + seen[i] / 2) / seen[i] : 0));
  }
  return thumbnail;
}

void TensorSample::describe(TensorReport& tensor) const {
  tensor.weights = weights();
  tensor.codes = codes();
  tensor.nonzeros = nonzeros();
}

}  // namespace pith
