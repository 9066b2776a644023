// SPDX-License-Identifier: Apache-2.0
// What the device's hardware counters said of a process, in a file of fixed size beside its spool.
// In the machine's own byte order, like the spool; whoever reads it trusts nothing.
#ifndef PLB_PROBE_COUNTED_H
#define PLB_PROBE_COUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

#define PLB_COUNTED_MAGIC UINT64_C(0x31746e756f43504c)

enum {
    PLB_COUNTED_VERSION = 1,
    PLB_COUNTED_METRICS = 16,
    PLB_COUNTED_KERNELS = 1024, // a power of two: a hash table
    PLB_COUNTED_NAME_BYTES = 1024,
};

// What counts add up to.
typedef enum plb_counted_total {
    PLB_COUNTED_CORES,  // flops on ordinary cores, f32 and f64
    PLB_COUNTED_TENSOR, // flops on tensor cores, of all types of numbers
    PLB_COUNTED_DRAM,   // bytes between the device's memory and its cache
    PLB_COUNTED_L2,     // bytes between that cache and the cores' own
    PLB_COUNTED_TOTALS
} plb_counted_total;

typedef struct plb_counted_kernel {
    uint64_t hash; // of the name; 0: the row is free
    int64_t launches;
    double total[PLB_COUNTED_TOTALS];
    char name[PLB_COUNTED_NAME_BYTES]; // mangled, perhaps cut
} plb_counted_kernel;

typedef struct plb_counted {
    uint64_t magic;
    uint32_t version, size_bytes;
    int32_t pid;
    uint32_t asked;    // bit i: total i was asked for
    int64_t passes;    // that each kernel was run
    int64_t launches;  // that were counted
    int64_t unnamed;   // of those: whose kernel is unknown, since more or fewer were counted
    int64_t uncounted; // launches of graphs and of further contexts, and what CUPTI dropped
    double total[PLB_COUNTED_TOTALS];
    char chip[32];
    char reason[256]; // why nothing, or not all, could be counted; or ""
    plb_counted_kernel kernel[PLB_COUNTED_KERNELS];
} plb_counted;

// "cores", "tensor", "dram", "l2"; NULL beyond them.
const char *plb_counted_name(int total);
// A list like "flops,dram" as bits; "flops" is cores and tensor. PLB_EINVAL with the word that is
// none.
PLB_MUST_USE plb_status plb_counted_parse(const char *list, uint32_t *out_asked);

// Maps a new file of full size; as plb_spool_create. Freed by plb_counted_unmap.
PLB_MUST_USE plb_status plb_counted_create(const char *path, plb_counted **out);
// Checks a copy of a file in memory: afterwards every string of it ends.
PLB_MUST_USE plb_status plb_counted_check(const plb_counted *counted, size_t size_bytes,
                                          const char *place);
void plb_counted_unmap(plb_counted *counted);

// The row of a kernel, made when it is new; NULL when there is no room.
plb_counted_kernel *plb_counted_row(plb_counted *counted, const char *name);

#endif
