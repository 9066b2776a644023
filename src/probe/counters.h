// SPDX-License-Identifier: Apache-2.0
// The processor's counters through perf_event_open, of a program that is about to begin and of all
// that it starts. Many machines forbid them: then the counters are unknown, with the reason.
#ifndef PLB_PROBE_COUNTERS_H
#define PLB_PROBE_COUNTERS_H

#include <sys/types.h>

#include "probe/command.h"

typedef struct plb_counters {
    int fd[PLB_COMMAND_COUNTERS]; // -1: unknown
    int error;                    // errno of the first that failed, or 0
} plb_counters;

const char *plb_counter_name(int i); // of the i-th of a run's counters
// Counting begins when `pid` becomes another program.
void plb_counters_open(plb_counters *counters, pid_t pid);
// Reads and closes.
void plb_counters_close(plb_counters *counters, plb_command_result *out);

#endif
