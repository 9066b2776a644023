// SPDX-License-Identifier: Apache-2.0
// Checks the clock, and the way of reading it around a piece of work, against work of known length:
// a chain of dependent multiplications, whose length a much longer chain gives.
#ifndef PLB_BENCH_SPIN_H
#define PLB_BENCH_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "plumb/status.h"

enum { PLB_SPIN_LENGTHS = 5 };

typedef struct plb_spin_check {
    double known_ns;    // 2, 5, 10, 20, 50 us
    double measured_ns; // median of samples that are taken as a worker takes them
    bool fine;          // within 5 % or 1 us
} plb_spin_check;

// Takes about 0.1 s. Fills checks[PLB_SPIN_LENGTHS]; true if all are fine.
PLB_API bool plb_spin_check_clock(plb_spin_check *checks);

// A chain of so many multiplications.
PLB_API void plb_spin(int64_t steps);

#endif
