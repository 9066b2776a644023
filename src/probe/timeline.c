// SPDX-License-Identifier: Apache-2.0
#include "probe/timeline.h"

#include <stdlib.h>

#include "base/core/alloc.h"

typedef struct span {
    int64_t start_ns, end_ns;
    int what;
} span;

typedef struct edge {
    int64_t at_ns;
    int16_t what, step; // +1 begins, -1 ends
} edge;

struct plb_timeline {
    plb_busy_sums *sums;
    size_t capacity, count;
    span *waiting;
    edge *edges; // room for two a span
    int64_t lag_ns;
    int64_t settled_ns; // everything before is added up; 0: nothing was yet
    int64_t newest_ns;  // the latest end seen
    int64_t idle_since; // of the device; 0: busy, or nothing ran yet
    // Idle time by what the host did, which counts only once the device works again: after its
    // last work a program is not idle but done.
    int64_t idle_ns[PLB_BUSY_MASKS >> PLB_BUSY_DEVICE_COUNT];
    int busy[PLB_BUSY_COUNT];
};

plb_timeline *plb_timeline_new(plb_busy_sums *sums, size_t capacity, int64_t lag_ns) {
    plb_timeline *t = plb_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (plb_timeline){.sums = sums, .capacity = capacity, .lag_ns = lag_ns};
    t->waiting = plb_alloc_array(capacity, sizeof *t->waiting);
    t->edges = plb_alloc_array(2 * capacity, sizeof *t->edges);
    if (t->waiting && t->edges) return t;
    plb_timeline_free(t);
    return NULL;
}

void plb_timeline_free(plb_timeline *t) {
    if (!t) return;
    plb_free(t->waiting);
    plb_free(t->edges);
    plb_free(t);
}

// Ends before begins at the same moment, so that work back to back never overlaps itself.
static int by_time(const void *left, const void *right) {
    const edge *a = left, *b = right;
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns ? -1 : 1;
    return a->step - b->step;
}

static int by_start(const void *left, const void *right) {
    const span *a = left, *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int class_of(int64_t length_ns) {
    int k = 63 - __builtin_clzll((uint64_t)length_ns);
    return k < PLB_GAP_CLASSES ? k : PLB_GAP_CLASSES - 1;
}

static void add_gap(plb_busy_sums *sums, int64_t start_ns, int64_t end_ns) {
    int64_t length_ns = end_ns - start_ns;
    if (length_ns <= 0) return;
    sums->gap_count[class_of(length_ns)]++;
    sums->gap_ns[class_of(length_ns)] += length_ns;
    plb_gap *least = sums->longest;
    for (int i = 1; i < PLB_GAP_LONGEST; i++)
        if (sums->longest[i].end_ns - sums->longest[i].start_ns < least->end_ns - least->start_ns)
            least = &sums->longest[i];
    if (length_ns > least->end_ns - least->start_ns) *least = (plb_gap){start_ns, end_ns};
}

static void end_gap(plb_timeline *t, int64_t at_ns) {
    t->sums->last_ns = at_ns;
    add_gap(t->sums, t->idle_since, at_ns);
    t->idle_since = 0;
    for (unsigned i = 0; i < PLB_BUSY_MASKS >> PLB_BUSY_DEVICE_COUNT; i++) {
        t->sums->mask_ns[i << PLB_BUSY_DEVICE_COUNT] += t->idle_ns[i];
        t->idle_ns[i] = 0;
    }
}

static unsigned mask_of(const plb_timeline *t) {
    unsigned mask = 0;
    for (int i = 0; i < PLB_BUSY_COUNT; i++)
        if (t->busy[i]) mask |= 1u << i;
    return mask;
}

// The time from settled_ns to at_ns, during which `busy` did not change. Before the first work of
// the device nothing counts: programs load for seconds before they touch it.
static void pass_time(plb_timeline *t, unsigned mask, int64_t at_ns) {
    plb_busy_sums *sums = t->sums;
    int64_t length_ns = t->settled_ns ? at_ns - t->settled_ns : 0;
    if (length_ns > 0 && !(mask & PLB_BUSY_DEVICE)) {
        if (t->idle_since) t->idle_ns[mask >> PLB_BUSY_DEVICE_COUNT] += length_ns;
    } else if (length_ns > 0) {
        sums->last_ns = at_ns; // before its sum: a reader at any moment finds no more than the span
        sums->mask_ns[mask] += length_ns;
        if (t->busy[PLB_BUSY_KERNEL] > 1) sums->kernels_overlap_ns += length_ns;
        if (t->busy[PLB_BUSY_COPY_IN] + t->busy[PLB_BUSY_COPY_OUT] > 1)
            sums->copies_overlap_ns += length_ns;
    }
    if (at_ns > t->settled_ns) t->settled_ns = at_ns;
}

static void turn_edge(plb_timeline *t, const edge *e) {
    unsigned before = mask_of(t);
    pass_time(t, before, e->at_ns);
    t->busy[e->what] += e->step;
    if (!(1u << e->what & PLB_BUSY_DEVICE)) return;
    unsigned after = mask_of(t);
    if (!(before & PLB_BUSY_DEVICE) && after & PLB_BUSY_DEVICE) {
        if (!t->sums->first_ns) t->sums->first_ns = t->sums->last_ns = e->at_ns;
        if (t->idle_since) end_gap(t, e->at_ns);
    } else if (before & PLB_BUSY_DEVICE && !(after & PLB_BUSY_DEVICE)) {
        t->idle_since = e->at_ns;
    }
}

// Adds up to `until_ns`. Spans that reach beyond stay, with what is left of them.
static void sweep(plb_timeline *t, int64_t until_ns) {
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        span s = t->waiting[i];
        if (s.start_ns < until_ns) {
            int64_t end_ns = s.end_ns < until_ns ? s.end_ns : until_ns;
            t->edges[n++] = (edge){s.start_ns, (int16_t)s.what, 1};
            t->edges[n++] = (edge){end_ns, (int16_t)s.what, -1};
            if (s.end_ns <= until_ns) continue;
            s.start_ns = until_ns;
        }
        t->waiting[kept++] = s;
    }
    qsort(t->edges, n, sizeof *t->edges, by_time);
    for (size_t i = 0; i < n; i++) turn_edge(t, &t->edges[i]);
    pass_time(t, mask_of(t), until_ns);
    t->count = kept;
}

// Without room, the older half goes, however young it is.
static void make_room(plb_timeline *t) {
    plb_timeline_settle(t, 0);
    if (t->count < t->capacity) return;
    qsort(t->waiting, t->count, sizeof *t->waiting, by_start);
    sweep(t, t->waiting[t->count / 2].start_ns + 1);
    while (t->count == t->capacity) // all of them overlap: cut the farthest end off
        sweep(t, t->waiting[t->count - 1].end_ns);
}

void plb_timeline_add(plb_timeline *t, plb_busy what, int64_t start_ns, int64_t end_ns) {
    if (end_ns <= start_ns) return;
    if (start_ns < t->settled_ns) {
        int64_t cut_ns = (end_ns < t->settled_ns ? end_ns : t->settled_ns) - start_ns;
        t->sums->late++;
        t->sums->late_ns += cut_ns;
        start_ns = t->settled_ns;
        if (end_ns <= start_ns) return;
    }
    if (t->count == t->capacity) make_room(t);
    if (start_ns < t->settled_ns) start_ns = t->settled_ns;
    if (end_ns <= start_ns) return;
    if (end_ns > t->newest_ns) t->newest_ns = end_ns;
    t->waiting[t->count++] = (span){start_ns, end_ns, what};
}

void plb_timeline_settle(plb_timeline *t, int all) {
    if (!t->count) return;
    int64_t until_ns = all ? t->newest_ns : t->newest_ns - t->lag_ns;
    if (until_ns > t->settled_ns) sweep(t, until_ns);
}
