// SPDX-License-Identifier: Apache-2.0
#include "probe/blocks.h"

#include "base/core/alloc.h"
#include "probe/breakdown.h"

enum { CAPACITY = 1 << 16 }; // intervals that wait; of more the older half is added up at once

// What a kernel's row had when the last block was closed.
typedef struct counted {
    int64_t calls, ns;
} counted;

struct plb_blocks {
    plb_spool *spool;
    plb_spool_block block;
    int64_t kernels;
    plb_busy_sums sums;
    plb_timeline *timeline; // of this block; NULL: it has no work yet
    counted before[PLB_SPOOL_KERNELS];
};

plb_blocks *plb_blocks_new(plb_spool *spool) {
    plb_blocks *b = plb_alloc(sizeof *b);
    if (b) b->spool = spool;
    return b;
}

void plb_blocks_free(plb_blocks *b) {
    if (b) plb_timeline_free(b->timeline);
    plb_free(b);
}

static plb_busy busy_of(const plb_record *r) {
    if (r->kind == PLB_RECORD_SET) return PLB_BUSY_MEMSET;
    return r->kind == PLB_RECORD_COPY ? plb_busy_of_copy(r->copy) : PLB_BUSY_KERNEL;
}

// Ends and numbers of the first and last kernel; those of graphs have no number of their own.
static void note_kernel(plb_spool_block *b, const plb_record *r) {
    if (!b->first_ns) b->first_ns = r->end_ns, b->first_number = r->grid_number;
    if (r->end_ns <= b->last_ns) return;
    b->last_ns = r->end_ns, b->last_number = r->grid_number;
}

void plb_blocks_note(plb_blocks *b, const plb_record *r) {
    if (r->kind > PLB_RECORD_GRAPH || r->aside) return;
    if (r->kind == PLB_RECORD_KERNEL) b->kernels++;
    if (r->device != 0) return;
    if (r->kind == PLB_RECORD_KERNEL && !r->in_graph) note_kernel(&b->block, r);
    if (!b->timeline) b->timeline = plb_timeline_new(&b->sums, CAPACITY, 0);
    if (b->timeline) plb_timeline_add(b->timeline, busy_of(r), r->start_ns, r->end_ns);
}

static double square_over(int64_t value, int64_t n) {
    return (double)value * (double)value / (double)n;
}

// What the block had of each kernel, and what it leaves for the next to begin with.
static void spread(plb_blocks *b, bool counts) {
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++) {
        const plb_spool_times *t = &b->spool->kernel[i].times;
        const int64_t calls = t->calls - b->before[i].calls, ns = t->total_ns - b->before[i].ns;
        if (!calls) continue;
        b->before[i] = (counted){t->calls, t->total_ns};
        if (!counts || !b->kernels) continue;
        plb_spool_spread *to = &b->spool->spread[i];
        to->calls += calls, to->ns += ns;
        to->calls2 += square_over(calls, b->kernels), to->ns2 += square_over(ns, b->kernels);
    }
}

// Which time of the device the block has whole. A device that is behind the host begins with work
// that was not recorded, and ends with work that was.
static plb_gap whole_of(const plb_busy_sums *sums, plb_gap w) {
    if (!sums->first_ns) return w;
    const bool behind = sums->last_ns > w.end_ns;
    return (plb_gap){behind || w.start_ns > sums->first_ns ? sums->first_ns : w.start_ns,
                     behind ? sums->last_ns : w.end_ns};
}

void plb_blocks_close(plb_blocks *b, plb_gap window, bool apart) {
    plb_spool *s = b->spool;
    plb_breakdown found = {0};
    if (b->timeline) {
        plb_timeline_settle(b->timeline, 1);
        plb_timeline_free(b->timeline);
        plb_breakdown_of(&b->sums, &found);
    }
    const bool kept = s->blocks < PLB_SPOOL_BLOCKS;
    spread(b, kept && !apart);
    if (kept) {
        s->work[s->blocks] =
            (plb_spool_work){b->sums.first_ns, b->sums.last_ns, found.active_ns, found.copying_ns};
        s->window[s->blocks] = whole_of(&b->sums, window);
        s->block_kernels[s->blocks] = b->kernels;
        s->block[s->blocks++] = b->block;
        if (apart) s->blocks_apart = s->blocks;
    }
    b->timeline = NULL, b->kernels = 0;
    b->block = (plb_spool_block){0};
    b->sums = (plb_busy_sums){0};
}
