// Sums over two arrays of values, before and after a change.
//
// Element i goes to lane i mod 8 of each sum. Within a block of 512 elements products and
// sums are f32: those of elements i and i + 8 are added, for i / 8 even, and such pairs
// one after the other; then lanes i and i + 4. From there on the four lanes are double.
// That is right to some 1e-8 and takes a third of the time of sums in double alone. At the
// end, lanes i and i + 2 are added, then the last two. So the sums do not depend on the
// width of vectors.
//
// f32 cannot hold the squares of very small and very large values: where a sum of squares
// shows that it could not (fits_f32), everything is added again, in double alone.
#pragma once

#include <cstdint>

#include "src/kernels/quantize.h"

namespace pith::kernels {

struct ErrorSums {
  double error = 0;          // of |before - after|
  double error_squared = 0;  // of (before - after)^2
  double squared_before = 0;
  double squared_after = 0;
  double max_error = 0;  // a difference in the type it was taken in; NaN may be lost in
                         // it, not in the sums; -1: not known
  std::int64_t zeros_before = 0;
  std::int64_t zeros_after = 0;
};

/// Whether sums of squares in f32 are as good as in double: no square was too large, and
/// those that were too small do not matter.
inline bool fits_f32(const ErrorSums& sums, std::int64_t n) {
  const auto fits = [](double squares, bool all_zero) {
    return all_zero ? squares == 0 : squares >= 1e-25 && squares <= 1e36;
  };
  return fits(sums.error_squared, sums.max_error == 0) &&
         fits(sums.squared_before, sums.zeros_before == n) &&
         fits(sums.squared_after, sums.zeros_after == n);
}

/// At most 2^24 elements.
ErrorSums error_sums(const float* before, const float* after, std::int64_t n) noexcept;
ErrorSums reference_error_sums(const float* before, const float* after,
                               std::int64_t n) noexcept;
/// The sums for values whose squares f32 cannot hold: rare, and slow.
ErrorSums error_sums_in_double(const float* before, const float* after,
                               std::int64_t n) noexcept;

/// error_sums() of `before` and the values of codes; `out` is not written. Only of groups
/// that have a code_error_scale(). Where squares do not fit f32 (fits_f32), the sums are no
/// good. max_error is -1 if `largest` is not wanted.
ErrorSums code_error_sums(const DecodeGroups& args, const float* before,
                          bool largest = true) noexcept;
/// The largest of the scales, if the groups are whole, of a multiple of 32 bytes, 4096 in
/// all, without zero points, and no scale is 0 or subnormal; else 0.
float code_error_scale(const DecodeGroups& args) noexcept;

/// quantize_groups() and code_error_sums() of what it has made, without the largest error,
/// in one go: of Q8_0's groups, a multiple of 8 and at most 128, whose values are f32, f16
/// or bf16; those of args.codes.in are not read, and args.scales has room for scales and
/// divisors. Returns the largest of the scales; -1 if the groups are others, or one of them
/// is not ordinary: then what it has stored means nothing.
float quantize_measured(const QuantizeGroups& args, DType from, const void* values,
                        ErrorSums& sums) noexcept;

/// The first element with |before - after| == error, in f32 or in double, or -1.
std::int64_t first_error(const float* before, const float* after, std::int64_t n,
                         double error) noexcept;
std::int64_t reference_first_error(const float* before, const float* after,
                                   std::int64_t n, double error) noexcept;

}  // namespace pith::kernels
