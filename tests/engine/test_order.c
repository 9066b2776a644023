// SPDX-License-Identifier: Apache-2.0
// sort, top_k and nonzero at sizes at which threads share the work, with NaN, zeros of both signs
// and many ties. The order is PyTorch's: NaN is the largest number, zeros are equal, and equal
// elements keep their order.
#include <math.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "check.h"
#include "plumb/plumb.h"

typedef struct element {
    float value;
    int64_t at;
} element;

static int compare(float a, float b) {
    if (isnan(a) || isnan(b)) return !!isnan(a) - !!isnan(b);
    return (a > b) - (a < b);
}

static int ascending(const void *left, const void *right) {
    const element *a = left, *b = right;
    int order = compare(a->value, b->value);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

static int descending(const void *left, const void *right) {
    const element *a = left, *b = right;
    int order = compare(b->value, a->value);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

// Numbers of a small set, so that most meet their equals; every 7th is NaN, every 5th -0.
static void fill(float *to, int64_t n) {
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        to[i] = (float)(state >> 20) / 16 - 128;
        if (i % 11 == 0) to[i] = 0;
        if (i % 7 == 0) to[i] = NAN;
        if (i % 5 == 0) to[i] = -0.0F;
    }
}

typedef struct program {
    plb_model *model;
    plb_graph *graph;
    plb_plan *plan;
} program;

// Of a variable's first value, which no pass may fold.
static plb_value begin(program *p, const float *data, const plb_shape *shape) {
    const plb_type type = {PLB_F32, *shape};
    const plb_tensor from =
        plb_tensor_dense((void *)(uintptr_t)data, PLB_F32, shape, (plb_layout){0});
    int index;
    *p = (program){.model = plb_model_new()};
    if (!p->model) abort();
    CHECK_OK(plb_model_program(p->model, "order", &p->graph));
    CHECK_OK(plb_model_variable(p->model, "x", &type, PLB_ROLE_STATE, (plb_init){0}, &index));
    CHECK_OK(plb_variable_write(p->model, index, &from));
    return plb_read(p->graph, index);
}

static bool run(program *p, int threads) {
    const plb_plan_options options = {.level = PLB_LEVEL_PLAN, .threads = threads};
    plb_status status = plb_plan_new(p->graph, &options, &p->plan);
    if (!status) status = plb_plan_run(p->plan);
    CHECK_SAY(!status, "%s", plb_error_text());
    return !status;
}

static void end(program *p) {
    plb_plan_free(p->plan);
    plb_model_free(p->model);
}

// ---------------------------------------------------------------------------- sort, top_k
typedef struct order_case {
    int64_t outer, extent, inner, kept; // x[outer, extent, inner]; kept == extent: sort
    bool falls;
} order_case;

static void check_line(const order_case *c, const float *x, int64_t o, int64_t i,
                       const plb_tensor *values, const plb_tensor *indices, element *line) {
    for (int64_t k = 0; k < c->extent; k++) {
        line[k] = (element){x[(o * c->extent + k) * c->inner + i], k};
    }
    qsort(line, (size_t)c->extent, sizeof *line, c->falls ? descending : ascending);
    for (int64_t k = 0; k < c->kept && !check_failures; k++) {
        const int64_t at = (o * c->kept + k) * c->inner + i;
        const float value = ((const float *)values->data)[at];
        const int64_t index = ((const int64_t *)indices->data)[at];
        CHECK_SAY(index == line[k].at && memcmp(&value, &line[k].value, sizeof value) == 0,
                  "[%lld,%lld,%lld], %lld kept: line %lld,%lld: place %lld has %g of %lld, not %g "
                  "of %lld",
                  (long long)c->outer, (long long)c->extent, (long long)c->inner,
                  (long long)c->kept, (long long)o, (long long)i, (long long)k, (double)value,
                  (long long)index, (double)line[k].value, (long long)line[k].at);
    }
}

static void check_order(const order_case *c, int threads) {
    const int64_t n = c->outer * c->extent * c->inner;
    float *x = plb_alloc_array((size_t)n, sizeof *x);
    element *line = plb_alloc_array((size_t)c->extent, sizeof *line);
    program p;
    if (!x || !line) abort();
    fill(x, n);
    plb_value in = begin(&p, x, &plb_shape_of(c->outer, c->extent, c->inner));
    plb_value sorted = c->kept == c->extent ? plb_sort(p.graph, in, 1, c->falls)
                                            : plb_top_k(p.graph, in, 1, c->kept, c->falls);
    plb_output(p.graph, "values", sorted);
    plb_output(p.graph, "indices", sorted + 1);
    plb_tensor values, indices;
    if (run(&p, threads)) {
        CHECK_OK(plb_plan_output(p.plan, "values", &values));
        CHECK_OK(plb_plan_output(p.plan, "indices", &indices));
        for (int64_t o = 0; o < c->outer; o++) {
            for (int64_t i = 0; i < c->inner; i++) {
                check_line(c, x, o, i, &values, &indices, line);
            }
        }
    }
    end(&p);
    plb_free(x), plb_free(line);
}

static void orders_are_pytorchs(void) {
    static const order_case cases[] = {
        {64, 3000, 1, 3000, false}, {64, 3000, 1, 3000, true}, {1, 100000, 1, 100000, true},
        {30, 500, 7, 500, false},   {64, 3000, 1, 3, true},    {64, 3000, 1, 3, false},
        {64, 3000, 1, 100, true},   {64, 3000, 1, 900, false}, {30, 500, 7, 40, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_order(&cases[i], 1);
        check_order(&cases[i], 2);
    }
}

// ---------------------------------------------------------------------------- nonzero
static void places_of_numbers_are_found(void) {
    enum { ROWS = 700, COLUMNS = 300 };
    float *x = plb_alloc_array(ROWS * COLUMNS, sizeof *x);
    if (!x) abort();
    fill(x, ROWS * COLUMNS);
    for (int threads = 1; threads <= 3; threads++) {
        program p;
        plb_tensor t;
        plb_value in = begin(&p, x, &plb_shape_of(ROWS, COLUMNS));
        plb_output(p.graph, "places", plb_nonzero(p.graph, in));
        if (run(&p, threads)) {
            CHECK_OK(plb_plan_output(p.plan, "places", &t));
            const int64_t *place = t.data;
            int64_t found = 0;
            for (int64_t i = 0; i < ROWS * COLUMNS; i++) found += x[i] != 0; // NaN is not 0
            CHECK(t.shape.rank == 2 && t.shape.dim[1] == 2);
            CHECK(t.shape.dim[0] == found || t.shape.dim[0] == ROWS * COLUMNS);
            int64_t at = 0;
            for (int64_t i = 0; i < ROWS * COLUMNS && !check_failures; i++) {
                if (x[i] == 0) continue;
                CHECK(place[2 * at] == i / COLUMNS && place[2 * at + 1] == i % COLUMNS);
                at++;
            }
        }
        end(&p);
    }
    plb_free(x);
}

static const check_test tests[] = {
    {"orders are PyTorch's", orders_are_pytorchs},
    {"places of numbers are found", places_of_numbers_are_found},
};
CHECK_MAIN(tests)
