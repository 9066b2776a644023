// SPDX-License-Identifier: Apache-2.0
// What each stretch of a run held that was recorded, where recording alternates: which launches,
// between which moments, and how long the device was active in it.
#ifndef PLB_PROBE_BLOCKS_H
#define PLB_PROBE_BLOCKS_H

#include "probe/sum.h"

typedef struct plb_blocks plb_blocks;

// NULL when out of memory. `spool` is borrowed. One thread at a time.
plb_blocks *plb_blocks_new(plb_spool *spool);
// Work of a device that was recorded; only device 0 counts.
void plb_blocks_note(plb_blocks *blocks, const plb_record *record);
// Nothing more comes of the block: it goes into the spool, if it had a kernel and there is room.
void plb_blocks_close(plb_blocks *blocks);

#endif
