// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cpu/winograd_points.h"

#include <math.h>
#include <stddef.h>

// Points are chosen for accuracy: those of F4 have squares 1/2 and 2, so that all even halves of
// B^T are exact. A sum over many channels loses more digits than the transforms do; the shorter
// runs of F5 keep its error below 2e-5 of the output's RMS. F6 misses that at any length of run.
typedef struct variant {
    int m, pairs, zero, run;
    double p[PLB_WINOGRAD_MAX_PAIRS];
} variant;

static const variant variants[] = {
    {2, 1, 1, 64, {1}},
    {4, 2, 1, 64, {M_SQRT1_2, M_SQRT2}},
    {5, 3, 0, 32, {0.25, 0.875, 1.75}},
};

// Coefficients in x^2, lowest first, of prod over pairs j != skip of (x^2 - p_j^2).
static int square_product(const variant *v, int skip, double *c) {
    int degree = 0;
    c[0] = 1;
    for (int j = 0; j < v->pairs; j++) {
        if (j == skip) continue;
        degree++;
        c[degree] = 0;
        for (int d = degree; d >= 0; d--) {
            c[d] = (d ? c[d - 1] : 0) - v->p[j] * v->p[j] * c[d];
        }
    }
    return degree;
}

// Row of G for the point p: (1, p, p^2) over the product of p's differences to the other finite
// points: prod over j != i of (p^2 - p_j^2), times 2p for -p, times p for 0.
static void weight_row(const variant *v, int i, float *row) {
    double p = v->p[i], difference = 2 * p * (v->zero ? p : 1);
    for (int j = 0; j < v->pairs; j++) {
        if (j != i) difference *= p * p - v->p[j] * v->p[j];
    }
    row[0] = (float)(1 / difference);
    row[1] = (float)(p / difference);
    row[2] = (float)(p * p / difference);
}

bool plb_winograd_points_make(int m, plb_winograd_points *points) {
    const variant *v = NULL;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (variants[i].m == m) v = &variants[i];
    }
    if (!v) return false;
    *points = (plb_winograd_points){.pairs = v->pairs, .zero = v->zero, .run = v->run};
    double c[PLB_WINOGRAD_MAX_PAIRS + 1], zero = 1;
    for (int i = 0; i < v->pairs; i++) {
        int degree = square_product(v, i, c);
        for (int d = 0; d < degree; d++) points->input_pair[i][d] = (float)c[d];
        for (int e = 0; e < m; e++) points->power[e][i] = (float)pow(v->p[i], e);
        weight_row(v, i, points->weight_pair[i]);
        zero *= -v->p[i] * v->p[i];
    }
    int degree = square_product(v, -1, c);
    for (int d = 0; d < degree; d++) points->input_all[d] = (float)c[d];
    points->weight_zero = (float)(1 / zero);
    return true;
}
