// SPDX-License-Identifier: Apache-2.0
#define PLB_NORM_ROWS plb_norm_rows_avx512
#include "engine/device/cpu/norm_rows_body.h"
