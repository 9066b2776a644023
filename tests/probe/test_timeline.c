// SPDX-License-Identifier: Apache-2.0
// The sweep against a raster: time in whole nanoseconds, one cell each, marked by every interval.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/philox.h"
#include "check.h"
#include "probe/breakdown.h"
#include "probe/timeline.h"

enum { CELLS = 4000, INTERVALS = 300 };

typedef struct raster {
    unsigned mask[CELLS];
    int kernels[CELLS], copies[CELLS];
} raster;

static void mark(raster *r, plb_busy what, int64_t start, int64_t end) {
    for (int64_t i = start; i < end; i++) {
        r->mask[i] |= 1u << what;
        r->kernels[i] += what == PLB_BUSY_KERNEL;
        r->copies[i] += what == PLB_BUSY_COPY_IN || what == PLB_BUSY_COPY_OUT;
    }
}

static void check_sums(const raster *r, const plb_busy_sums *sums, int64_t origin_ns) {
    int64_t *expected = plb_alloc_array(PLB_BUSY_MASKS, sizeof *expected);
    int64_t first = -1, last = -1, kernels = 0, copies = 0, wrong = 0;
    for (int i = 0; i < CELLS; i++)
        if (r->mask[i] & PLB_BUSY_DEVICE) {
            if (first < 0) first = i;
            last = i + 1;
        }
    for (int64_t i = first; i >= 0 && i < last; i++) {
        expected[r->mask[i]]++;
        kernels += r->kernels[i] > 1;
        copies += r->copies[i] > 1;
    }
    for (int m = 0; m < PLB_BUSY_MASKS; m++) wrong += expected[m] != sums->mask_ns[m];
    CHECK_SAY(wrong == 0, "%d masks differ", (int)wrong);
    CHECK(sums->kernels_overlap_ns == kernels);
    CHECK(sums->copies_overlap_ns == copies);
    CHECK(sums->first_ns == origin_ns + first && sums->last_ns == origin_ns + last);
    CHECK(sums->late == 0);
    plb_free(expected);
}

// Any categories, lengths and order of arrival; settled now and then, with a lag that all keep.
static void any_intervals_add_up(void) {
    enum { ORIGIN = 1000000 };
    for (uint64_t seed = 1; seed <= 40; seed++) {
        raster *r = plb_alloc(sizeof *r);
        plb_busy_sums *sums = plb_alloc(sizeof *sums);
        plb_timeline *t = plb_timeline_new(sums, seed % 2 ? 4096 : INTERVALS, CELLS);
        for (uint64_t i = 0; i < INTERVALS; i++) {
            plb_philox_block random = plb_philox(seed, i, 0);
            int64_t length = random.word[0] % (seed % 3 ? 40 : 400);
            int64_t start = random.word[1] % (uint32_t)(CELLS - length);
            plb_busy what = (plb_busy)(random.word[2] % PLB_BUSY_COUNT);
            mark(r, what, start, start + length);
            plb_timeline_add(t, what, ORIGIN + start, ORIGIN + start + length);
            if (random.word[3] % 16 == 0) plb_timeline_settle(t, 0);
        }
        plb_timeline_settle(t, 1);
        check_sums(r, sums, ORIGIN);
        plb_timeline_free(t);
        plb_free(sums);
        plb_free(r);
    }
}

// In order, far more than fit at once: nothing is late, and the sum is that of the formula.
static void a_long_run_needs_no_more_room(void) {
    enum { COUNT = 200000, EVERY = 100, LENGTH = 30 };
    plb_busy_sums *sums = plb_alloc(sizeof *sums);
    plb_timeline *t = plb_timeline_new(sums, 64, 1000);
    uint64_t before = plb_alloc_count();
    for (int64_t i = 0; i < COUNT; i++)
        plb_timeline_add(t, PLB_BUSY_KERNEL, 1 + i * EVERY, 1 + i * EVERY + LENGTH);
    plb_timeline_settle(t, 1);
    CHECK(plb_alloc_count() == before);
    CHECK(sums->late == 0);
    CHECK(sums->mask_ns[1 << PLB_BUSY_KERNEL] == (int64_t)COUNT * LENGTH);
    CHECK(sums->mask_ns[0] == (int64_t)(COUNT - 1) * (EVERY - LENGTH));
    CHECK(sums->gap_count[6] == COUNT - 1); // 70 ns lie in [64, 128)
    CHECK(sums->gap_ns[6] == (int64_t)(COUNT - 1) * (EVERY - LENGTH));
    plb_timeline_free(t);
    plb_free(sums);
}

static void what_comes_too_late_is_counted(void) {
    plb_busy_sums *sums = plb_alloc(sizeof *sums);
    plb_timeline *t = plb_timeline_new(sums, 64, 100);
    plb_timeline_add(t, PLB_BUSY_KERNEL, 1000, 1100);
    plb_timeline_add(t, PLB_BUSY_KERNEL, 1900, 2000);
    plb_timeline_settle(t, 0);                         // up to 1900
    plb_timeline_add(t, PLB_BUSY_KERNEL, 1500, 1950);  // 400 ns of it are gone
    plb_timeline_add(t, PLB_BUSY_COPY_IN, 1200, 1300); // all of it
    plb_timeline_settle(t, 1);
    CHECK(sums->late == 2 && sums->late_ns == 500);
    CHECK(sums->mask_ns[1 << PLB_BUSY_KERNEL] == 200);
    CHECK(sums->kernels_overlap_ns == 50);
    plb_timeline_free(t);
    plb_free(sums);
}

// Overlapping all with each other, more than fit.
static void a_crowd_is_cut_and_not_lost(void) {
    plb_busy_sums *sums = plb_alloc(sizeof *sums);
    plb_timeline *t = plb_timeline_new(sums, 8, 1000000);
    for (int64_t i = 0; i < 100; i++) plb_timeline_add(t, PLB_BUSY_KERNEL, 1000 + i, 5000 + i);
    plb_timeline_settle(t, 1);
    CHECK(sums->mask_ns[1 << PLB_BUSY_KERNEL] == 4099);
    CHECK(sums->first_ns == 1000 && sums->last_ns == 5099);
    plb_timeline_free(t);
    plb_free(sums);
}

// What the host does after the device's last work is not idle time of the device.
static void the_span_ends_with_the_last_work(void) {
    plb_busy_sums *sums = plb_alloc(sizeof *sums);
    plb_timeline *t = plb_timeline_new(sums, 64, 10);
    plb_breakdown b;
    plb_timeline_add(t, PLB_BUSY_SYNCHRONIZE, 10, 90);
    plb_timeline_add(t, PLB_BUSY_KERNEL, 100, 200);
    plb_timeline_add(t, PLB_BUSY_ALLOCATE, 150, 260);
    plb_timeline_add(t, PLB_BUSY_COPY_OUT, 300, 330);
    plb_timeline_add(t, PLB_BUSY_FREE, 340, 900);
    plb_timeline_settle(t, 1);
    plb_breakdown_of(sums, &b);
    CHECK(b.span_ns == 230 && b.active_ns == 100 && b.copying_ns == 30 && b.idle_ns == 100);
    CHECK(b.idle_by[PLB_BUSY_ALLOCATE] == 60 && b.idle_unknown_ns == 40);
    CHECK(b.idle_by[PLB_BUSY_FREE] == 0 && b.idle_by[PLB_BUSY_SYNCHRONIZE] == 0);
    plb_timeline_free(t);
    plb_free(sums);
}

// Of a gap in which nothing was told nothing counts, but for what is idle for certain: what comes
// after the telling began again and is longer than the device can be behind.
static void what_was_not_told_is_neither_idle_nor_busy(void) {
    enum { MS = 1000000 };
    plb_busy_sums *sums = plb_alloc(sizeof *sums);
    plb_timeline *t = plb_timeline_new(sums, 64, 0);
    plb_breakdown b;
    plb_timeline_add(t, PLB_BUSY_KERNEL, MS, 3 * MS);
    plb_timeline_add(t, PLB_BUSY_KERNEL, 4 * MS, 5 * MS);
    plb_timeline_resume(t, 60 * MS);
    plb_timeline_add(t, PLB_BUSY_KERNEL, 70 * MS, 72 * MS);
    plb_timeline_add(t, PLB_BUSY_KERNEL, 73 * MS, 75 * MS);
    plb_timeline_settle(t, 1);
    plb_breakdown_of(sums, &b);
    CHECK(b.active_ns == 7 * MS && b.idle_ns == 2 * MS && b.span_ns == 9 * MS);
    CHECK(sums->first_ns == MS && sums->last_ns == 75 * MS);
    const int64_t again_ns = INT64_C(1000) * MS;
    plb_timeline_resume(t, again_ns);
    plb_timeline_add(t, PLB_BUSY_SYNCHRONIZE, again_ns + 50 * MS, again_ns + 100 * MS);
    plb_timeline_add(t, PLB_BUSY_KERNEL, again_ns + 300 * MS, again_ns + 301 * MS);
    plb_timeline_settle(t, 1);
    plb_breakdown_of(sums, &b);
    CHECK(b.active_ns == 8 * MS && b.idle_ns == 302 * MS);
    CHECK(b.idle_by[PLB_BUSY_SYNCHRONIZE] == 50 * MS && b.idle_unknown_ns == 252 * MS);
    plb_timeline_free(t);
    plb_free(sums);
}

static const check_test tests[] = {
    {"what was not told is neither idle nor busy", what_was_not_told_is_neither_idle_nor_busy},
    {"any intervals add up", any_intervals_add_up},
    {"a long run needs no more room", a_long_run_needs_no_more_room},
    {"what comes too late is counted", what_comes_too_late_is_counted},
    {"a crowd is cut and not lost", a_crowd_is_cut_and_not_lost},
    {"the span ends with the last work", the_span_ends_with_the_last_work},
};
CHECK_MAIN(tests)
