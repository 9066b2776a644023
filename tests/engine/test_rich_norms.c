// SPDX-License-Identifier: Apache-2.0
// Passes that only some devices take: activations and sums of gradients join norms and their
// gradients, SiLU a convolution, a gate what it opens. What they make of a program must compute the
// same, by the definitions in f64, and must leave no node that was meant to go.
#include <stdio.h>
#include <string.h>

#include "base/core/philox.h"
#include "base/core/status.h"
#include "check.h"
#include "engine/device/backend.h"
#include "engine/graph/pass.h"
#include "engine/graph/pattern.h"
#include "plumb/plumb.h"

typedef struct rich_case {
    const char *name;
    void (*build)(plb_graph *g);
    const char *said; // in the report; NULL: nothing was found
    plb_op_id gone;   // no such node is left; in the case of nothing found: one is
    bool chains;      // pointwise nodes are made one
} rich_case;

static plb_value image(plb_graph *g) {
    return plb_input(g, "x", PLB_F32, &plb_shape_of(3, 4, 5, 3));
}

static plb_value image4(plb_graph *g) {
    return plb_input(g, "x", PLB_F32, &plb_shape_of(2, 4, 3, 3));
}

static plb_value vector(plb_graph *g, const char *name) {
    return plb_input(g, name, PLB_F32, &plb_shape_of(4));
}

// The norm of x, as wide as activations bend.
static plb_value norm(plb_graph *g, plb_value x) {
    return plb_batch_norm(g, x, plb_affine(g, vector(g, "gamma"), 3, 0), vector(g, "beta"), 1e-3);
}

// Outputs y and the gradients of its weighted sum.
static void descend(plb_graph *g, plb_value y, plb_value x) {
    plb_type type = plb_value_type(g, y);
    plb_value weight = plb_input(g, "weight", type.dtype, &type.shape), grad;
    plb_gradients(g, plb_sum(g, plb_mul(g, y, weight), 0, false), &x, 1, &grad);
    plb_output(g, "y", y);
    plb_output(g, "grad", grad);
}

static void silu(plb_graph *g) {
    plb_value x = image(g);
    descend(g, plb_silu(g, norm(g, x)), x);
}
static void relu6(plb_graph *g) {
    plb_value x = image(g);
    descend(g, plb_relu6(g, norm(g, x)), x);
}
static void silu_second_reader(plb_graph *g) {
    plb_value x = image(g), u = norm(g, x);
    descend(g, plb_add(g, plb_silu(g, u), plb_tanh(g, u)), x);
}
static void two_branches(plb_graph *g) {
    plb_value x = image(g), y = plb_relu(g, plb_add(g, norm(g, x), x));
    descend(g, plb_add(g, plb_tanh(g, y), plb_sin(g, y)), x);
}
static void one_branch(plb_graph *g) {
    plb_value x = image(g), y = plb_relu(g, plb_add(g, norm(g, x), x));
    descend(g, plb_tanh(g, y), x);
}
static void norm_infer_relu(plb_graph *g) {
    plb_value x = image(g), variance = plb_exp(g, vector(g, "variance"));
    plb_value u = plb_batch_norm_infer(g, x, vector(g, "gamma"), vector(g, "beta"),
                                       vector(g, "mean"), variance, 1e-3);
    plb_output(g, "y", plb_relu(g, u));
}
static plb_value convolved(plb_graph *g, plb_value x) {
    const plb_conv_attrs narrow = plb_conv_uniform(2, 1, 0, 1, 1);
    plb_value w = plb_input(g, "filter", PLB_F32, &plb_shape_of(4, 4, 1, 1));
    return plb_conv(g, x, w, vector(g, "beta"), &narrow);
}
static void conv_silu(plb_graph *g) {
    plb_output(g, "y", plb_silu(g, convolved(g, image4(g))));
}
static void conv_silu_second_reader(plb_graph *g) {
    plb_value u = convolved(g, image4(g));
    plb_output(g, "y", plb_add(g, plb_silu(g, u), plb_tanh(g, u)));
}
// Squeeze-excitation.
static plb_value gate(plb_graph *g, plb_value x) {
    const plb_pool_attrs all = plb_pool_uniform(2, 3, 3, 0);
    return plb_sigmoid(g, convolved(g, plb_avg_pool(g, x, &all)));
}
static void gated(plb_graph *g) {
    plb_value x = image4(g);
    plb_output(g, "y", plb_mul(g, x, gate(g, x)));
}
static void gate_told(plb_graph *g) {
    plb_value x = image4(g), s = gate(g, x);
    plb_output(g, "gate", s);
    plb_output(g, "y", plb_mul(g, x, s));
}

// A convolution, dropout that keeps all, a pool, and ReLU last of all.
static plb_value pooled(plb_graph *g, plb_value x, bool tells_positions) {
    const plb_pool_attrs attrs = plb_pool_uniform(2, 2, 1, 0);
    const plb_conv_attrs narrow = plb_conv_uniform(2, 1, 0, 1, 1);
    plb_value w = plb_input(g, "filter", PLB_F32, &plb_shape_of(4, 4, 1, 1));
    plb_value y = plb_dropout(g, plb_conv(g, x, w, PLB_NONE, &narrow), 0);
    y = plb_max_pool(g, y, &attrs);
    if (tells_positions) plb_output(g, "positions", y + 1);
    return plb_relu(g, y);
}
static void relu_last(plb_graph *g) {
    plb_value x = image(g);
    descend(g, pooled(g, x, false), x);
}
static void relu_last_positions_told(plb_graph *g) {
    plb_value x = image(g);
    descend(g, pooled(g, x, true), x);
}
static void relu_last_two_readers(plb_graph *g) {
    plb_value x = image(g), y = pooled(g, x, false);
    descend(g, plb_add(g, plb_tanh(g, y), plb_maker(g, y)->in[0]), x);
}

static const rich_case cases[] = {
    {"silu", silu, "fuse norm act: 1 slopes", PLB_OP_silu, false},
    {"the slope of silu", silu, "fuse norm act: 1 slopes", PLB_OP_sigmoid, false},
    {"relu6", relu6, "fuse norm act: 1 slopes", PLB_OP_clamp, false},
    {"the mask of relu6", relu6, "fuse norm act: 1 slopes", PLB_OP_where, false},
    {"a second reader", silu_second_reader, NULL, PLB_OP_silu, false},
    {"two branches", two_branches, "fuse norm sum: 1 sums", PLB_OP_relu_grad, false},
    {"one branch", one_branch, NULL, PLB_OP_batch_norm_grad, false},
    {"relu behind a pool", relu_last, "early relu: 1 ", PLB_OP_relu, false},
    {"relu, positions told", relu_last_positions_told, NULL, PLB_OP_relu, false},
    {"relu, two readers", relu_last_two_readers, NULL, PLB_OP_relu, false},
    {"statistics given", norm_infer_relu, "fuse epilogue: 1 ", PLB_OP_relu, false},
    {"a convolution and silu", conv_silu, "fuse epilogue: 1 ", PLB_OP_silu, false},
    {"silu beside another", conv_silu_second_reader, NULL, PLB_OP_silu, false},
    {"a gate", gated, "fuse chain: 2 pointwise nodes into 1", PLB_OP_sigmoid, true},
    {"a gate that is told", gate_told, NULL, PLB_OP_sigmoid, true},
};

static plb_status rewritten(const plb_graph *graph, bool chains, plb_strbuf *report,
                            plb_graph **out) {
    static const plb_pass passes[] = {plb_pass_clean,          plb_pass_fuse_norm_act,
                                      plb_pass_early_relu,     plb_pass_fuse_epilogue,
                                      plb_pass_fuse_norm_grad, plb_pass_fuse_norm_sum,
                                      plb_pass_use_signs};
    plb_backend backend = plb_backend_cpu;
    backend.rich_norms = backend.takes_silu = backend.launches_are_dear = true;
    const plb_pass_context context = {&backend, 1, report, PLB_F32, PLB_MATH_F32};
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(graph, &rw));
    for (int i = 0; i < graph->n_nodes; i++) plb_rewrite_copy(&rw, i);
    plb_status status = plb_rewrite_end(&rw, out);
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !status; i++) {
        status = passes[i](out, &context);
    }
    return status || !chains ? status : plb_pass_fuse_chain(out, &context);
}

static plb_status run(const plb_graph *graph, plb_plan **out) {
    static const char *const names[] = {"x",    "gamma",    "beta",  "weight",
                                        "mean", "variance", "filter"};
    const plb_plan_options options = {.f64 = true, .threads = 1, .no_fusion = true};
    PLB_TRY(plb_plan_new(graph, &options, out));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        plb_tensor t;
        if (plb_plan_input(*out, names[k], &t) != PLB_OK) continue;
        for (int64_t i = 0; i < plb_shape_count(&t.shape); i++) {
            const uint32_t word = plb_philox(k + 1, (uint64_t)i, 0).word[0];
            ((float *)t.data)[i] = 2 * plb_uniform_f32(word) - (k == 1 ? -0.5f : 1.0f);
        }
    }
    return plb_plan_run(*out);
}

static void compare(const rich_case *c, plb_plan *got, plb_plan *want, const char *name) {
    plb_tensor g, w;
    if (plb_plan_output(want, name, &w) != PLB_OK) return;
    CHECK_OK(plb_plan_output(got, name, &g));
    for (int64_t i = 0; i < plb_shape_count(&w.shape); i++) {
        const double x = ((const double *)g.data)[i], y = ((const double *)w.data)[i];
        CHECK_SAY(fabs(x - y) <= 1e-9 * (1 + fabs(y)), "%s: %s[%lld]: %.12g, expected %.12g",
                  c->name, name, (long long)i, x, y);
    }
}

static bool has(const plb_graph *graph, plb_op_id op) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op == op) return true;
    }
    return false;
}

static void check_case(const rich_case *c) {
    plb_model *model = plb_model_new();
    plb_graph *built = NULL, *graph = NULL;
    plb_plan *got = NULL, *want = NULL;
    plb_strbuf report = {0};
    CHECK_OK(plb_model_program(model, "p", &built));
    c->build(built);
    CHECK_OK(plb_graph_status(built));
    plb_status status = rewritten(built, c->chains, &report, &graph);
    CHECK_SAY(!status, "%s: %s", c->name, plb_error_text());
    if (!status) {
        const char *text = report.text ? report.text : "";
        CHECK_SAY(has(graph, c->gone) == !c->said, "%s: %s", c->name, text);
        CHECK_SAY(c->said ? strstr(text, c->said) != NULL : !strstr(text, "fuse norm sum"),
                  "%s: the passes say: %s", c->name, text);
        CHECK_OK(run(built, &want));
        CHECK_OK(run(graph, &got));
        compare(c, got, want, "y");
        compare(c, got, want, "grad");
    }
    plb_plan_free(got);
    plb_plan_free(want);
    plb_strbuf_free(&report);
    plb_graph_free(graph);
    plb_model_free(model);
}

static void rewritten_programs_compute_the_same(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

static const check_test tests[] = {
    {"rewritten programs compute the same", rewritten_programs_compute_the_same},
};
CHECK_MAIN(tests)
