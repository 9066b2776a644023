// SPDX-License-Identifier: Apache-2.0
// Four lanes are what the baseline of both x86-64 and 64-bit ARM has.
typedef float four __attribute__((vector_size(16)));

#define VECTOR                four
#define LANES                 4
#define SET(x)                ((four){x, x, x, x})
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define SUM(v)                (v[0] + v[1] + v[2] + v[3])
#define ROOF                  plb_roof_portable
#include "engine/device/cpu/roof_body.h"
