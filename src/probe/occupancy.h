// SPDX-License-Identifier: Apache-2.0
// How much of a multiprocessor a kernel's blocks can fill at once, from what a launch asks for:
// the least of what warps, blocks, registers and shared memory allow ("theoretical occupancy"). How
// much a launch really filled, a grid of few blocks for one, it does not tell.
#ifndef PLB_PROBE_OCCUPANCY_H
#define PLB_PROBE_OCCUPANCY_H

#include <stdint.h>

typedef struct plb_occupancy {
    int blocks;   // of a multiprocessor at once; 0: unknown, or such a launch is impossible
    double share; // of the warps that a multiprocessor can hold
} plb_occupancy;

// `capability`: of the device, 10 times the major number and the minor one, as 90; one that is not
// in our table is unknown. `shared_bytes`: static and dynamic, of a block. Clusters and what a
// program sets aside for the first-level cache are left out: it is the most that can be.
plb_occupancy plb_occupancy_of(int capability, int64_t block_threads, int registers,
                               int64_t shared_bytes);

#endif
