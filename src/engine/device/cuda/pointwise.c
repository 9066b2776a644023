// SPDX-License-Identifier: Apache-2.0
// One kernel for all pointwise ops, casts and fused chains: written for the node, compiled once.
#include "engine/device/cuda/pointwise.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/embedded.h"

enum { THREADS = 256, WAVES = 16, SMALL = 1 << 20 };

typedef struct pointwise {
    CUfunction vectors, elements;
    plb_cuda_grid vector_grid, element_grid;
    int n_out, n, vector;
    bool is_cast; // and nothing else
    plb_op_id op;
    unsigned aligned_bytes[PLB_POINTWISE_OPERANDS]; // that an operand's address must divide by
    plb_pointwise_params params, element_params;
} pointwise;

static const char *refuse(const plb_query *q) {
    plb_pointwise_form form;
    return plb_pointwise_form_of(q, &form);
}

static plb_pointwise_params params_of(const plb_pointwise_form *form, int vector) {
    plb_pointwise_params p = {.groups = plb_nest_count(&form->nest) / vector};
    for (int i = 0; i < form->nest.rank; i++) {
        p.dim[i] = form->nest.dim[i];
        for (int k = 0; k < form->nest.n; k++) p.stride[k][i] = form->nest.stride[k][i];
    }
    p.dim[form->nest.rank - 1] /= vector;
    return p;
}

static plb_cuda_grid grid_of(const plb_device *device, int64_t groups) {
    return (plb_cuda_grid){.blocks = {plb_cuda_blocks(device, groups, THREADS, WAVES)},
                           .threads = {THREADS}};
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    const pointwise *s = state;
    if (s->params.groups == 0) return PLB_OK;
    bool fits = s->vector > 1;
    void *data[PLB_POINTWISE_OPERANDS];
    for (int k = 0; k < s->n; k++) {
        data[k] = k < s->n_out ? call->out[k].data : call->in[k - s->n_out].data;
        fits &= (uintptr_t)data[k] % s->aligned_bytes[k] == 0;
    }
    plb_pointwise_params params = fits ? s->params : s->element_params;
    memcpy(params.data, data, sizeof data);
    return plb_cuda_launch(stream, fits ? s->vectors : s->elements,
                           fits ? &s->vector_grid : &s->element_grid, (void *[]){&params});
}

static plb_status compile(plb_device *device, const plb_pointwise_form *form, pointwise *s) {
    plb_strbuf text = {0};
    plb_pointwise_source(form, plb_cuda_pointwise_language, &text);
    plb_status status = text.failed ? plb_fail(PLB_ENOMEM, "out of memory for a kernel") : PLB_OK;
    if (!status) status = plb_cuda_compile(device, text.text, "plb_pointwise", &s->vectors);
    if (!status) status = plb_cuda_compile(device, text.text, "plb_pointwise_1", &s->elements);
    plb_strbuf_free(&text);
    return status;
}

static void count_work(const plb_query *q, const plb_pointwise_form *form, plb_launch *out) {
    double count = (double)plb_nest_count(&form->nest);
    out->flops = count * form->program.n_instr;
    for (int k = 0; k < q->n_in; k++) {
        out->bytes +=
            (double)plb_shape_count(&q->in[k].shape) * (double)plb_dtype_size(q->in[k].dtype);
    }
    for (int k = 0; k < q->n_out; k++) {
        out->bytes += count * (double)plb_dtype_size(q->out[k].dtype);
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_pointwise_form form;
    const char *reason = plb_pointwise_form_of(q, &form);
    if (reason) return plb_fail(PLB_EUNSUPPORTED, "%s", reason);
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "pointwise has one variant, found %s", choice);
    pointwise *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    s->n_out = q->n_out;
    s->n = q->n_out + q->n_in;
    s->vector = form.vector;
    s->is_cast = q->op == PLB_OP_cast;
    s->op = q->op;
    s->params = params_of(&form, form.vector);
    s->element_params = params_of(&form, 1);
    s->vector_grid = grid_of(q->device, s->params.groups);
    s->element_grid = grid_of(q->device, s->element_params.groups);
    for (int k = 0; k < s->n; k++) {
        const plb_tensor *t = k < q->n_out ? &q->out[k] : &q->in[k - q->n_out];
        unsigned vector = form.step[k] == PLB_STEP_ONE ? (unsigned)form.vector : 1;
        s->aligned_bytes[k] = vector * (unsigned)plb_dtype_size(t->dtype);
    }
    plb_status status = s->params.groups ? compile(q->device, &form, s) : PLB_OK;
    if (status) {
        plb_free(s);
        return status;
    }
    *out = (plb_launch){.state = s, .release = plb_free, .run = run};
    count_work(q, &form, out);
    return PLB_OK;
}

// Casts between f32 and 16 bits whose elements lie in the same order on both sides.
static bool is_plain_cast(const plb_part *part) {
    const pointwise *s = part->launch->state;
    const plb_tensor *from = &part->call->in[0], *to = &part->call->out[0];
    bool narrow = from->dtype == PLB_F32 && (to->dtype == PLB_BF16 || to->dtype == PLB_F16);
    bool widen = to->dtype == PLB_F32 && (from->dtype == PLB_BF16 || from->dtype == PLB_F16);
    if (!s->is_cast || (!narrow && !widen)) return false;
    for (int i = 0; i < from->shape.rank; i++) {
        if (from->shape.dim[i] > 1 && from->stride[i] != to->stride[i]) return false;
    }
    return true;
}

// The text of a part's kernel without vectors, which is the same for all sizes of its form.
static plb_status source_of(const plb_part *part, plb_op_id op, plb_strbuf *text) {
    const plb_call *call = part->call;
    plb_query q = {.op = op,
                   .attrs = call->attrs,
                   .n_in = call->n_in,
                   .n_out = call->n_out,
                   .in = call->in,
                   .out = call->out};
    plb_pointwise_form form;
    if (plb_pointwise_form_of(&q, &form)) return PLB_EUNSUPPORTED;
    form.vector = 1;
    plb_pointwise_source(&form, plb_cuda_pointwise_language, text);
    return text->failed ? plb_fail(PLB_ENOMEM, "out of memory for a kernel") : PLB_OK;
}

static plb_status merge_small(plb_device *device, const plb_part *parts, int n, plb_launch *out) {
    plb_pointwise_params *params = plb_alloc_array((size_t)n, sizeof *params);
    plb_strbuf first = {0}, other = {0};
    plb_status status = PLB_OK;
    if (!params) return plb_fail(PLB_ENOMEM, "out of memory for a launch");
    for (int i = 0; i < n; i++) {
        const pointwise *s = parts[i].launch->state;
        if (s->element_params.groups == 0 || s->element_params.groups > SMALL) {
            PLB_TRY_OUT(PLB_EUNSUPPORTED);
        }
        PLB_TRY_OUT(source_of(&parts[i], s->op, i ? &other : &first));
        if (i && strcmp(first.text, other.text) != 0) PLB_TRY_OUT(PLB_EUNSUPPORTED);
        plb_strbuf_free(&other);
        params[i] = s->element_params;
        for (int k = 0; k < s->n; k++) {
            params[i].data[k] =
                k < s->n_out ? parts[i].call->out[k].data : parts[i].call->in[k - s->n_out].data;
        }
    }
    status = plb_cuda_pointwise_many(device, first.text, params, n, out);
out:
    plb_strbuf_free(&first);
    plb_strbuf_free(&other);
    plb_free(params);
    return status;
}

static plb_status merge(plb_device *device, const plb_part *parts, int n, plb_launch *out) {
    bool casts = true;
    for (int i = 0; i < n; i++) casts &= is_plain_cast(&parts[i]);
    return casts ? plb_cuda_cast_many(device, parts, n, out) : merge_small(device, parts, n, out);
}

const plb_kernel plb_cuda_kernel_pointwise = {
    .name = "pointwise", .op = PLB_OP_fused, .refuse = refuse, .prepare = prepare, .merge = merge};
