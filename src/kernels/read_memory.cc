#include "src/kernels/read_memory.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/read_memory.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint64_t ReadMemory(const std::byte* from, int64_t pieces) {
  constexpr int kStreams = 8;
  constexpr int64_t kLines = 260;
  const hn::ScalableTag<uint64_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  for (int64_t piece = 0; piece < pieces; ++piece, from += kReadPiece) {
    for (int64_t line = 0; line < kLines; ++line) {
      for (int stream = 0; stream < kStreams; ++stream) {
        const auto* at =
            reinterpret_cast<const uint64_t*>(from + (stream * kLines + line) * 64);
        hwy::Prefetch(at + 64);
        for (int64_t i = 0; i < 8; i += 2 * lanes) {
          even = hn::Xor(even, hn::LoadU(d, at + i));
          if (i + lanes < 8) odd = hn::Xor(odd, hn::LoadU(d, at + i + lanes));
        }
      }
    }
  }
  HWY_ALIGN uint64_t words[HWY_MAX_BYTES / 8];
  hn::Store(hn::Xor(even, odd), d, words);
  uint64_t result = 0;
  for (int64_t i = 0; i < lanes; ++i) result ^= words[i];
  return result;
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {
PITH_EXPORT(ReadMemory);
std::uint64_t read_memory(const std::byte* from, std::int64_t pieces) noexcept {
  return PITH_DISPATCH(ReadMemory)(from, pieces);
}

std::uint64_t reference_read_memory(const std::byte* from, std::int64_t pieces) noexcept {
  std::uint64_t result = 0;
  for (std::int64_t i = 0; i < pieces * kReadPiece; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + i, sizeof(word));
    result ^= word;
  }
  return result;
}
}  // namespace pith::kernels
#endif
