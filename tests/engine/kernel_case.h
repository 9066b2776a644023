// SPDX-License-Identifier: Apache-2.0
// One case of a kernel: a sample of its op with types and layouts, operands with guards around
// them.
#ifndef PLB_TESTS_KERNEL_CASE_H
#define PLB_TESTS_KERNEL_CASE_H

#include <stdint.h>

#include "base/core/alloc.h"
#include "check.h"
#include "engine/device/cpu/cpu.h"
#include "plumb/plumb.h"

enum { GUARD = 64, MAX_OPERANDS = PLB_SAMPLE_INPUTS + PLB_MAX_OUTPUTS };

// One case: a sample with its final types, and how it is laid out.
typedef struct one_case {
    plb_op_id op;
    const plb_op *table;
    const plb_sample *sample;
    plb_type in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    int n_out;
    bool nhwc, gaps;
    int size;              // 0: as the sample says, 1: larger, 2: enough for several threads
    int threads, in_place; // input whose memory output 0 takes, -1: none
} one_case;

// Memory of one operand with guards around it.
typedef struct operand {
    plb_tensor t;
    uint8_t *memory;
    size_t bytes;
} operand;

// ---------------------------------------------------------------------------- memory
static operand operand_new(const plb_type *type, plb_layout layout, bool gaps) {
    operand o = {0};
    plb_shape wide = type->shape;
    if (gaps && wide.rank) wide.dim[wide.rank - 1] += 3;
    o.bytes = plb_layout_bytes(&wide, type->dtype, layout);
    o.memory = plb_alloc_slab(o.bytes + 2 * GUARD);
    memset(o.memory, 0x5a, o.bytes + 2 * GUARD);
    o.t = plb_tensor_dense(o.memory + GUARD, type->dtype, &wide, layout);
    o.t.shape = type->shape;
    return o;
}

static bool guards_hold(const operand *o) {
    for (size_t i = 0; i < GUARD; i++) {
        if (o->memory[i] != 0x5a || o->memory[GUARD + o->bytes + i] != 0x5a) return false;
    }
    return true;
}

static uint64_t random_state = 1;

static double random_unit(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}

// Values of input k in row-major order: exact in its dtype.
static void fill(operand *o, const plb_sample *s, int k) {
    double low = s->low[k], high = s->high[k];
    if (low == 0 && high == 0) low = -1, high = 1;
    const bool whole = !plb_dtype_is_float(o->t.dtype), distinct = s->distinct >> k & 1;
    const int64_t count = plb_shape_count(&o->t.shape);
    for (int64_t i = 0; i < count; i++) {
        double u = random_unit();
        if (distinct)
            u = (double)((i * 7919 + 13) % (count % 7919 ? count : count + 1)) / (double)count;
        double x = whole ? floor(low + u * (high - low + 1)) : low + u * (high - low);
        if (whole && x > high) x = high;
        if (whole && distinct) x = low + (double)i;
        if (o->t.dtype == PLB_BOOL) x = u < 0.5;
        plb_store_f64(o->t.data, o->t.dtype, plb_tensor_offset_linear(&o->t, i), x);
    }
}

static plb_layout layout_of(const one_case *c, const plb_type *type, bool output, int k) {
    const int rank = type->shape.rank;
    plb_layout plain = {0};
    if (rank < 3 || rank > 5) return plain;
    if (c->op == PLB_OP_reorder && output) {
        return ((const plb_reorder_attrs *)c->sample->attrs)->target;
    }
    if (!c->nhwc) return plain;
    const unsigned flags = c->table->flags;
    bool fits = rank == c->out[0].shape.rank;
    if (flags & PLB_OP_SPATIAL) {
        bool given = c->table->spatial_in || c->table->spatial_out;
        unsigned in = given ? c->table->spatial_in : 1u, out = given ? c->table->spatial_out : ~0u;
        fits = (output ? out : in) >> k & 1;
    } else if (flags & (PLB_OP_STRIDED | PLB_OP_VIEW)) {
        fits = !output || (flags & PLB_OP_FOLLOWS);
    } else if (!(flags & (PLB_OP_POINTWISE | PLB_OP_FOLLOWS))) {
        fits = c->op == PLB_OP_reorder;
    }
    return fits ? (plb_layout){PLB_LAYOUT_NHWC, 0} : plain;
}

// false: the op does not take these types.
static bool infer_types(one_case *c) {
    plb_signature sig = {
        .attrs = c->sample->attrs, .n_in = c->sample->n_in, .n_out = 1, .in = c->in, .out = c->out};
    if (c->table->infer(&sig)) return false;
    c->n_out = sig.n_out;
    return true;
}

#endif
