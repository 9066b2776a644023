// SPDX-License-Identifier: Apache-2.0
// What builders of shape and index ops add to the ops: negative axes, extents left open, ranges as
// Python's; and what runs refuse: indices and targets that do not exist.
#include "check.h"
#include "engine/run_ref.h"

typedef struct built {
    plb_model *model;
    plb_graph *graph;
    run_ref run;
} built;

static void begin(built *b) {
    *b = (built){.model = plb_model_new()};
    CHECK_OK(plb_model_program(b->model, "p", &b->graph));
}

static void end(built *b) {
    if (b->run.graph) run_ref_free(&b->run);
    plb_model_free(b->model);
}

// Runs with x = 0, 1, 2, … and compares `value`'s elements.
static void expect(built *b, plb_value x, plb_value value, plb_shape shape,
                   const double *elements) {
    CHECK_OK(plb_graph_status(b->graph));
    plb_shape found = plb_value_shape(b->graph, value);
    CHECK(plb_shape_equal(&found, &shape));
    run_ref_new(&b->run, b->graph);
    plb_shape all = plb_value_shape(b->graph, x);
    for (int64_t i = 0; i < plb_shape_count(&all); i++) run_ref_set(&b->run, x, i, (double)i);
    CHECK_OK(run_ref_all(&b->run));
    for (int64_t i = 0; i < plb_shape_count(&shape); i++) {
        CHECK(run_ref_at(&b->run, value, i) == elements[i]);
    }
}

static void axes_count_from_the_end(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(2, 3));
    plb_value y = plb_transpose(b.graph, x, -1, 0);
    plb_value z = plb_concat(b.graph, (plb_value[]){y, y}, 2, -1);
    expect(&b, x, z, plb_shape_of(3, 4), (double[]){0, 3, 0, 3, 1, 4, 1, 4, 2, 5, 2, 5});
    end(&b);
}

static void slices_are_python_ranges(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_I64, &plb_shape_of(5)), parts[2];
    plb_split(b.graph, plb_slice_axis(b.graph, x, 0, -4, 99), -1, 2, NULL, parts);
    plb_value none = plb_slice_axis(b.graph, x, 0, 3, -3);
    plb_value all = plb_concat(b.graph, (plb_value[]){parts[1], none, parts[0]}, 3, 0);
    expect(&b, x, all, plb_shape_of(4), (double[]){3, 4, 1, 2});
    end(&b);
}

static void roll_goes_around(void) {
    for (int64_t k = -8; k <= 7; k++) {
        const int64_t shift = k == -8 ? INT64_MIN : k; // -2^63 is 1 modulo 3
        built b;
        begin(&b);
        plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(3));
        double rolled[3];
        for (int64_t i = 0; i < 3; i++) rolled[(i + k + 9) % 3] = (double)i;
        expect(&b, x, plb_roll(b.graph, x, 0, shift), plb_shape_of(3), rolled);
        end(&b);
    }
}

static void reshape_finds_what_is_left(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(2, 3, 2));
    plb_value y = plb_reshape(b.graph, plb_flatten(b.graph, x, -2), &plb_shape_of(3, -1));
    expect(&b, x, y, plb_shape_of(3, 4), (double[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    plb_reshape(b.graph, x, &plb_shape_of(5, -1));
    CHECK_FAILS(PLB_EINVAL, "no extent for -1", plb_graph_status(b.graph));
    end(&b);
}

static void nonzero_counts(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_I64, &plb_shape_of(2, 2));
    plb_value rows = plb_nonzero(b.graph, x);
    CHECK(plb_value_count(b.graph, rows) == rows + 1);
    expect(&b, x, rows, plb_shape_of(4, 2), (double[]){0, 1, 1, 0, 1, 1, 0, 0});
    CHECK(run_ref_at(&b.run, rows + 1, 0) == 3);
    end(&b);
}

// Runs `value` with index[1] = bad.
static plb_status run_with(built *b, plb_value index, double bad) {
    CHECK_OK(plb_graph_status(b->graph));
    run_ref_new(&b->run, b->graph);
    run_ref_set(&b->run, index, 1, bad);
    return run_ref_all(&b->run);
}

static void indices_that_do_not_exist_fail_the_run(void) {
    for (int op = 0; op < 5; op++) {
        for (int bad = -1; bad <= 4; bad += 5) {
            built b;
            begin(&b);
            plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(4));
            plb_value i = plb_input(b.graph, "i", PLB_I64, &plb_shape_of(3));
            plb_value s = plb_input(b.graph, "s", PLB_F32, &plb_shape_of(3));
            if (op == 0) plb_take(b.graph, x, i, 0);
            if (op == 1) plb_gather(b.graph, x, i, 0);
            if (op == 2) plb_scatter(b.graph, x, i, s, -1);
            if (op == 3) plb_scatter_add(b.graph, x, i, s, 0);
            plb_index_attrs attrs = {0, 4};
            if (op == 4) plb_emit(b.graph, PLB_OP_take_grad, (plb_value[]){s, i}, 2, &attrs);
            const char *words = bad < 0 ? "[1]: expected 0 to 3, found -1" : "found 4";
            CHECK_FAILS(PLB_EINVAL, words, run_with(&b, i, bad));
            end(&b);
        }
    }
}

static void targets_that_are_no_class_fail_the_run(void) {
    for (int bad = -1; bad <= 3; bad += 4) {
        built b;
        begin(&b);
        plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(2, 3));
        plb_value t = plb_input(b.graph, "t", PLB_I64, &plb_shape_of(2));
        plb_loss_attrs attrs = plb_loss_default();
        plb_cross_entropy(b.graph, x, t, PLB_NONE, &attrs);
        CHECK_FAILS(PLB_EINVAL, "target at [1]: expected 0 to 2", run_with(&b, t, bad));
        end(&b);
    }
}

static void all_ignored_is_nan_with_zero_gradient(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(2, 3)), dx;
    plb_value t = plb_input(b.graph, "t", PLB_I64, &plb_shape_of(2));
    plb_loss_attrs attrs = plb_loss_default();
    attrs.ignore_index = 0; // what inputs hold
    plb_value loss = plb_cross_entropy(b.graph, x, t, PLB_NONE, &attrs);
    plb_gradients(b.graph, loss, &x, 1, &dx);
    run_ref_new(&b.run, b.graph);
    CHECK_OK(run_ref_all(&b.run));
    CHECK(isnan(run_ref_at(&b.run, loss, 0)));
    for (int i = 0; i < 6; i++) CHECK(run_ref_at(&b.run, dx, i) == 0);
    end(&b);
}

static void bad_axes_fail_the_graph(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(2, 3));
    CHECK(plb_slice_axis(b.graph, x, -3, 0, 1) == PLB_NONE);
    CHECK_FAILS(PLB_EINVAL, "axis -3 of a value of rank 2", plb_graph_status(b.graph));
    end(&b);
}

// More axes than there are room for, or fewer than none.
static void impossible_ranks_fail_the_graph(void) {
    static const int ranks[] = {PLB_MAX_RANK + 1, 100, -1};
    for (int i = 0; i < 6; i++) {
        built b;
        plb_shape shape = {.rank = ranks[i / 2]};
        for (int k = 0; k < PLB_MAX_RANK; k++) shape.dim[k] = 1;
        begin(&b);
        plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(2, 2));
        CHECK((i % 2 ? plb_expand : plb_sum_to)(b.graph, x, &shape) == PLB_NONE);
        CHECK_FAILS(PLB_EINVAL, "rank: expected 0 to 8", plb_graph_status(b.graph));
        end(&b);
    }
}

// A name that were cut could be another's.
static void long_names_fail_the_graph(void) {
    char name[600];
    memset(name, 'a', sizeof name);
    for (int scopes = 0; scopes < 2; scopes++) {
        const int most = scopes ? 255 : 511;
        for (int length = most; length <= most + 1; length++) {
            built b;
            name[length] = '\0';
            begin(&b);
            if (scopes) plb_scope_push(b.graph, "%s", name);
            plb_param(b.graph, scopes ? "w" : name, PLB_F32, &plb_shape_of(2), PLB_ROLE_PARAMETER,
                      (plb_init){0});
            if (scopes) plb_scope_pop(b.graph);
            if (length == most) {
                CHECK_OK(plb_graph_status(b.graph));
                CHECK(plb_model_variable_count(b.model) == 1);
            } else {
                CHECK_FAILS(PLB_EINVAL, "bytes, at most", plb_graph_status(b.graph));
                CHECK(plb_model_variable_count(b.model) == 0);
            }
            end(&b);
            name[length] = 'a';
        }
    }
}

// Nodes that are alike are found by the bytes of their attributes, also where a caller's struct has
// other bytes between its fields.
static void products_are_alike_whoever_asks(void) {
    built b;
    begin(&b);
    plb_value x = plb_input(b.graph, "x", PLB_F32, &plb_shape_of(3, 3)), y[3];
    for (int i = 0; i < 2; i++) {
        plb_matmul_attrs attrs;
        memset(&attrs, i ? 0xa5 : 0x5a, sizeof attrs);
        attrs.trans_a = 0, attrs.trans_b = 1;
        attrs.epilogue.activation = PLB_ACT_NONE;
        attrs.epilogue.alpha = attrs.epilogue.beta = 0;
        y[i] = plb_matmul(b.graph, x, x, &attrs);
    }
    y[2] = plb_linear(b.graph, x, x, PLB_NONE);
    const plb_node *nodes[3];
    for (int i = 0; i < 3; i++) nodes[i] = &b.graph->nodes[b.graph->values[y[i]].node];
    for (int i = 1; i < 3; i++) {
        CHECK(memcmp(nodes[0]->attrs, nodes[i]->attrs, sizeof(plb_matmul_attrs)) == 0);
    }
    end(&b);
}

static const check_test tests[] = {
    {"products_are_alike_whoever_asks", products_are_alike_whoever_asks},
    {"axes_count_from_the_end", axes_count_from_the_end},
    {"slices_are_python_ranges", slices_are_python_ranges},
    {"roll_goes_around", roll_goes_around},
    {"reshape_finds_what_is_left", reshape_finds_what_is_left},
    {"nonzero_counts", nonzero_counts},
    {"indices_that_do_not_exist_fail_the_run", indices_that_do_not_exist_fail_the_run},
    {"targets_that_are_no_class_fail_the_run", targets_that_are_no_class_fail_the_run},
    {"all_ignored_is_nan_with_zero_gradient", all_ignored_is_nan_with_zero_gradient},
    {"bad_axes_fail_the_graph", bad_axes_fail_the_graph},
    {"impossible_ranks_fail_the_graph", impossible_ranks_fail_the_graph},
    {"long_names_fail_the_graph", long_names_fail_the_graph},
};
CHECK_MAIN(tests)
