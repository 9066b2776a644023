// SPDX-License-Identifier: Apache-2.0
// A control group for one worker with its children, where we may make one: the kernel then stops
// whatever would pass the memory limit, however fast it grows, and says that it did. Version 1 and
// version 2 of control groups. Where none can be made (no rights, the memory controller is not
// handed down) nothing happens, and memory is watched from outside alone.
#ifndef PLB_BENCH_CGROUP_H
#define PLB_BENCH_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_cgroup {
    char folder[512];     // empty: there is none
    char processes[544];  // its file of members
    const char *oom_file; // where its kills are counted
} plb_cgroup;

// One below this process's own, limited to so many bytes. False if that cannot be.
PLB_API bool plb_cgroup_make(int64_t limit_bytes, plb_cgroup *out);
// Moves the calling process into it. Safe between fork and exec.
PLB_API void plb_cgroup_enter(const plb_cgroup *cgroup);
// Whether the kernel killed somebody in it for want of memory.
PLB_API bool plb_cgroup_ran_out(const plb_cgroup *cgroup);
// Once all of its processes are gone; waits up to a second for the kernel to notice. Safe between
// fork and exec; may be called again.
PLB_API void plb_cgroup_remove(const plb_cgroup *cgroup);

#endif
