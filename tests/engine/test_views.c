// SPDX-License-Identifier: Apache-2.0
// Every VIEW op on each of its samples, the input in every layout and with strides: where `view`
// says that no copy is needed, what it shows is what `ref` makes.
#include "check.h"
#include "engine/run_ref.h"

static const plb_layout layouts[] = {
    {PLB_LAYOUT_PLAIN, 0}, {PLB_LAYOUT_NHWC, 0}, {PLB_LAYOUT_BLOCKED, 8}, {PLB_LAYOUT_BLOCKED, 16}};

// 0, 1, 2, … in logical order; with `gaps` every other element of memory is skipped.
static plb_tensor counted(const plb_type *type, plb_layout layout, bool gaps) {
    size_t size = plb_layout_bytes(&type->shape, type->dtype, layout) * (gaps ? 2 : 1);
    plb_tensor t = plb_tensor_dense(calloc(1, size + 1), type->dtype, &type->shape, layout);
    for (int i = 0; i < type->shape.rank && gaps; i++) t.stride[i] *= 2;
    for (int64_t i = 0; i < plb_shape_count(&type->shape); i++) {
        plb_store_f64(t.data, t.dtype, plb_tensor_offset_linear(&t, i), (double)i);
    }
    return t;
}

static void check_view(const plb_op *op, const plb_sample *sample, const plb_tensor *x,
                       const plb_type *type, int *views) {
    plb_tensor y = run_ref_tensor(type), seen;
    plb_call call = {.attrs = sample->attrs, .n_in = 1, .n_out = 1, .in = x, .out = &y};
    CHECK_OK(op->ref(&call));
    if (op->view(sample->attrs, x, &seen)) {
        ++*views;
        CHECK(seen.dtype == y.dtype && plb_shape_equal(&seen.shape, &y.shape));
        for (int64_t i = 0; i < plb_shape_count(&y.shape); i++) {
            double expected = plb_load_f64(y.data, y.dtype, i);
            double found = plb_load_f64(seen.data, seen.dtype, plb_tensor_offset_linear(&seen, i));
            CHECK_SAY(found == expected, "%s, %s, %s: element %lld", op->name, sample->name,
                      plb_layout_name(x->layout), (long long)i);
        }
    }
    free(y.data);
}

static void check_sample(const plb_op *op, const plb_sample *sample) {
    plb_type type;
    plb_signature s = {
        .attrs = sample->attrs, .n_in = 1, .n_out = 1, .in = sample->in, .out = &type};
    CHECK_OK(op->infer(&s));
    int views = 0;
    for (int l = 0; l < 4; l++) {
        int rank = sample->in[0].shape.rank;
        if (l && (rank < 3 || rank > 5)) continue;
        for (int gaps = 0; gaps < (l < 2 ? 2 : 1); gaps++) {
            plb_tensor x = counted(&sample->in[0], layouts[l], gaps);
            check_view(op, sample, &x, &type, &views);
            free(x.data);
        }
    }
    CHECK_SAY(views > 0, "%s, %s: never a view", op->name, sample->name);
}

static void views_show_what_refs_make(void) {
    int n = 0;
    for (int id = 0; id < PLB_OP_COUNT; id++) {
        const plb_op *op = plb_op_of((plb_op_id)id);
        if (!op || !(op->flags & PLB_OP_VIEW)) continue;
        for (int i = 0; i < op->n_samples; i++, n++) check_sample(op, &op->samples[i]);
    }
    CHECK(n > 20);
}

// What follows a global pool: channels alone are left, and in no layout do they need a copy.
static void flattening_single_pixels_is_free(void) {
    plb_type type = {PLB_F32, plb_shape_of(2, 20, 1, 1)};
    plb_shape_attrs attrs = {plb_shape_of(2, 20)};
    for (int l = 0; l < 4; l++) {
        plb_tensor x = counted(&type, layouts[l], false), y;
        CHECK(plb_op_of(PLB_OP_reshape)->view(&attrs, &x, &y) && y.data == x.data);
        free(x.data);
    }
}

// A planner may ask before memory is placed; the strides are final, the data is not.
static void views_of_unplaced_memory_have_none(void) {
    plb_tensor x = plb_tensor_dense(NULL, PLB_F32, &plb_shape_of(4), (plb_layout){0}), y;
    CHECK(plb_op_of(PLB_OP_flip)->view(&(plb_flip_attrs){1}, &x, &y));
    CHECK(y.data == NULL && y.stride[0] == -1);
}

static const check_test tests[] = {
    {"views_show_what_refs_make", views_show_what_refs_make},
    {"flattening_single_pixels_is_free", flattening_single_pixels_is_free},
    {"views_of_unplaced_memory_have_none", views_of_unplaced_memory_have_none},
};
CHECK_MAIN(tests)
