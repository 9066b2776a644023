// SPDX-License-Identifier: Apache-2.0
// What the normalisations share. Statistics and their gradients are computed in f64 by the
// definitions and in plb_statistics_dtype by composed gradients, whatever x is.
#ifndef PLB_ENGINE_OPS_NORM_H
#define PLB_ENGINE_OPS_NORM_H

#include "engine/ops/spatial.h"

// Refuses inputs unless x is a float [N,C,…] and `vector` is [C] of x's dtype or the statistics'.
PLB_MUST_USE plb_status plb_norm_expect_x(const plb_type *x, const char *op);
PLB_MUST_USE plb_status plb_norm_expect_vector(const plb_type *vector, const plb_type *x,
                                               const plb_shape *shape, const char *op,
                                               const char *what);

// Elements of x[N,C,…] in one channel.
int64_t plb_norm_count(const plb_shape *x);

// gamma[C] and beta[C] where the caller gave PLB_NONE: ones or zeros.
plb_value plb_norm_default(plb_graph *graph, plb_value vector, plb_value x, double value);

// x[N,C,…] summed to [1,C,1,…], and such a value as [C] of `dtype`.
plb_value plb_norm_sum(plb_graph *graph, plb_value x);
plb_value plb_norm_vector(plb_graph *graph, plb_value sum, plb_dtype dtype);

// a + b where either may be PLB_NONE.
plb_value plb_norm_plus(plb_graph *graph, plb_value a, plb_value b);

// h = (x - mean) r with r = 1 / sqrt(variance + eps) over `axes`, appended as nodes; and the
// gradient of h with respect to x, r (dh - mean(dh) - h mean(dh h)).
typedef struct plb_norm_parts {
    plb_value h, r;
} plb_norm_parts;
plb_norm_parts plb_norm_standardise(plb_graph *graph, plb_value x, int64_t axes, double eps);
plb_value plb_norm_standardise_grad(plb_graph *graph, const plb_norm_parts *parts, plb_value dh,
                                    int64_t axes);

void plb_norm_describe(const void *attrs, plb_strbuf *text);

#endif
