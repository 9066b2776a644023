// SPDX-License-Identifier: Apache-2.0
// The long chain and the short one are timed in turns, since a processor changes its clock as it
// likes; medians of both leave out the turns in which somebody else had the processor.
#include "bench/spin.h"

#include <math.h>

#include "base/core/clock.h"
#include "bench/stats.h"

enum { TURNS = 101, LONG_STEPS = 400000 }; // the long one takes about half a millisecond

static volatile uint64_t sink;

void plb_spin(int64_t steps) {
    uint64_t x = sink;
    for (int64_t i = 0; i < steps; i++) x = x * UINT64_C(6364136223846793005) + 1;
    sink = x;
}

static double time_of(int64_t steps) {
    int64_t begin = plb_now_ns();
    plb_spin(steps);
    return (double)(plb_now_ns() - begin);
}

bool plb_spin_check_clock(plb_spin_check *checks) {
    static const double lengths_ns[PLB_SPIN_LENGTHS] = {2e3, 5e3, 10e3, 20e3, 50e3};
    double longs[TURNS], shorts[TURNS];
    bool all = true;
    for (int i = 0; i < TURNS; i++) longs[i] = time_of(LONG_STEPS);
    double step_ns = plb_median(longs, TURNS) / LONG_STEPS;
    for (int k = 0; k < PLB_SPIN_LENGTHS; k++) {
        int64_t steps = (int64_t)(lengths_ns[k] / step_ns);
        for (int i = 0; i < TURNS; i++) {
            shorts[i] = time_of(steps);
            longs[i] = time_of(LONG_STEPS) / LONG_STEPS * (double)steps;
        }
        plb_spin_check *c = &checks[k];
        c->known_ns = plb_median(longs, TURNS), c->measured_ns = plb_median(shorts, TURNS);
        double error = fabs(c->measured_ns - c->known_ns);
        c->fine = error <= 0.05 * c->known_ns || error <= 1000;
        all &= c->fine;
    }
    return all;
}
