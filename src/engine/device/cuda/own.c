// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/own.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/fault.h"

_Static_assert((int)PLB_CODE_F64 == (int)PLB_F64 && (int)PLB_CODE_BF16 == (int)PLB_BF16 &&
                   (int)PLB_CODE_I64 == (int)PLB_I64 && (int)PLB_CODE_BOOL == (int)PLB_BOOL,
               "kernels know dtypes by these numbers");

// Code made for compute capability 9.0 or later begins by waiting for the kernel in front of it
// (begin in own.cuh), and so may be launched before that has ended.
plb_status plb_own_launch(const plb_own_step *step, plb_stream *stream, void **params) {
    if (!step->early) return plb_cuda_launch(stream, step->function, &step->grid, params);
    const plb_cuda_grid *g = &step->grid;
    CUlaunchAttribute attributes[2] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
    };
    attributes[0].value.programmaticStreamSerializationAllowed = 1;
    attributes[1].value.clusterDim.x = attributes[1].value.clusterDim.y = 1;
    attributes[1].value.clusterDim.z = g->cluster;
    const CUlaunchConfig config = {.gridDimX = g->blocks[0] ? g->blocks[0] : 1,
                                   .gridDimY = g->blocks[1] ? g->blocks[1] : 1,
                                   .gridDimZ = g->blocks[2] ? g->blocks[2] : 1,
                                   .blockDimX = g->threads[0] ? g->threads[0] : 1,
                                   .blockDimY = g->threads[1] ? g->threads[1] : 1,
                                   .blockDimZ = g->threads[2] ? g->threads[2] : 1,
                                   .sharedMemBytes = g->shared_bytes,
                                   .hStream = stream->handle,
                                   .attrs = attributes,
                                   .numAttrs = g->cluster > 1 ? 2 : 1};
    return plb_cuda_check(cuLaunchKernelEx(&config, step->function, params, NULL),
                          "launch a kernel");
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    plb_own *own = state;
    plb_operands at = {.workspace = call->workspace, .fault = own->fault};
    uintptr_t bits = 0;
    for (int k = 0; k < call->n_in; k++) {
        at.in[k] = call->in[k].data;
        bits |= (uintptr_t)call->in[k].data;
    }
    for (int k = 0; k < call->n_out; k++) {
        at.out[k] = call->out[k].data;
        bits |= (uintptr_t)call->out[k].data;
    }
    const plb_own_list *list = own->aligned.n && bits % 16 == 0 ? &own->aligned : &own->any;
    void *params[] = {&at, own->params.bytes};
    for (int i = 0; i < list->n; i++) {
        PLB_TRY(plb_own_launch(&list->step[i], stream, params));
    }
    return PLB_OK;
}

bool plb_own_absent(const plb_tensor *t) {
    return t->dtype == PLB_DTYPE_COUNT;
}

static double bytes_of(const plb_tensor *t, int n) {
    double bytes = 0;
    for (int k = 0; k < n; k++) {
        if (plb_own_absent(&t[k])) continue;
        bytes += (double)plb_shape_count(&t[k].shape) * (double)plb_dtype_size(t[k].dtype);
    }
    return bytes;
}

plb_status plb_own_begin(const plb_query *q, const char *choice, const void *params,
                         size_t size_bytes, plb_launch *out, plb_own **own) {
    *own = NULL;
    *out = (plb_launch){0};
    if (*choice) {
        return plb_fail(PLB_EUNSUPPORTED, "cuda: %s has one variant, found %s",
                        plb_op_of(q->op)->name, choice);
    }
    if (size_bytes > PLB_OWN_PARAMS || q->n_in > PLB_OPERANDS_IN || q->n_out > PLB_OPERANDS_OUT) {
        return plb_fail(PLB_EUNSUPPORTED, "cuda: %s: too many operands", plb_op_of(q->op)->name);
    }
    plb_fault_box *fault;
    PLB_TRY(plb_cuda_fault_of(q->device, &fault));
    plb_own *made = plb_alloc(sizeof *made);
    if (!made) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    memset(made, 0, sizeof *made);
    made->device = q->device;
    made->fault = fault;
    memcpy(made->params.bytes, params, size_bytes);
    *own = made;
    *out = (plb_launch){.state = made, .release = plb_free, .run = run};
    out->bytes = bytes_of(q->in, q->n_in) + bytes_of(q->out, q->n_out);
    return PLB_OK;
}

static plb_status function_of(const plb_own *own, const char *name, plb_dtype dtype,
                              CUfunction *out) {
    char full[96];
    if (dtype == PLB_DTYPE_COUNT) {
        snprintf(full, sizeof full, "plb_%s", name);
    } else {
        snprintf(full, sizeof full, "plb_%s_%s", name, plb_dtype_name(dtype));
    }
    return plb_cuda_function(own->device, full, out);
}

plb_status plb_own_resident(const plb_own *own, const char *name, plb_dtype dtype, int threads,
                            int64_t *out_blocks) {
    CUfunction function;
    int blocks = 0;
    PLB_TRY(function_of(own, name, dtype, &function));
    PLB_TRY(plb_cuda_check(
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, 0), name));
    *out_blocks = (int64_t)(blocks < 1 ? 1 : blocks) * own->device->sm_count;
    return PLB_OK;
}

plb_status plb_own_add(plb_own *own, plb_own_list *list, const char *name, plb_dtype dtype,
                       plb_cuda_grid grid) {
    if (list->n == PLB_OWN_STEPS) return plb_fail(PLB_EBROKEN, "cuda: %s: too many steps", name);
    CUfunction function;
    PLB_TRY(function_of(own, name, dtype, &function));
    return plb_own_step_of(own->device, function, grid, &list->step[list->n++]);
}

plb_status plb_own_step_of(const plb_device *device, CUfunction function, plb_cuda_grid grid,
                           plb_own_step *step) {
    const char *const what = "ask for a kernel's attributes";
    const CUfunction_attribute room = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    const int wanted = (int)grid.shared_bytes;
    int version = 0, most = 0;
    PLB_TRY(plb_cuda_check(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, function),
                           what));
    *step = (plb_own_step){function, grid, device->major >= 9 && version >= 90};
    if (grid.cluster > 1 && !step->early) {
        return plb_fail(PLB_EUNSUPPORTED,
                        "cuda: no clusters in code made for compute capabilities before 9.0");
    }
    if (wanted <= 48 << 10) return PLB_OK;
    // The limit is the function's: a node that wants less must not take it from one with more.
    PLB_TRY(plb_cuda_check(cuFuncGetAttribute(&most, room, function), what));
    return wanted <= most ? PLB_OK
                          : plb_cuda_check(cuFuncSetAttribute(function, room, wanted), what);
}

plb_status plb_own_end(plb_launch *launch, plb_status status) {
    if (status && launch->state) {
        plb_free(launch->state);
        *launch = (plb_launch){0};
    }
    return status;
}

static const char *refuse_tensors(const plb_tensor *t, int n) {
    for (int k = 0; k < n; k++) {
        if (plb_own_absent(&t[k])) continue;
        if (t[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
        if (plb_shape_count(&t[k].shape) > INT32_MAX) return "over 2^31 elements";
    }
    return NULL;
}

const char *plb_own_refuse(const plb_query *q) {
    const char *why = refuse_tensors(q->in, q->n_in);
    return why ? why : refuse_tensors(q->out, q->n_out);
}

bool plb_own_is_plain(const plb_tensor *t) {
    if (plb_own_absent(t)) return true;
    plb_tensor plain = *t;
    plain.layout = (plb_layout){0};
    return plb_tensor_is_dense(&plain);
}

plb_act plb_own_act(int activation, double alpha, double beta) {
    return (plb_act){.kind = activation, .alpha = alpha, .beta = beta};
}

bool plb_own_planes_of(const plb_tensor *t, plb_own_planes *out) {
    *out = (plb_own_planes){.n = t->shape.dim[0], .c = t->shape.dim[1], .s = 1};
    out->stride[0] = t->stride[0];
    out->stride[1] = t->stride[1];
    for (int i = t->shape.rank - 1; i >= 2; i--) {
        if (t->shape.dim[i] == 1) continue;
        if (out->s > 1 && t->stride[i] != out->s * out->stride[2]) return false;
        if (out->s == 1) out->stride[2] = t->stride[i];
        out->s *= t->shape.dim[i];
    }
    return true;
}

bool plb_own_channels_last(const plb_tensor *t) {
    plb_own_planes p;
    if (plb_own_absent(t)) return true;
    if (!plb_own_planes_of(t, &p)) return false;
    bool channels = p.c == 1 || p.stride[1] == 1;
    bool pixels = p.s == 1 || p.stride[2] == p.c;
    bool samples = p.n == 1 || p.stride[0] == p.c * p.s;
    return channels && pixels && samples;
}
