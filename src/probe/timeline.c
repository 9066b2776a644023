// SPDX-License-Identifier: Apache-2.0
#include "probe/timeline.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"

typedef struct span {
    int64_t start_ns, end_ns;
    int what;
} span;

// Where a span begins or ends.
typedef struct edge {
    int64_t at_ns;
    int what;
} edge;

enum {
    HOST_MASKS = PLB_BUSY_MASKS >> PLB_BUSY_DEVICE_COUNT,
    RESUMES = 64, // that wait for work
    // A thousand launches, as many as wait for a device at most, of the slowest that are rationed.
    BEHIND_NS = 200000000,
};
_Static_assert(HOST_MASKS == 64, "a bit each of a word");

struct plb_timeline {
    plb_busy_sums *sums;
    size_t capacity, count;
    span *waiting;
    edge *begins, *ends, *scratch; // room for one a span each
    int64_t lag_ns;
    int64_t settled_ns; // everything before is added up; 0: nothing was yet
    int64_t newest_ns;  // the latest end seen
    int64_t idle_since; // of the device; 0: busy, or nothing ran yet
    // Idle time by what the host did, which counts only once the device works again: after its
    // last work a program is not idle but done.
    int64_t idle_ns[HOST_MASKS];
    uint64_t idle_masks; // bit i: idle_ns[i] is not 0
    int busy[PLB_BUSY_COUNT];
    unsigned mask;              // bit i: busy[i] is not 0
    int least;                  // of the sums' longest gaps the shortest
    int64_t resume_ns[RESUMES]; // in order
    int resumes;
};

plb_timeline *plb_timeline_new(plb_busy_sums *sums, size_t capacity, int64_t lag_ns) {
    plb_timeline *t = plb_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (plb_timeline){.sums = sums, .capacity = capacity, .lag_ns = lag_ns};
    t->waiting = plb_alloc_array(capacity, sizeof *t->waiting);
    t->begins = plb_alloc_array(capacity, sizeof *t->begins);
    t->ends = plb_alloc_array(capacity, sizeof *t->ends);
    t->scratch = plb_alloc_array(capacity, sizeof *t->scratch);
    if (t->waiting && t->begins && t->ends && t->scratch) return t;
    plb_timeline_free(t);
    return NULL;
}

void plb_timeline_free(plb_timeline *t) {
    if (!t) return;
    plb_free(t->waiting);
    plb_free(t->begins);
    plb_free(t->ends);
    plb_free(t->scratch);
    plb_free(t);
}

// ---------------------------------------------------------------------------- order
static size_t run_end(const edge *e, size_t from, size_t count) {
    while (++from < count && e[from - 1].at_ns <= e[from].at_ns) continue;
    return from;
}

// Of two runs that follow each other.
static void merge_runs(const edge *from, size_t middle, size_t end, edge *out) {
    size_t a = 0, b = middle;
    for (size_t i = 0; i < end; i++)
        out[i] = b == end || (a < middle && from[a].at_ns <= from[b].at_ns) ? from[a++] : from[b++];
}

// Records come nearly in order, a stream's wholly so: what is in order is left so, and merged.
static void sort(edge **edges, edge **scratch, size_t count) {
    while (run_end(*edges, 0, count) < count) {
        edge *const from = *edges;
        for (size_t i = 0, end; i < count; i = end) {
            const size_t middle = run_end(from, i, count);
            end = middle < count ? run_end(from, middle, count) : count;
            merge_runs(from + i, middle - i, end - i, *scratch + i);
        }
        *edges = *scratch, *scratch = from;
    }
}

static int by_start(const void *left, const void *right) {
    const span *a = left, *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int class_of(int64_t length_ns) {
    int k = 63 - __builtin_clzll((uint64_t)length_ns);
    return k < PLB_GAP_CLASSES ? k : PLB_GAP_CLASSES - 1;
}

static int64_t length_of(const plb_gap *gap) {
    return gap->end_ns - gap->start_ns;
}

static void add_gap(plb_timeline *t, int64_t start_ns, int64_t end_ns) {
    plb_busy_sums *sums = t->sums;
    int64_t length_ns = end_ns - start_ns;
    if (length_ns <= 0) return;
    sums->gap_count[class_of(length_ns)]++;
    sums->gap_ns[class_of(length_ns)] += length_ns;
    if (length_ns <= length_of(&sums->longest[t->least])) return;
    sums->longest[t->least] = (plb_gap){start_ns, end_ns};
    for (int i = 0; i < PLB_GAP_LONGEST; i++)
        if (length_of(&sums->longest[i]) < length_of(&sums->longest[t->least])) t->least = i;
}

// Of the gap that ends then, what was told begins there.
static int64_t told_since(plb_timeline *t, int64_t at_ns) {
    int64_t since_ns = t->idle_since;
    int past = 0;
    for (; past < t->resumes && t->resume_ns[past] <= at_ns; past++)
        since_ns = at_ns - t->resume_ns[past] > BEHIND_NS ? t->resume_ns[past] : at_ns;
    t->resumes -= past;
    memmove(t->resume_ns, t->resume_ns + past, (size_t)t->resumes * sizeof *t->resume_ns);
    return since_ns > t->idle_since ? since_ns : t->idle_since;
}

static void end_gap(plb_timeline *t, int64_t at_ns) {
    const int64_t since_ns = t->resumes ? told_since(t, at_ns) : t->idle_since;
    int64_t cut_ns = since_ns - t->idle_since; // of it no calls are known either
    t->sums->last_ns = at_ns;
    add_gap(t, since_ns, at_ns);
    t->idle_since = 0;
    for (; t->idle_masks; t->idle_masks &= t->idle_masks - 1) {
        const int i = __builtin_ctzll(t->idle_masks);
        const int64_t part_ns = cut_ns < t->idle_ns[i] ? cut_ns : t->idle_ns[i];
        cut_ns -= part_ns;
        t->sums->mask_ns[i << PLB_BUSY_DEVICE_COUNT] += t->idle_ns[i] - part_ns;
        t->idle_ns[i] = 0;
    }
}

// The time from settled_ns to at_ns, during which `busy` did not change. Before the first work of
// the device nothing counts: programs load for seconds before they touch it.
static void pass_time(plb_timeline *t, int64_t at_ns) {
    plb_busy_sums *sums = t->sums;
    const unsigned mask = t->mask;
    int64_t length_ns = t->settled_ns ? at_ns - t->settled_ns : 0;
    if (length_ns > 0 && !(mask & PLB_BUSY_DEVICE)) {
        if (t->idle_since) {
            t->idle_ns[mask >> PLB_BUSY_DEVICE_COUNT] += length_ns;
            t->idle_masks |= UINT64_C(1) << (mask >> PLB_BUSY_DEVICE_COUNT);
        }
    } else if (length_ns > 0) {
        sums->last_ns = at_ns; // before its sum: a reader at any moment finds no more than the span
        sums->mask_ns[mask] += length_ns;
        if (t->busy[PLB_BUSY_KERNEL] > 1) sums->kernels_overlap_ns += length_ns;
        if (t->busy[PLB_BUSY_COPY_IN] + t->busy[PLB_BUSY_COPY_OUT] > 1)
            sums->copies_overlap_ns += length_ns;
    }
    if (at_ns > t->settled_ns) t->settled_ns = at_ns;
}

static void turn_begin(plb_timeline *t, const edge *e) {
    const bool was_idle = !(t->mask & PLB_BUSY_DEVICE);
    pass_time(t, e->at_ns);
    t->busy[e->what]++;
    t->mask |= 1u << e->what;
    if (!was_idle || !(t->mask & PLB_BUSY_DEVICE)) return;
    if (!t->sums->first_ns) t->sums->first_ns = t->sums->last_ns = e->at_ns;
    if (t->idle_since) end_gap(t, e->at_ns);
}

static void turn_end(plb_timeline *t, const edge *e) {
    const bool was_idle = !(t->mask & PLB_BUSY_DEVICE);
    pass_time(t, e->at_ns);
    if (--t->busy[e->what] == 0) t->mask &= ~(1u << e->what);
    if (!was_idle && !(t->mask & PLB_BUSY_DEVICE)) t->idle_since = e->at_ns;
}

// Ends before begins at the same moment, so that work back to back never overlaps itself. No end
// comes before its begin, so that they run out together or later.
static void turn_all(plb_timeline *t, size_t count) {
    const edge *begin = t->begins, *end = t->ends, *const last = end + count;
    for (size_t left = count; left; left--, begin++) {
        while (end->at_ns <= begin->at_ns) turn_end(t, end++);
        turn_begin(t, begin);
    }
    while (end < last) turn_end(t, end++);
}

// Adds up to `until_ns`. Spans that reach beyond stay, with what is left of them.
static void sweep(plb_timeline *t, int64_t until_ns) {
    size_t n = 0, kept = 0; // spans that are added up, and that stay
    for (size_t i = 0; i < t->count; i++) {
        span s = t->waiting[i];
        if (s.start_ns < until_ns) {
            int64_t end_ns = s.end_ns < until_ns ? s.end_ns : until_ns;
            t->begins[n] = (edge){s.start_ns, s.what};
            t->ends[n++] = (edge){end_ns, s.what};
            if (s.end_ns <= until_ns) continue;
            s.start_ns = until_ns;
        }
        t->waiting[kept++] = s;
    }
    sort(&t->begins, &t->scratch, n);
    sort(&t->ends, &t->scratch, n);
    turn_all(t, n);
    pass_time(t, until_ns);
    t->count = kept;
}

// Without room, the older half goes, however young it is.
static void make_room(plb_timeline *t) {
    plb_timeline_settle(t, 0);
    if (t->count < t->capacity) return;
    qsort(t->waiting, t->count, sizeof *t->waiting, by_start);
    sweep(t, t->waiting[t->count / 2].start_ns + 1);
    while (t->count == t->capacity) // all of them overlap: the one that began last goes whole
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

void plb_timeline_resume(plb_timeline *t, int64_t at_ns) {
    if (t->resumes == RESUMES) t->resumes--; // as good as one gap
    t->resume_ns[t->resumes++] = at_ns;
}

void plb_timeline_settle(plb_timeline *t, int all) {
    if (!t->count) return;
    int64_t until_ns = all ? t->newest_ns : t->newest_ns - t->lag_ns;
    if (until_ns > t->settled_ns) sweep(t, until_ns);
}
