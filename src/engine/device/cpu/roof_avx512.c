// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define VECTOR       __m512
#define LANES        16
#define SET          _mm512_set1_ps
#define MULTIPLY_ADD _mm512_fmadd_ps
#define SUM          _mm512_reduce_add_ps
#define ROOF         plb_roof_avx512
#include "engine/device/cpu/roof_body.h"
