// SPDX-License-Identifier: Apache-2.0
// What each op is served by, from the tables alone.
#ifndef PLB_ENGINE_DEVICE_COVERAGE_H
#define PLB_ENGINE_DEVICE_COVERAGE_H

#include <stdbool.h>

#include "plumb/status.h"

typedef struct plb_coverage_row {
    const char *name, *gradient; // gradient: "yes", "no", "none by nature"
    char dtypes[128];            // "f32 f64 i64": those that some case of the op's own takes
    char cpu[160], cuda[160];    // kernels, best first; cuda "": none
} plb_coverage_row;

// Fills row `index`; false past the last.
PLB_API bool plb_coverage(int index, plb_coverage_row *out);

#endif
