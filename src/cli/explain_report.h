// SPDX-License-Identifier: Apache-2.0
// What `plumb explain` found out, as text and as JSON.
#ifndef PLB_CLI_EXPLAIN_REPORT_H
#define PLB_CLI_EXPLAIN_REPORT_H

#include "base/json.h"
#include "engine/device/cpu/roof.h"
#include "plumb/plan.h"

typedef struct plb_explained_op {
    plb_plan_op op;
    double seconds; // of its shortest call
    double least;   // that the roof allows
    bool in_cache;  // the working set fits in the second-level caches
} plb_explained_op;

typedef struct plb_explained {
    const char *model, *task;
    int64_t batch, channels, height, width;
    int64_t parameters;
    int runs;
    plb_plan_options options;
    plb_roof roof;
    plb_plan *plan;
    plb_explained_op *ops;
    int n_ops;
    double seconds; // of the shortest run
} plb_explained;

void plb_explain_print(const plb_explained *e);
// Into the open object.
void plb_explain_json(const plb_explained *e, plb_json *json);

#endif
