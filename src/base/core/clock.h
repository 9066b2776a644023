// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_BASE_CORE_CLOCK_H
#define PLB_BASE_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

// CLOCK_MONOTONIC in nanoseconds.
static inline int64_t plb_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
