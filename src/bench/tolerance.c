// SPDX-License-Identifier: Apache-2.0
#include "bench/tolerance.h"

#include <math.h>
#include <string.h>

// The table. One row a precision, one column a kind of result; docs/measuring.md says how they were
// found. Of coarse numbers gradients and weights have room for the kinks of ReLU, which grow with
// the square root of the noise, and must have a size.
static const struct {
    const char *precision; // effective: of what is multiplied
    double epsilon;
    double c[PLB_RESULT_KINDS]; // output, loss, gradient, weight, buffer, layer
    double size;
} table[] = {
    {"f32", 0x1p-23, {48, 40, 160000, 170000, 300, 40}, HUGE_VAL},
    {"tf32", 0x1p-10, {5, 1, 330, 330, 6, 4}, 5},
    {"f16", 0x1p-10, {6.2, 1, 330, 330, 6, 8}, 5},
    {"bf16", 0x1p-7, {5, 1, 60, 60, 4, 8}, 5},
    // Variables are f32 between two steps.
    {"f64", 0x1p-23, {8, 8, 32000, 70000, 120, 8}, HUGE_VAL},
};
enum { ROWS = sizeof table / sizeof *table };

plb_result_kind plb_result_kind_of(const char *name) {
    static const struct {
        const char *begin;
        plb_result_kind kind;
    } kinds[] = {{"grad.", PLB_RESULT_GRADIENT},
                 {"weight.", PLB_RESULT_WEIGHT},
                 {"buffer.", PLB_RESULT_BUFFER},
                 {"layer.", PLB_RESULT_LAYER}};
    if (strcmp(name, "output") == 0) return PLB_RESULT_OUTPUT;
    if (strcmp(name, "loss") == 0) return PLB_RESULT_LOSS;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(name, kinds[i].begin, strlen(kinds[i].begin)) == 0) return kinds[i].kind;
    }
    return PLB_RESULT_KINDS;
}

static int row_of(const plb_case *c) {
    const char *precision = strcmp(c->autocast, "none") != 0 ? c->autocast
                            : strcmp(c->dtype, "f32") != 0   ? c->dtype
                                                             : c->math;
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(table[i].precision, precision) == 0) return i;
    }
    return 0;
}

double plb_tolerance_epsilon(const plb_case *c) {
    return table[row_of(c)].epsilon;
}

double plb_tolerance(const plb_case *c, plb_result_kind kind, int depth) {
    int row = row_of(c);
    return table[row].c[kind] * table[row].epsilon * sqrt(depth < 1 ? 1.0 : (double)depth);
}

double plb_tolerance_size(const plb_case *c) {
    return table[row_of(c)].size;
}

double plb_result_error(plb_result_kind kind, const double *reference, const plb_tensor *found,
                        const float *base, double floor) {
    int64_t n = plb_shape_count(&found->shape);
    double most = 0, most_size = 0, squares = 0, size_squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = plb_load_f64(found->data, found->dtype, i);
        double size = reference[i] - (base ? (double)base[i] : 0), d = value - reference[i];
        if (!isfinite(value)) return HUGE_VAL;
        most = fmax(most, fabs(d)), most_size = fmax(most_size, fabs(size));
        squares += d * d, size_squares += size * size;
    }
    if (n == 0) return 0;
    bool largest = kind == PLB_RESULT_OUTPUT || kind == PLB_RESULT_LOSS;
    double error = largest ? most : sqrt(squares / (double)n);
    double size = largest ? most_size : sqrt(size_squares / (double)n);
    size = fmax(size, floor);
    return size > 0 ? error / size : error > 0 ? HUGE_VAL : 0;
}
