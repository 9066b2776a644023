// SPDX-License-Identifier: Apache-2.0
// How long each combination of things went on at once, from intervals that arrive in no certain
// order, in bounded memory. Every interval belongs to a category; at any moment the set of
// categories that are busy is a mask; the timeline adds up the nanoseconds of every mask. Shares
// of time that add up to one, overlaps, and what the host did while the device was idle are then
// sums over masks: no interval is counted twice, whatever runs at the same time.
//
// Intervals wait until they are older than the lag, then a sweep over their ends adds them up.
// One that comes later than that is cut to what is not yet added up, and counted as late.
#ifndef PLB_PROBE_TIMELINE_H
#define PLB_PROBE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef enum plb_busy {
    // On the device.
    PLB_BUSY_KERNEL,
    PLB_BUSY_COMMUNICATION, // kernels and copies between devices
    PLB_BUSY_MEMSET,
    PLB_BUSY_COPY_INSIDE, // from the device to itself
    PLB_BUSY_COPY_IN,     // from the host
    PLB_BUSY_COPY_OUT,    // to the host
    // On the host: calls that some thread is in.
    PLB_BUSY_SYNCHRONIZE,
    PLB_BUSY_COPY_CALL,
    PLB_BUSY_ALLOCATE,
    PLB_BUSY_FREE,
    PLB_BUSY_LAUNCH,
    PLB_BUSY_OTHER_CALL,
    PLB_BUSY_COUNT
} plb_busy;

enum {
    PLB_BUSY_MASKS = 1 << PLB_BUSY_COUNT,
    PLB_BUSY_DEVICE_COUNT = PLB_BUSY_COPY_OUT + 1,
    PLB_BUSY_DEVICE = (1 << PLB_BUSY_DEVICE_COUNT) - 1,
    PLB_BUSY_ACTIVE = PLB_BUSY_DEVICE & ~(1 << PLB_BUSY_COPY_IN | 1 << PLB_BUSY_COPY_OUT),
    PLB_GAP_CLASSES = 40, // of a gap's length: class k holds [2^k, 2^(k+1)) ns
    PLB_GAP_LONGEST = 32,
};

typedef struct plb_gap {
    int64_t start_ns, end_ns;
} plb_gap;

// What has been added up; plain data, so that it can live in a mapped file.
typedef struct plb_busy_sums {
    int64_t mask_ns[PLB_BUSY_MASKS];
    int64_t kernels_overlap_ns; // two kernels or more at once
    int64_t copies_overlap_ns;  // two copies between host and device or more at once
    int64_t first_ns, last_ns;  // of work on the device; 0, 0 before there was any
    int64_t late, late_ns;      // intervals that came too late, and how much of them was cut
    int64_t gap_count[PLB_GAP_CLASSES], gap_ns[PLB_GAP_CLASSES];
    plb_gap longest[PLB_GAP_LONGEST]; // in no order; the rest zero
} plb_busy_sums;

typedef struct plb_timeline plb_timeline;

// `sums` is borrowed, starts zeroed, and is only written by calls of this module. At most
// `capacity` intervals wait; when they are more, the older half is added up at once. NULL when
// out of memory.
plb_timeline *plb_timeline_new(plb_busy_sums *sums, size_t capacity, int64_t lag_ns);
void plb_timeline_free(plb_timeline *timeline);

// An interval; an empty or negative one is ignored. No allocation after _new.
void plb_timeline_add(plb_timeline *timeline, plb_busy what, int64_t start_ns, int64_t end_ns);

// From `at_ns` on intervals come again, after a stretch of which none were told. Told before any of
// them. The gap before the first work that begins there or later counts as neither idle nor busy:
// the device may have done what was not told. If it ends too late for that, its part from `at_ns`
// on was idle.
void plb_timeline_resume(plb_timeline *timeline, int64_t at_ns);

// Adds up all that is older than the lag; with `all`, everything.
void plb_timeline_settle(plb_timeline *timeline, int all);

#endif
