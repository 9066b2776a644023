// SPDX-License-Identifier: Apache-2.0
// What `plumb profile` asks the probe in another process for, by variables of the environment.
#ifndef PLB_PROBE_OPTIONS_H
#define PLB_PROBE_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct plb_probe_options {
    char folder[PATH_MAX];
    char cupti[PATH_MAX];
    bool all_calls, ranges, whole_graphs, follow_program, follow_file, cost, sources;
    int64_t trace_bytes, delay_ms, limit_ms, block_ms, rest_ms;
    int64_t budget_ppm; // of the time that recording may cost; 0: as much as it takes
    uint32_t counters;  // bits of plb_counted_total; then nothing else is recorded
} plb_probe_options;

// PLUMB_PROBE_DIR, PLUMB_PROBE_CUPTI (both "" where they are not set), and PLUMB_PROBE_OPTIONS,
// words with commas between them: calls, ranges, graphs, program, file, sources, cost=MS, rest=MS
// (between two blocks; else as long as one), budget=PPM, trace=BYTES, delay=MS, limit=MS,
// counters=BITS.
void plb_probe_read_options(plb_probe_options *options);

#endif
