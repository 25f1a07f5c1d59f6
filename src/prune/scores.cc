#include "src/prune/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/kernels/select.h"

namespace pith {
namespace {

constexpr std::uint64_t kMultiplier = 6364136223846793005u;
constexpr std::uint64_t kIncrement = 1442695040888963407u;

float draw(std::uint64_t state) {
  constexpr float kBelowOne = 0x1.fffffep-1f;
  // The upper half rounds to 2^32 once in 2^25 draws.
  return std::min(static_cast<float>(state >> 32) * 0x1p-32f, kBelowOne);
}

}  // namespace

std::uint64_t advance_random(std::uint64_t state, std::uint64_t steps) {
  // The step composed with itself, by doubling.
  std::uint64_t multiplier = kMultiplier;
  std::uint64_t increment = kIncrement;
  for (; steps != 0; steps >>= 1) {
    if ((steps & 1) != 0) state = state * multiplier + increment;
    increment = increment * multiplier + increment;
    multiplier *= multiplier;
  }
  return state;
}

double random_unit_score(std::uint64_t seed, std::int64_t unit) {
  std::uint64_t x = seed + (static_cast<std::uint64_t>(unit) + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

void fill_scores(const ImportanceOptions& options, std::span<const float> values,
                 std::int64_t first, std::int64_t col, float* out) {
  switch (options.importance) {
    case Importance::kL1:
      for (std::size_t i = 0; i < values.size(); ++i) out[i] = std::fabs(values[i]);
      return;
    case Importance::kL2:
    case Importance::kTaylorProxy:
      for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i] * values[i];
      return;
    case Importance::kRandom: {
      std::uint64_t state =
          advance_random(options.seed, static_cast<std::uint64_t>(first));
      for (std::size_t i = 0; i < values.size(); ++i) {
        state = state * kMultiplier + kIncrement;
        out[i] = draw(state);
      }
      return;
    }
    case Importance::kWanda: {
      const std::size_t cols = options.column_norms.size();
      auto at = static_cast<std::size_t>(col);
      for (std::size_t i = 0; i < values.size();) {
        const std::size_t run = std::min(cols - at, values.size() - i);
        const float* norms = options.column_norms.data() + at;
        for (std::size_t j = 0; j < run; ++j) {
          out[i + j] = std::fabs(values[i + j]) * norms[j];
        }
        i += run;
        at = 0;
      }
      return;
    }
  }
}

Status check_norms(Importance importance, std::span<const float> norms, std::int64_t cols,
                   std::string_view where) {
  if (importance != Importance::kWanda) return {};
  if (norms.size() != static_cast<std::uint64_t>(cols)) {
    return Status::invalid_argument(fmt::format(
        "{}: {} column norms given, but there are {} columns; wanda needs the "
        "norm of the activations of each",
        where, norms.size(), cols));
  }
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (!(std::isfinite(norms[i]) && norms[i] >= 0)) {
      return Status::invalid_argument(fmt::format(
          "{}: column norm {} is {}, expected a finite value >= 0", where, i, norms[i]));
    }
  }
  return {};
}

Status check_no_nan(std::span<const float> values, std::int64_t first,
                    std::string_view where) {
  const std::int64_t at =
      kernels::first_nan(values.data(), static_cast<std::int64_t>(values.size()));
  if (at < 0) return {};
  return Status::not_finite(
      fmt::format("{}: element {} is NaN, which has no rank; repair the tensor or leave "
                  "it out",
                  where, first + at));
}

std::string describe(std::string_view operation, std::string_view name) {
  return name.empty() ? std::string(operation)
                      : fmt::format("{}: tensor '{}'", operation, name);
}

}  // namespace pith
