// The largest magnitudes of groups.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/absmax.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/kernels/absmax-inl.h"
#include "src/kernels/quantize.h"
#include "src/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace pith::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Op>
HWY_INLINE void MaxOfGroups(const Groups& in, std::uint32_t* out) {
  std::int64_t g = 0;
  const std::int64_t full = in.last == in.size ? in.groups : in.groups - 1;
  if (in.size > 0 && in.size % kLanes == 0 && in.size <= 1024) {
    for (; g + kLanes <= full; g += kLanes) {
      // With a constant size the loops over a group unroll.
      const float* values = in.values + g * in.size;
      hn::StoreU(in.size == 32   ? GroupMaxes<Op>(values, 32)
                 : in.size == 64 ? GroupMaxes<Op>(values, 64)
                                 : GroupMaxes<Op>(values, in.size),
                 kDU, out + g);
    }
  }
  for (; g < in.groups; ++g) {
    out[g] = GroupMax<Op>(in.values + g * in.size, g + 1 < in.groups ? in.size : in.last);
  }
}

void AbsmaxGroupsImpl(const Groups& in, std::uint32_t* magnitudes) {
  MaxOfGroups<Absmax>(in, magnitudes);
}

void ExtremesGroupsImpl(const Groups& in, std::uint32_t* positive,
                        std::uint32_t* negative) {
  MaxOfGroups<LargestPositive>(in, positive);
  MaxOfGroups<LargestNegative>(in, negative);
}

}  // namespace pith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::kernels {

PITH_EXPORT(AbsmaxGroupsImpl);
PITH_EXPORT(ExtremesGroupsImpl);

void absmax_groups(const Groups& in, std::uint32_t* magnitudes) noexcept {
  PITH_DISPATCH(AbsmaxGroupsImpl)(in, magnitudes);
}

void extremes_groups(const Groups& in, std::uint32_t* positive,
                     std::uint32_t* negative) noexcept {
  PITH_DISPATCH(ExtremesGroupsImpl)(in, positive, negative);
}

}  // namespace pith::kernels
#endif
