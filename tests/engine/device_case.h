// SPDX-License-Identifier: Apache-2.0
// Cases of ops on a device that has its own memory: operands are made on the host, copied there
// between guards, computed, copied back and compared with the op's reference in f64.
#ifndef PLB_TESTS_ENGINE_DEVICE_CASE_H
#define PLB_TESTS_ENGINE_DEVICE_CASE_H

#include "base/core/alloc.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "case_types.h"
#include "check.h"
#include "engine/device/backend.h"
#include "op_case.h"

enum { DEVICE_GUARD = 256, DEVICE_FILL = 0x5a };

// The device under test, opened once.
typedef struct test_device {
    const plb_backend *backend;
    plb_device *device;
    plb_stream *stream;
} test_device;

static inline plb_status test_device_open(const char *name, test_device *d) {
    int index = 0;
    *d = (test_device){0};
    PLB_TRY(plb_device_find(name, &d->backend, &index));
    PLB_TRY(d->backend->open(index, &d->device));
    return d->backend->stream_new(d->device, &d->stream);
}

static inline void test_device_close(test_device *d) {
    if (!d->device) return;
    d->backend->stream_free(d->stream);
    d->backend->close(d->device);
}

// A case: a sample at a dtype, perhaps with larger extents, laid out one way.
typedef struct device_case {
    case_types t;
    bool grown;
    plb_math math;
} device_case;

// An operand on the host and its copy on the device.
typedef struct device_operand {
    plb_tensor host, there;
    char *memory; // on the device, guards included
    size_t bytes;
} device_operand;

static inline plb_status device_operand_new(const test_device *d, const plb_type *type,
                                            plb_layout layout, device_operand *o) {
    *o = (device_operand){.bytes = plb_layout_bytes(&type->shape, type->dtype, layout)};
    void *host = plb_alloc_slab(o->bytes + 2 * DEVICE_GUARD), *there = NULL;
    if (!host) return PLB_ENOMEM;
    memset(host, DEVICE_FILL, o->bytes + 2 * DEVICE_GUARD);
    o->host = plb_tensor_dense((char *)host + DEVICE_GUARD, type->dtype, &type->shape, layout);
    PLB_TRY(d->backend->pool_alloc(d->stream, o->bytes + 2 * DEVICE_GUARD, &there));
    o->memory = there;
    o->there = o->host;
    o->there.data = o->memory + DEVICE_GUARD;
    return PLB_OK;
}

static inline void device_operand_free(const test_device *d, device_operand *o) {
    if (o->memory) d->backend->pool_free(d->stream, o->memory);
    if (o->host.data) plb_free((char *)o->host.data - DEVICE_GUARD);
    *o = (device_operand){0};
}

// To the device with guards, and back.
static inline plb_status device_operand_send(const test_device *d, const device_operand *o) {
    return d->backend->copy(d->stream, o->memory, (char *)o->host.data - DEVICE_GUARD,
                            o->bytes + 2 * DEVICE_GUARD);
}

static inline plb_status device_operand_fetch(const test_device *d, const device_operand *o) {
    return d->backend->copy(d->stream, (char *)o->host.data - DEVICE_GUARD, o->memory,
                            o->bytes + 2 * DEVICE_GUARD);
}

static inline bool device_operand_guarded(const device_operand *o) {
    const unsigned char *data = o->host.data;
    for (size_t i = 0; i < DEVICE_GUARD; i++) {
        if (data[o->bytes + i] != DEVICE_FILL || data[(ptrdiff_t)i - DEVICE_GUARD] != DEVICE_FILL) {
            return false;
        }
    }
    return true;
}

// Numbers with two decimals in [-1, 1], so that equal ones occur; targets in [0, 999].
static inline void device_fill(plb_tensor *t, uint64_t key) {
    const int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = plb_philox(key, (uint64_t)i, 0).word[0];
        if (plb_dtype_is_float(t->dtype)) {
            plb_store_f64(t->data, t->dtype, i, (double)(word % 20001) / 10000 - 1);
        } else {
            plb_store_i64(t->data, t->dtype, i, word % 1000);
        }
    }
}

// ---------------------------------------------------------------------------- the reference
// Runs the op's reference in f64 on what the case's inputs (plain, on the host) hold.
static inline plb_status device_case_reference(const device_case *c, const plb_tensor *in,
                                               plb_tensor *out) {
    plb_tensor ins[PLB_SAMPLE_INPUTS];
    plb_type types[PLB_SAMPLE_INPUTS], outs[PLB_MAX_OUTPUTS];
    const plb_sample *s = c->t.sample;
    for (int k = 0; k < s->n_in; k++) {
        types[k] = c->t.in[k];
        ins[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (!in[k].data) continue;
        if (plb_dtype_is_float(types[k].dtype)) types[k].dtype = PLB_F64;
        ins[k] = op_case_tensor(&types[k], 0);
        PLB_TRY(plb_tensor_copy(&ins[k], &in[k]));
    }
    plb_signature sig = {.attrs = s->attrs, .n_in = s->n_in, .n_out = 1, .in = types, .out = outs};
    plb_status status = c->t.table->infer(&sig);
    for (int k = 0; k < c->t.n_out; k++) out[k] = op_case_tensor(&outs[k], 0);
    plb_call call = {.attrs = s->attrs,
                     .n_in = s->n_in,
                     .n_out = c->t.n_out,
                     .in = ins,
                     .out = out,
                     .threads = 1};
    if (!status) status = c->t.table->ref(&call);
    for (int k = 0; k < s->n_in; k++) {
        if (in[k].data) op_case_tensor_free(&ins[k]);
    }
    return status;
}

// ---------------------------------------------------------------------------- comparing
static inline double device_largest(const plb_tensor *t) {
    double max = 0;
    const int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(plb_load_f64(t->data, t->dtype, plb_tensor_offset_linear(t, i)));
        if (x > max && isfinite(x)) max = x;
    }
    return max;
}

// The first element that is further from `want` than `tolerance` (of integers: differs), or -1.
static inline int64_t device_differs(const plb_tensor *got, const plb_tensor *want,
                                     double tolerance, double *out_got, double *out_want) {
    const bool real = plb_dtype_is_float(got->dtype);
    const int64_t count = plb_shape_count(&got->shape);
    for (int64_t i = 0; i < count; i++) {
        double g = plb_load_f64(got->data, got->dtype, plb_tensor_offset_linear(got, i));
        double w = plb_load_f64(want->data, want->dtype, plb_tensor_offset_linear(want, i));
        uint64_t rounded; // what is too large for the dtype is infinite
        plb_store_f64(&rounded, got->dtype, 0, w);
        if (real && isinf(plb_load_f64(&rounded, got->dtype, 0))) w = copysign(INFINITY, w);
        bool same = g == w || (isnan(g) && isnan(w)) || (real && fabs(g - w) <= tolerance);
        if (same) continue;
        *out_got = g, *out_want = w;
        return i;
    }
    return -1;
}

// What rounding may do to a result of this case: twelve units of the largest number in it, more
// where many terms are summed (test_kernels.c says why), and those of TF32 where products use it.
static inline double device_case_tolerance(const device_case *c, const plb_tensor *in,
                                           const plb_tensor *want, plb_dtype dtype) {
    double magnitude = 0;
    for (int k = 0; k < c->t.sample->n_in; k++) {
        if (in[k].data && plb_dtype_is_float(in[k].dtype)) {
            magnitude = fmax(magnitude, device_largest(&in[k]));
        }
    }
    int64_t outputs = plb_shape_count(&c->t.out[0].shape);
    int64_t terms = outputs ? plb_shape_count(&c->t.in[0].shape) / outputs : 0;
    for (int i = 0; i < c->t.in[0].shape.rank; i++) {
        if (c->t.in[0].shape.dim[i] > terms) terms = c->t.in[0].shape.dim[i];
    }
    if (!(c->t.table->flags & PLB_OP_POINTWISE) && terms > 16) magnitude *= sqrt((double)terms) / 2;
    double epsilon = plb_dtype_epsilon(dtype);
    if (c->math == PLB_MATH_TF32 && dtype == PLB_F32) epsilon = 0x1p-11;
    return 12 * epsilon * fmax(device_largest(want), magnitude);
}

// ---------------------------------------------------------------------------- layouts, sizes
// Larger extents for all operands alike, so that vectors, tails and several blocks are reached.
static inline void device_case_grow(device_case *c) {
    static const int64_t factor[9] = {1, 200, 14, 6, 3, 2, 1, 1, 1};
    int rank = 0;
    for (int k = 0; k < c->t.sample->n_in; k++) {
        if (c->t.in[k].shape.rank > rank) rank = c->t.in[k].shape.rank;
    }
    for (int k = 0; k < c->t.sample->n_in; k++) {
        for (int i = 0; i < c->t.in[k].shape.rank; i++) {
            int64_t *extent = &c->t.in[k].shape.dim[i];
            if (*extent > 1) *extent = *extent * factor[rank] + 1;
        }
    }
    c->grown = true;
}

static inline void device_case_say(const device_case *c, const plb_kernel *kernel,
                                   const char *choice, char *text, size_t size) {
    char shape[160];
    snprintf(text, size, "%s by %s%s%s, %s, %s %s%s%s%s", c->t.table->name, kernel->name,
             *choice ? " " : "", choice, c->t.sample->name, plb_dtype_name(c->t.in[0].dtype),
             plb_shape_format(&c->t.in[0].shape, shape, sizeof shape), c->t.nhwc ? " nhwc" : "",
             c->grown ? " grown" : "", c->math == PLB_MATH_TF32 ? " tf32" : "");
}

#endif
