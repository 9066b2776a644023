// SPDX-License-Identifier: Apache-2.0
// One case of a kernel: a sample of its op with types and layouts, operands with guards around
// them.
#ifndef PLB_TESTS_KERNEL_CASE_H
#define PLB_TESTS_KERNEL_CASE_H

#include <stdint.h>

#include "base/core/alloc.h"
#include "case_types.h"
#include "check.h"
#include "engine/device/cpu/cpu.h"
#include "plumb/plumb.h"

enum { GUARD = 64, MAX_OPERANDS = PLB_SAMPLE_INPUTS + PLB_MAX_OUTPUTS };

// One case: a sample with its final types, and how it is laid out.
typedef struct one_case {
    case_types t;
    bool gaps;
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

#endif
