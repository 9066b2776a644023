// SPDX-License-Identifier: Apache-2.0
// Where values lie in a slab. Two values may share bytes when their lifetimes are disjoint.
#ifndef PLB_ENGINE_GRAPH_MEMORY_H
#define PLB_ENGINE_GRAPH_MEMORY_H

#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_block {
    size_t size_bytes;
    int first, last;     // steps in which it is alive, both included
    size_t offset_bytes; // set by plb_place
} plb_block;

// Places all blocks; *out_bytes is the size of the slab. Greedy by size (Pisarchyk, Lee:
// "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest first, each into
// the smallest gap that is free during its life.
PLB_MUST_USE plb_status plb_place(plb_block *blocks, int n, size_t align_bytes, size_t *out_bytes);

#endif
