// SPDX-License-Identifier: Apache-2.0
// Runs one program under several options and compares everything it leaves behind: each output of
// each run, and all variables afterwards. Each time the program is built afresh in a new model.
#ifndef PLB_TESTS_ENGINE_LEVELS_H
#define PLB_TESTS_ENGINE_LEVELS_H

#include "base/core/hash.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "check.h"
#include "engine/graph/graph.h"
#include "plumb/plumb.h"

typedef struct levels_program {
    void (*build)(plb_graph *graph, const void *context);
    const void *context;
    int runs;
    int64_t below;       // integer inputs are drawn from 0 to below - 1
    double tolerance;    // of floats, times the largest of the reference
    double perturb;      // float inputs are changed by up to so many times their size
    const char *program; // that the build adds to the model; NULL: it fills the one it gets
} levels_program;

typedef struct levels_part {
    char name[128];
    plb_dtype dtype;
    size_t first, n;
} levels_part;

typedef struct levels_trace {
    plb_status status;
    char error[512];
    levels_part *parts;
    int n_parts;
    double *data;
    size_t n, capacity;
} levels_trace;

static inline void levels_trace_free(levels_trace *t) {
    free(t->parts);
    free(t->data);
    *t = (levels_trace){0};
}

static inline void levels_fill(const levels_program *p, const plb_tensor *t, const char *name,
                               int run) {
    const uint64_t key = plb_hash_string(PLB_HASH_SEED + (uint64_t)run, name);
    const int64_t n = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = plb_philox(key, (uint64_t)i, 0).word[0];
        if (plb_dtype_is_float(t->dtype)) {
            double change = 1 + p->perturb * (double)(i % 7 - 3) / 3;
            plb_store_f64(t->data, t->dtype, i, (2 * plb_uniform_f32(word) - 1) * change);
        } else {
            plb_store_i64(t->data, t->dtype, i, p->below ? (int64_t)word % p->below : word % 100);
        }
    }
}

static inline void levels_note(levels_trace *trace, const plb_tensor *t, const char *kind,
                               const char *name, int run) {
    size_t n = (size_t)plb_shape_count(&t->shape);
    trace->parts = realloc(trace->parts, (size_t)(trace->n_parts + 1) * sizeof *trace->parts);
    if (trace->n + n + 1 > trace->capacity) {
        trace->capacity = 2 * (trace->n + n + 1);
        trace->data = realloc(trace->data, trace->capacity * sizeof *trace->data);
    }
    if (!trace->parts || !trace->data) abort();
    levels_part *part = &trace->parts[trace->n_parts++];
    *part = (levels_part){.dtype = t->dtype, .first = trace->n, .n = n};
    snprintf(part->name, sizeof part->name, "%s %s after run %d", kind, name, run);
    const bool in_order = t->layout.kind == PLB_LAYOUT_PLAIN && plb_tensor_is_dense(t);
    for (size_t i = 0; i < n; i++) {
        int64_t at = in_order ? (int64_t)i : plb_tensor_offset_linear(t, (int64_t)i);
        trace->data[trace->n++] = plb_dtype_is_float(t->dtype)
                                      ? plb_load_f64(t->data, t->dtype, at)
                                      : (double)plb_load_i64(t->data, t->dtype, at);
    }
}

static inline plb_status levels_run_once(const levels_program *p, const plb_graph *graph,
                                         plb_plan *plan, levels_trace *trace, int run) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != PLB_OP_input) continue;
        const char *name = ((const plb_input_attrs *)graph->nodes[i].attrs)->name;
        plb_tensor t;
        PLB_TRY(plb_plan_input(plan, name, &t));
        levels_fill(p, &t, name, run);
    }
    PLB_TRY(plb_plan_run(plan));
    for (int i = 0; i < graph->n_outputs; i++) {
        plb_tensor t;
        PLB_TRY(plb_plan_output(plan, graph->outputs[i].name, &t));
        levels_note(trace, &t, "output", graph->outputs[i].name, run);
    }
    return PLB_OK;
}

static inline plb_status levels_run_all(const levels_program *p, plb_model *model,
                                        const plb_plan_options *options, levels_trace *trace) {
    plb_graph *graph;
    plb_plan *plan = NULL;
    PLB_TRY(plb_model_program(model, "p", &graph));
    p->build(graph, p->context);
    if (p->program) graph = plb_model_find_program(model, p->program);
    if (!graph) return plb_fail(PLB_EINVAL, "no program %s", p->program ? p->program : "p");
    plb_status status = plb_plan_new(graph, options, &plan);
    for (int run = 0; run < p->runs && !status; run++) {
        status = levels_run_once(p, graph, plan, trace, run);
    }
    for (int i = 0; i < model->n_variables && !status; i++) {
        const plb_variable *v = &model->variables[i];
        plb_tensor t = plb_tensor_dense(plb_variable_data(model, i), v->type.dtype, &v->type.shape,
                                        (plb_layout){0});
        levels_note(trace, &t, "variable", v->name, p->runs - 1);
    }
    plb_plan_free(plan);
    return status;
}

static inline levels_trace levels_run(const levels_program *p, const plb_plan_options *options) {
    levels_trace trace = {0};
    plb_model *model = plb_model_new();
    if (!model) abort();
    trace.status = levels_run_all(p, model, options, &trace);
    if (trace.status) snprintf(trace.error, sizeof trace.error, "%s", plb_error_text());
    plb_model_free(model);
    return trace;
}

// How far two traces of one part are apart.
static inline double levels_distance(const levels_part *part, const levels_trace *a,
                                     const levels_trace *b) {
    double most = 0;
    for (size_t i = part->first; i < part->first + part->n; i++) {
        most = fmax(most, fabs(a->data[i] - b->data[i]));
    }
    return most;
}

// Each number of `noise` becomes that of `more` where this is further from `a`.
static inline void levels_add_noise(const levels_trace *a, const levels_trace *more,
                                    levels_trace *noise) {
    for (size_t i = 0; i < a->n && noise->n == a->n && more->n == a->n; i++) {
        bool further = fabs(more->data[i] - a->data[i]) > fabs(noise->data[i] - a->data[i]);
        if (further) noise->data[i] = more->data[i];
    }
}

// Rounding that takes one activation to the other side of a ReLU's kink changes the gradients of
// all layers before by per cents, in jumps: several small perturbations, to both sides, find how
// far. `most`: the largest of them.
static inline levels_trace levels_noise(levels_program *p, const plb_plan_options *options,
                                        const levels_trace *expected, double most) {
    levels_trace noise = {0};
    for (int i = 0; i < 4; i++) {
        p->perturb = (i % 2 ? -most : most) / (double)(1 << 2 * i);
        levels_trace more = levels_run(p, options);
        if (i == 0) {
            noise = more;
            continue;
        }
        levels_add_noise(expected, &more, &noise);
        levels_trace_free(&more);
    }
    p->perturb = 0;
    return noise;
}

// Writes what differs first into `text`; true when something does. Integers must be equal; a float
// may be off by tolerance * (the largest of its tensor in `a`). Variables, and outputs that stand
// on changed variables, may be off by four times what `noise`, if any, is off there, too: a trace
// of the first level on inputs that are perturbed a little.
static inline bool levels_differ(const levels_program *p, const levels_trace *a,
                                 const levels_trace *b, const levels_trace *noise, char *text,
                                 size_t size_bytes) {
    *text = '\0';
    if (a->status || b->status) {
        snprintf(text, size_bytes, "%s", a->status ? a->error : b->error);
        return true;
    }
    if (a->n_parts != b->n_parts || a->n != b->n || (noise && noise->n != a->n)) {
        snprintf(text, size_bytes, "%d parts against %d", a->n_parts, b->n_parts);
        return true;
    }
    for (int k = 0; k < a->n_parts; k++) {
        const levels_part *part = &a->parts[k];
        double largest = 1e-3;
        const double *x = a->data + part->first, *y = b->data + part->first;
        for (size_t i = 0; i < part->n; i++) largest = fmax(largest, fabs(x[i]));
        double limit = p->tolerance * largest;
        bool fresh = strncmp(part->name, "output", 6) == 0 && strstr(part->name, "after run 0");
        if (noise && !fresh) limit += 4 * levels_distance(part, a, noise);
        bool real = plb_dtype_is_float(part->dtype);
        for (size_t i = 0; i < part->n; i++) {
            bool fine = real ? fabs(x[i] - y[i]) <= limit : x[i] == y[i];
            if (fine || (isnan(x[i]) && isnan(y[i]))) continue;
            snprintf(text, size_bytes, "%s, element %zu of %zu: %.9g expected, %.9g found",
                     part->name, i, part->n, x[i], y[i]);
            return true;
        }
    }
    return false;
}

static const struct levels_option {
    const char *name;
    plb_plan_options options;
} levels_options[] = {
    {"plan, no fusion", {.threads = 1, .no_fusion = true, .no_tuning = true}},
    {"plan, no fusion, 2 threads", {.threads = 2, .no_fusion = true, .no_tuning = true}},
    {"plan", {.threads = 1, .no_tuning = true}},
    {"plan, 2 threads", {.threads = 2, .no_tuning = true}},
    {"replay, no fusion",
     {.level = PLB_LEVEL_REPLAY, .threads = 1, .no_fusion = true, .no_tuning = true}},
    {"replay, 2 threads", {.level = PLB_LEVEL_REPLAY, .threads = 2, .no_tuning = true}},
};
enum { LEVELS_OPTIONS = sizeof levels_options / sizeof *levels_options };

// Compares interp with all others; what differs goes to `text`.
static inline bool levels_disagree(const levels_program *p, char *text, size_t size_bytes) {
    levels_trace expected =
        levels_run(p, &(plb_plan_options){.level = PLB_LEVEL_INTERP, .threads = 1});
    bool differ = expected.status;
    if (differ) snprintf(text, size_bytes, "interp: %s", expected.error);
    for (int i = 0; i < LEVELS_OPTIONS && !differ; i++) {
        char what[700];
        levels_trace found = levels_run(p, &levels_options[i].options);
        differ = levels_differ(p, &expected, &found, NULL, what, sizeof what);
        if (differ) snprintf(text, size_bytes, "%s: %s", levels_options[i].name, what);
        levels_trace_free(&found);
    }
    levels_trace_free(&expected);
    return differ;
}

#endif
