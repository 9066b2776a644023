// SPDX-License-Identifier: Apache-2.0
// Turns records, one at a time, into the sums of a spool. One thread at a time.
#ifndef PLB_PROBE_SUM_H
#define PLB_PROBE_SUM_H

#include "probe/spool.h"

typedef enum plb_record_kind {
    PLB_RECORD_KERNEL,
    PLB_RECORD_COPY,
    PLB_RECORD_SET,
    PLB_RECORD_GRAPH, // a launch of a graph, seen as a whole
    PLB_RECORD_CALL,
    PLB_RECORD_MEMORY, // device memory taken (bytes > 0) or given back (bytes < 0)
    PLB_RECORD_RANGE,
} plb_record_kind;

// One thing that happened, free of CUPTI's layouts. Times are CUPTI's clock.
typedef struct plb_record {
    plb_record_kind kind;
    int64_t start_ns, end_ns;
    uint32_t device, stream, thread, correlation;
    const char *name; // of a kernel, call or range, or of who took memory; borrowed for the call
    plb_busy busy;    // of a call: what it is
    plb_copy copy;
    bool pinned, in_graph;
    bool aside; // of a stretch whose kernels are not recorded: counted, but in no share of time
    int64_t bytes;
    int64_t address;                     // of memory
    int64_t pool_bytes, pool_used_bytes; // of the pool that it was taken from; or 0
    int64_t grid_number;                 // of a kernel: the driver counts its launches
    int32_t grid[3], block[3], registers, shared_bytes;
} plb_record;

typedef struct plb_sum plb_sum;

// NULL when out of memory. `spool` is borrowed.
plb_sum *plb_sum_new(plb_spool *spool);
void plb_sum_free(plb_sum *sum);
// False for work without times, or that ended before it began: it is counted as lost.
bool plb_sum_has_times(const plb_record *record);
// Returns where in the spool's names the record's name is; 0 when it has none.
uint32_t plb_sum_record(plb_sum *sum, const plb_record *record);
plb_busy plb_busy_of_copy(plb_copy copy);
// Kernels are recorded again from `at_ns` on.
void plb_sum_resume(plb_sum *sum, int64_t at_ns);
// Brings the shares of time up to date: but for the last lag, or with `all` to the end.
void plb_sum_settle(plb_sum *sum, int all);

// Facts about a device, when they become known.
void plb_sum_device(plb_sum *sum, uint32_t device, const char *name, int32_t sm_count,
                    int32_t warps_per_sm, int32_t capability, int64_t memory_bytes);

#endif
