// SPDX-License-Identifier: Apache-2.0
// A program of a few f64 vectors, built, run once and read: for tests of single values.
#ifndef PLB_TESTS_ENGINE_SMALL_PROGRAM_H
#define PLB_TESTS_ENGINE_SMALL_PROGRAM_H

#include "check.h"
#include "plumb/plumb.h"

typedef struct small_program {
    plb_model *model;
    plb_graph *graph;
} small_program;

static inline small_program small_program_new(void) {
    small_program p = {.model = plb_model_new()};
    if (!p.model) abort();
    CHECK_OK(plb_model_program(p.model, "small", &p.graph));
    return p;
}

static inline void small_program_free(small_program *p) {
    plb_model_free(p->model);
}

// A vector of given numbers that no pass may fold: a variable's first value stands for it.
static inline plb_value small_vector(small_program *p, const char *name, int n,
                                     const double *values) {
    int index;
    plb_type type = {PLB_F64, plb_shape_of(n)};
    CHECK_OK(plb_model_variable(p->model, name, &type, PLB_ROLE_STATE, (plb_init){0}, &index));
    double copy[64];
    memcpy(copy, values, (size_t)n * sizeof *values);
    plb_tensor from = plb_tensor_dense(copy, PLB_F64, &type.shape, (plb_layout){0});
    CHECK_OK(plb_variable_write(p->model, index, &from));
    return plb_read(p->graph, index);
}

// Runs the program once and copies `value`, n numbers, as f64.
static inline void small_run(small_program *p, plb_value value, int n, double *out) {
    plb_output(p->graph, "out", plb_cast(p->graph, value, PLB_F64));
    plb_plan *plan = NULL;
    plb_plan_options options = {.level = PLB_LEVEL_INTERP, .threads = 1};
    plb_status status = plb_plan_new(p->graph, &options, &plan);
    CHECK_SAY(!status, "%s", plb_error_text());
    if (status) return;
    plb_tensor t;
    CHECK_OK(plb_plan_run(plan));
    CHECK_OK(plb_plan_output(plan, "out", &t));
    CHECK(plb_shape_count(&t.shape) == n);
    for (int i = 0; i < n; i++) {
        out[i] = plb_load_f64(t.data, PLB_F64, plb_tensor_offset_linear(&t, i));
    }
    plb_plan_free(plan);
}

#endif
