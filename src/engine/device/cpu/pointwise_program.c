// SPDX-License-Identifier: Apache-2.0
// Makes the program of a pointwise or fused node: lanes and blocks for its values. Blocks are few,
// since a block is free again after the last instruction that reads it, and so the whole program
// stays in the first-level cache.
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cpu/pointwise.h"

static void single(const plb_query *q, plb_fused_attrs *a) {
    *a = (plb_fused_attrs){.n_in = q->n_in, .n_instr = 1, .n_out = 1, .out = {q->n_in}};
    a->instr[0] = (plb_fused_instr){.op = (int32_t)q->op};
    for (int k = 0; k < q->n_in; k++) a->instr[0].operand[k] = k;
    if (q->op == PLB_OP_cast) {
        a->instr[0].dtype = (int32_t)((const plb_cast_attrs *)q->attrs)->dtype;
    } else if (plb_op_of(q->op)->attrs_bytes) {
        const plb_pointwise_attrs *attrs = q->attrs;
        a->instr[0].alpha = attrs->alpha;
        a->instr[0].beta = attrs->beta;
    }
}

static plb_lane lane_of(plb_dtype dtype, plb_lane real) {
    return plb_dtype_is_float(dtype) || dtype == PLB_BOOL ? real : PLB_LANE_I64;
}

// Bytes that are only converted, as quantised values are: f32 holds them, and is faster.
static bool is_carried(const plb_fused_attrs *a, const plb_lane_program *p, int value) {
    if (p->dtype[value] != PLB_U8 && p->dtype[value] != PLB_I8) return false;
    for (int j = 0; j < a->n_instr; j++) {
        const plb_fused_instr *instr = &a->instr[j];
        const int arity = plb_pointwise_arity((plb_op_id)instr->op);
        bool cast = instr->op == PLB_OP_cast;
        for (int k = 0; k < arity; k++) {
            bool read = instr->operand[k] == value;
            if (read && !(cast && plb_dtype_is_float(p->dtype[a->n_in + j]))) return false;
        }
        bool made = a->n_in + j == value;
        if (made && !(cast && plb_dtype_is_float(p->dtype[instr->operand[0]]))) return false;
    }
    return true;
}

static const char *give_lanes(const plb_fused_attrs *a, plb_lane_program *p) {
    plb_lane real = PLB_LANE_F32;
    const int n = p->n_in + p->n_instr;
    for (int v = 0; v < n; v++) {
        if (p->dtype[v] == PLB_U64) return "u64 is left to the reference";
        if (p->dtype[v] == PLB_F64) real = PLB_LANE_F64;
    }
    for (int v = 0; v < n; v++) {
        p->lane[v] = lane_of(p->dtype[v], real);
        if (real == PLB_LANE_F32 && is_carried(a, p, v)) p->lane[v] = PLB_LANE_F32;
        p->wide |= p->lane[v] != PLB_LANE_F32;
    }
    return NULL;
}

static void give_instructions(const plb_fused_attrs *a, plb_lane_program *p) {
    for (int j = 0; j < a->n_instr; j++) {
        const plb_fused_instr *from = &a->instr[j];
        plb_lane_instr *to = &p->instr[j];
        *to = (plb_lane_instr){.op = (plb_op_id)from->op,
                               .n_operands = plb_pointwise_arity((plb_op_id)from->op),
                               .result = a->n_in + j,
                               .alpha = from->alpha,
                               .beta = from->beta};
        for (int k = 0; k < to->n_operands; k++) to->operand[k] = from->operand[k];
        const int typical = to->operand[to->n_operands - 1];
        to->from = p->lane[typical];
        to->from_dtype = p->dtype[typical];
        to->condition = p->lane[to->operand[0]];
        to->to = p->lane[to->result];
        to->dtype = p->dtype[to->result];
    }
}

static int last_reader(const plb_lane_program *p, int value) {
    int last = -1;
    for (int j = 0; j < p->n_instr; j++) {
        for (int k = 0; k < p->instr[j].n_operands; k++) {
            if (p->instr[j].operand[k] == value) last = j;
        }
    }
    for (int k = 0; k < p->n_out; k++) {
        if (p->out[k] == value) last = PLB_FUSED_MAX_INSTR; // until it is stored
    }
    return last;
}

// Inputs keep their blocks, which may hold what is repeated from tile to tile. A block of one lane
// type is not taken over by another within an instruction that reads it: their elements would not
// lie at the same places.
static void give_slots(plb_lane_program *p) {
    int holds[PLB_FUSED_MAX_VALUES]; // value in each slot
    for (int v = 0; v < p->n_in; v++) holds[v] = p->slot[v] = v;
    p->n_slots = p->n_in;
    for (int j = 0; j < p->n_instr; j++) {
        const int result = p->instr[j].result;
        int slot = p->n_in;
        for (; slot < p->n_slots; slot++) {
            int last = last_reader(p, holds[slot]);
            bool same = p->lane[holds[slot]] == p->lane[result];
            if (last < j || (last == j && same)) break;
        }
        if (slot == p->n_slots) p->n_slots++;
        holds[slot] = result;
        p->slot[result] = slot;
    }
}

const char *plb_lane_compile(const plb_query *q, plb_lane_program *p) {
    plb_fused_attrs one;
    const plb_fused_attrs *a = q->attrs;
    plb_dtype in[PLB_FUSED_MAX_IN];
    *p = (plb_lane_program){0};
    if (q->op != PLB_OP_fused) {
        single(q, &one);
        a = &one;
    }
    for (int k = 0; k < q->n_in; k++) in[k] = q->in[k].dtype;
    if (plb_fused_dtypes(a, in, p->dtype)) return "the program does not fit its operands";
    p->n_in = a->n_in, p->n_instr = a->n_instr, p->n_out = a->n_out;
    memcpy(p->out, a->out, sizeof p->out);
    const char *reason = give_lanes(a, p);
    if (reason) return reason;
    give_instructions(a, p);
    give_slots(p);
    return NULL;
}
