#include "pith/quantize/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/convert.h"

namespace pith {
namespace {

// Elements one thread converts at a time. Large enough to hide what a piece costs, and
// small enough that two threads end together.
constexpr std::int64_t kConvertPiece = std::int64_t{1} << 18;

// What goes through f32 goes in steps that stay in the first-level cache.
constexpr std::int64_t kStep = 2048;

// Outputs above this do not fit the caches; storing them there first would only cost a
// read of every line.
constexpr std::int64_t kConvertStreamBytes = std::int64_t{8} << 20;

struct Job {
  DType from;
  DType to;
  Overflow overflow;
  bool stream;
};

// Bits from which on a value is infinite or NaN, and overflows.
template <typename Bits>
struct Limits {
  Bits infinity;
  Bits overflow;
};

Limits<std::uint32_t> f32_limits(DType to) {
  return {kernels::kInfinityBits, kernels::overflow_bits(to)};
}

// An f64 overflows f32 half a step beyond the largest one.
constexpr Limits<std::uint64_t> kF64Limits = {
    std::uint64_t{0x7ff} << 52, std::bit_cast<std::uint64_t>(0x1.ffffffp127)};

// Counts floating-point values, which lie at any address; `index` is that of the first.
template <typename Bits>
void count(const std::byte* values, std::int64_t size, std::int64_t index,
           Limits<Bits> limits, ConvertCounts& counts) {
  for (std::int64_t i = 0; i < size; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, values + i * static_cast<std::int64_t>(sizeof(Bits)),
                sizeof(Bits));
    bits = bits << 1 >> 1;  // without the sign
    if (bits >= limits.infinity) {
      ++(bits == limits.infinity ? counts.infinite : counts.nan);
      if (counts.first_not_finite < 0) counts.first_not_finite = index + i;
    } else if (bits >= limits.overflow) {
      ++counts.overflowed;
      if (counts.first_overflowed < 0) counts.first_overflowed = index + i;
    }
  }
}

// Converts elements [begin, end). One side is f32: one kernel does it, and the f32 values
// tell what they were.
ConvertCounts convert_directly(const Job& job, const std::byte* in, std::byte* out,
                               std::int64_t begin, std::int64_t end) {
  const std::byte* source = in + begin * (bits_of(job.from) / 8);
  std::byte* target = out + begin * (bits_of(job.to) / 8);
  const std::int64_t size = end - begin;
  const bool from_f32 = job.from == DType::kF32;
  const std::uint32_t largest =
      from_f32
          ? kernels::from_f32({source, job.to, target, size, job.overflow, job.stream})
          : kernels::to_f32({job.from, source, target, size, false, job.stream});
  ConvertCounts counts;
  if (largest >= kernels::overflow_bits(job.to)) {
    if (job.from == DType::kF64) {
      count(source, size, begin, kF64Limits, counts);
    } else {
      count(from_f32 ? source : target, size, begin, f32_limits(job.to), counts);
    }
  }
  return counts;
}

// Converts elements [begin, end) through f32, rounded to odd: the result is rounded once,
// and nothing finite becomes infinite on the way.
ConvertCounts convert_through_f32(const Job& job, const std::byte* in, std::byte* out,
                                  std::int64_t begin, std::int64_t end) {
  const std::int64_t in_size = bits_of(job.from) / 8;
  const std::int64_t out_size = bits_of(job.to) / 8;
  alignas(64) std::byte values[kStep * 4];
  ConvertCounts counts;
  for (std::int64_t at = begin; at < end; at += kStep) {
    const std::int64_t size = std::min(kStep, end - at);
    const std::byte* source = in + at * in_size;
    std::byte* target = out + at * out_size;
    const std::uint32_t largest =
        kernels::to_f32({job.from, source, values, size, true, false});
    if (largest >= kernels::overflow_bits(job.to)) {
      count(values, size, at, f32_limits(job.to), counts);
    }
    if (job.from == job.to) {
      std::memcpy(target, source, static_cast<std::size_t>(size * out_size));
    } else {
      kernels::from_f32({values, job.to, target, size, job.overflow, job.stream});
    }
  }
  return counts;
}

// Adds the counts of a piece that follows.
void add(ConvertCounts& counts, const ConvertCounts& piece) {
  counts.overflowed += piece.overflowed;
  counts.infinite += piece.infinite;
  counts.nan += piece.nan;
  if (counts.first_overflowed < 0) counts.first_overflowed = piece.first_overflowed;
  if (counts.first_not_finite < 0) counts.first_not_finite = piece.first_not_finite;
}

}  // namespace

Result<ConvertCounts> convert(const TensorView& tensor, DType to,
                              std::span<std::byte> out, Overflow overflow) {
  const DType from = tensor.dtype();
  if (!kernels::converts_to_f32(from) || !kernels::converts_from_f32(to)) {
    return Status::unsupported(fmt::format(
        "convert: tensor '{}': from {} to {} is not possible; targets are f32, f16, "
        "bf16, "
        "f8e4m3 and f8e5m2, sources these, bool, f64 and integers of 8 to 64 bits",
        tensor.name(), to_string(from), to_string(to)));
  }
  PITH_TRY(const std::int64_t bytes, bytes_of(to, tensor.shape()));
  if (out.size() != static_cast<std::size_t>(bytes)) {
    return Status::invalid_argument(fmt::format(
        "convert: out has {} bytes, expected {}: those of tensor '{}', {} in {}",
        out.size(), bytes, tensor.name(), tensor.shape().to_string(), to_string(to)));
  }

  const Job job = {from, to, overflow, bytes >= kConvertStreamBytes};
  const bool direct = from == DType::kF32 || to == DType::kF32;
  const std::int64_t elements = tensor.shape().elements();
  std::vector<ConvertCounts> pieces(
      static_cast<std::size_t>(piece_count(elements, kConvertPiece)));
  parallel_pieces(elements, kConvertPiece,
                  [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
                    pieces[static_cast<std::size_t>(piece)] =
                        (direct ? convert_directly : convert_through_f32)(
                            job, tensor.bytes().data(), out.data(), begin, end);
                  });
  ConvertCounts counts;
  for (const ConvertCounts& piece : pieces) add(counts, piece);
  return counts;
}

}  // namespace pith
