// SPDX-License-Identifier: Apache-2.0
#include "engine/device/coverage.h"

#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/ops/op.h"

static const plb_dtype dtypes[] = {PLB_F32, PLB_F64, PLB_F16, PLB_BF16, PLB_I8,  PLB_I16, PLB_I32,
                                   PLB_I64, PLB_U8,  PLB_U16, PLB_U32,  PLB_U64, PLB_BOOL};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

// Both lists, whether or not the backend is built: what a device can do is no matter of this one.
typedef struct kernel_row {
    plb_op_id op;
    const char *name;
} kernel_row;
static const kernel_row of_cpu[] = {
#define PLB_CPU_KERNEL(op, kernel) {PLB_OP_##op, #kernel},
#include "engine/device/cpu/kernels.def"
#undef PLB_CPU_KERNEL
};
static const kernel_row of_cuda[] = {
#define PLB_CUDA_KERNEL(op, kernel) {PLB_OP_##op, #kernel},
#include "engine/device/cuda/kernels.def"
#undef PLB_CUDA_KERNEL
};

// Of what a sample is made of in f32, all in `dtype`.
static bool takes(const plb_op *op, const plb_sample *sample, plb_dtype dtype) {
    plb_type in[PLB_SAMPLE_INPUTS], out[PLB_MAX_OUTPUTS];
    bool floats = false;
    for (int i = 0; i < sample->n_in; i++) {
        in[i] = sample->in[i];
        floats |= in[i].dtype == PLB_F32;
        if (in[i].dtype == PLB_F32) in[i].dtype = dtype;
        if (sample->absent >> i & 1) in[i] = (plb_type){.dtype = PLB_DTYPE_COUNT};
    }
    plb_signature s = {
        .attrs = sample->attrs, .n_in = sample->n_in, .n_out = 1, .in = in, .out = out};
    if (!floats && (!sample->n_in || sample->in[0].dtype != dtype)) return false;
    return op->infer(&s) == PLB_OK;
}

// "f32 f64 f16 bf16", by whether the op's own cases are accepted in them.
static void list_dtypes(const plb_op *op, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (int d = 0; d < DTYPES; d++) {
        bool taken = false;
        for (int i = 0; i < op->n_samples && !taken; i++) {
            taken = takes(op, &op->samples[i], dtypes[d]);
        }
        if (!taken || at >= size) continue;
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "",
                               plb_dtype_name(dtypes[d]));
    }
}

static void list_kernels(const kernel_row *rows, size_t n, plb_op_id op, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n && at < size; i++) {
        if (rows[i].op != op) continue;
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "", rows[i].name);
    }
}

// False for the frame of a program, and for what only passes make.
static bool describe(plb_op_id id, plb_coverage_row *row) {
    const plb_op *op = plb_op_of(id);
    if ((op->flags & PLB_OP_FRAME) || id == PLB_OP_fused || id == PLB_OP_reorder) return false;
    bool region = id == PLB_OP_if || id == PLB_OP_loop || id == PLB_OP_scan;
    row->name = op->name;
    row->gradient = op->flags & PLB_OP_NO_GRAD      ? "none by nature"
                    : op->grad && id != PLB_OP_loop ? "yes"
                                                    : "no";
    list_dtypes(op, row->dtypes, sizeof row->dtypes);
    list_kernels(of_cpu, sizeof of_cpu / sizeof *of_cpu, id, row->cpu, sizeof row->cpu);
    list_kernels(of_cuda, sizeof of_cuda / sizeof *of_cuda, id, row->cuda, sizeof row->cuda);
    bool pointwise = op->flags & PLB_OP_POINTWISE;
    if (!row->cpu[0])
        strcpy(row->cpu, region ? "level interp" : pointwise ? "pointwise" : "reference");
    if (!row->cuda[0] && (region || pointwise)) {
        strcpy(row->cuda, region ? "level interp" : "pointwise");
    }
    if (!row->dtypes[0]) strcpy(row->dtypes, "any");
    return true;
}

bool plb_coverage(int index, plb_coverage_row *out) {
    *out = (plb_coverage_row){0};
    for (int i = 0; i < PLB_OP_COUNT; i++) {
        if (describe((plb_op_id)i, out) && index-- == 0) return true;
    }
    return false;
}
