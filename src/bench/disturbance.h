// SPDX-License-Identifier: Apache-2.0
// Whether something disturbs while samples are taken: other programs that keep processors busy, a
// quota that stops us, a machine that is slower than it was. Looked at once a second, so that
// looking does not disturb; what was seen in the last second marks the blocks of the next.
#ifndef PLB_BENCH_DISTURBANCE_H
#define PLB_BENCH_DISTURBANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/pace.h"
#include "plumb/status.h"

typedef struct plb_disturbance {
    bool known;              // there was a first look
    int64_t looked_ns;       // when
    int64_t busy_ns, own_ns; // processor time of the machine, of this process and its descendants
    int64_t quota_throttled; // times that the control group's quota stopped us
    uint32_t marks;          // PLB_MARK_…, of now
    double others_cpus;      // processors that others kept busy in the last second
    plb_pace pace;           // looked at every four seconds
    int64_t paced_ns;        // when; 0: never
    double slowdown;         // of a copy of memory against the best of this run; 0: unknown
} plb_disturbance;

// Looks if it is time to; the marks of now.
PLB_API uint32_t plb_disturbance_look(plb_disturbance *disturbance);
PLB_API void plb_disturbance_free(plb_disturbance *disturbance);

#endif
