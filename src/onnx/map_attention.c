// SPDX-License-Identifier: Apache-2.0
// Attention and what models of language put around it, composed of the engine's ops.
#include <math.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/dtype.h"
#include "onnx/map.h"

// `heads` heads in the last of three axes.
static plb_status check_heads(const plb_onnx_node *n, int i, int64_t heads) {
    plb_shape s = plb_onnx_type(n, i).shape;
    if (heads < 1) return plb_fail(PLB_EINVAL, "no numbers of heads");
    if (!plb_onnx_given_in(n, i)) return PLB_OK;
    if (s.rank == 3 && s.dim[2] % heads == 0) return PLB_OK;
    if (s.rank != 3) return plb_onnx_rank(n, i, 3, 3);
    return plb_fail(PLB_EINVAL, "input %d: %lld heads do not divide an extent of %lld", i,
                    (long long)heads, (long long)s.dim[2]);
}

// x[B,L,H*D] as [B,H,L,D].
static plb_value split_heads(plb_graph *g, plb_value x, int64_t heads) {
    plb_shape s = plb_value_shape(g, x);
    plb_value y = plb_reshape(g, x, &plb_shape_of(s.dim[0], s.dim[1], heads, s.dim[2] / heads));
    return plb_permute(g, y, (int[]){0, 2, 1, 3}, 4);
}

static plb_value join_heads(plb_graph *g, plb_value x) {
    plb_shape s = plb_value_shape(g, x);
    plb_value y = plb_permute(g, x, (int[]){0, 2, 1, 3}, 4);
    return plb_reshape(g, y, &plb_shape_of(s.dim[0], s.dim[2], s.dim[1] * s.dim[3]));
}

// Heads of keys and values that several heads of queries share: repeated.
static plb_value repeat_heads(plb_graph *g, plb_value x, int64_t heads) {
    plb_shape s = plb_value_shape(g, x);
    if (s.rank != 4 || s.dim[1] == heads || s.dim[1] == 0) return x;
    int64_t times = heads / s.dim[1];
    plb_value y = plb_reshape(g, x, &plb_shape_of(s.dim[0], s.dim[1], 1, s.dim[2], s.dim[3]));
    y = plb_expand(g, y, &plb_shape_of(s.dim[0], s.dim[1], times, s.dim[2], s.dim[3]));
    return plb_reshape(g, y, &plb_shape_of(s.dim[0], s.dim[1] * times, s.dim[2], s.dim[3]));
}

typedef struct heads {
    plb_value q, k, v;     // [B,H,L,D], k and v with H of their own
    int64_t queries, keys; // L of q, of k with the past
    int64_t past;          // of keys
    bool flat;             // the inputs had rank 3
    plb_dtype dtype;
} heads;

static plb_status check_attention(const plb_onnx_node *n) {
    PLB_TRY(plb_onnx_rank(n, 0, 3, 4));
    int rank = plb_onnx_type(n, 0).shape.rank;
    for (int i = 1; i < 3; i++) PLB_TRY(plb_onnx_rank(n, i, rank, rank));
    PLB_TRY(plb_onnx_optional_rank(n, 3, 0, 4));                             // the mask
    for (int i = 4; i < 6; i++) PLB_TRY(plb_onnx_optional_rank(n, i, 4, 4)); // the past
    PLB_TRY(plb_onnx_optional_rank(n, 6, 0, 1));                             // counts of valid keys
    if (plb_onnx_given_in(n, 4) == plb_onnx_given_in(n, 5)) return PLB_OK;
    return plb_fail(PLB_EINVAL, "past keys and past values go together");
}

static plb_status read_heads(const plb_onnx_node *n, heads *h) {
    plb_graph *g = n->graph;
    PLB_TRY(check_attention(n));
    *h = (heads){.q = n->in[0], .k = n->in[1], .v = n->in[2], .dtype = plb_onnx_type(n, 0).dtype};
    h->flat = plb_onnx_type(n, 0).shape.rank == 3;
    if (h->flat) {
        int64_t q_heads = plb_onnx_int(n, "q_num_heads", 0);
        int64_t kv_heads = plb_onnx_int(n, "kv_num_heads", 0);
        for (int i = 0; i < 3; i++) PLB_TRY(check_heads(n, i, i ? kv_heads : q_heads));
        h->q = split_heads(g, h->q, q_heads);
        h->k = split_heads(g, h->k, kv_heads);
        h->v = split_heads(g, h->v, kv_heads);
    }
    if (plb_onnx_given_in(n, 4)) {
        h->past = plb_value_shape(g, n->in[4]).dim[2];
        h->k = plb_concat(g, (plb_value[]){n->in[4], h->k}, 2, 2);
        h->v = plb_concat(g, (plb_value[]){n->in[5], h->v}, 2, 2);
    }
    PLB_TRY(plb_graph_status(g));
    h->queries = plb_value_shape(g, h->q).dim[2];
    h->keys = plb_value_shape(g, h->k).dim[2];
    return PLB_OK;
}

static plb_value both(plb_graph *g, plb_value a, plb_value b) {
    return a == PLB_NONE ? b : plb_and(g, a, b);
}

// Bool [.., queries, keys]: which keys a query may see, or PLB_NONE: all. Query i stands at
// position i + past, or, where valid keys are counted for each batch, at their end.
static plb_value visible(const plb_onnx_node *n, const heads *h) {
    plb_graph *g = n->graph;
    bool causal = plb_onnx_int(n, "is_causal", 0) != 0, counted = plb_onnx_given_in(n, 6);
    int64_t left = plb_onnx_int(n, "left_window_size", -1);
    int64_t right = causal ? 0 : plb_onnx_int(n, "right_window_size", -1);
    plb_shape plane = plb_shape_of(1, 1, h->queries, h->keys);
    plb_value column = plb_iota(g, PLB_I64, &plane, 3), row = plb_iota(g, PLB_I64, &plane, 2);
    plb_value see = PLB_NONE, place = plb_affine(g, row, 1, (double)h->past);
    if (counted) {
        int64_t batch = plb_onnx_type(n, 6).shape.rank ? plb_onnx_type(n, 6).shape.dim[0] : 1;
        plb_value valid = plb_reshape(g, n->in[6], &plb_shape_of(batch, 1, 1, 1));
        see = both(g, see, plb_lt(g, column, valid));
        place = plb_add(g, row, plb_affine(g, valid, 1, (double)-h->queries));
    }
    if (right >= 0) see = both(g, see, plb_le(g, column, plb_affine(g, place, 1, (double)right)));
    if (left >= 0) see = both(g, see, plb_ge(g, column, plb_affine(g, place, 1, (double)-left)));
    return see;
}

// The mask given, as something to add to scores, padded to all keys.
static plb_value given_bias(const plb_onnx_node *n, const heads *h, plb_dtype dtype) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 3);
    plb_value mask = n->in[3];
    plb_value never = plb_scalar(g, dtype, -INFINITY);
    if (type.dtype == PLB_BOOL) {
        mask = plb_where(g, mask, plb_scalar(g, dtype, 0), never);
    } else {
        mask = plb_cast(g, mask, dtype);
    }
    int last = type.shape.rank - 1;
    if (type.shape.rank && type.shape.dim[last] > 1 && type.shape.dim[last] < h->keys) {
        plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT, .value = -INFINITY};
        pad.after[last] = h->keys - type.shape.dim[last];
        mask = plb_pad(g, mask, &pad);
    }
    if (type.shape.rank == 3) {
        plb_shape s = plb_value_shape(g, mask);
        mask = plb_reshape(g, mask, &plb_shape_of(1, s.dim[0], s.dim[1], s.dim[2]));
    }
    return mask;
}

// Softmax over keys; a query that sees none gives zeros.
static plb_value weights_of(plb_graph *g, plb_value scores, plb_dtype dtype) {
    plb_value top = plb_amax(g, scores, plb_axes(4, 1, (int[]){3}), true);
    plb_value none = plb_eq(g, top, plb_scalar(g, dtype, -INFINITY));
    plb_value safe = plb_where(g, none, plb_scalar(g, dtype, 0), scores);
    return plb_where(g, none, plb_scalar(g, dtype, 0), plb_softmax(g, safe, 3));
}

plb_status plb_onnx_map_attention(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    heads h;
    PLB_TRY(read_heads(n, &h));
    plb_shape q = plb_value_shape(g, h.q);
    int64_t dtype_number = plb_onnx_int(n, "softmax_precision", 0), stage;
    plb_dtype precise = h.dtype;
    if (dtype_number) PLB_TRY(plb_onnx_dtype(dtype_number, &precise));
    double scale = plb_onnx_float(n, "scale", 1 / sqrt((double)q.dim[3]));
    double cap = plb_onnx_float(n, "softcap", 0);
    plb_value k = repeat_heads(g, h.k, q.dim[1]), v = repeat_heads(g, h.v, q.dim[1]);
    plb_value root_q = plb_affine(g, h.q, sqrt(scale), 0),
              root_k = plb_affine(g, k, sqrt(scale), 0);
    plb_value scores = plb_matmul(g, root_q, root_k, &(plb_matmul_attrs){.trans_b = 1});
    plb_value stages[4] = {scores, PLB_NONE, PLB_NONE, PLB_NONE};
    if (cap != 0) {
        scores = plb_affine(g, plb_tanh(g, plb_affine(g, scores, 1 / cap, 0)), cap, 0);
    }
    stages[1] = scores;
    plb_value see = visible(n, &h);
    bool masked = plb_onnx_given_in(n, 3);
    if (masked) scores = plb_add(g, scores, given_bias(n, &h, h.dtype));
    if (see != PLB_NONE) {
        scores = plb_where(g, see, scores, plb_scalar(g, h.dtype, -INFINITY));
    }
    stages[2] = scores;
    plb_value p = weights_of(g, plb_cast(g, scores, precise), precise);
    p = plb_cast(g, p, h.dtype);
    stages[3] = p;
    plb_value y = plb_matmul(g, p, v, &(plb_matmul_attrs){0});
    n->out[0] = h.flat ? join_heads(g, y) : y;
    n->out[1] = h.k, n->out[2] = h.v;
    stage = plb_onnx_int(n, "qk_matmul_output_mode", 0);
    if (stage < 0 || stage > 3) return plb_fail(PLB_EINVAL, "mode %lld", (long long)stage);
    n->out[3] = stages[stage];
    return PLB_OK;
}

// ---------------------------------------------------------------------------- rotary embedding
// Pairs of features of each head are turned by the angle of the position.
static plb_value turn(plb_graph *g, plb_value x, plb_value cosine, plb_value sine,
                      bool interleaved) {
    plb_shape s = plb_value_shape(g, x);
    int64_t half = s.dim[3] / 2;
    plb_value a, b;
    if (interleaved) {
        plb_value pairs = plb_reshape(g, x, &plb_shape_of(s.dim[0], s.dim[1], s.dim[2], half, 2));
        a = plb_slice_axis(g, pairs, 4, 0, 1), b = plb_slice_axis(g, pairs, 4, 1, 2);
        plb_shape thin = plb_shape_of(s.dim[0], s.dim[1], s.dim[2], half);
        a = plb_reshape(g, a, &thin), b = plb_reshape(g, b, &thin);
    } else {
        a = plb_slice_axis(g, x, 3, 0, half), b = plb_slice_axis(g, x, 3, half, 2 * half);
    }
    plb_value real = plb_sub(g, plb_mul(g, cosine, a), plb_mul(g, sine, b));
    plb_value other = plb_add(g, plb_mul(g, sine, a), plb_mul(g, cosine, b));
    if (!interleaved) return plb_concat(g, (plb_value[]){real, other}, 2, 3);
    plb_shape wide = plb_shape_of(s.dim[0], s.dim[1], s.dim[2], half, 1);
    plb_value parts[2] = {plb_reshape(g, real, &wide), plb_reshape(g, other, &wide)};
    return plb_reshape(g, plb_concat(g, parts, 2, 4), &s);
}

// cos or sin of each position: [B, L, 1, D/2].
static plb_value angles(const plb_onnx_node *n, int i, int64_t half) {
    plb_graph *g = n->graph;
    plb_value table = n->in[i];
    if (plb_onnx_given_in(n, 3)) {
        plb_value at = plb_onnx_wrap_index(g, n->in[3], plb_onnx_type(n, i).shape.dim[0]);
        table = plb_take(g, table, at, 0);
    }
    plb_shape s = plb_value_shape(g, table);
    if (s.rank == 3 && s.dim[2] > half) table = plb_slice_axis(g, table, 2, 0, half);
    s = plb_value_shape(g, table);
    return plb_reshape(g, table, &plb_shape_of(s.dim[0], s.dim[1], 1, s.dim[2]));
}

// x of [B,L,H*D] or [B,H,L,D]; tables of [positions, D/2], or, without positions, [B,L,D/2].
static plb_status check_rotary(const plb_onnx_node *n) {
    int rank = plb_onnx_given_in(n, 3) ? 2 : 3;
    PLB_TRY(plb_onnx_rank(n, 0, 3, 4));
    for (int i = 1; i < 3; i++) PLB_TRY(plb_onnx_rank(n, i, rank, rank));
    PLB_TRY(plb_onnx_optional_rank(n, 3, 2, 2));
    if (plb_onnx_type(n, 0).shape.rank == 4) return PLB_OK;
    return check_heads(n, 0, plb_onnx_int(n, "num_heads", 0));
}

// How many features of each head are turned: an even number, for which both tables have angles.
static plb_status turned_features(const plb_onnx_node *n, int64_t size, int64_t *out) {
    int64_t turned = plb_onnx_int(n, "rotary_embedding_dim", 0);
    *out = turned ? turned : size;
    if (*out < 1 || *out > size || *out % 2) {
        return plb_fail(PLB_EINVAL, "%lld of %lld features turned: expected an even number",
                        (long long)*out, (long long)size);
    }
    for (int i = 1; i < 3; i++) {
        plb_shape s = plb_onnx_type(n, i).shape;
        if (s.dim[s.rank - 1] >= *out / 2) continue;
        return plb_fail(PLB_EINVAL, "input %d: %lld angles for %lld features", i,
                        (long long)s.dim[s.rank - 1], (long long)*out);
    }
    return PLB_OK;
}

plb_status plb_onnx_map_rotary(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_shape x = plb_onnx_type(n, 0).shape;
    PLB_TRY(check_rotary(n));
    plb_value y = n->in[0];
    bool flat = x.rank == 3;
    int64_t heads_count = plb_onnx_int(n, "num_heads", 0);
    if (flat) {
        plb_shape wide = plb_shape_of(x.dim[0], x.dim[1], heads_count, x.dim[2] / heads_count);
        y = plb_reshape(g, y, &wide);
    } else {
        y = plb_permute(g, y, (int[]){0, 2, 1, 3}, 4);
    }
    PLB_TRY(plb_graph_status(g));
    int64_t size = plb_value_shape(g, y).dim[3], turned;
    PLB_TRY(turned_features(n, size, &turned));
    plb_value cosine = angles(n, 1, turned / 2), sine = angles(n, 2, turned / 2);
    plb_value rest = PLB_NONE, part = y;
    if (turned < size) {
        part = plb_slice_axis(g, y, 3, 0, turned);
        rest = plb_slice_axis(g, y, 3, turned, size);
    }
    y = turn(g, part, cosine, sine, plb_onnx_int(n, "interleaved", 0) != 0);
    if (rest != PLB_NONE) y = plb_concat(g, (plb_value[]){y, rest}, 2, 3);
    n->out[0] = flat ? plb_reshape(g, y, &x) : plb_permute(g, y, (int[]){0, 2, 1, 3}, 4);
    return PLB_OK;
}

plb_status plb_onnx_map_swiglu(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    double alpha = plb_onnx_float(n, "alpha", 1);
    plb_value gate = plb_sigmoid(g, plb_affine(g, n->in[0], alpha, 0));
    n->out[0] = plb_mul(g, plb_mul(g, n->in[0], gate), n->in[1]);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- recurrent kinds
// A depthwise convolution that sees the past alone; the last k - 1 inputs are its state.
plb_status plb_onnx_map_causal_conv(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    for (int i = 0; i < 2; i++) PLB_TRY(plb_onnx_rank(n, i, 3, 3));
    PLB_TRY(plb_onnx_optional_rank(n, 3, 3, 3));
    plb_shape x = plb_onnx_type(n, 0).shape, w = plb_onnx_type(n, 1).shape;
    int64_t past = w.dim[2] - 1;
    plb_value all = n->in[0];
    if (plb_onnx_given_in(n, 3)) {
        all = plb_concat(g, (plb_value[]){n->in[3], all}, 2, 2);
    } else {
        plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT};
        pad.before[2] = past;
        all = plb_pad(g, all, &pad);
    }
    plb_conv_attrs attrs = plb_conv_uniform(1, 1, 0, 1, x.dim[1]);
    plb_value y = plb_conv(g, all, n->in[1], plb_onnx_in(n, 2), &attrs);
    bool silu = plb_onnx_is(n, "activation", "none", "silu") ||
                plb_onnx_is(n, "activation", "none", "swish");
    n->out[0] = silu ? plb_silu(g, y) : y;
    n->out[1] = plb_slice_axis(g, all, 2, x.dim[2], x.dim[2] + past);
    return PLB_OK;
}

typedef struct linear_attention {
    plb_value q, k, v, decay, beta; // [B,H,T,…] or PLB_NONE
    double scale;
    bool gated, delta;
} linear_attention;

static plb_value at_time(plb_graph *g, plb_value x, int64_t t) {
    return plb_slice_axis(g, x, 2, t, t + 1); // [B,H,1,D]
}

// S' = e^g S + beta k (v - e^g S^T k); without `delta` plainly k v.
static plb_value next_state(plb_graph *g, const linear_attention *a, plb_value state, int64_t t) {
    plb_value k = at_time(g, a->k, t), v = at_time(g, a->v, t);
    if (a->gated) {
        plb_value rate = plb_exp(g, at_time(g, a->decay, t));
        state = plb_mul(g, state, plb_transpose(g, rate, 2, 3)); // a factor for each row
    }
    if (a->delta) {
        plb_value seen = plb_matmul(g, k, state, &(plb_matmul_attrs){0}); // [B,H,1,Dv]
        v = plb_mul(g, plb_sub(g, v, seen), at_time(g, a->beta, t));
    }
    return plb_add(g, state, plb_matmul(g, k, v, &(plb_matmul_attrs){.trans_a = 1}));
}

// 16-bit values are computed with in f32, as the state sums up many of them.
static plb_value precise_heads(const plb_onnx_node *n, int i, int64_t count) {
    plb_dtype dtype = plb_onnx_type(n, i).dtype;
    plb_dtype precise = dtype == PLB_F64 ? PLB_F64 : PLB_F32;
    return split_heads(n->graph, plb_cast(n->graph, n->in[i], precise), count);
}

static plb_status read_linear(const plb_onnx_node *n, linear_attention *a) {
    plb_graph *g = n->graph;
    int64_t q_heads = plb_onnx_int(n, "q_num_heads", 0);
    int64_t kv_heads = plb_onnx_int(n, "kv_num_heads", 0);
    for (int i = 0; i < 6; i++) {
        if (i != 3) PLB_TRY(check_heads(n, i, i ? kv_heads : q_heads));
    }
    for (int i = 0; i < 3; i++) PLB_TRY(plb_onnx_rank(n, i, 3, 3));
    PLB_TRY(plb_onnx_optional_rank(n, 3, 4, 4));
    *a = (linear_attention){.q = precise_heads(n, 0, q_heads),
                            .k = precise_heads(n, 1, kv_heads),
                            .v = precise_heads(n, 2, kv_heads),
                            .decay = PLB_NONE,
                            .beta = PLB_NONE};
    a->gated = plb_onnx_is(n, "update_rule", "gated_delta", "gated") ||
               plb_onnx_is(n, "update_rule", "gated_delta", "gated_delta");
    a->delta = plb_onnx_is(n, "update_rule", "gated_delta", "delta") ||
               plb_onnx_is(n, "update_rule", "gated_delta", "gated_delta");
    if ((a->gated && !plb_onnx_given_in(n, 4)) || (a->delta && !plb_onnx_given_in(n, 5))) {
        return plb_fail(PLB_EINVAL, "the update rule needs decay or beta");
    }
    if (a->gated) a->decay = precise_heads(n, 4, kv_heads);
    if (a->delta) a->beta = precise_heads(n, 5, kv_heads);
    PLB_TRY(plb_graph_status(g));
    double size = (double)plb_value_shape(g, a->q).dim[3];
    a->scale = plb_onnx_float(n, "scale", 0);
    if (a->scale == 0) a->scale = 1 / sqrt(size);
    return PLB_OK;
}

enum { MAX_STEPS = 512 }; // of what is unrolled

plb_status plb_onnx_map_linear_attention(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    linear_attention a = {0};
    PLB_TRY(read_linear(n, &a));
    plb_shape q = plb_value_shape(g, a.q), k = plb_value_shape(g, a.k);
    plb_shape v = plb_value_shape(g, a.v);
    plb_dtype dtype = plb_onnx_type(n, 0).dtype, kept = dtype;
    plb_type state_type = {plb_value_type(g, a.q).dtype,
                           plb_shape_of(k.dim[0], k.dim[1], k.dim[3], v.dim[3])};
    plb_value state = n->in[3], rows[MAX_STEPS];
    if (q.dim[2] != k.dim[2] || v.dim[2] != k.dim[2]) {
        return plb_fail(PLB_EINVAL, "queries, keys and values of %lld, %lld and %lld steps",
                        (long long)q.dim[2], (long long)k.dim[2], (long long)v.dim[2]);
    }
    if (k.dim[2] < 1 || k.dim[2] > MAX_STEPS) {
        return plb_onnx_refuse("%lld steps, more than %d", (long long)k.dim[2], MAX_STEPS);
    }
    if (state != PLB_NONE) {
        kept = plb_onnx_type(n, 3).dtype;
        state = plb_cast(g, state, state_type.dtype);
    } else {
        state = plb_expand(g, plb_scalar(g, state_type.dtype, 0), &state_type.shape);
    }
    for (int64_t t = 0; t < k.dim[2]; t++) {
        state = next_state(g, &a, state, t);
        plb_value shared = repeat_heads(g, state, q.dim[1]);
        rows[t] = plb_matmul(g, at_time(g, a.q, t), shared, &(plb_matmul_attrs){0});
        PLB_TRY(plb_graph_status(g));
    }
    plb_value y = k.dim[2] == 1 ? rows[0] : plb_concat(g, rows, (int)k.dim[2], 2);
    n->out[0] = plb_cast(g, join_heads(g, plb_affine(g, y, a.scale, 0)), dtype);
    n->out[1] = plb_cast(g, state, kept);
    return PLB_OK;
}
