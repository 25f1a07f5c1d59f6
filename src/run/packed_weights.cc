#include "src/run/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "src/base/parallel.h"

namespace pith {
namespace {

using kernels::kPanelOutputs;
using kernels::kTileRows;
using kernels::PanelProduct;
using kernels::PanelShape;
using kernels::TileKind;

// Panels of one task: streams enough for a vector; with a batch, weights that stay in the
// second-level cache while all rows pass.
constexpr std::int64_t kPiecePanels = 8;
constexpr std::int64_t kPieceOutputs = kPiecePanels * kPanelOutputs;

// Rows that pass over all weights together: their tiles and results stay in the last cache.
constexpr std::int64_t kChunkRows = 32 * kTileRows;

// A product reads a stream per panel, each of them in other pages: with large pages fewer of
// their addresses have to be looked up. Asked for before memory is touched; may do nothing.
void use_large_pages([[maybe_unused]] Buffer& memory) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = 2 << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last =
      (begin + static_cast<std::uintptr_t>(memory.size())) / kPage * kPage;
  if (first < last) {
    (void)::madvise(memory.data() + (first - begin), last - first, MADV_HUGEPAGE);
  }
#endif
}

bool has_blocks(const Scheme& scheme) {
  return scheme.group == Group::kBlock || scheme.group == Group::kFlatBlock;
}

}  // namespace

bool PackedWeights::takes(const Scheme& scheme, const Shape& shape) {
  if (!scheme.symmetric && scheme.bits == 8) return false;  // code - zero point: 9 bits
  if (!has_blocks(scheme)) return true;
  if (shape.cols() % scheme.block_size != 0) return false;
  return scheme.block_size % (packed_bits(scheme) == 8 ? 4 : 32) == 0;
}

void PackedWeights::add_strip(std::int64_t first, const PanelShape& shape) {
  Strip strip;
  strip.first = first;
  strip.shape = shape;
  if (packing_ == Packing::kOnce) {
    strip.panels = Buffer(shape.bytes());
    use_large_pages(strip.panels);
    kernels::clear_panels(shape, strip.panels.data());
  }
  if (kind_ == TileKind::kU7) strip.offsets.resize(static_cast<std::size_t>(outputs_));
  strips_.push_back(std::move(strip));
}

PackedWeights::PackedWeights(const CodesView& weight, TileKind kind, Packing packing)
    : source_(weight),
      packing_(packing),
      kind_(kind),
      outputs_(weight.shape[0]),
      inputs_(weight.shape[1]) {
  const Scheme& scheme = weight.scheme;
  const bool blocks = has_blocks(scheme);
  const std::int64_t step = blocks ? inputs_ : kernels::kMaxExactCols;
  for (std::int64_t first = 0; first < inputs_; first += step) {
    add_strip(first, {.bits = packed_bits(scheme),
                      .outputs = outputs_,
                      .cols = std::min(step, inputs_ - first),
                      .block = blocks ? scheme.block_size : 0,
                      .half_scales = scheme.scale_type == DType::kF16});
  }
  if (inputs_ == 0) return;  // rows without values may have no scales either
  if (!blocks) {
    row_scale_.resize(static_cast<std::size_t>(outputs_));
    for (std::int64_t o = 0; o < outputs_; ++o) {
      unpack_scales(weight, o,
                    std::span(row_scale_).subspan(static_cast<std::size_t>(o), 1));
    }
  }
  if (packing == Packing::kInPlace && kind != TileKind::kU7) return;
  parallel_pieces(
      outputs_, kPieceOutputs, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        std::vector<std::byte> row(static_cast<std::size_t>(row_bytes()));
        for (Strip& strip : strips_) {
          if (kind_ != TileKind::kU7) break;
          auto* codes = reinterpret_cast<std::int8_t*>(row.data());
          float scale = 0;
          for (std::int64_t o = begin; o < end; ++o) {
            unpack_row(weight, o, {codes, static_cast<std::size_t>(inputs_)},
                       {&scale, 1});
            const std::int8_t* part = codes + strip.first;
            strip.offsets[static_cast<std::size_t>(o)] =
                kernels::kU7Offset * std::accumulate(part, part + strip.shape.cols, 0);
          }
        }
        if (packing == Packing::kInPlace) return;
        pack(begin, end, row.data(), [&](std::size_t s) {
          Strip& strip = strips_[s];
          return strip.panels.data() + begin / kPanelOutputs * strip.shape.stride();
        });
      });
  if (packing == Packing::kOnce) source_ = CodesView();  // the caller's
}

std::int64_t PackedWeights::row_blocks() const {
  const std::int64_t block = strips_.empty() ? 0 : strips_.front().shape.block;
  return block == 0 ? 1 : inputs_ / block;
}

std::int64_t PackedWeights::row_bytes() const {
  return piece_count(inputs_, 64) * 64 + row_blocks() * std::int64_t{sizeof(float)};
}

template <typename PanelsOf>
void PackedWeights::pack(std::int64_t begin, std::int64_t end, std::byte* row,
                         const PanelsOf& panels_of) const {
  const std::span codes(reinterpret_cast<std::int8_t*>(row),
                        static_cast<std::size_t>(inputs_));
  const std::span scales(reinterpret_cast<float*>(row + piece_count(inputs_, 64) * 64),
                         static_cast<std::size_t>(row_blocks()));
  const std::int8_t* plain = source_.plain_row(begin);
  std::int64_t o = begin;
  if (plain != nullptr && row_blocks() == 1 && !row_scale_.empty()) {
    for (; o + kPanelOutputs <= end; o += kPanelOutputs) {
      for (std::size_t s = 0; s < strips_.size(); ++s) {
        const Strip& strip = strips_[s];
        kernels::pack_panel_s8(
            strip.shape, source_.plain_row(o) + strip.first, inputs_,
            panels_of(s) + (o - begin) / kPanelOutputs * strip.shape.stride());
      }
    }
  }
  for (; o < end; ++o) {
    unpack_row(source_, o, codes, scales);
    for (std::size_t s = 0; s < strips_.size(); ++s) {
      kernels::pack_output(strips_[s].shape, o - begin, codes.data() + strips_[s].first,
                           scales.data(), panels_of(s));
    }
  }
}

PackedWeights::PackedWeights(std::span<const float> weight, std::int64_t outputs,
                             std::int64_t inputs)
    : kind_(TileKind::kF32), outputs_(outputs), inputs_(inputs) {
  if (inputs_ == 0) return;
  add_strip(0, {.bits = 32, .outputs = outputs_, .cols = inputs_});
  Strip& strip = strips_.front();
  parallel_pieces(
      outputs_, kPanelOutputs, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t o = begin; o < end; ++o) {
          kernels::pack_output_f32(strip.shape, o, weight.data() + o * inputs_,
                                   strip.panels.data());
        }
      });
}

std::int64_t PackedWeights::bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(row_scale_.size() * sizeof(float));
  for (const Strip& strip : strips_) {
    bytes += strip.panels.size() +
             static_cast<std::int64_t>(strip.offsets.size() * sizeof(std::int32_t));
  }
  return bytes;
}

std::int64_t PackedWeights::work_before(std::size_t strip) const {
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < strip; ++s)
    bytes += kPiecePanels * strips_[s].shape.stride();
  return bytes;
}

std::int64_t PackedWeights::thread_bytes() const {
  return work_before(strips_.size()) + piece_count(row_bytes(), 64) * 64;
}

std::int64_t PackedWeights::work_bytes() const {
  if (packing_ == Packing::kOnce || strips_.empty()) return 0;
  return worker_count() * thread_bytes();
}

std::int64_t PackedWeights::tiles_before(std::size_t strip, std::int64_t rows) const {
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < strip; ++s) {
    const std::int64_t cols = strips_[s].shape.cols;
    bytes += rows / kTileRows * kernels::tile_bytes(kind_, kTileRows, cols) +
             kernels::tile_bytes(kind_, rows % kTileRows, cols);
  }
  return bytes;
}

std::int64_t PackedWeights::tile_bytes(std::int64_t rows) const {
  return tiles_before(strips_.size(), rows);
}

void PackedWeights::pack_tiles(const float* x, const std::int8_t* codes,
                               std::int64_t rows, std::byte* tiles) const {
  parallel_pieces(
      rows, kTileRows, [&](std::int64_t tile, std::int64_t begin, std::int64_t end) {
        for (std::size_t s = 0; s < strips_.size(); ++s) {
          const Strip& strip = strips_[s];
          std::byte* out = tiles + tiles_before(s, rows) +
                           tile * kernels::tile_bytes(kind_, kTileRows, strip.shape.cols);
          const std::int64_t first = begin * inputs_ + strip.first;
          if (kind_ == TileKind::kF32) {
            kernels::pack_tile_f32(strip.shape, x + first, inputs_, end - begin, out);
          } else {
            kernels::pack_tile(kind_, codes + first, inputs_, end - begin,
                               strip.shape.cols, out);
          }
        }
      });
}

void PackedWeights::run_strip(const Strip& strip, const std::byte* panels,
                              const std::byte* tile, std::int64_t rows,
                              std::int64_t begin, std::int64_t end, std::int32_t* sums,
                              float* y) const {
  PanelProduct args;
  args.shape = strip.shape;
  args.panels = panels;
  args.last = piece_count(end - begin, kPanelOutputs);
  args.tile = tile;
  args.rows = rows;
  args.sums = sums;
  args.y = y;
  args.stride = kPieceOutputs;
  kernels::product(kind_, args);
  if (kind_ != TileKind::kU7) return;
  // The offset of the activations, of which an int32 holds every sum.
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int32_t* offsets = strip.offsets.data() + begin;
    for (std::int64_t o = 0; o < end - begin; ++o)
      sums[r * kPieceOutputs + o] -= offsets[o];
  }
}

void PackedWeights::multiply(const std::byte* tiles, const float* x_scale,
                             std::int64_t rows, std::span<const float> bias, float* y,
                             std::byte* work) const {
  if (strips_.empty()) {  // no inputs
    for (std::int64_t i = 0; i < rows * outputs_; ++i) {
      y[i] = bias.empty() ? 0.0f : bias[static_cast<std::size_t>(i % outputs_)];
    }
    return;
  }
  for (std::int64_t row = 0; row < rows; row += kChunkRows) {
    const std::int64_t last = std::min(rows, row + kChunkRows);
    parallel_pieces(
        outputs_, kPieceOutputs, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
          std::byte* own = work;
          if (packing_ == Packing::kInPlace) {
            own += worker_index() * thread_bytes();
          }
          multiply_piece(tiles, x_scale, bias, y, own, {begin, end, row, last, rows});
        });
  }
}

const std::byte* PackedWeights::panels_of(std::size_t s, std::int64_t begin,
                                          const std::byte* work) const {
  const Strip& strip = strips_[s];
  return packing_ == Packing::kInPlace
             ? work + work_before(s)
             : strip.panels.data() + begin / kPanelOutputs * strip.shape.stride();
}

void PackedWeights::pack_piece(const Piece& piece, std::byte* work) const {
  for (std::size_t s = 0; s < strips_.size(); ++s) {
    PanelShape shape = strips_[s].shape;
    shape.outputs = piece.end - piece.begin;
    const bool whole = shape.outputs % kPanelOutputs == 0 && shape.cols % 32 == 0;
    if (!whole) kernels::clear_panels(shape, work + work_before(s));
  }
  pack(piece.begin, piece.end, work + work_before(strips_.size()),
       [&](std::size_t s) { return work + work_before(s); });
}

void PackedWeights::multiply_piece(const std::byte* tiles, const float* x_scale,
                                   std::span<const float> bias, float* y, std::byte* work,
                                   const Piece& piece) const {
  constexpr std::size_t kSize = kTileRows * kPieceOutputs;
  const bool integers = !row_scale_.empty() && kind_ != TileKind::kF32;
  const bool several = strips_.size() > 1;
  const std::int64_t begin = piece.begin;
  std::array<std::int32_t, kSize> sums;
  std::array<float, kSize> floats;
  std::array<std::int64_t, kSize> exact;  // of several strips
  std::array<float, kSize> total;
  if (packing_ == Packing::kInPlace) pack_piece(piece, work);
  for (std::int64_t row = piece.first; row < piece.last; row += kTileRows) {
    const std::int64_t count = std::min(kTileRows, piece.last - row);
    if (several) {
      exact.fill(0);
      total.fill(0);
    }
    for (std::size_t s = 0; s < strips_.size(); ++s) {
      const Strip& strip = strips_[s];
      const std::byte* tile =
          tiles + tiles_before(s, piece.rows) +
          row / kTileRows * kernels::tile_bytes(kind_, kTileRows, strip.shape.cols);
      run_strip(strip, panels_of(s, begin, work), tile, count, begin, piece.end,
                sums.data(), floats.data());
      if (!several) break;
      for (std::size_t i = 0; i < kSize; ++i) {
        integers ? void(exact[i] += sums[i]) : void(total[i] += floats[i]);
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const auto at = static_cast<std::size_t>(r * kPieceOutputs);
      float* out = y + (row + r) * outputs_ + begin;
      const std::int64_t n = piece.end - begin;
      if (several) {
        for (std::int64_t o = 0; o < n; ++o) {
          const std::size_t i = at + static_cast<std::size_t>(o);
          out[o] = integers ? static_cast<float>(exact[i]) : total[i];
        }
      } else if (integers) {
        const std::int32_t* from = sums.data() + at;
        for (std::int64_t o = 0; o < n; ++o) out[o] = static_cast<float>(from[o]);
      } else {
        std::copy_n(floats.data() + at, n, out);
      }
      if (!row_scale_.empty()) {
        const float* scale = row_scale_.data() + begin;
        for (std::int64_t o = 0; o < n; ++o) out[o] *= scale[o];
      }
      if (kind_ != TileKind::kF32) {
        const float scale = x_scale[row + r];
        for (std::int64_t o = 0; o < n; ++o) out[o] *= scale;
      }
      if (!bias.empty()) {
        const float* add = bias.data() + begin;
        for (std::int64_t o = 0; o < n; ++o) out[o] += add[o];
      }
    }
  }
}

}  // namespace pith
