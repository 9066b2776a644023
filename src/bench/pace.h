// SPDX-License-Identifier: Apache-2.0
// How fast the machine is now against its best in this run: a neighbour on the same hardware (in
// another virtual machine, say) takes memory's rate, caches and clock from us, and no count of
// processor time shows it. A copy of memory that no cache holds, always the same, does.
#ifndef PLB_BENCH_PACE_H
#define PLB_BENCH_PACE_H

#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_pace {
    unsigned char *memory; // both sides of the copy; NULL before the first look
    int64_t best_ns;       // of all copies so far; 0: none yet
} plb_pace;

// Copies three times (3 to 5 ms each on an AMD EPYC) and returns the least of their times over the
// best so far, at least 1; 0 where there is no memory for it.
PLB_API double plb_pace_look(plb_pace *pace);
PLB_API void plb_pace_free(plb_pace *pace);

#endif
