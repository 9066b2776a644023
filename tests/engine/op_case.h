// SPDX-License-Identifier: Apache-2.0
// A case of an op, for every test that runs ops by their tables: one of its samples at one dtype,
// with generated inputs and outputs between sentinels. Inputs depend on the names of op and
// sample alone, so that files made from them elsewhere stay valid.
#ifndef PLB_TESTS_ENGINE_OP_CASE_H
#define PLB_TESTS_ENGINE_OP_CASE_H

#include "base/core/hash.h"
#include "base/core/philox.h"
#include "check.h"
#include "engine/ops/op.h"

enum { OP_CASE_GUARD_BYTES = 64 };

typedef struct op_case {
    plb_op_id id;
    const plb_op *op;
    const plb_sample *sample;
    plb_dtype dtype; // what f32 of the sample became
    int n_in, n_out;
    plb_type in_type[PLB_SAMPLE_INPUTS], out_type[PLB_MAX_OUTPUTS];
    plb_tensor in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
} op_case;

static inline uint64_t op_case_key(const op_case *c) {
    return plb_hash_string(plb_hash_string(PLB_HASH_SEED, c->op->name), c->sample->name);
}

// In [0, 1). `stream` tells apart what one case draws.
static inline double op_case_uniform(uint64_t key, uint64_t stream, int64_t i) {
    plb_philox_block block = plb_philox(key, (uint64_t)i, stream);
    return (double)((uint64_t)block.word[0] << 21 | block.word[1] >> 11) * 0x1p-53;
}

// How many elements of the stream are smaller than element i: a permutation of 0 … n - 1.
static inline int64_t op_case_place(uint64_t key, uint64_t stream, int64_t n, int64_t i) {
    double own = op_case_uniform(key, stream, i);
    int64_t place = 0;
    for (int64_t k = 0; k < n; k++) {
        double other = op_case_uniform(key, stream, k);
        place += other < own || (other == own && k < i);
    }
    return place;
}

static inline void op_case_range(const op_case *c, int k, double *low, double *high) {
    *low = c->sample->low[k], *high = c->sample->high[k];
    if (*low != 0 || *high != 0) return;
    *low = plb_dtype_is_signed(c->in_type[k].dtype) ? -1 : 0, *high = 1;
}

static inline void op_case_fill(const op_case *c, int k) {
    const plb_tensor *t = &c->in[k];
    int64_t n = plb_shape_count(&t->shape);
    double low, high;
    op_case_range(c, k, &low, &high);
    bool whole = !plb_dtype_is_float(t->dtype);
    for (int64_t i = 0; i < n; i++) {
        double u = op_case_uniform(op_case_key(c), (uint64_t)k, i);
        if (c->sample->distinct >> k & 1) {
            u = ((double)op_case_place(op_case_key(c), (uint64_t)k, n, i) + 0.5) / (double)n;
        }
        double value = whole ? low + floor(u * (high - low + 1)) : low + u * (high - low);
        plb_store_f64(t->data, t->dtype, i, value);
    }
}

static inline void *op_case_alloc(size_t size_bytes, int pattern) {
    unsigned char *memory = malloc(size_bytes + 2 * OP_CASE_GUARD_BYTES);
    if (!memory) abort();
    memset(memory, pattern, size_bytes + 2 * OP_CASE_GUARD_BYTES);
    return memory + OP_CASE_GUARD_BYTES;
}

static inline plb_tensor op_case_tensor(const plb_type *type, int pattern) {
    void *data =
        op_case_alloc(plb_layout_bytes(&type->shape, type->dtype, (plb_layout){0}), pattern);
    return plb_tensor_dense(data, type->dtype, &type->shape, (plb_layout){0});
}

static inline void op_case_tensor_free(plb_tensor *t) {
    if (t->data) free((unsigned char *)t->data - OP_CASE_GUARD_BYTES);
    t->data = NULL;
}

// Whether the bytes around a tensor are still what op_case_tensor put there.
static inline bool op_case_guarded(const plb_tensor *t, int pattern) {
    const unsigned char *data = t->data;
    size_t size = plb_layout_bytes(&t->shape, t->dtype, t->layout);
    for (size_t i = 0; i < OP_CASE_GUARD_BYTES; i++) {
        if (data[size + i] != pattern || data[(ptrdiff_t)i - OP_CASE_GUARD_BYTES] != pattern) {
            return false;
        }
    }
    return true;
}

// Every sample has a case of its own dtypes; those with f32 inputs have others too.
static inline bool op_case_exists(const plb_sample *sample, plb_dtype dtype) {
    if (dtype == PLB_F32) return true;
    for (int k = 0; k < sample->n_in; k++) {
        if (sample->in[k].dtype == PLB_F32) return !sample->f32_only;
    }
    return false;
}

// Makes inputs and outputs (filled with `pattern`); PLB_OK or what infer says.
static inline plb_status op_case_open(op_case *c, plb_op_id id, const plb_sample *sample,
                                      plb_dtype dtype, int pattern) {
    *c = (op_case){
        .id = id, .op = plb_op_of(id), .sample = sample, .dtype = dtype, .n_in = sample->n_in};
    for (int k = 0; k < c->n_in; k++) {
        c->in_type[k] = sample->in[k];
        if (c->in_type[k].dtype == PLB_F32) c->in_type[k].dtype = dtype;
        if (sample->absent >> k & 1) {
            c->in_type[k] = (plb_type){.dtype = PLB_DTYPE_COUNT};
            c->in[k].dtype = PLB_DTYPE_COUNT;
        } else {
            c->in[k] = op_case_tensor(&c->in_type[k], pattern);
            op_case_fill(c, k);
        }
    }
    plb_signature s = {
        .attrs = sample->attrs, .n_in = c->n_in, .n_out = 1, .in = c->in_type, .out = c->out_type};
    plb_status status = c->op->infer(&s);
    c->n_out = status ? 0 : s.n_out;
    for (int k = 0; k < c->n_out; k++) c->out[k] = op_case_tensor(&c->out_type[k], pattern);
    return status;
}

static inline void op_case_close(op_case *c) {
    for (int k = 0; k < c->n_in; k++) op_case_tensor_free(&c->in[k]);
    for (int k = 0; k < c->n_out; k++) op_case_tensor_free(&c->out[k]);
}

static inline plb_status op_case_ref(op_case *c) {
    plb_call call = {.attrs = c->sample->attrs,
                     .n_in = c->n_in,
                     .n_out = c->n_out,
                     .in = c->in,
                     .out = c->out,
                     .threads = 1};
    return c->op->ref(&call);
}

#endif
