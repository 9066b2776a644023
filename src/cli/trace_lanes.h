// SPDX-License-Identifier: Apache-2.0
// On which track of a trace each record is drawn. Perfetto drops an event that overlaps another of
// its track without lying in it, as kernels of one stream do that begin early or are branches of a
// graph, and ranges that do not nest: those get lanes beside the track.
#ifndef PLB_CLI_TRACE_LANES_H
#define PLB_CLI_TRACE_LANES_H

#include "probe/trace.h"

enum { PLB_TRACE_LANES = 256 }; // of all tracks together

typedef struct plb_trace_lane {
    uint32_t tid, track, device; // device: of no host's track
    bool host;
} plb_trace_lane;

typedef struct plb_trace_lanes {
    uint32_t *tid;                        // of each record: its track, or a lane
    plb_trace_lane lane[PLB_TRACE_LANES]; // that are used
    int lanes;
} plb_trace_lanes;

static inline bool plb_trace_is_host(const plb_trace_record *r) {
    return r->kind == PLB_RECORD_CALL || r->kind == PLB_RECORD_RANGE;
}

// `bytes` are `count` records, at any address. What finds no lane any more stays on its track.
// Out of memory is PLB_ENOMEM; free with plb_trace_lanes_free, after a failure too.
PLB_MUST_USE plb_status plb_trace_lanes_of(const void *bytes, size_t count, plb_trace_lanes *out);
void plb_trace_lanes_free(plb_trace_lanes *lanes);

#endif
