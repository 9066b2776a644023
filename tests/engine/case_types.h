// SPDX-License-Identifier: Apache-2.0
// What a case of a kernel is made of on every device: the op's sample with its final types, and
// whether images lie channels last.
#ifndef PLB_TESTS_ENGINE_CASE_TYPES_H
#define PLB_TESTS_ENGINE_CASE_TYPES_H

#include "engine/ops/op.h"
#include "engine/ops/reorder.h"
#include "plumb/ops.h"

typedef struct case_types {
    plb_op_id op;
    const plb_op *table;
    const plb_sample *sample;
    plb_type in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    int n_out;
    bool nhwc;
} case_types;

// Fills out and n_out. False: the op does not take these types.
static inline bool case_infer(case_types *c) {
    plb_signature sig = {
        .attrs = c->sample->attrs, .n_in = c->sample->n_in, .n_out = 1, .in = c->in, .out = c->out};
    if (c->table->infer(&sig)) return false;
    c->n_out = sig.n_out;
    return true;
}

// The layout of input or output k.
static inline plb_layout case_layout(const case_types *c, bool output, int k) {
    const plb_type *type = output ? &c->out[k] : &c->in[k];
    const int rank = type->shape.rank;
    const plb_layout plain = {0};
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

#endif
