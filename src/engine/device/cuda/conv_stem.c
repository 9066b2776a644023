// SPDX-License-Identifier: Apache-2.0
// Convolutions of images: three channels leave tensor cores idle. The input becomes one with more
// channels, and cuDNN convolves that:
//   's'  as many pixels as the stride steps over, 2x2 or 4x4, become channels: of a stride s, w of
//        RxR becomes one of R / s taps with s² times the channels, and the stride 1
//   'p'  channels are filled up with zeros
// The weight gradient takes the same way back. The input is read in whatever layout it has, so
// that images need no reorder of their own.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/kernels/stem.h"

enum { MAX_CHANNELS = 4, FILL = 8, MAX_BLOCK = 32, MAX_INNER = 20 };
extern const plb_kernel plb_cuda_kernel_conv_cudnn;

// The convolution with many channels that stands for the node's.
typedef struct inner {
    plb_conv_attrs attrs;
    plb_tensor in[4], out[1];
    plb_query q;
    plb_stem_params image, weights; // how its operands come from the node's
} inner;

typedef struct stem {
    plb_launch launch; // of the inner convolution
    plb_stem_params image, weights;
    CUfunction gather, scatter;
    plb_op_id op;
    plb_tensor in[4], out[1]; // the inner convolution's, with pointers of the run
    plb_conv_attrs attrs;
    size_t weights_bytes, image_at, result_at; // in what is packed; in the workspace
} stem;

static const plb_tensor *weights_of(const plb_query *q) {
    return q->op == PLB_OP_conv_weight_grad ? &q->out[0] : &q->in[1];
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_operands_refuse(q);
    plb_conv_shape s;
    if (reason) return reason;
    if (q->op == PLB_OP_conv_input_grad) return "images have no gradient";
    if (q->in[0].shape.rank != 4) return "two spatial axes only";
    if (q->out[0].dtype == PLB_F64) return "f64 has no tensor cores";
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return "shapes";
    if (s.groups != 1 || s.c > MAX_CHANNELS) return "more than four channels, or groups";
    const plb_tensor *y = q->op == PLB_OP_conv ? &q->out[0] : &q->in[1];
    if (y->layout.kind != PLB_LAYOUT_NHWC) return "channels last only";
    if (q->op == PLB_OP_conv && plb_operand_given(q, PLB_IN_RESIDUAL) &&
        q->in[PLB_IN_RESIDUAL].layout.kind != PLB_LAYOUT_NHWC) {
        return "channels last only";
    }
    if ((s.n * s.in[1] * s.in[2]) * 4 * FILL > INT64_C(1) << 40) return "too large";
    return NULL;
}

static plb_stem_params params_of(const plb_tensor *few, int block) {
    plb_stem_params p = {.c = (int32_t)few->shape.dim[1],
                         .height = (int32_t)few->shape.dim[2],
                         .width = (int32_t)few->shape.dim[3],
                         .block = block};
    for (int i = 0; i < 4; i++) p.stride[i] = few->stride[i];
    p.channels = (p.c * block * block + FILL - 1) / FILL * FILL;
    return p;
}

// Tap r of output o reads input s o - p + r, that is, pixel s (o + a) + d of the image with its
// padding p written out, where s a + d = r. Weights get the taps that their last block lacks.
static void fold_blocks(const plb_conv_shape *s, int32_t block, inner *in) {
    const int32_t taps[2] = {(int32_t)(s->kernel[1] + block - 1) / block,
                             (int32_t)(s->kernel[2] + block - 1) / block};
    in->weights.rows = taps[0], in->weights.columns = taps[1];
    in->image.top = (int32_t)s->pad[1], in->image.left = (int32_t)s->pad[2];
    in->image.rows = (int32_t)s->out[1] + taps[0] - 1;
    in->image.columns = (int32_t)s->out[2] + taps[1] - 1;
    in->attrs = (plb_conv_attrs){.extent = {taps[0], taps[1]}};
}

static plb_tensor dense(const plb_stem_params *p, int64_t n, plb_dtype dtype) {
    plb_shape shape = plb_shape_of(n, p->channels, p->rows, p->columns);
    return plb_tensor_dense(NULL, dtype, &shape, (plb_layout){PLB_LAYOUT_NHWC, 0});
}

// Pixels a side that become channels of one; 0 where the form does not apply.
static int32_t block_of(const plb_conv_shape *s, char form) {
    const int64_t stride = s->stride[1];
    if (form == 'p') return 1;
    bool steps = stride > 1 && stride <= MAX_BLOCK && s->stride[2] == stride;
    bool covers = s->kernel[1] >= stride && s->kernel[2] >= stride; // else most would be zeros
    bool solid = s->dilation[1] == 1 && s->dilation[2] == 1;
    return steps && covers && solid ? (int32_t)stride : 0;
}

// False where the form does not apply.
static bool make_inner(const plb_query *q, char form, inner *in) {
    const plb_conv_attrs *attrs = q->attrs;
    const plb_dtype dtype = q->out[0].dtype;
    plb_conv_shape s;
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, attrs, &s)) return false;
    const int32_t block = block_of(&s, form);
    if (!block) return false;
    *in = (inner){.attrs = *attrs};
    in->image = params_of(&q->in[0], block);
    in->weights = params_of(weights_of(q), block);
    in->image.rows = in->image.height, in->image.columns = in->image.width;
    in->weights.rows = in->weights.height, in->weights.columns = in->weights.width;
    if (form == 's') fold_blocks(&s, block, in);
    in->attrs.epilogue = attrs->epilogue;
    in->attrs.groups = 1;
    in->image.count = s.n * in->image.rows * in->image.columns;
    in->weights.count = s.k * in->weights.rows * in->weights.columns;
    memcpy(in->in, q->in, (size_t)q->n_in * sizeof *q->in);
    in->out[0] = q->out[0];
    in->in[0] = dense(&in->image, s.n, dtype);
    *(q->op == PLB_OP_conv ? &in->in[1] : &in->out[0]) = dense(&in->weights, s.k, dtype);
    in->q = *q;
    in->q.attrs = &in->attrs, in->q.in = in->in, in->q.out = in->out;
    return plb_cuda_kernel_conv_cudnn.refuse(&in->q) == NULL;
}

static const char forms[] = "sp";

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    char found[MAX_INNER][PLB_CHOICE_BYTES];
    int n = 0;
    for (const char *form = forms; *form; form++) {
        inner in;
        if (!make_inner(q, *form, &in)) continue;
        int more = plb_cuda_kernel_conv_cudnn.choices(&in.q, found, MAX_INNER);
        for (int i = 0; i < more && n < max; i++) {
            out[n][0] = *form;
            snprintf(out[n++] + 1, PLB_CHOICE_BYTES - 1, "%s", found[i]);
        }
    }
    return n;
}

static void foresee(const plb_query *q) {
    for (const char *form = forms; *form; form++) {
        inner in;
        if (make_inner(q, *form, &in)) plb_cuda_kernel_conv_cudnn.foresee(&in.q);
    }
}

// ---------------------------------------------------------------------------- running
static plb_status move(const plb_stem_params *how, CUfunction function, int64_t items,
                       const void *from, void *to, plb_stream *stream) {
    plb_stem_params p = *how;
    plb_cuda_grid grid = {.threads = {256}};
    p.from = from;
    p.to = to;
    grid.blocks[0] = plb_cuda_blocks(stream->device, items, 256, 32);
    return plb_cuda_launch(stream, function, &grid, (void *[]){&p});
}

static plb_status gather(const stem *s, const plb_stem_params *how, const void *from, void *to,
                         plb_stream *stream) {
    return move(how, s->gather, how->count * how->channels / FILL, from, to, stream);
}

static plb_call inner_call(stem *s, const plb_call *call, const void *packed) {
    plb_call inside = *call;
    s->in[0].data = (char *)call->workspace + s->image_at;
    for (int k = 1; k < call->n_in; k++) s->in[k].data = call->in[k].data;
    if (s->op == PLB_OP_conv) {
        s->in[1].data = (void *)packed;
        s->out[0].data = call->out[0].data;
    } else {
        s->out[0].data = (char *)call->workspace + s->result_at;
    }
    inside.attrs = &s->attrs, inside.in = s->in, inside.out = s->out;
    inside.packed = packed ? (const char *)packed + s->weights_bytes : NULL;
    return inside;
}

static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    stem *s = state;
    PLB_TRY(gather(s, &s->weights, call->in[1].data, packed, stream));
    if (!s->launch.pack) return PLB_OK;
    plb_call inside = inner_call(s, call, packed);
    return s->launch.pack(s->launch.state, &inside, (char *)packed + s->weights_bytes, stream);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    stem *s = state;
    plb_call inside = inner_call(s, call, call->packed);
    PLB_TRY(gather(s, &s->image, call->in[0].data, s->in[0].data, stream));
    PLB_TRY(s->launch.run(s->launch.state, &inside, stream));
    if (s->op == PLB_OP_conv) return PLB_OK;
    plb_stem_params back = s->weights;
    back.count = plb_shape_count(&call->out[0].shape);
    return move(&back, s->scatter, back.count, s->out[0].data, call->out[0].data, stream);
}

static void release(void *state) {
    stem *s = state;
    if (s->launch.release) s->launch.release(s->launch.state);
    plb_free(s);
}

static size_t bytes_of(const plb_tensor *t) {
    return plb_padded(plb_layout_bytes(&t->shape, t->dtype, t->layout));
}

static void describe(const plb_query *q, const inner *in, stem *s, plb_launch *out) {
    s->op = q->op;
    s->image = in->image, s->weights = in->weights, s->attrs = in->attrs;
    memcpy(s->in, in->in, sizeof s->in);
    s->out[0] = in->out[0];
    s->image_at = plb_padded(s->launch.workspace_bytes);
    s->result_at = s->image_at + bytes_of(&s->in[0]);
    *out = (plb_launch){.state = s,
                        .release = release,
                        .run = run,
                        .workspace_bytes = s->result_at,
                        .flops = s->launch.flops,
                        .bytes = plb_operands_bytes(q)};
    if (q->op == PLB_OP_conv) {
        s->weights_bytes = bytes_of(&s->in[1]);
        out->pack = pack;
        out->packed_inputs = 1u << 1 | s->launch.packed_inputs;
        out->packed_bytes = s->weights_bytes + s->launch.packed_bytes;
    } else {
        out->workspace_bytes += bytes_of(&s->out[0]);
    }
}

static plb_status find_functions(const plb_query *q, stem *s) {
    const bool wide = plb_dtype_size(q->out[0].dtype) == 4;
    PLB_TRY(
        plb_cuda_function(q->device, wide ? "plb_stem_gather_4" : "plb_stem_gather_2", &s->gather));
    return plb_cuda_function(q->device, wide ? "plb_stem_scatter_4" : "plb_stem_scatter_2",
                             &s->scatter);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    inner in;
    char form = *choice ? *choice : make_inner(q, 's', &in) ? 's' : 'p';
    if (!strchr(forms, form) || !make_inner(q, form, &in)) {
        return plb_fail(PLB_EUNSUPPORTED, "stem: no form %s here", choice);
    }
    stem *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a convolution");
    plb_status status =
        plb_cuda_kernel_conv_cudnn.prepare(&in.q, *choice ? choice + 1 : "", &s->launch);
    if (!status) status = find_functions(q, s);
    if (status) {
        release(s);
        return status;
    }
    describe(q, &in, s, out);
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_conv_stem = {.name = "stem",
                                              .op = PLB_OP_conv,
                                              .refuse = refuse,
                                              .choices = choices,
                                              .foresee = foresee,
                                              .prepare = prepare,
                                              .tuned = true};
