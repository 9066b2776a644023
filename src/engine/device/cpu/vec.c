// SPDX-License-Identifier: Apache-2.0
// The portable loops, and the choice among the three sets.
#define PLB_VEC_TABLE plb_vec_portable
extern const struct plb_vec plb_vec_portable, plb_vec_avx2, plb_vec_avx512;
#include "engine/device/cpu/vec_body.h"

const plb_vec *plb_vec_of(plb_isa isa) {
#if defined(__x86_64__)
    if (isa == PLB_ISA_AVX512) return &plb_vec_avx512;
    if (isa == PLB_ISA_AVX2) return &plb_vec_avx2;
#endif
    (void)isa;
    return &plb_vec_portable;
}
