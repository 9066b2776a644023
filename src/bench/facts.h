// SPDX-License-Identifier: Apache-2.0
// What the bench needs to know of a model, asked of plumb-ref: `bench` itself has no engine.
#ifndef PLB_BENCH_FACTS_H
#define PLB_BENCH_FACTS_H

#include "bench/client.h"

enum { PLB_FACTS_MAX_INPUTS = 2 };

typedef struct plb_facts {
    char model[64];
    bool training;
    int64_t batch, size, classes;
    int n_inputs;
    struct {
        char name[8]; // "x", "y"
        plb_dtype dtype;
        plb_shape shape; // the batch first
    } input[PLB_FACTS_MAX_INPUTS];
    bool log_probabilities;
    bool dropout; // training draws random numbers
    int depth;    // products in a row, at least 1
    double flops; // of one iteration without the optimizer
    int64_t parameters;
    char graph[32]; // hash of what is computed
} plb_facts;

// batch and size 0: the model's defaults. A model or size that there is none of is a refusal.
PLB_API PLB_MUST_USE plb_status plb_facts_ask(plb_client *reference, const char *model,
                                              const char *task, int64_t batch, int64_t size,
                                              plb_facts *out);

// Path of the file with the model's first weights, written by the reference if it is not there;
// in the cache's folder `weights`.
PLB_API PLB_MUST_USE plb_status plb_facts_weights(plb_client *reference, const plb_facts *facts,
                                                  const char *cache, char *path, size_t size);

#endif
