// SPDX-License-Identifier: Apache-2.0
// The loops of vec_body.h for AVX2.
#define PLB_VEC_TABLE plb_vec_avx2
extern const struct plb_vec plb_vec_avx2;
#include "engine/device/cpu/vec_body.h"
