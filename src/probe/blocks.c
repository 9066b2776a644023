// SPDX-License-Identifier: Apache-2.0
#include "probe/blocks.h"

#include <string.h>

#include "base/core/alloc.h"
#include "probe/breakdown.h"

enum { CAPACITY = 1 << 16 }; // intervals that wait; of more the older half is added up at once

struct plb_blocks {
    plb_spool *spool;
    plb_spool_block block;
    plb_busy_sums sums;
    plb_timeline *timeline; // of this block; NULL: it has no work yet
};

plb_blocks *plb_blocks_new(plb_spool *spool) {
    plb_blocks *b = plb_alloc(sizeof *b);
    if (b) b->spool = spool;
    return b;
}

static plb_busy busy_of(const plb_record *r) {
    if (r->kind == PLB_RECORD_SET) return PLB_BUSY_MEMSET;
    if (r->kind != PLB_RECORD_COPY) return PLB_BUSY_KERNEL;
    return r->copy == PLB_COPY_IN    ? PLB_BUSY_COPY_IN
           : r->copy == PLB_COPY_OUT ? PLB_BUSY_COPY_OUT
                                     : PLB_BUSY_COPY_INSIDE;
}

// Ends and numbers of the first and last kernel; those of graphs have no number of their own.
static void note_kernel(plb_spool_block *b, const plb_record *r) {
    if (!b->first_ns) b->first_ns = r->end_ns, b->first_number = r->grid_number;
    if (r->end_ns <= b->last_ns) return;
    b->last_ns = r->end_ns, b->last_number = r->grid_number;
}

void plb_blocks_note(plb_blocks *b, const plb_record *r) {
    if (r->device != 0 || r->kind > PLB_RECORD_GRAPH) return;
    if (r->kind == PLB_RECORD_KERNEL && !r->in_graph) note_kernel(&b->block, r);
    if (!b->timeline) b->timeline = plb_timeline_new(&b->sums, CAPACITY, 0);
    if (b->timeline) plb_timeline_add(b->timeline, busy_of(r), r->start_ns, r->end_ns);
}

void plb_blocks_close(plb_blocks *b) {
    plb_spool *s = b->spool;
    plb_breakdown found = {0};
    if (b->timeline) {
        plb_timeline_settle(b->timeline, 1);
        plb_timeline_free(b->timeline);
        plb_breakdown_of(&b->sums, &found);
    }
    if (b->block.first_ns && s->blocks < PLB_SPOOL_BLOCKS) {
        s->work[s->blocks] =
            (plb_spool_work){b->sums.first_ns, b->sums.last_ns, found.active_ns, found.copying_ns};
        s->block[s->blocks++] = b->block;
    }
    *b = (plb_blocks){.spool = s};
}
