// SPDX-License-Identifier: Apache-2.0
// What recording costs a program, from a run in which it was on and off in turn (--cost). How far
// the program came is told by the number that the driver gives each launch of a kernel, recorded
// or not: between the last kernel of one recorded block and the first of the next lies a block
// without recording, whose launches and time are known.
#ifndef PLB_PROBE_COST_H
#define PLB_PROBE_COST_H

#include "probe/spool.h"

typedef struct plb_cost {
    int blocks;              // without recording, each compared with those around it
    double share, low, high; // time more a launch, median, and its 95 % interval by ranks
} plb_cost;

// False when there are too few blocks with launches for an interval (fewer than 6: `blocks` says).
bool plb_cost_of(const plb_spool *spool, plb_cost *out);

#endif
