// SPDX-License-Identifier: Apache-2.0
// The profile of a case's probed start, as `plumb bench --profile` keeps it among the results, read
// back for whoever shows it.
#ifndef PLB_BENCH_CASE_PROFILE_H
#define PLB_BENCH_CASE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/arena.h"
#include "plumb/status.h"

// One row of what an iteration did: a kernel, a class of kernels, a call of the driver.
typedef struct plb_profile_row {
    const char *kind; // "kernel", "class", "call"
    const char *name;
    const char *class; // of a kernel; "" otherwise
    double calls, ns;  // of one iteration
} plb_profile_row;

// Numbers are of one iteration, shares of the time between a device's first work and its last; NaN:
// unknown.
typedef struct plb_case_profile {
    bool there;
    const char *failure; // why there is no profile though one was asked for; NULL
    const char *lacks;   // why it is incomplete; NULL: it is not
    int64_t iterations, devices;
    double wall_ns, cpu_ns;
    double active, move, idle, launches, device_ns;
    plb_profile_row *row;
    size_t rows;
} plb_case_profile;

// `results`: JSON of a measurement, or NULL. All memory is the arena's. What is not as it should be
// in it reads as not there.
PLB_API PLB_MUST_USE plb_status plb_case_profile_read(const char *results, plb_arena *arena,
                                                      plb_case_profile *out);

#endif
