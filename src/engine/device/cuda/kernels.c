// SPDX-License-Identifier: Apache-2.0
// The list of lists, made once from kernels.def.
#include "engine/device/cuda/cuda.h"

#define PLB_CUDA_KERNEL(op, kernel) extern const plb_kernel plb_cuda_kernel_##kernel;
#include "engine/device/cuda/kernels.def"
#undef PLB_CUDA_KERNEL

typedef struct entry {
    plb_op_id op;
    const plb_kernel *kernel;
} entry;

static const entry entries[] = {
#define PLB_CUDA_KERNEL(op, kernel) {PLB_OP_##op, &plb_cuda_kernel_##kernel},
#include "engine/device/cuda/kernels.def"
#undef PLB_CUDA_KERNEL
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };

// One op's kernels after another's, a NULL after each op's: however many an op has, all have room.
static const plb_kernel *all[N_ENTRIES + PLB_OP_COUNT];
static const plb_kernel *const *lists[PLB_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    int n = 0;
    for (int op = 0; op < PLB_OP_COUNT; op++) {
        lists[op] = &all[n];
        for (int i = 0; i < N_ENTRIES; i++) {
            if (entries[i].op == (plb_op_id)op) all[n++] = entries[i].kernel;
        }
        n++; // past the NULL
    }
}

const plb_kernel *const *plb_cuda_kernels(plb_op_id op) {
    pthread_once(&once, fill);
    return lists[op];
}

// Images of a few hundred pixels and few channels, for which there are kernels that take them
// channels first (conv_small.c): turning them would cost more than it saves.
static bool is_small(const plb_query *q) {
    enum { CHANNELS = 20, PIXELS = 1024 };
    for (int k = 0; k < q->n_in; k++) {
        const plb_shape *s = &q->in[k].shape;
        if (q->in[k].dtype == PLB_DTYPE_COUNT || s->rank != 4) continue;
        if (s->dim[1] > CHANNELS || s->dim[2] * s->dim[3] > PIXELS) return false;
    }
    const bool weights = q->op == PLB_OP_conv || q->op == PLB_OP_conv_input_grad;
    return q->in[0].shape.rank == 4 && (!weights || q->in[1].shape.dim[0] <= CHANNELS);
}

// Channels last, which the tensor cores' kernels read; f64 has none of those.
plb_layout plb_cuda_spatial_layout(const plb_query *q) {
    int rank = q->in[0].shape.rank, k = 0;
    while (k + 1 < q->n_in && !plb_dtype_is_float(q->in[k].dtype)) k++; // past positions
    plb_dtype dtype = q->in[k].dtype;
    bool fits = dtype == PLB_F32 || dtype == PLB_F16 || dtype == PLB_BF16;
    if (dtype == PLB_F32 && is_small(q)) fits = false;
    return (plb_layout){rank >= 3 && rank <= 5 && fits ? PLB_LAYOUT_NHWC : PLB_LAYOUT_PLAIN, 0};
}
