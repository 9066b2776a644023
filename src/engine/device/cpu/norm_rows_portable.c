// SPDX-License-Identifier: Apache-2.0
// The portable loops, and the choice among the three sets.
#define PLB_NORM_ROWS plb_norm_rows_portable
#include "engine/device/cpu/norm_rows_body.h"

const plb_norm_rows *plb_norm_rows_of(plb_isa isa) {
    switch (isa) {
    case PLB_ISA_AVX512: return &plb_norm_rows_avx512;
    case PLB_ISA_AVX2: return &plb_norm_rows_avx2;
    default: return &plb_norm_rows_portable;
    }
}
