// SPDX-License-Identifier: Apache-2.0
// Sums by stream and by thread of all processes of a profile, those with most time first.
#ifndef PLB_PROBE_TALLIED_H
#define PLB_PROBE_TALLIED_H

#include "base/core/arena.h"
#include "probe/profile.h"

typedef struct plb_tallied_stream {
    int pid;
    const char *program;
    plb_spool_stream sums;
} plb_tallied_stream;

typedef struct plb_tallied_thread {
    int pid;
    const char *program;
    plb_spool_thread sums;
} plb_tallied_thread;

// In `arena`; the programs' names are the profile's.
PLB_MUST_USE plb_status plb_tallied_streams(const plb_profile *profile, plb_arena *arena,
                                            plb_tallied_stream **out, int *out_count);
PLB_MUST_USE plb_status plb_tallied_threads(const plb_profile *profile, plb_arena *arena,
                                            plb_tallied_thread **out, int *out_count);

#endif
