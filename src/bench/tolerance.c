// SPDX-License-Identifier: Apache-2.0
#include "bench/tolerance.h"

#include <math.h>
#include <string.h>

// The table. One row a precision, one column a kind of result; docs/measuring.md says how they were
// found. Of coarse numbers gradients and weights have room for the kinks of ReLU, which grow with
// the square root of the noise, and must have a size; what rounding does to them is measured, too.
static const struct {
    const char *precision; // effective: of what is multiplied
    double epsilon;
    double c[PLB_RESULT_KINDS]; // output, loss, gradient, weight, buffer, layer
    double size;
    double least; // of eps, allowed where rounding moves nothing: results themselves are rounded
} table[] = {
    {"f32", 0x1p-23, {48, 40, 160000, 170000, 300, 40}, HUGE_VAL, 0},
    {"tf32", 0x1p-10, {5, 1, 330, 330, 6, 4}, 5, 0.25},
    {"f16", 0x1p-10, {6.2, 1, 330, 330, 6, 8}, 5, 2},
    {"bf16", 0x1p-7, {5, 1, 60, 60, 4, 8}, 5, 2},
    // Variables are f32 between two steps.
    {"f64", 0x1p-23, {8, 8, 32000, 70000, 120, 8}, HUGE_VAL, 0},
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

const char *plb_result_kind_name(plb_result_kind kind) {
    static const char *const names[PLB_RESULT_KINDS] = {
        "output", "loss", "gradients", "weights", "running statistics", "layers"};
    return kind < PLB_RESULT_KINDS ? names[kind] : "?";
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

// Stacks round elsewhere, too, and add up in another order: then other activations lie on the other
// side of a kink, which few of them decide of a gradient.
static double times_moved(plb_result_kind kind) {
    return kind == PLB_RESULT_GRADIENT || kind == PLB_RESULT_WEIGHT ? 6 : 3;
}

double plb_tolerance_rounded(const plb_case *c, plb_result_kind kind, double limit, double moved) {
    const int row = row_of(c);
    if (!isfinite(moved)) return limit;
    return fmin(limit, times_moved(kind) * moved + table[row].least * table[row].epsilon);
}

// ---------------------------------------------------------------------------- measures
// A sum of what was seen of numbers one after another.
typedef struct measure {
    double most, squares;
} measure;

static void see(measure *m, double value) {
    if (!isfinite(value)) return;
    m->most = fmax(m->most, fabs(value));
    m->squares += value * value;
}

static double told(const measure *m, plb_result_kind kind, int64_t n) {
    const bool largest = kind == PLB_RESULT_OUTPUT || kind == PLB_RESULT_LOSS;
    if (n == 0) return 0;
    return largest ? m->most : sqrt(m->squares / (double)n);
}

bool plb_result_same_special(double reference, double value) {
    return isnan(reference) ? isnan(value) : value == reference;
}

double plb_result_size(plb_result_kind kind, const double *value, const float *base, int64_t n) {
    measure m = {0, 0};
    for (int64_t i = 0; i < n; i++) see(&m, value[i] - (base ? (double)base[i] : 0));
    return told(&m, kind, n);
}

double plb_result_distance(plb_result_kind kind, const double *a, const double *b, int64_t n) {
    measure m = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i] - b[i])) return HUGE_VAL;
        see(&m, a[i] - b[i]);
    }
    return told(&m, kind, n);
}

double plb_result_error(plb_result_kind kind, const double *reference, const plb_tensor *found,
                        const float *base, double floor) {
    const int64_t n = plb_shape_count(&found->shape);
    measure m = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        double value = plb_load_f64(found->data, found->dtype, i);
        if (!isfinite(reference[i]) && plb_result_same_special(reference[i], value)) continue;
        if (!isfinite(reference[i]) || !isfinite(value)) return HUGE_VAL;
        see(&m, value - reference[i]);
    }
    const double error = told(&m, kind, n);
    const double size = fmax(plb_result_size(kind, reference, base, n), floor);
    return size > 0 ? error / size : error > 0 ? HUGE_VAL : 0;
}
