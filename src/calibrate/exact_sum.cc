#include "pith/calibrate/exact_sum.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>

namespace pith {
namespace {

using Limbs = std::array<std::uint64_t, ExactSum::kLimbs>;
__extension__ using uint128 = unsigned __int128;

void add_at(std::span<std::uint64_t> limbs, std::size_t at, std::uint64_t value) {
  for (; value != 0 && at < limbs.size(); ++at) {
    value = __builtin_add_overflow(limbs[at], value, &limbs[at]) ? 1 : 0;
  }
}

void subtract_at(std::span<std::uint64_t> limbs, std::size_t at, std::uint64_t value) {
  for (; value != 0 && at < limbs.size(); ++at) {
    value = __builtin_sub_overflow(limbs[at], value, &limbs[at]) ? 1 : 0;
  }
}

Limbs magnitude(const ExactSum& sum) {
  Limbs limbs = sum.limbs();
  if (!sum.negative()) return limbs;
  for (std::uint64_t& limb : limbs) limb = ~limb;
  add_at(limbs, 0, 1);
  return limbs;
}

// An unsigned number times 2^lowest, rounded to nearest, ties to even.
double rounded(std::span<const std::uint64_t> limbs, int lowest) {
  std::size_t top = limbs.size();
  while (top > 0 && limbs[top - 1] == 0) --top;
  if (top == 0) return 0;
  const int shift = std::countl_zero(limbs[top - 1]);
  // The highest 64 bits; the last of them also stands for all that follow.
  std::uint64_t bits = limbs[top - 1] << shift;
  if (shift != 0 && top > 1) bits |= limbs[top - 2] >> (64 - shift);
  bool sticky = top > 1 && shift != 0 && (limbs[top - 2] << shift) != 0;
  sticky = sticky || (top > 1 && shift == 0 && limbs[top - 2] != 0);
  for (std::size_t i = 0; i + 2 < top; ++i) sticky = sticky || limbs[i] != 0;
  if (sticky) bits |= 1;
  // 64 bits to a double: rounded once, and the sticky bit is far below the last place.
  const int exponent = lowest + 64 * (static_cast<int>(top) - 1) - shift;
  return std::ldexp(static_cast<double>(bits), exponent);
}

}  // namespace

void ExactSum::add(double term) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const int biased = static_cast<int>((bits >> 52) & 0x7ff);
  if (biased == 0) return;  // 0: no smaller double is a multiple of 2^-298
  assert(biased != 0x7ff);
  std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1}
                                                                         << 52;
  int position = biased - 1075 - kLowestExponent;  // of the mantissa's lowest bit
  if (position < 0) {
    assert(position > -53 && std::countr_zero(mantissa) >= -position);
    mantissa >>= -position;
    position = 0;
  }
  const auto limb = static_cast<std::size_t>(position / 64);
  const int shift = position % 64;
  assert(limb + 1 < kLimbs);
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  if ((bits >> 63) != 0) {
    subtract_at(limbs_, limb, low);
    subtract_at(limbs_, limb + 1, high);
  } else {
    add_at(limbs_, limb, low);
    add_at(limbs_, limb + 1, high);
  }
}

void ExactSum::add(const ExactSum& other) {
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < kLimbs; ++i) {
    const uint128 sum = uint128{limbs_[i]} + other.limbs_[i] + carry;
    limbs_[i] = static_cast<std::uint64_t>(sum);
    carry = static_cast<std::uint64_t>(sum >> 64);
  }
}

double ExactSum::value() const {
  const double size = rounded(magnitude(*this), kLowestExponent);
  return negative() ? -size : size;
}

ExactSum ExactSum::from_limbs(const std::array<std::uint64_t, kLimbs>& limbs) {
  ExactSum sum;
  sum.limbs_ = limbs;
  return sum;
}

double scaled_variance(std::int64_t count, const ExactSum& sum, const ExactSum& squares) {
  // In units of 2^-298. The sum is a multiple of 2^-149 below 2^191: six limbs of that.
  constexpr int kHalf = -ExactSum::kLowestExponent / 2;
  const Limbs size = magnitude(sum);
  std::array<std::uint64_t, 6> root{};
  for (std::size_t i = 0; i < root.size(); ++i) {
    const std::size_t from = i + kHalf / 64;
    root[i] = size[from] >> (kHalf % 64);
    if (from + 1 < size.size()) root[i] |= size[from + 1] << (64 - kHalf % 64);
  }
  std::array<std::uint64_t, 12> result{};
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < ExactSum::kLimbs; ++i) {
    const uint128 product =
        uint128{squares.limbs()[i]} * static_cast<std::uint64_t>(count) + carry;
    result[i] = static_cast<std::uint64_t>(product);
    carry = static_cast<std::uint64_t>(product >> 64);
  }
  result[ExactSum::kLimbs] = carry;
  for (std::size_t i = 0; i < root.size(); ++i) {
    for (std::size_t j = 0; j < root.size(); ++j) {
      const uint128 product = uint128{root[i]} * root[j];
      subtract_at(result, i + j, static_cast<std::uint64_t>(product));
      subtract_at(result, i + j + 1, static_cast<std::uint64_t>(product >> 64));
    }
  }
  return rounded(result, ExactSum::kLowestExponent);
}

}  // namespace pith
