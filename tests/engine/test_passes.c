// SPDX-License-Identifier: Apache-2.0
// What keeps old values, merges equal nodes, drops dead ones and chooses layouts; and the planner,
// where nobody but the order of execution forbids something.
#include "pass_cases.h"

static void old_value_used_late(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_output(g, "y", plb_softmax(g, w, 0));
}

static void old_value_seen_late(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), view = plb_reshape(g, w, &plb_shape_of(2, 2));
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_output(g, "y", plb_softmax(g, view, 0));
}

static void old_value_is_output(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    plb_output(g, "before", w);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
}

static void old_value_not_needed(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), y = plb_softmax(g, w, 0);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_output(g, "y", y);
}

static void variables_change_places(plb_graph *g, const void *context) {
    (void)context;
    plb_value b = vector(g, "b"), a = vector(g, "a"); // the copy of a must not go to b yet
    plb_assign(g, plb_value_variable(g, a), b);
    plb_assign(g, plb_value_variable(g, b), a);
}

static void assigned_in_turn(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    int variable = plb_value_variable(g, w);
    plb_value first = plb_affine(g, w, 0.5, 1);
    plb_assign(g, variable, first);
    plb_value between = plb_softmax(g, plb_read(g, variable), 0);
    plb_assign(g, variable, plb_mul(g, first, between));
    plb_output(g, "y", plb_add(g, plb_read(g, variable), between));
}

static void equal_nodes(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), a = plb_exp(g, plb_affine(g, x, 2, 0));
    plb_value b = plb_exp(g, plb_affine(g, x, 2, 0)), c = plb_exp(g, plb_affine(g, x, 2, 1));
    plb_output(g, "y", plb_add(g, plb_mul(g, a, b), c));
}

// What of a caller's struct says nothing may hold anything.
static plb_shape shape_in(int rubbish, int64_t rows, int64_t columns) {
    plb_shape shape;
    memset(&shape, rubbish, sizeof shape);
    shape.rank = 2, shape.dim[0] = rows, shape.dim[1] = columns;
    return shape;
}

static plb_value of_rubbish(plb_graph *g, plb_value x, int rubbish) {
    const plb_shape rows = shape_in(rubbish, 10, 20), half = shape_in(rubbish, 5, 20);
    plb_slice_attrs slice;
    plb_pad_attrs pad;
    memset(&slice, rubbish, sizeof slice);
    memset(&pad, rubbish, sizeof pad);
    pad.mode = PLB_PAD_CONSTANT, pad.value = 1;
    for (int i = 0; i < 2; i++) {
        slice.begin[i] = i, slice.step[i] = 1;
        pad.before[i] = pad.after[i] = i;
    }
    slice.shape = shape_in(rubbish, 5, 18);
    plb_value y = plb_slice(g, plb_reshape(g, x, &rows), &slice);
    plb_value count = plb_iota(g, PLB_F32, &half, 0);
    plb_value wide = plb_expand(g, plb_scalar(g, PLB_F32, 3), &half);
    return plb_mul(g, plb_pad(g, y, &pad), plb_add(g, count, wide));
}

static void equal_but_for_rubbish(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), a = of_rubbish(g, x, 0x55), b = of_rubbish(g, x, 0x2a);
    plb_output(g, "y", plb_div(g, a, plb_affine(g, b, 1, 9)));
}

static void equal_random_nodes(plb_graph *g, const void *context) {
    (void)context;
    plb_graph_set_training(g, true);
    plb_value x = image(g);
    plb_output(g, "y", plb_sub(g, plb_dropout(g, x, 0.5), plb_dropout(g, x, 0.5)));
}

static void equal_reads(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), before = plb_exp(g, w);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_value after = plb_exp(g, plb_read(g, plb_value_variable(g, w)));
    plb_output(g, "y", plb_sub(g, before, after));
}

static void dead_nodes(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g);
    plb_input(g, "unused", PLB_F32, &plb_shape_of(3)); // stays: a caller fills it
    plb_exp(g, plb_tanh(g, x));
    plb_output(g, "y", plb_neg(g, x));
}

static void layout_stays(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = plb_relu(g, conv(g, plb_tanh(g, conv(g, image(g), "w")), "v"));
    plb_output(g, "y", plb_reshape(g, plb_softmax(g, y, 1), &plb_shape_of(2, 100)));
}

// One value, read both ways: a reorder each way and no more.
static void layout_mixes(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w"), z = plb_cumsum(g, y, 2, false, false);
    plb_output(g, "y", plb_add(g, conv(g, z, "v"), plb_mul(g, z, y)));
    plb_output(g, "z", plb_cumsum(g, y, 1, false, false));
}

// The planner, where nobody but the order of execution forbids something.
static void prologue_assigned(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    plb_output(g, "y", plb_softmax(g, w, 0)); // of the old w, though exp(v) is there long before
    plb_assign(g, plb_value_variable(g, w), plb_exp(g, vector(g, "v")));
}

static void prologue_product(plb_graph *g, const void *context) {
    (void)context;
    plb_init init = {PLB_INIT_UNIFORM, -1, 1};
    plb_value a = plb_param(g, "a", PLB_F32, &plb_shape_of(5, 20), PLB_ROLE_PARAMETER, init);
    plb_value b = plb_param(g, "b", PLB_F32, &plb_shape_of(20, 9), PLB_ROLE_PARAMETER, init);
    plb_output(g, "y", plb_matmul(g, a, b, NULL)); // both constant, so b may be packed
}

static void prologue_read_twice(plb_graph *g, const void *context) {
    (void)context;
    plb_value e = plb_exp(g, vector(g, "w")), x = image(g);
    plb_value column = plb_reshape(g, e, &plb_shape_of(4, 1, 1));
    plb_output(g, "y", plb_mul(g, x, column));
    plb_output(g, "z", plb_mul(g, x, plb_tanh(g, column))); // not into e's memory
}

static const pass_case pass_cases[] = {
    {"old value used late", old_value_used_late, plb_pass_keep_old, PLB_OP_cast, 1},
    {"old value seen late", old_value_seen_late, plb_pass_keep_old, PLB_OP_cast, 1},
    {"old value is an output", old_value_is_output, plb_pass_keep_old, PLB_OP_cast, 1},
    {"old value not needed", old_value_not_needed, plb_pass_keep_old, PLB_OP_cast, 0},
    {"variables change places", variables_change_places, plb_pass_keep_old, PLB_OP_cast, 1},
    {"assigned in turn", assigned_in_turn, plb_pass_keep_old, PLB_OP_cast, 0},
    {"equal nodes", equal_nodes, plb_pass_clean, PLB_OP_exp, 2},
    {"rubbish in a shape's rest", equal_but_for_rubbish, plb_pass_clean, PLB_OP_reshape, 1},
    {"rubbish in a slice's rest", equal_but_for_rubbish, plb_pass_clean, PLB_OP_slice, 1},
    {"rubbish in a pad's rest", equal_but_for_rubbish, plb_pass_clean, PLB_OP_pad, 1},
    {"rubbish in a type's rest", equal_but_for_rubbish, plb_pass_clean, PLB_OP_iota, 1},
    {"rubbish behind it all", equal_but_for_rubbish, plb_pass_clean, PLB_OP_mul, 1},
    {"equal random nodes", equal_random_nodes, plb_pass_clean, PLB_OP_dropout, 2},
    {"equal reads", equal_reads, plb_pass_clean, PLB_OP_exp, 2},
    {"dead nodes", dead_nodes, plb_pass_clean, PLB_OP_tanh, 0},
    {"inputs stay", dead_nodes, plb_pass_clean, PLB_OP_input, 2},
    {"layout stays", layout_stays, plb_pass_layout, PLB_OP_reorder, 2},
    {"layout mixes", layout_mixes, plb_pass_layout, PLB_OP_reorder, 3},
    {"prologue assigned", prologue_assigned, plb_pass_clean, PLB_OP_assign, 1},
    {"prologue product", prologue_product, plb_pass_clean, PLB_OP_matmul, 1},
    {"prologue read twice", prologue_read_twice, plb_pass_clean, PLB_OP_exp, 1},
};

// ---------------------------------------------------------------------------- channels first
static plb_layout channels_last(const plb_query *q) {
    (void)q;
    return (plb_layout){PLB_LAYOUT_NHWC, 0};
}

// How a device that likes channels last, but has transforms for channels first, lays out the result
// of a convolution with filters of `side` x `side`, perhaps with a norm behind it.
static plb_layout_kind laid_out(plb_dtype dtype, plb_math math, int64_t batch, int64_t side,
                                int64_t stride, bool norm) {
    plb_backend backend = plb_backend_cpu;
    backend.spatial_layout = channels_last, backend.transforms_channels_first = true;
    plb_strbuf report = {0};
    const plb_pass_context context = {&backend, 1, &report, PLB_F32, math};
    plb_model *model = plb_model_new();
    plb_graph *built, *graph = NULL;
    const plb_conv_attrs attrs = plb_conv_uniform(2, stride, 0, 1, 1);
    CHECK_OK(plb_model_program(model, "p", &built));
    const plb_value x = plb_input(built, "x", dtype, &plb_shape_of(batch, 64, 30, 30));
    const plb_value w = plb_input(built, "w", dtype, &plb_shape_of(64, 64, side, side));
    const plb_value gamma = plb_input(built, "gamma", PLB_F32, &plb_shape_of(64));
    plb_value y = plb_conv(built, x, w, PLB_NONE, &attrs);
    if (norm) y = plb_batch_norm(built, y, gamma, gamma, 1e-5);
    plb_output(built, "y", plb_relu(built, y));
    CHECK_OK(copied(built, &graph));
    CHECK_OK(plb_pass_layout(&graph, &context));
    plb_layout_kind kind = PLB_LAYOUT_BLOCKED;
    for (int i = 0; graph && i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op == PLB_OP_conv) kind = graph->values[node->out].layout.kind;
    }
    plb_strbuf_free(&report);
    plb_graph_free(graph);
    plb_model_free(model);
    return kind;
}

static void transforms_are_channels_first(void) {
    CHECK(laid_out(PLB_F32, PLB_MATH_F32, 32, 3, 1, false) == PLB_LAYOUT_PLAIN);
    CHECK(laid_out(PLB_F32, PLB_MATH_F32, 1, 3, 1, false) == PLB_LAYOUT_NHWC);   // too little work
    CHECK(laid_out(PLB_F32, PLB_MATH_TF32, 32, 3, 1, false) == PLB_LAYOUT_NHWC); // tensor cores
    CHECK(laid_out(PLB_BF16, PLB_MATH_F32, 32, 3, 1, false) == PLB_LAYOUT_NHWC);
    CHECK(laid_out(PLB_F32, PLB_MATH_F32, 320, 1, 1, false) == PLB_LAYOUT_NHWC); // a product
    CHECK(laid_out(PLB_F32, PLB_MATH_F32, 32, 3, 2, false) == PLB_LAYOUT_NHWC);  // strides
    CHECK(laid_out(PLB_F32, PLB_MATH_F32, 32, 3, 1, true) == PLB_LAYOUT_NHWC);   // norms go by rows
}

static void passes_do_what_they_say(void) {
    check_passes(pass_cases, sizeof pass_cases / sizeof *pass_cases);
}

static void programs_by_hand_agree(void) {
    check_levels(pass_cases, sizeof pass_cases / sizeof *pass_cases);
}

static const check_test tests[] = {
    {"passes do what they say", passes_do_what_they_say},
    {"programs by hand agree at all levels", programs_by_hand_agree},
    {"transforms are channels first", transforms_are_channels_first},
};
CHECK_MAIN(tests)
