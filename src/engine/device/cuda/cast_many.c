// SPDX-License-Identifier: Apache-2.0
// The merged form of casts: a table of pieces on the device, made once, and one launch.
#include "engine/device/cuda/kernels/cast_many.h"

#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/pointwise.h"

typedef struct cast_many {
    plb_device *device;
    CUfunction function;
    plb_cuda_grid grid;
    void *pieces; // on the device
} cast_many;

static void release(void *state) {
    cast_many *c = state;
    plb_cuda_free(c->device, c->pieces);
    plb_free(c);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    cast_many *c = state;
    (void)call;
    return plb_cuda_launch(stream, c->function, &c->grid, (void *[]){&c->pieces});
}

static int64_t pieces_of(const plb_part *part) {
    return (plb_shape_count(&part->call->in[0].shape) + PLB_CAST_CHUNK - 1) / PLB_CAST_CHUNK;
}

static void list_pieces(const plb_part *parts, int n, plb_cast_piece *out) {
    for (int i = 0; i < n; i++) {
        const plb_tensor *from = &parts[i].call->in[0], *to = &parts[i].call->out[0];
        int64_t count = plb_shape_count(&from->shape);
        for (int64_t at = 0; at < count; at += PLB_CAST_CHUNK) {
            int64_t rest = count - at;
            *out++ =
                (plb_cast_piece){(char *)from->data + at * (int64_t)plb_dtype_size(from->dtype),
                                 (char *)to->data + at * (int64_t)plb_dtype_size(to->dtype),
                                 rest < PLB_CAST_CHUNK ? rest : PLB_CAST_CHUNK};
        }
    }
}

static plb_status send(cast_many *c, const plb_part *parts, int n, int64_t n_pieces) {
    size_t bytes = (size_t)n_pieces * sizeof(plb_cast_piece);
    plb_cast_piece *pieces = plb_alloc(bytes);
    if (!pieces) return plb_fail(PLB_ENOMEM, "out of memory for casts");
    list_pieces(parts, n, pieces);
    plb_status status = plb_cuda_alloc(c->device, bytes, &c->pieces);
    if (!status) {
        status = plb_cuda_check(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)c->pieces, pieces, bytes),
                                "copy a table");
    }
    plb_free(pieces);
    return status;
}

plb_status plb_cuda_cast_many(plb_device *device, const plb_part *parts, int n, plb_launch *out) {
    plb_dtype from = parts[0].call->in[0].dtype, to = parts[0].call->out[0].dtype;
    char name[48];
    int64_t n_pieces = 0;
    for (int i = 0; i < n; i++) n_pieces += pieces_of(&parts[i]);
    if (!n_pieces) return plb_fail(PLB_EUNSUPPORTED, "nothing to cast");
    snprintf(name, sizeof name, "plb_cast_many_%s_%s", plb_dtype_name(from), plb_dtype_name(to));
    cast_many *c = plb_alloc(sizeof *c);
    if (!c) return plb_fail(PLB_ENOMEM, "out of memory for casts");
    *c = (cast_many){.device = device,
                     .grid = {.blocks = {(unsigned)n_pieces}, .threads = {PLB_CAST_THREADS}}};
    plb_status status = plb_cuda_function(device, name, &c->function);
    if (!status) status = send(c, parts, n, n_pieces);
    if (status) {
        release(c);
        return status;
    }
    *out = (plb_launch){.state = c, .release = release, .run = run};
    return PLB_OK;
}
