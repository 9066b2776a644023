// SPDX-License-Identifier: Apache-2.0
// What each stretch of a run held that was recorded, where recording alternates: which launches,
// between which moments, how long the device was active in it, and how much of it was which kernel.
#ifndef PLB_PROBE_BLOCKS_H
#define PLB_PROBE_BLOCKS_H

#include "probe/sum.h"

typedef struct plb_blocks plb_blocks;

// NULL when out of memory. `spool` is borrowed. One thread at a time.
plb_blocks *plb_blocks_new(plb_spool *spool);
void plb_blocks_free(plb_blocks *blocks);
// Work of a device that was recorded, and is in the spool's rows; of times only device 0 counts.
void plb_blocks_note(plb_blocks *blocks, const plb_record *record);
// Nothing more comes of the block, which was recorded in that window of CUPTI's clock: it goes into
// the spool, if there is room. `apart`: it stands for nothing but itself.
void plb_blocks_close(plb_blocks *blocks, plb_gap window, bool apart);

#endif
