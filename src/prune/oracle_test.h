// What pruning means, written down as a sort: the tests compare the library with this.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "pith/prune/prune.h"
#include "src/kernels/select.h"

namespace pith {

/// Values with ties, zeros of both signs, subnormals, infinities; never NaN.
inline std::vector<float> any_weights(std::int64_t n) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  auto weight = rc::gen::oneOf(
      rc::gen::element(0.0f, -0.0f, 1.0f, -1.0f, 2.0f, -0.5f, 1e-45f, -1e-40f, 3e38f,
                       kInf, -kInf),
      rc::gen::map(rc::gen::arbitrary<std::uint32_t>(), [](std::uint32_t bits) {
        if ((bits & 0x7fffffffu) > 0x7f800000u) bits &= 0x807fffffu;
        return std::bit_cast<float>(bits);
      }));
  return *rc::gen::container<std::vector<float>>(static_cast<std::size_t>(n), weight);
}

/// Finite ones of ordinary size, for scores that are sums.
inline std::vector<float> ordinary_weights(std::int64_t n) {
  auto weight = rc::gen::map(rc::gen::inRange(-40, 41),
                             [](int step) { return static_cast<float>(step) * 0.25f; });
  return *rc::gen::container<std::vector<float>>(static_cast<std::size_t>(n), weight);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Which of `scores` go: the first `count` by (score, index), fewer if else less than `floor` of
/// the non-zero weights would be left. weights[i] is how many non-zero weights unit i has.
inline std::vector<bool> oracle_choice(const std::vector<double>& scores,
                                       const std::vector<std::int64_t>& nonzero,
                                       std::int64_t count, std::int64_t floor) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  std::int64_t left = std::accumulate(nonzero.begin(), nonzero.end(), std::int64_t{0});
  floor = std::min(floor, left);
  std::vector<bool> pruned(scores.size(), false);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t unit = order[static_cast<std::size_t>(i)];
    if (left - nonzero[unit] < floor) break;
    left -= nonzero[unit];
    pruned[unit] = true;
  }
  return pruned;
}

inline std::int64_t oracle_count(const PruneOptions& options, std::int64_t n,
                                 std::int64_t unit_size) {
  const std::int64_t least = (options.min_nonzero + unit_size - 1) / unit_size;
  const auto share =
      static_cast<std::int64_t>(std::floor(options.sparsity * static_cast<float>(n)));
  return std::max<std::int64_t>(0, std::min(share, n - least));
}

/// Draw i of the random state, one after the other.
inline std::vector<double> oracle_draws(std::uint64_t seed, std::int64_t n) {
  std::vector<double> draws;
  for (std::int64_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const float draw = static_cast<float>(seed >> 32) / 4294967296.0f;
    draws.push_back(std::min(draw, std::nextafter(1.0f, 0.0f)));
  }
  return draws;
}

inline std::vector<double> oracle_scores(std::span<const float> values,
                                         const PruneOptions& options,
                                         std::span<const float> norms) {
  if (options.importance == Importance::kRandom) {
    return oracle_draws(options.seed, static_cast<std::int64_t>(values.size()));
  }
  std::vector<double> scores;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float score = std::fabs(values[i]);
    if (options.importance == Importance::kWanda) score *= norms[i % norms.size()];
    // Infinity times 0 ranks highest.
    scores.push_back(std::isnan(score) ? 2 * double{3.4e38f} * 1e10 : double{score});
    if (std::isinf(score)) scores.back() = 1e39;
  }
  return scores;
}

}  // namespace pith
