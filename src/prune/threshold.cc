#include "src/prune/threshold.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/mask.h"
#include "src/prune/scores.h"

namespace pith {
namespace {

// Where ties are cut by index, the ties of each piece must be counted before any piece
// knows its own share. That is done for as much as the last cache holds, so that the
// values come from memory once.
constexpr std::int64_t kRound = std::int64_t{1} << 18;
constexpr std::int64_t kPiece = std::int64_t{1} << 16;
constexpr std::int64_t kScores = 2048;  // made at once, on the stack

// Zeroes values below bits, and all equal to it if `with_equal`; returns the number kept.
std::int64_t prune_row(const float* values, std::int64_t n, std::uint32_t bits,
                       bool with_equal, float* out, std::uint8_t* mask) {
  if (with_equal) return kernels::prune_up_to(values, n, bits, out, mask);
  if (bits > 0) return kernels::prune_up_to(values, n, bits - 1, out, mask);
  if (out != values) std::copy_n(values, n, out);
  if (mask != nullptr) {
    std::fill_n(mask, n / 8, std::uint8_t{0xff});
    if (n % 8 != 0) mask[n / 8] = static_cast<std::uint8_t>((1 << (n % 8)) - 1);
  }
  return n;
}

void clear_bit(std::uint8_t* mask, std::int64_t i) {
  if (mask != nullptr)
    mask[i / 8] = static_cast<std::uint8_t>(mask[i / 8] & ~(1 << (i % 8)));
}

// Whole rows, or any part of one long row that begins at a byte of the mask.
struct Layout {
  std::int64_t cols;       // values of a row, or all of them where rows need no padding
  std::int64_t row_bytes;  // of the mask
};

// One thread. Zeroes the first `ties` equal values of all rows together.
Applied prune_rows(const float* values, std::int64_t n, const Layout& layout, float* out,
                   std::uint8_t* mask, std::uint32_t bits, std::int64_t ties,
                   bool all_ties) {
  Applied applied;
  for (std::int64_t begin = 0; begin < n; begin += layout.cols) {
    const std::int64_t cols = std::min(layout.cols, n - begin);
    float* row = out + begin;
    std::int64_t kept = prune_row(values + begin, cols, bits, all_ties, row, mask);
    if (ties > 0) {
      const float* end = row + cols;
      for (float* at = row; at != end && ties > 0; ++at) {
        if ((std::bit_cast<std::uint32_t>(*at) & kernels::kMagnitudeMask) != bits)
          continue;
        *at = 0.0f;
        clear_bit(mask, at - row);
        --ties;
        --kept;
      }
    }
    applied.pruned += cols - kept;
    // What is kept above a threshold of 0 is not zero.
    applied.nonzero += bits == 0 && !all_ties ? kernels::count_nonzero(row, cols) : kept;
    if (mask != nullptr) mask += layout.row_bytes;
  }
  return applied;
}

// Cuts [0, n) into pieces of whole rows, or of multiples of 8 where rows need no padding.
struct Cutting {
  Layout layout;
  std::int64_t piece;
  std::int64_t round;

  static Cutting make(std::int64_t n, std::int64_t cols, bool with_mask) {
    if (!with_mask || cols % 8 == 0 || cols == n) {
      return {{kPiece, kPiece / 8}, kPiece, kRound};
    }
    const std::int64_t rows = std::max<std::int64_t>(1, kPiece / cols);
    return {{cols, cols / 8 + 1}, rows * cols, rows * cols * (kRound / kPiece)};
  }
  [[nodiscard]] std::int64_t mask_offset(std::int64_t begin) const {
    return begin / layout.cols * layout.row_bytes;
  }
};

}  // namespace

Applied apply_threshold(std::span<const float> values, std::int64_t cols, float* out,
                        std::uint8_t* mask, Threshold& threshold) {
  const auto n = static_cast<std::int64_t>(values.size());
  const Cutting cutting = Cutting::make(n, cols, mask != nullptr);
  const bool all_ties = threshold.ties == kAllTies;
  Applied applied;
  for (std::int64_t begin = 0; begin < n;) {
    const bool cut_ties = !all_ties && threshold.ties > 0;
    const std::int64_t size = cut_ties ? std::min(cutting.round, n - begin) : n - begin;
    const float* round = values.data() + begin;
    const auto pieces = static_cast<std::size_t>(piece_count(size, cutting.piece));
    std::vector<std::int64_t> ties(pieces, 0);
    std::vector<char> whole(pieces, all_ties ? 1 : 0);  // all ties of the piece go
    if (cut_ties) {
      parallel_pieces(
          size, cutting.piece, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
            ties[static_cast<std::size_t>(i)] =
                kernels::count_magnitude(round + from, to - from, threshold.bits);
          });
      for (std::size_t i = 0; i < pieces; ++i) {
        const std::int64_t share = std::min(ties[i], threshold.ties);
        whole[i] = share == ties[i] ? 1 : 0;
        ties[i] = whole[i] != 0 ? 0 : share;
        threshold.ties -= share;
      }
    }
    std::vector<Applied> parts(pieces);
    parallel_pieces(
        size, cutting.piece, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
          const auto at = static_cast<std::size_t>(i);
          parts[at] = prune_rows(
              round + from, to - from, cutting.layout, out + begin + from,
              mask == nullptr ? nullptr : mask + cutting.mask_offset(begin + from),
              threshold.bits, ties[at], whole[at] != 0);
        });
    for (const Applied& part : parts) applied.add(part);
    begin += size;
  }
  return applied;
}

Applied apply_score_threshold(std::span<float> values, std::int64_t cols,
                              std::uint8_t* mask, const ImportanceOptions& options,
                              std::int64_t first, Threshold& threshold) {
  const std::int64_t row_bytes = cols / 8 + (cols % 8 != 0 ? 1 : 0);
  const auto rows = static_cast<std::int64_t>(values.size()) / cols;
  Applied applied;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; col += kScores) {
      const std::int64_t n = std::min(kScores, cols - col);
      float* part = values.data() + row * cols + col;
      float scores[kScores];
      std::uint8_t bits[kScores / 8];
      fill_scores(options, {part, static_cast<std::size_t>(n)}, first + row * cols + col,
                  col, scores);
      float keep[kScores];
      std::copy_n(scores, n, keep);
      std::int64_t kept = prune_row(keep, n, threshold.bits, false, keep, bits);
      for (std::int64_t i = 0; i < n && threshold.ties != 0; ++i) {
        if ((std::bit_cast<std::uint32_t>(scores[i]) & kernels::kMagnitudeMask) !=
            threshold.bits) {
          continue;
        }
        if (part[i] != 0.0f && threshold.nonzero_ties != kAllTies) {
          if (threshold.nonzero_ties == 0) {
            threshold.ties = 0;
            break;
          }
          --threshold.nonzero_ties;
        }
        clear_bit(bits, i);
        --kept;
        if (threshold.ties != kAllTies) --threshold.ties;
      }
      applied.pruned += n - kept;
      applied.nonzero += kernels::apply_mask(part, n, bits);
      if (mask != nullptr)
        std::copy_n(bits, (n + 7) / 8, mask + row * row_bytes + col / 8);
    }
  }
  return applied;
}

}  // namespace pith
