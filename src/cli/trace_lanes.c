// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_lanes.h"

#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

enum { FIRST_LANE = 1 << 29 };    // no stream and no thread has that number
enum { BESIDE = 16, DEPTH = 64 }; // lanes of a track, and what lies in one another in one of them

static int order_of(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

// The track that a record asks for: of the host, or of a device.
static int compare_tracks(const plb_trace_record *a, const plb_trace_record *b) {
    const bool host = plb_trace_is_host(a);
    int order = order_of(host, plb_trace_is_host(b));
    if (!order && !host) order = order_of(a->device, b->device);
    return order ? order : order_of(a->track, b->track);
}

// By track and beginning, the longer first, so that what encloses comes before what it holds.
static int compare(const void *left, const void *right, void *bytes) {
    const uint32_t i = *(const uint32_t *)left, j = *(const uint32_t *)right;
    const plb_trace_record a = plb_trace_record_at(bytes, i), b = plb_trace_record_at(bytes, j);
    int order = compare_tracks(&a, &b);
    if (!order && a.start_ns != b.start_ns) order = a.start_ns < b.start_ns ? -1 : 1;
    if (!order && a.end_ns != b.end_ns) order = a.end_ns > b.end_ns ? -1 : 1;
    return order ? order : order_of(i, j);
}

// What a lane is in the middle of: ends, the innermost last.
typedef struct open_lane {
    uint32_t tid;
    int depth;
    int64_t end_ns[DEPTH];
} open_lane;

static bool fits(open_lane *lane, const plb_trace_record *r) {
    while (lane->depth && lane->end_ns[lane->depth - 1] <= r->start_ns) lane->depth--;
    return !lane->depth || r->end_ns <= lane->end_ns[lane->depth - 1];
}

static bool add_lane(plb_trace_lanes *out, const plb_trace_record *r, open_lane *lane) {
    if (out->lanes == PLB_TRACE_LANES) return false;
    *lane = (open_lane){.tid = FIRST_LANE + (uint32_t)out->lanes};
    out->lane[out->lanes++] = (plb_trace_lane){
        .tid = lane->tid, .track = r->track, .device = r->device, .host = plb_trace_is_host(r)};
    return true;
}

// The first lane of a track where the record has room, made if need be.
static uint32_t place(plb_trace_lanes *out, const plb_trace_record *r, open_lane *lanes, int *n) {
    int k = 0;
    while (k < *n && !fits(&lanes[k], r)) k++;
    if (k == BESIDE || (k == *n && !add_lane(out, r, &lanes[k]))) return r->track;
    if (k == *n) (*n)++;
    if (lanes[k].depth < DEPTH) lanes[k].end_ns[lanes[k].depth++] = r->end_ns;
    return lanes[k].tid;
}

static void place_all(const void *bytes, const uint32_t *order, size_t count, open_lane *lanes,
                      plb_trace_lanes *out) {
    plb_trace_record before;
    int n = 0;
    for (size_t i = 0; i < count; i++) {
        const plb_trace_record r = plb_trace_record_at(bytes, order[i]);
        if (!i || compare_tracks(&before, &r)) {
            lanes[0] = (open_lane){.tid = r.track};
            n = 1;
        }
        out->tid[order[i]] = place(out, &r, lanes, &n);
        before = r;
    }
}

plb_status plb_trace_lanes_of(const void *bytes, size_t count, plb_trace_lanes *out) {
    *out = (plb_trace_lanes){0};
    if (count == 0) return PLB_OK;
    if (count > UINT32_MAX) return plb_fail(PLB_EUNSUPPORTED, "a trace of over 2^32 records");
    uint32_t *order = plb_alloc_array(count, sizeof *order);
    open_lane *lanes = plb_alloc_array(BESIDE, sizeof *lanes);
    out->tid = plb_alloc_array(count, sizeof *out->tid);
    plb_status status = order && lanes && out->tid
                            ? PLB_OK
                            : plb_fail(PLB_ENOMEM, "out of memory for the tracks of a trace");
    for (size_t i = 0; i < count && !status; i++) order[i] = (uint32_t)i;
    if (!status) {
        qsort_r(order, count, sizeof *order, compare, (void *)bytes);
        place_all(bytes, order, count, lanes, out);
    }
    plb_free(order);
    plb_free(lanes);
    return status;
}

void plb_trace_lanes_free(plb_trace_lanes *lanes) {
    plb_free(lanes->tid);
    *lanes = (plb_trace_lanes){0};
}
