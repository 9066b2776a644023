// SPDX-License-Identifier: Apache-2.0
// The energy of a stretch of a run, from what was seen of its cards.
#ifndef PLB_PROBE_ENERGY_H
#define PLB_PROBE_ENERGY_H

#include "probe/command.h"
#include "probe/profile.h"

// Joules of all cards between two moments of CLOCK_MONOTONIC: each look has the mean power since
// the one before it. False when the cards were looked at fewer than three times in it, which says
// nothing about so short a time.
bool plb_energy_between(const plb_command_result *run, int64_t from_ns, int64_t to_ns,
                        double *joules);

// What one step of a program took, on average.
typedef struct plb_step_cost {
    int64_t steps;
    double ms;     // from the devices' first work to their last, divided
    bool known;    // whether joules are
    double joules; // of all cards in that time, divided
} plb_step_cost;

// `steps`: how many the program made while it was recorded; 0: as often as its range "step" was
// passed. False when that is unknown, or no device worked.
bool plb_step_cost_of(const plb_profile *profile, const plb_command_result *run, int64_t steps,
                      plb_step_cost *out);

#endif
