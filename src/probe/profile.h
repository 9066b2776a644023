// SPDX-License-Identifier: Apache-2.0
// A profile read back: the files of every process that the probe was in, their rows merged and
// sorted for people to read.
#ifndef PLB_PROBE_PROFILE_H
#define PLB_PROBE_PROFILE_H

#include "probe/counted.h"
#include "probe/estimate.h"
#include "probe/kernel_name.h"
#include "probe/occupancy.h"
#include "probe/spool.h"

enum { PLB_PROFILE_PROCESSES = 1024 }; // that are read, at megabytes each

typedef struct plb_profile_kernel {
    const char *name; // demangled
    const char *class;
    int device, variants;  // variants: launch shapes under this name
    int grid[3], block[3]; // of the variant with most time
    int registers, shared_bytes;
    plb_occupancy occupancy; // the most that such launches can fill a multiprocessor
    int64_t calls, graph_calls, total_ns, min_ns, max_ns; // as recorded
    plb_estimated whole; // what the run had: the same, or an estimate where it was recorded in part
} plb_profile_kernel;

// In the order of a tree: each after the range around it.
typedef struct plb_profile_range {
    const char *name;
    int depth;
    int64_t calls, total_ns, min_ns, max_ns; // of the host
    int64_t device_ns, device_work;          // launched in it, ranges inside it included
    int64_t self_device_ns;                  // in none of those
} plb_profile_range;

typedef struct plb_profile_named { // calls, classes
    const char *name;
    plb_busy busy; // of calls
    int64_t calls, total_ns, min_ns, max_ns;
    plb_estimated whole; // as of kernels
} plb_profile_named;

// Of hardware counters: a kernel under its demangled name.
typedef struct plb_profile_counted {
    const char *name;
    int64_t launches;
    double total[PLB_COUNTED_TOTALS];
} plb_profile_counted;

typedef struct plb_profile {
    plb_spool **process;  // each checked
    char **file;          // of the process with the same number: the path of its spool
    plb_counted *counted; // each checked; of the processes whose counters were read
    int counteds;
    plb_profile_counted *counted_kernel; // the most flops first, then bytes
    int counted_kernels;
    char (*problem)[320]; // of files that could not be read
    int processes, problems;
    int processes_unread; // beyond PLB_PROFILE_PROCESSES
    plb_profile_kernel *kernel;
    plb_profile_named *call, *class;
    plb_profile_range *range;
    int kernels, calls, ranges, classes;
    bool in_part;       // of some process only stretches of its kernels were recorded
    bool calls_in_part; // and of its calls, copies and memory too
    struct plb_arena *arena;
} plb_profile;

typedef enum plb_profile_order {
    PLB_BY_TOTAL,
    PLB_BY_CALLS,
    PLB_BY_AVERAGE,
    PLB_BY_MAX,
    PLB_BY_NAME,
} plb_profile_order;

// The folder's *.spool, by name; those beyond PLB_PROFILE_PROCESSES are counted. Damaged files are
// left out and named in `problem`. Freed by plb_profile_free.
PLB_MUST_USE plb_status plb_profile_read(const char *folder, const plb_kernel_classes *classes,
                                         plb_profile **out);
void plb_profile_free(plb_profile *profile);
void plb_profile_sort(plb_profile *profile, plb_profile_order order);

#endif
