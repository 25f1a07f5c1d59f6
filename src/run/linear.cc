#include "pith/run/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "pith/quantize/dynamic.h"
#include "pith/tensor/half.h"
#include "src/base/parallel.h"
#include "src/kernels/convert.h"
#include "src/kernels/matmul.h"
#include "src/run/unpack.h"

namespace pith {
namespace {

// Panels of one task: 4 streams for a vector; with a batch, weights that stay in the second-level cache
// while all rows pass.
constexpr std::int64_t kPiecePanels = 8;
constexpr std::int64_t kPieceOutputs = kPiecePanels * kernels::kPanelOutputs;

using kernels::PanelProduct;
using kernels::PanelShape;
using kernels::TileKind;

bool packs(const Scheme& scheme, const Shape& shape) {
  if (!scheme.symmetric && scheme.bits == 8)
    return false;  // code - zero point needs 9 bits
  switch (scheme.group) {
    case Group::kTensor:
    case Group::kRow:
      return true;
    case Group::kFlatBlock:
      if (shape.cols() % scheme.block_size != 0) return false;
      [[fallthrough]];
    case Group::kBlock:
      return scheme.block_size % (packed_bits(scheme) == 8 ? 4 : 32) == 0;
  }
  return false;
}

}  // namespace

// Columns of a matrix, few enough for int32 sums if rows have one scale.
struct Strip {
  std::int64_t first = 0;
  PanelShape shape;
  Buffer panels;
};

struct Linear::Weights {
  Scheme scheme;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  LinearOptions options;
  std::vector<float> input_scale;
  std::vector<float> bias;
  std::vector<float> row_scale;                        // of strips without blocks
  std::vector<std::vector<std::int64_t>> weight_sums;  // kInt7Rows: per strip and output
  std::vector<Strip> strips;                           // or, if there are none:
  std::vector<float> dense;                            // decoded
  double pack_seconds = 0;

  [[nodiscard]] TileKind kind() const {
    if (options.activations == Activations::kF32) return TileKind::kF32;
    if (options.activations == Activations::kInt7Rows) return TileKind::kU7;
    return packed_bits(scheme) == 8 ? TileKind::kS16 : TileKind::kS8;
  }
  void pack(const QuantizedTensor& weight);
  /// Bytes of the tiles of all strips for `rows` rows, and where those of a strip begin.
  [[nodiscard]] std::int64_t tiles_offset(std::size_t strip, std::int64_t rows) const;
  void pack_tiles(const float* x, const std::int8_t* codes, std::int64_t rows,
                  std::byte* tiles) const;
  void multiply(const std::byte* tiles, const float* x_scale, std::int64_t rows,
                float* y) const;
  void multiply_dense(const float* x, std::int64_t rows, float* y) const;
};

namespace {

Status check(const QuantizedTensor& weight, std::span<const float> bias,
             const LinearOptions& options) {
  if (weight.shape.rank() != 2) {
    return Status::invalid_argument(
        fmt::format("linear: the weight has shape {}, expected [outputs, inputs]",
                    weight.shape.to_string()));
  }
  const std::int64_t outputs = weight.shape[0];
  const std::int64_t inputs = weight.shape[1];
  if (!bias.empty() && static_cast<std::int64_t>(bias.size()) != outputs) {
    return Status::invalid_argument(
        fmt::format("linear: the bias has {} values, expected {}, one per output",
                    bias.size(), outputs));
  }
  if (options.activations == Activations::kStatic &&
      !(options.static_scale > 0 && std::isfinite(options.static_scale))) {
    return Status::invalid_argument(
        fmt::format("linear: static_scale is {}, expected a finite value above 0",
                    options.static_scale));
  }
  if (!options.input_scale.empty()) {
    if (static_cast<std::int64_t>(options.input_scale.size()) != inputs) {
      return Status::invalid_argument(
          fmt::format("linear: input_scale has {} values, expected {}, one per input",
                      options.input_scale.size(), inputs));
    }
    for (std::size_t i = 0; i < options.input_scale.size(); ++i) {
      if (!std::isfinite(options.input_scale[i])) {
        return Status::invalid_argument(
            fmt::format("linear: input_scale[{}] is {}, expected a finite value", i,
                        options.input_scale[i]));
      }
    }
  }
  const Scheme& scheme = weight.scheme;
  const bool one_scale = scheme.group == Group::kTensor || scheme.group == Group::kRow;
  if (options.activations == Activations::kInt7Rows &&
      (packed_bits(scheme) != 8 || !one_scale || !packs(scheme, weight.shape))) {
    return Status::unsupported(fmt::format(
        "linear: 7-bit activations need int8 weights with one scale per row or tensor, "
        "but the scheme is {}",
        scheme.to_string()));
  }
  return {};
}

}  // namespace

void Linear::Weights::pack(const QuantizedTensor& weight) {
  const bool blocks = scheme.group == Group::kBlock || scheme.group == Group::kFlatBlock;
  const std::int64_t step = blocks ? inputs : kernels::kMaxExactCols;
  for (std::int64_t first = 0; first < inputs; first += step) {
    Strip strip;
    strip.first = first;
    strip.shape = {packed_bits(scheme), outputs, std::min(step, inputs - first),
                   blocks ? scheme.block_size : 0, scheme.scale_type == DType::kF16};
    strip.panels = Buffer(strip.shape.bytes());
    strips.push_back(std::move(strip));
  }
  if (!blocks) row_scale.resize(static_cast<std::size_t>(outputs));
  if (options.activations == Activations::kInt7Rows) {
    weight_sums.assign(strips.size(),
                       std::vector<std::int64_t>(static_cast<std::size_t>(outputs)));
  }
  const std::int64_t row_blocks = blocks ? inputs / scheme.block_size : 1;
  for (Strip& strip : strips) kernels::clear_panels(strip.shape, strip.panels.data());
  parallel_pieces(outputs, kernels::kPanelOutputs,
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    std::vector<std::int8_t> codes(static_cast<std::size_t>(inputs));
                    std::vector<float> scales(static_cast<std::size_t>(row_blocks));
                    for (std::int64_t o = begin; o < end; ++o) {
                      unpack_row(weight, o, codes, scales);
                      if (!blocks) row_scale[static_cast<std::size_t>(o)] = scales[0];
                      for (std::size_t s = 0; s < strips.size(); ++s) {
                        Strip& strip = strips[s];
                        const std::int8_t* part = codes.data() + strip.first;
                        kernels::pack_output(strip.shape, o, part, scales.data(),
                                             strip.panels.data());
                        if (!weight_sums.empty()) {
                          std::int64_t sum = 0;
                          for (std::int64_t c = 0; c < strip.shape.cols; ++c)
                            sum += part[c];
                          weight_sums[s][static_cast<std::size_t>(o)] = sum;
                        }
                      }
                    }
                  });
}

Result<Linear> Linear::make(const QuantizedTensor& weight, std::span<const float> bias,
                            const LinearOptions& options) {
  PITH_OK(check(weight, bias, options));
  PITH_OK(weight.scheme.validate(weight.shape));
  const auto start = std::chrono::steady_clock::now();
  auto weights = std::make_shared<Weights>();
  weights->scheme = weight.scheme;
  weights->outputs = weight.shape[0];
  weights->inputs = weight.shape[1];
  weights->options = options;
  weights->input_scale.assign(options.input_scale.begin(), options.input_scale.end());
  weights->options.input_scale = {};
  weights->bias.assign(bias.begin(), bias.end());
  if (packs(weight.scheme, weight.shape)) {
    weights->pack(weight);
  } else {
    weights->dense.resize(static_cast<std::size_t>(weight.elements()));
    PITH_OK(dequantize(weight, weights->dense));
  }
  weights->pack_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Linear linear;
  linear.weights_ = std::move(weights);
  return linear;
}

std::int64_t Linear::inputs() const { return weights_->inputs; }
std::int64_t Linear::outputs() const { return weights_->outputs; }
const Scheme& Linear::scheme() const { return weights_->scheme; }
bool Linear::decoded() const { return weights_->strips.empty(); }
double Linear::pack_seconds() const { return weights_->pack_seconds; }

std::int64_t Linear::packed_bytes() const {
  std::int64_t bytes = 0;
  for (const Strip& strip : weights_->strips) bytes += strip.panels.size();
  const std::size_t floats = weights_->dense.size() + weights_->row_scale.size();
  return bytes + static_cast<std::int64_t>(floats * sizeof(float));
}

std::int64_t Linear::Weights::tiles_offset(std::size_t strip, std::int64_t rows) const {
  const std::int64_t full = rows / kernels::kTileRows;
  const std::int64_t rest = rows % kernels::kTileRows;
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < strip; ++s) {
    const std::int64_t cols = strips[s].shape.cols;
    bytes += full * kernels::tile_bytes(kind(), kernels::kTileRows, cols) +
             kernels::tile_bytes(kind(), rest, cols);
  }
  return bytes;
}

void Linear::Weights::pack_tiles(const float* x, const std::int8_t* codes,
                                 std::int64_t rows, std::byte* tiles) const {
  parallel_pieces(
      rows, kernels::kTileRows,
      [&](std::int64_t tile, std::int64_t begin, std::int64_t end) {
        for (std::size_t s = 0; s < strips.size(); ++s) {
          const Strip& strip = strips[s];
          std::byte* out =
              tiles + tiles_offset(s, rows) +
              tile * kernels::tile_bytes(kind(), kernels::kTileRows, strip.shape.cols);
          const std::int64_t first = begin * inputs + strip.first;
          if (kind() == TileKind::kF32) {
            kernels::pack_tile_f32(strip.shape, x + first, inputs, end - begin, out);
          } else {
            kernels::pack_tile(kind(), codes + first, inputs, end - begin,
                               strip.shape.cols, out);
          }
        }
      });
}

namespace {

// What the strips of one tile and one piece of outputs add up to.
struct Piece {
  std::array<std::int32_t, kernels::kTileRows * kPieceOutputs> sums;
  std::array<float, kernels::kTileRows * kPieceOutputs> y;
  std::array<std::int64_t, kernels::kTileRows * kPieceOutputs> exact;
  std::array<float, kernels::kTileRows * kPieceOutputs> total;
};

void run_product(TileKind kind, const PanelProduct& args) {
  switch (kind) {
    case TileKind::kS16:
      return kernels::product_s8(args);
    case TileKind::kU7:
      return kernels::product_u7(args);
    case TileKind::kS8:
      return kernels::product_s4(args);
    case TileKind::kF32:
      return kernels::product_f32(args);
  }
}

}  // namespace

void Linear::Weights::multiply(const std::byte* tiles, const float* x_scale,
                               std::int64_t rows, float* y) const {
  const TileKind tile_kind = kind();
  const bool blocks = row_scale.empty();
  const bool integers = !blocks && tile_kind != TileKind::kF32;
  parallel_pieces(
      outputs, kPieceOutputs, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        Piece piece;
        for (std::int64_t row = 0; row < rows; row += kernels::kTileRows) {
          const std::int64_t count = std::min(kernels::kTileRows, rows - row);
          piece.exact.fill(0);
          piece.total.fill(0);
          for (std::size_t s = 0; s < strips.size(); ++s) {
            const Strip& strip = strips[s];
            PanelProduct args;
            args.shape = strip.shape;
            args.panels = strip.panels.data() +
                          begin / kernels::kPanelOutputs * strip.shape.stride();
            args.last = piece_count(end - begin, kernels::kPanelOutputs);
            args.tile =
                tiles + tiles_offset(s, rows) +
                row / kernels::kTileRows *
                    kernels::tile_bytes(tile_kind, kernels::kTileRows, strip.shape.cols);
            args.rows = count;
            args.sums = piece.sums.data();
            args.y = piece.y.data();
            args.stride = kPieceOutputs;
            run_product(tile_kind, args);
            for (std::int64_t r = 0; r < count; ++r) {
              for (std::int64_t o = begin; o < end; ++o) {
                const auto i = static_cast<std::size_t>(r * kPieceOutputs + o - begin);
                if (!integers) {
                  piece.total[i] += piece.y[i];
                  continue;
                }
                piece.exact[i] += piece.sums[i];
                if (tile_kind == TileKind::kU7) {
                  piece.exact[i] -=
                      kernels::kU7Offset * weight_sums[s][static_cast<std::size_t>(o)];
                }
              }
            }
          }
          for (std::int64_t r = 0; r < count; ++r) {
            for (std::int64_t o = begin; o < end; ++o) {
              const auto i = static_cast<std::size_t>(r * kPieceOutputs + o - begin);
              float value =
                  integers ? static_cast<float>(piece.exact[i]) : piece.total[i];
              if (!blocks) value *= row_scale[static_cast<std::size_t>(o)];
              if (tile_kind != TileKind::kF32) value *= x_scale[row + r];
              if (!bias.empty()) value += bias[static_cast<std::size_t>(o)];
              y[(row + r) * outputs + o] = value;
            }
          }
        }
      });
}

void Linear::Weights::multiply_dense(const float* x, std::int64_t rows, float* y) const {
  // Four sums per output, as product_f32 has them.
  const auto dot = [this](const float* w, const float* v) {
    std::array<float, 4> sums = {};
    for (std::int64_t c = 0; c < inputs; ++c)
      sums[static_cast<std::size_t>(c % 4)] += w[c] * v[c];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  };
  parallel_pieces(outputs, kernels::kPanelOutputs,
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = 0; r < rows; ++r) {
                      for (std::int64_t o = begin; o < end; ++o) {
                        const float sum = dot(dense.data() + o * inputs, x + r * inputs);
                        y[r * outputs + o] =
                            bias.empty() ? sum : sum + bias[static_cast<std::size_t>(o)];
                      }
                    }
                  });
}

namespace {

template <typename T>
void grow(std::vector<T>& memory, std::int64_t size) {
  if (static_cast<std::int64_t>(memory.size()) < size)
    memory.resize(static_cast<std::size_t>(size));
}

}  // namespace

Status Linear::forward(std::span<const float> x, std::int64_t rows, std::span<float> y) {
  const Weights& w = *weights_;
  if (rows < 0 || static_cast<std::int64_t>(x.size()) != rows * w.inputs ||
      static_cast<std::int64_t>(y.size()) != rows * w.outputs) {
    return Status::invalid_argument(
        fmt::format("linear: {} rows of {} inputs and {} outputs need {} and {} values, "
                    "but {} and {} are given",
                    rows, w.inputs, w.outputs, rows * w.inputs, rows * w.outputs,
                    x.size(), y.size()));
  }
  if (rows == 0) return {};
  const float* input = x.data();
  if (!w.input_scale.empty()) {
    grow(scratch_.scaled, rows * w.inputs);
    parallel_for(rows, [&](std::int64_t r) {
      for (std::int64_t c = 0; c < w.inputs; ++c) {
        const auto i = static_cast<std::size_t>(r * w.inputs + c);
        scratch_.scaled[i] = x[i] * w.input_scale[static_cast<std::size_t>(c)];
      }
    });
    input = scratch_.scaled.data();
  }
  if (w.strips.empty()) {
    w.multiply_dense(input, rows, y.data());
    return {};
  }
  if (w.kind() != TileKind::kF32) {
    grow(scratch_.codes, rows * w.inputs);
    grow(scratch_.scales, rows);
    PITH_OK(quantize_input(std::span(input, x.size()), rows));
  }
  grow(scratch_.tiles, w.tiles_offset(w.strips.size(), rows));
  w.pack_tiles(input, scratch_.codes.data(), rows, scratch_.tiles.data());
  w.multiply(scratch_.tiles.data(), scratch_.scales.data(), rows, y.data());
  return {};
}

Status Linear::quantize_input(std::span<const float> x, std::int64_t rows) {
  const LinearOptions& options = weights_->options;
  const std::span codes(scratch_.codes.data(), x.size());
  const std::span scales(scratch_.scales.data(), static_cast<std::size_t>(rows));
  DynamicOptions dynamic;
  switch (options.activations) {
    case Activations::kInt7Rows:
      dynamic.bits = 7;
      break;
    case Activations::kStatic:
      dynamic.rule = ScaleRule::kGiven;
      dynamic.given_scale = options.static_scale;
      break;
    case Activations::kInt8Tensor: {
      PITH_TRY(const float scale, dynamic_quantize(x, dynamic, codes));
      std::fill(scales.begin(), scales.end(), scale);
      return {};
    }
    default:
      break;
  }
  return dynamic_quantize_rows(x, rows, weights_->inputs, dynamic, codes, scales);
}

Status Linear::forward_bf16(std::span<const std::uint16_t> x, std::int64_t rows,
                            std::span<float> y) {
  grow(scratch_.converted, static_cast<std::int64_t>(x.size()));
  kernels::to_f32({.from = DType::kBF16,
                   .in = x.data(),
                   .out = scratch_.converted.data(),
                   .count = static_cast<std::int64_t>(x.size())});
  return forward(std::span(scratch_.converted.data(), x.size()), rows, y);
}

}  // namespace pith
