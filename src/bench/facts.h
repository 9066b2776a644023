// SPDX-License-Identifier: Apache-2.0
// What the bench needs to know of a model, asked of plumb-ref: `bench` itself has no engine.
#ifndef PLB_BENCH_FACTS_H
#define PLB_BENCH_FACTS_H

#include "bench/client.h"

enum { PLB_FACTS_MAX_INPUTS = 16, PLB_FACTS_MAX_OUTPUTS = 32 };

typedef struct plb_facts {
    char model[64];
    char file[4096]; // of an ONNX file: its path; "": a model of the zoo
    char dims[512];  // of a file: numbers for its open extents, as the user gave them
    bool training;
    int64_t batch, size, classes;
    int n_inputs;
    struct {
        char name[256]; // "x", "y"; a file's own
        plb_dtype dtype;
        plb_shape shape;   // the batch first; of a file, one "row" is a whole input
        int64_t low, high; // of integers of a file, both included
    } input[PLB_FACTS_MAX_INPUTS];
    int n_outputs; // that inference hands out: 1, or a file's
    struct {
        char name[256];
        plb_dtype dtype; // of a file; f32 otherwise
        int64_t count;   // elements of a row
    } output[PLB_FACTS_MAX_OUTPUTS];
    bool log_probabilities;
    bool dropout;       // training draws random numbers
    int depth;          // products in a row, at least 1
    double flops;       // of one iteration without the optimizer
    double least_flops; // of the products alone, by the cheapest way there is; 0: unknown
    int64_t parameters;
    char graph[32]; // hash of what is computed
} plb_facts;

// A model's name, or the path of an ONNX file. batch and size 0: the model's defaults. `dims`: of a
// file, "NAME=N,…" or NULL. A model or size that there is none of is a refusal.
typedef struct plb_facts_request {
    const char *model, *task, *dims;
    int64_t batch, size;
} plb_facts_request;
PLB_API PLB_MUST_USE plb_status plb_facts_ask(plb_client *reference,
                                              const plb_facts_request *request, plb_facts *out);
PLB_API bool plb_facts_is_file(const char *model); // ends in ".onnx"

// What the protocol calls output `k`: "output", or "output.K" of a file.
typedef struct plb_output_name {
    char text[24];
} plb_output_name;
PLB_API plb_output_name plb_facts_output_name(const plb_facts *facts, int k);

// Path of the file with the model's first weights, written by the reference if it is not there;
// in the cache's folder `weights`.
PLB_API PLB_MUST_USE plb_status plb_facts_weights(plb_client *reference, const plb_facts *facts,
                                                  const char *cache, char *path, size_t size);

#endif
