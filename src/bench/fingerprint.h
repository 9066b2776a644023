// SPDX-License-Identifier: Apache-2.0
// What a number depends on besides its case: the machine, its state, the libraries, the
// environment. Stored with every run; two runs whose `machine` differs are not compared.
#ifndef PLB_BENCH_FINGERPRINT_H
#define PLB_BENCH_FINGERPRINT_H

#include "plumb/status.h"

typedef struct plb_fingerprint {
    char *machine; // JSON: processor, cores, affinity, quota, memory, cards, and variables of the
                   // environment that change stacks unequally: what must be equal
    char *all;     // JSON: that, and libraries, kernel, governor, load, temperature, clocks,
                   // throttle counters, busy processes, environment
    char *warning; // one line for the user: busy, throttling, powersave, such variables; NULL: none
} plb_fingerprint;

// `root` is put before /proc and /sys; "" for the machine itself. Takes about `watch_ms` (0: do not
// look for busy processes). Freed by plb_fingerprint_free.
PLB_API PLB_MUST_USE plb_status plb_fingerprint_take(const char *root, int watch_ms,
                                                     plb_fingerprint *out);
// JSON {"state": ...}, as `all` has it, of this moment: how the machine was when a run ended. Freed
// by plb_free.
PLB_API PLB_MUST_USE plb_status plb_fingerprint_state(const char *root, int watch_ms, char **out);
PLB_API void plb_fingerprint_free(plb_fingerprint *fingerprint);

#endif
