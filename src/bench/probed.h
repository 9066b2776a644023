// SPDX-License-Identifier: Apache-2.0
// One more start of a case, under a probe. Speeds come from unprobed processes only, so nothing of
// it is a sample; what the probe saw is joined to the case. What the probe is, bench does not know:
// whoever calls it brings one along.
#ifndef PLB_BENCH_PROBED_H
#define PLB_BENCH_PROBED_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "plumb/status.h"

// What was looked at, in a steady worker.
typedef struct plb_probed_window {
    const char *device; // of the case: "cpu", "cuda:0"
    int64_t iterations;
    int64_t wall_ns, cpu_ns; // cpu: of all threads of the worker; -1: unknown
    // The stack's own operators, as the protocol has them, from further iterations that are in no
    // time above; NULL: it records none. Borrowed.
    const json_t *operators;
    int64_t operator_iterations;
} plb_probed_window;

typedef struct plb_bench_probe {
    void *context;
    // Before a worker starts: what else its environment holds, "NAME=value", NULL at the end,
    // borrowed until `take` or `drop`.
    plb_status (*begin)(void *context, const char *const **out_environment);
    // Turns recording on and off in the worker.
    plb_status (*record)(void *context, bool on);
    // After the worker's end: what was seen, as a JSON object, yours to free(). NULL: nothing to
    // keep.
    plb_status (*take)(void *context, const plb_probed_window *window, char **out_json);
    // Instead of `take`, when there is nothing to look at.
    void (*drop)(void *context);
} plb_bench_probe;

struct plb_bench;
struct plb_group;
struct plb_bench_case;

// A probed start; afterwards the case's profile is there, or says why it is not. A worker that
// breaks under the probe does not spoil what the case measured without it.
PLB_MUST_USE plb_status plb_probed_run(struct plb_bench *bench, struct plb_group *group,
                                       struct plb_bench_case *c);

#endif
