// SPDX-License-Identifier: Apache-2.0
// When to record kernels, so that it costs a program no more than a share of its time: all of them
// while few are launched or the program is young, else in blocks. What a record costs a launch is
// known; time passing gives credit, records take it. Blocks are of uneven lengths, so that they do
// not fall in step with the program's own, and become longer as the program goes on.
#ifndef PLB_PROBE_GOVERNOR_H
#define PLB_PROBE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    // That a kernel's record takes of its launch, and a block by itself, to come and to go, as
    // measured (docs/profiling.md).
    PLB_GOVERNOR_RECORD_NS = 2900,
    PLB_GOVERNOR_SWITCH_NS = 18000000,
    PLB_GOVERNOR_ALLOWANCE_NS = 150000000, // what a program may be charged before it is rationed
    PLB_GOVERNOR_BLOCK_NS = 200000000,     // of a block, on average, at first
    PLB_GOVERNOR_LOOK_NS = 100000000,      // between two looks while it records
};

typedef struct plb_governor {
    double budget; // share of the time
    int64_t began_ns, looked_ns, until_ns, turned_ns;
    int64_t records;  // that were charged
    double credit_ns; // may be negative
    double rate;      // records a nanosecond, of the last look or block; 0: none seen yet
    bool on;
    uint64_t random;
} plb_governor;

// Recording is on from here.
void plb_governor_begin(plb_governor *g, double budget, int64_t now_ns, uint64_t seed);
// Whether to record from now on. `records`: how many kernels have been recorded since the begin, as
// far as they have come in.
bool plb_governor_look(plb_governor *g, int64_t now_ns, int64_t records);
// Recording could not be ended.
void plb_governor_stay(plb_governor *g, int64_t now_ns);
// How long until the next look.
int64_t plb_governor_wait_ns(const plb_governor *g, int64_t now_ns);

#endif
