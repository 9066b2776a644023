// SPDX-License-Identifier: Apache-2.0
// Weights to U = G w G^T, one vector of output channels at a time. Part of winograd_body.h.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_WEIGHTS_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_WEIGHTS_H

typedef struct plb_weight_factors {
    vec pair[PAIRS][3], zero;
} plb_weight_factors;

PLB_INLINE plb_weight_factors weight_factors_of(const plb_winograd_points *points) {
    plb_weight_factors f;
    for (int i = 0; i < PAIRS; i++) {
        for (int e = 0; e < 3; e++) f.pair[i][e] = vec_all(points->weight_pair[i][e]);
    }
    f.zero = vec_all(points->weight_zero);
    return f;
}

// o = G g. The rows of +p and -p are the even part plus and minus the odd one; without the point
// 0 the product of differences changes its sign with p, and with it the row of -p.
PLB_INLINE void weights_1d(int pairs, int zero, const plb_weight_factors *f, const vec *g, vec *o) {
    if (zero) o[0] = vec_mul(f->zero, g[0]);
    for (int i = 0; i < pairs; i++) {
        vec even = vec_fma(f->pair[i][2], g[2], vec_mul(f->pair[i][0], g[0]));
        vec odd = vec_mul(f->pair[i][1], g[1]);
        o[zero + 2 * i] = vec_add(even, odd);
        o[zero + 2 * i + 1] = zero ? vec_sub(even, odd) : vec_sub(odd, even);
    }
    o[2 * pairs + zero] = g[2];
}

PLB_INLINE void weights_2d(int pairs, int zero, const plb_weight_factors *f, const vec g[9],
                           float *u, size_t stride) {
    const int edge = 2 * pairs + zero + 1;
    vec t[MAX_EDGE][3], o[MAX_EDGE];
    for (int column = 0; column < 3; column++) {
        vec d[3] = {g[column], g[3 + column], g[6 + column]};
        weights_1d(pairs, zero, f, d, o);
        for (int r = 0; r < edge; r++) t[r][column] = o[r];
    }
    for (int r = 0; r < edge; r++) {
        weights_1d(pairs, zero, f, t[r], o);
        for (int c = 0; c < edge; c++) vec_store(u + (r * edge + c) * stride, o[c]);
    }
}

PLB_INLINE void pack_variant(int pairs, int zero, const plb_winograd_plan *plan, const float *w,
                             int64_t panel, int64_t c_begin, int64_t c_end, float *packed) {
    const int edge = 2 * pairs + zero + 1;
    const bool rotate = plan->shape.rotate;
    // Rotated, the forward input channels are the outputs, and the taps run backwards.
    const int64_t c_step = rotate ? plan->shape.c * 9 : 9, k_step = rotate ? 9 : plan->shape.c * 9;
    const int64_t k = panel * 2 * LANES, vectors = plan->out_c - k > LANES ? 2 : 1;
    const vec_index steps = vec_steps((int)k_step);
    const plb_weight_factors f = weight_factors_of(&plan->points);
    for (int64_t c = c_begin; c < c_end; c++) {
        for (int64_t h = 0; h < vectors; h++) {
            const float *from = w + (k + h * LANES) * k_step + c * c_step;
            vec g[9];
            for (int e = 0; e < 9; e++) g[e] = vec_gather(from + (rotate ? 8 - e : e), steps);
            weights_2d(pairs, zero, &f, g,
                       packed + panel * edge * edge * plan->u_stride + (c * vectors + h) * LANES,
                       plan->u_stride);
        }
    }
}

static void pack(const plb_winograd_plan *plan, const float *w, int64_t panel, int64_t c_begin,
                 int64_t c_end, float *packed) {
    PLB_EACH_VARIANT(plan, pack_variant, w, panel, c_begin, c_end, packed)
}

#endif
