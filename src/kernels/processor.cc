#include "src/kernels/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>

namespace pith::kernels {
namespace {

struct Registers {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
};

// All 0 if the processor does not know the leaf.
Registers leaf(unsigned number) {
  Registers r;
  if (__get_cpuid_count(number, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

constexpr bool all_of(unsigned value, unsigned bits) { return (value & bits) == bits; }

// Registers that the system saves: bits of XCR0.
std::uint32_t saved_registers() {
  constexpr unsigned kOsXsave = 1u << 27;
  if (!all_of(leaf(1).c, kOsXsave)) return 0;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

bool has_avx2() {
  constexpr unsigned kFma = 1u << 12;
  constexpr unsigned kAvx = 1u << 28;
  constexpr unsigned kF16c = 1u << 29;
  constexpr unsigned kBmi1 = 1u << 3;
  constexpr unsigned kAvx2 = 1u << 5;
  constexpr unsigned kBmi2 = 1u << 8;
  constexpr unsigned kLzcnt = 1u << 5;
  constexpr std::uint32_t kYmm = 0x6;  // and xmm
  return all_of(leaf(1).c, kFma | kAvx | kF16c) &&
         all_of(leaf(7).b, kBmi1 | kAvx2 | kBmi2) && all_of(leaf(0x80000001).c, kLzcnt) &&
         all_of(saved_registers(), kYmm);
}

bool has_avx512() {
  constexpr unsigned kBits = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  constexpr std::uint32_t kZmm = 0xe6;  // masks, and all below
  return has_avx2() && all_of(leaf(7).b, kBits) && all_of(saved_registers(), kZmm);
}

bool has_avx512_vnni() {
  constexpr unsigned kBits =
      1u << 1 | 1u << 6 | 1u << 8 | 1u << 9 | 1u << 10 | 1u << 11 | 1u << 12 | 1u << 14;
  return has_avx512() && all_of(leaf(7).c, kBits);
}

}  // namespace pith::kernels
#endif
