// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients by cuDNN. Every engine of every equivalent graph is a choice
// for the tuner (conv_problem.h). Weights have the layout of the values: where the node's have
// another, or where they are turned, they are reordered ahead, once if they never change. Padding
// that is uneven is written out around x, in the workspace.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/conv_problem.h"
#include "engine/device/cuda/copy.h"
#include "engine/ops/walk.h"

typedef struct conv {
    plb_conv_spec spec;
    plb_conv_plan plan;
    plb_finish finish; // of a bare form with an epilogue
    bool finishes;
    CUfunction widen;   // of a 16-bit bias that the plan reads as f32
    plb_tensor weights; // dense in the plan's layout; differs from the node's if `reorders`
    bool reorders;
    plb_tensor wide; // x with its margins, if it has any
    size_t bias_at;  // in what is packed
    size_t bare_at;  // in the workspace: result of the bare convolution, or weight gradients
    size_t wide_at;  // in the workspace
    plb_cudnn_operands operands; // that `pack` was made for
    cudnnBackendDescriptor_t pack;
} conv;

static const plb_tensor *weights_of(const plb_query *q) {
    return q->op == PLB_OP_conv_weight_grad ? &q->out[0] : &q->in[1];
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_cudnn_missing();
    if (!reason) reason = plb_operands_refuse(q);
    if (reason) return reason;
    if (q->unaligned) return "operands that begin between 16 bytes";
    if (q->in[0].shape.rank > 5) return "more than three spatial axes";
    const plb_tensor *values = q->op == PLB_OP_conv_weight_grad ? &q->in[1] : &q->out[0];
    if (!plb_layout_equal(values->layout, q->in[0].layout)) return "layouts that differ";
    if (q->op == PLB_OP_conv && plb_operand_given(q, PLB_IN_RESIDUAL) &&
        !plb_layout_equal(q->in[PLB_IN_RESIDUAL].layout, q->in[0].layout)) {
        return "layouts that differ";
    }
    plb_conv_spec spec;
    return plb_conv_spec_of(q, &spec) ? "shapes that do not fit" : NULL;
}

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    plb_conv_spec spec;
    plb_conv_problem *problem;
    if (plb_conv_spec_of(q, &spec) || plb_conv_problem_of(q->device, &spec, &problem)) return 0;
    return plb_conv_choices(problem, q->racing ? q->tune_ms : 0, out, max);
}

static void foresee(const plb_query *q) {
    plb_conv_spec spec;
    plb_conv_problem *problem;
    if (plb_conv_spec_of(q, &spec) || plb_conv_problem_of(q->device, &spec, &problem)) return;
    plb_conv_announce(problem, q->tune_ms);
}

// ---------------------------------------------------------------------------- preparing
static bool has_epilogue(const plb_conv_spec *s) {
    return s->bias || s->residual || s->epilogue.activation != PLB_ACT_NONE;
}

static bool widens(const conv *c) {
    bool wide_bias = c->plan.form == 'b' || c->plan.form == 'c';
    return c->spec.bias && wide_bias && c->spec.dtype != PLB_F32;
}

static plb_status find_functions(const plb_query *q, conv *c) {
    if (plb_conv_form_is_bare(c->plan.form) && has_epilogue(&c->spec)) {
        c->finishes = true;
        PLB_TRY(plb_finish_prepare(q->device, &q->out[0], 1, &c->spec.epilogue, &c->finish));
    }
    if (!widens(c)) return PLB_OK;
    return plb_cuda_function(
        q->device, c->spec.dtype == PLB_F16 ? "plb_widen_f16" : "plb_widen_bf16", &c->widen);
}

// The filter that form 't' asks for: inputs and outputs exchanged, planes read from the end.
static plb_tensor turned(const plb_tensor *w) {
    plb_tensor t = *w;
    t.shape.dim[0] = w->shape.dim[1], t.shape.dim[1] = w->shape.dim[0];
    t.stride[0] = w->stride[1], t.stride[1] = w->stride[0];
    for (int i = 2; i < t.shape.rank; i++) {
        plb_view_shift(&t, (t.shape.dim[i] - 1) * t.stride[i]);
        t.stride[i] = -t.stride[i];
    }
    return t;
}

static bool turns(const conv *c) {
    return c->plan.form == 't';
}

static void plan_weights(const plb_query *q, conv *c) {
    const plb_tensor *w = weights_of(q), shown = turns(c) ? turned(w) : *w;
    plb_layout layout = {c->spec.layout, 0};
    c->weights = plb_tensor_dense(NULL, w->dtype, &shown.shape, layout);
    plb_tensor same = *w;
    same.layout = layout; // other strides may say the same where extents are 1
    c->reorders = turns(c) || !plb_tensor_is_dense(&same);
}

static void plan_margins(conv *c) {
    const plb_shape shape = plb_conv_x_shape(&c->spec.shape);
    c->wide = plb_tensor_dense(NULL, c->spec.dtype, &shape, (plb_layout){c->spec.layout, 0});
}

static size_t bytes_of(const plb_tensor *t) {
    return plb_padded(plb_layout_bytes(&t->shape, t->dtype, t->layout));
}

// In the workspace: the plan's own first, then the bare result, then x with its margins.
static size_t workspace_of(const plb_query *q, conv *c) {
    size_t bytes = plb_padded(c->plan.plan->workspace_bytes);
    c->bare_at = bytes;
    if (c->finishes) {
        bytes += bytes_of(&q->out[0]);
    } else if (q->op == PLB_OP_conv_weight_grad && c->reorders) {
        bytes += bytes_of(&c->weights);
    }
    c->wide_at = bytes;
    if (c->spec.margins) bytes += bytes_of(&c->wide);
    return bytes;
}

// ---------------------------------------------------------------------------- running
static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    const conv *c = state;
    if (c->spec.op != PLB_OP_conv_weight_grad && c->reorders) {
        plb_tensor to = c->weights, from = turns(c) ? turned(&call->in[1]) : call->in[1];
        to.data = packed;
        PLB_TRY(plb_cuda_copy_strided(stream, &to, &from));
    }
    if (!c->widen) return PLB_OK;
    plb_widen_params p = {.from = call->in[PLB_IN_BIAS].data,
                          .to = (float *)(void *)((char *)packed + c->bias_at),
                          .count = c->spec.shape.k};
    plb_cuda_grid grid = {.threads = {256}};
    grid.blocks[0] = plb_cuda_blocks(stream->device, p.count, 256, 1);
    return plb_cuda_launch(stream, c->widen, &grid, (void *[]){&p});
}

static void add(plb_cudnn_operands *o, int64_t uid, const void *data) {
    o->uid[o->n] = uid;
    o->data[o->n++] = (void *)data;
}

static void *bare_of(const conv *c, const plb_call *call) {
    return (char *)call->workspace + c->bare_at;
}

static const plb_tensor *x_of(const conv *c, const plb_call *call) {
    return c->spec.op == PLB_OP_conv_input_grad ? &call->out[0] : &call->in[0];
}

// Where the library reads or writes x.
static void *wide_of(const conv *c, const plb_call *call) {
    return c->spec.margins ? (char *)call->workspace + c->wide_at : x_of(c, call)->data;
}

// The part of x with its margins that is x.
static plb_tensor within_margins(const conv *c, const plb_call *call) {
    plb_tensor view = c->wide;
    const int axes = c->spec.shape.axes;
    view.data = wide_of(c, call);
    view.shape = x_of(c, call)->shape;
    for (int i = 0; i < axes; i++) {
        plb_view_shift(&view, c->spec.margin[PLB_MAX_SPATIAL - axes + i] * view.stride[2 + i]);
    }
    return view;
}

static plb_status write_margins(const conv *c, const plb_call *call, plb_stream *stream) {
    const plb_tensor to = within_margins(c, call);
    plb_tensor wide = c->wide;
    if (!c->spec.margins || c->spec.op == PLB_OP_conv_input_grad) return PLB_OK;
    wide.data = wide_of(c, call);
    PLB_TRY(plb_cuda_fill_strided(stream, &wide, &(int64_t){0}));
    return plb_cuda_copy_strided(stream, &to, &call->in[0]);
}

static void operands_of(const conv *c, const plb_call *call, plb_cudnn_operands *o) {
    const plb_conv_spec *s = &c->spec;
    const void *w = c->reorders ? call->packed : call->in[1].data;
    const bool fused = !plb_conv_form_is_bare(c->plan.form);
    *o = (plb_cudnn_operands){.workspace = call->workspace};
    if (s->op == PLB_OP_conv_weight_grad) {
        add(o, PLB_CONV_X, wide_of(c, call));
        add(o, PLB_CONV_Y, call->in[1].data);
        add(o, PLB_CONV_W, c->reorders ? bare_of(c, call) : call->out[0].data);
    } else {
        const bool forward = s->op == PLB_OP_conv;
        void *y = !forward ? call->in[0].data : c->finishes ? bare_of(c, call) : call->out[0].data;
        add(o, turns(c) ? PLB_CONV_Y : PLB_CONV_X, wide_of(c, call));
        add(o, PLB_CONV_W, w);
        add(o, turns(c) ? PLB_CONV_X : PLB_CONV_Y, y);
    }
    if (s->bias && fused) {
        add(o, PLB_CONV_BIAS,
            c->widen ? (const char *)call->packed + c->bias_at : call->in[PLB_IN_BIAS].data);
    }
    if (s->residual && fused) add(o, PLB_CONV_RESIDUAL, call->in[PLB_IN_RESIDUAL].data);
}

static plb_status point_at(conv *c, const plb_cudnn_operands *o) {
    if (c->pack && !memcmp(o, &c->operands, sizeof *o)) return PLB_OK;
    for (int i = 0; i < o->n; i++) {
        if ((uintptr_t)o->data[i] % 16) {
            return plb_fail(PLB_EUNSUPPORTED, "cuDNN: an operand is not aligned to 16 bytes");
        }
    }
    plb_cudnn_descriptor_free(c->pack);
    c->pack = NULL;
    c->operands = *o;
    return plb_cudnn_pack_new(o, &c->pack);
}

// Gradients that the library did not write to where they belong.
static plb_status take_result(const conv *c, const plb_call *call, plb_stream *stream) {
    plb_tensor from;
    if (c->spec.op == PLB_OP_conv_weight_grad && c->reorders) {
        from = c->weights;
        from.data = bare_of(c, call);
    } else if (c->spec.op == PLB_OP_conv_input_grad && c->spec.margins) {
        from = within_margins(c, call);
    } else {
        return PLB_OK;
    }
    return plb_cuda_copy_strided(stream, &call->out[0], &from);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    conv *c = state;
    plb_cudnn_operands o;
    memset(&o, 0, sizeof o);
    operands_of(c, call, &o);
    PLB_TRY(point_at(c, &o));
    PLB_TRY(write_margins(c, call, stream));
    PLB_TRY(plb_cudnn_execute(stream, c->plan.plan, c->pack));
    if (c->finishes) {
        const void *bias = c->spec.bias ? call->in[PLB_IN_BIAS].data : NULL;
        const void *residual = c->spec.residual ? call->in[PLB_IN_RESIDUAL].data : NULL;
        return plb_finish_run(stream, &c->finish, bare_of(c, call), bias, residual,
                              call->out[0].data);
    }
    return take_result(c, call, stream);
}

static void release(void *state) {
    conv *c = state;
    plb_cudnn_descriptor_free(c->pack);
    plb_conv_plan_release(&c->plan);
    plb_free(c);
}

static void describe(const plb_query *q, conv *c, plb_launch *out) {
    *out = (plb_launch){.state = c,
                        .release = release,
                        .run = run,
                        .workspace_bytes = workspace_of(q, c),
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    if (q->op != PLB_OP_conv_weight_grad && c->reorders) {
        out->packed_inputs |= 1u << 1;
        out->packed_bytes = bytes_of(&c->weights);
    }
    if (c->widen) {
        out->packed_inputs |= 1u << PLB_IN_BIAS;
        c->bias_at = out->packed_bytes;
        out->packed_bytes += plb_padded((size_t)c->spec.shape.k * sizeof(float));
    }
    if (out->packed_inputs) out->pack = pack;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    char first[1][PLB_CHOICE_BYTES];
    plb_conv_problem *problem;
    conv *c = plb_alloc(sizeof *c);
    if (!c) return plb_fail(PLB_ENOMEM, "out of memory for a convolution");
    plb_status status = plb_conv_spec_of(q, &c->spec);
    if (!status) status = plb_conv_problem_of(q->device, &c->spec, &problem);
    if (!status && !*choice) { // no choice was made: the best guess, if there is any
        choice = first[0];
        if (!plb_conv_choices(problem, 0, first, 1)) {
            status = plb_fail(PLB_EUNSUPPORTED, "cuDNN has no engine for this convolution");
        }
    }
    if (!status) status = plb_conv_plan_take(problem, choice, &c->plan);
    if (!status) status = find_functions(q, c);
    if (status) {
        release(c);
        return status;
    }
    plan_weights(q, c);
    plan_margins(c);
    describe(q, c, out);
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_conv_cudnn = {.name = "cudnn",
                                               .op = PLB_OP_conv,
                                               .refuse = refuse,
                                               .choices = choices,
                                               .foresee = foresee,
                                               .prepare = prepare,
                                               .tuned = true};
