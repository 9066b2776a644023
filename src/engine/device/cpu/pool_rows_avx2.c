// SPDX-License-Identifier: Apache-2.0
#define PLB_POOL_ROWS plb_pool_rows_avx2
#include "engine/device/cpu/pool_rows_body.h"
