// SPDX-License-Identifier: Apache-2.0
// Small programs by hand, for tests of passes. Every one must agree at all levels; `op` must be
// left `count` times by the pass.
#ifndef PLB_TESTS_ENGINE_PASS_CASES_H
#define PLB_TESTS_ENGINE_PASS_CASES_H

#include "engine/graph/pass.h"
#include "levels.h"
#include "print_program.h"

typedef struct pass_case {
    const char *name;
    void (*build)(plb_graph *g, const void *context);
    plb_pass pass;
    plb_op_id op;
    int count;
} pass_case;

static inline plb_value image(plb_graph *g) {
    return plb_input(g, "x", PLB_F32, &plb_shape_of(2, 4, 5, 5));
}

static inline plb_value vector(plb_graph *g, const char *name) {
    return plb_param(g, name, PLB_F32, &plb_shape_of(4), PLB_ROLE_PARAMETER,
                     (plb_init){PLB_INIT_UNIFORM, 0.5, 1.5});
}

static inline plb_value conv(plb_graph *g, plb_value x, const char *name) {
    plb_value w = plb_param(g, name, PLB_F32, &plb_shape_of(4, 4, 3, 3), PLB_ROLE_PARAMETER,
                            (plb_init){PLB_INIT_UNIFORM, -0.3, 0.3});
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    return plb_conv(g, x, w, vector(g, "bias"), &attrs);
}

static inline plb_value norm(plb_graph *g, plb_value x) {
    return plb_batch_norm(g, x, vector(g, "gamma"), vector(g, "beta"), 1e-3);
}

static inline plb_status copied(const plb_graph *graph, plb_graph **out) {
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(graph, &rw));
    for (int i = 0; i < graph->n_nodes; i++) plb_rewrite_copy(&rw, i);
    return plb_rewrite_end(&rw, out);
}

static inline int count_of(const plb_graph *g, plb_op_id op) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op;
    return n;
}

// Equal weights at convolutions count twice before `clean`; reorders that move nothing do not.
static inline int reorders_in(const char *report) {
    int n = -1;
    const char *line = report ? strstr(report, "layout: ") : NULL;
    if (line) sscanf(line, "layout: %d", &n);
    return n;
}

static inline void check_pass(const pass_case *c) {
    plb_model *model = plb_model_new();
    plb_graph *built, *graph = NULL;
    plb_strbuf report = {0};
    CHECK_OK(plb_model_program(model, "p", &built));
    c->build(built, NULL);
    plb_status status = plb_graph_status(built);
    if (!status) status = copied(built, &graph);
    plb_pass_context context = {&plb_backend_cpu, 1, &report, PLB_F32, PLB_MATH_F32};
    if (!status) status = c->pass(&graph, &context);
    CHECK_SAY(!status, "%s: %s", c->name, plb_error_text());
    if (!status) {
        int n = c->op == PLB_OP_reorder ? reorders_in(report.text) : count_of(graph, c->op);
        CHECK_SAY(n == c->count, "%s: %d of %s expected, %d left", c->name, c->count,
                  plb_op_of(c->op)->name, n);
        if (n != c->count) print_program(graph);
    }
    plb_strbuf_free(&report);
    plb_graph_free(graph);
    plb_model_free(model);
}

// Each pass alone leaves what its case says.
static inline void check_passes(const pass_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) check_pass(&cases[i]);
}

// Each program computes the same at all levels.
static inline void check_levels(const pass_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        levels_program p = {.build = cases[i].build, .runs = 3, .tolerance = 2e-3};
        char text[900];
        bool differ = levels_disagree(&p, text, sizeof text);
        CHECK_SAY(!differ, "%s: %s", cases[i].name, text);
    }
}

#endif
