// SPDX-License-Identifier: Apache-2.0
// How the machine is doing at a moment: heat, clocks, throttling, who else is busy. Read from /proc
// and /sys below `root` ("" for the machine itself); what cannot be found out is −1.
#ifndef PLB_BENCH_MACHINE_STATE_H
#define PLB_BENCH_MACHINE_STATE_H

#include <stdint.h>

#include "plumb/status.h"

enum { PLB_STATE_BUSY = 5 };

typedef struct plb_busy_process {
    long number;
    char name[32];
    double cpus; // processors that it kept busy
} plb_busy_process;

typedef struct plb_machine_state {
    double load_1min;
    double temperature_c;              // the hottest sensor
    double clock_mhz, clock_limit_mhz; // of the fastest processor now; what it may reach
    int boost;                         // 1: clocks above the nominal one are permitted
    int64_t quota_throttled;    // periods in which the control group's quota stopped us, so far
    int64_t quota_throttled_us; // for how long
    int64_t heat_throttled;     // events of the processor, so far
    double stolen;              // share of time that the hypervisor took, while watched
    double others_cpus;         // processors that others kept busy, while watched
    plb_busy_process busy[PLB_STATE_BUSY]; // above 5 % of a processor, the busiest first
    int busy_count;
} plb_machine_state;

// Watches for `watch_ms`, during which it sleeps; 0: stolen and others_cpus stay −1. This process
// and its descendants are not "others".
PLB_API void plb_machine_state_read(const char *root, int watch_ms, plb_machine_state *out);

#endif
