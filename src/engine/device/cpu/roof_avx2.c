// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define VECTOR       __m256
#define LANES        8
#define SET          _mm256_set1_ps
#define MULTIPLY_ADD _mm256_fmadd_ps
#define SUM(v)       _mm256_cvtss_f32(_mm256_hadd_ps(v, v))
#define ROOF         plb_roof_avx2
#include "engine/device/cpu/roof_body.h"
