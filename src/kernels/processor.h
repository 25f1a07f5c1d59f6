// What this processor can do, and the system lets it: as much of each instruction set as
// Highway's targets take for granted.
#pragma once

namespace pith::kernels {

#if defined(__x86_64__)
bool has_avx2();    ///< with FMA, F16C, BMI 1 and 2, LZCNT
bool has_avx512();  ///< F, CD, BW, DQ, VL
bool has_avx512_vnni();  ///< with VNNI, VBMI 1 and 2, BITALG, VPOPCNTDQ, GFNI, VAES, VPCLMULQDQ
#endif

}  // namespace pith::kernels
