// SPDX-License-Identifier: Apache-2.0
// How much memory this process has resident, as the kernel counts it (Linux).
#ifndef PLB_BASE_MEMORY_USE_H
#define PLB_BASE_MEMORY_USE_H

#include <stdint.h>

#include "plumb/status.h"

// Bytes now, and the most since the process began; -1 while unknown.
PLB_API int64_t plb_memory_resident(void);
PLB_API int64_t plb_memory_resident_peak(void);

#endif
