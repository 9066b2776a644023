// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions with 3x3 and 5x5 filters, and their gradients (kernels/depthwise.cu).
// How many columns and channels a thread has is a choice for the tuner: w4v8 is 4 columns, 8
// channels.
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/device/cuda/convolve.h"
#include "engine/device/cuda/kernels/depthwise.h"
#include "engine/device/cuda/own.h"

static const plb_tensor *weights_of(const plb_query *q) {
    return q->op == PLB_OP_conv_weight_grad ? &q->out[0] : &q->in[1];
}

// Whether all filters lie one after the other, each row by row.
static bool filters_are_plain(const plb_tensor *w) {
    const int64_t rows = w->shape.dim[2], columns = w->shape.dim[3];
    return (w->stride[0] == rows * columns || w->shape.dim[0] == 1) &&
           (w->stride[2] == columns || rows == 1) && (w->stride[3] == 1 || columns == 1);
}

static const char *refuse_layouts(const plb_query *q) {
    const plb_tensor *w = weights_of(q);
    for (int k = 0; k < q->n_in; k++) {
        const bool image = k != PLB_IN_BIAS && &q->in[k] != w;
        if (!plb_operand_given(q, k) || !image) continue;
        if (!plb_own_channels_last(&q->in[k])) return "channels last only";
    }
    if (q->op != PLB_OP_conv_weight_grad && !plb_own_channels_last(&q->out[0])) {
        return "channels last only";
    }
    return filters_are_plain(w) ? NULL : "filters in another order";
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_operands_refuse(q);
    plb_conv_shape s;
    if (!reason) reason = plb_own_refuse(q);
    if (reason) return reason;
    if (q->in[0].shape.rank != 4) return "two spatial axes only";
    if (q->out[0].dtype == PLB_F64) return "not in f64";
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return "shapes";
    if (s.groups != s.c || s.c != s.k || s.c == 1) return "not one filter a channel";
    if (s.kernel[1] != s.kernel[2] || (s.kernel[1] != 3 && s.kernel[1] != 5)) {
        return "filters other than 3x3 and 5x5";
    }
    if (s.stride[1] != s.stride[2] || s.stride[1] > 2) return "a stride over 2";
    if (s.dilation[1] != 1 || s.dilation[2] != 1) return "dilated";
    return refuse_layouts(q);
}

// ---------------------------------------------------------------------------- variants
typedef struct variant {
    int columns, channels; // of a thread
} variant;

// Whether a thread's columns have to be even: those of dx, whose taps alternate.
static bool pairs(const plb_query *q, const plb_conv_shape *s) {
    return q->op == PLB_OP_conv_input_grad && s->stride[1] == 2;
}

static int variants_of(const plb_query *q, const plb_conv_shape *s, variant out[4]) {
    static const variant strips_16[] = {{4, 8}, {2, 8}, {4, 4}, {1, 4}, {0, 0}};
    static const variant strips_32[] = {{4, 4}, {2, 4}, {1, 4}, {0, 0}};
    static const variant grads_16[] = {{4, 8}, {2, 8}, {4, 4}, {0, 0}};
    static const variant grads_32[] = {{4, 4}, {2, 4}, {0, 0}};
    const bool wide = plb_dtype_size(q->out[0].dtype) == 4;
    const bool grad = pairs(q, s) || q->op == PLB_OP_conv_weight_grad;
    const variant *all = grad ? (wide ? grads_32 : grads_16) : wide ? strips_32 : strips_16;
    int n = 0;
    for (; all->columns; all++) {
        if (s->c % all->channels == 0) out[n++] = *all;
    }
    return n;
}

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    plb_conv_shape s;
    variant v[4];
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s)) return 0;
    const int n = variants_of(q, &s, v);
    if (!n) { // the one for channels that fill no vector
        out[0][0] = '\0';
        return 1;
    }
    for (int i = 0; i < n && i < max; i++) {
        snprintf(out[i], PLB_CHOICE_BYTES, "w%dv%d", v[i].columns, v[i].channels);
    }
    return n < max ? n : max;
}

// The first where nothing is said; columns 0: there is no such variant. Channels that fill no
// vector leave the one for any operands alone, which is not in the list.
static variant variant_of(const plb_query *q, const plb_conv_shape *s, const char *choice) {
    char text[PLB_CHOICE_BYTES];
    variant v[4];
    const variant one = {pairs(q, s) || q->op == PLB_OP_conv_weight_grad ? 2 : 1, 1};
    const int n = variants_of(q, s, v);
    if (!*choice) return n ? v[0] : one;
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "w%dv%d", v[i].columns, v[i].channels);
        if (!strcmp(text, choice)) return v[i];
    }
    return (variant){0, 0};
}

// ---------------------------------------------------------------------------- numbers
static plb_depthwise_params params_of(const plb_query *q, const plb_conv_shape *s) {
    const bool back = q->op == PLB_OP_conv_input_grad, turned = back && s->stride[1] == 1;
    const int64_t *from = back ? s->out : s->in, *to = back ? s->in : s->out;
    plb_depthwise_params p = {.n = (int32_t)s->n,
                              .c = (int32_t)s->c,
                              .from_height = (int32_t)from[1],
                              .from_width = (int32_t)from[2],
                              .to_height = (int32_t)to[1],
                              .to_width = (int32_t)to[2],
                              .top = (int32_t)(turned ? s->kernel[1] - 1 - s->pad[1] : s->pad[1]),
                              .left = (int32_t)(turned ? s->kernel[2] - 1 - s->pad[2] : s->pad[2]),
                              .flipped = turned};
    p.patch = p.to_height % 4 == 0 ? 4 : p.to_height % 2 == 0 ? 2 : 1;
    if (q->op == PLB_OP_conv) {
        const plb_epilogue *e = &((const plb_conv_attrs *)q->attrs)->epilogue;
        p.act = plb_own_act((int)e->activation, e->alpha, e->beta);
    }
    return p;
}

// Of a thread's strips of `columns` of `to`.
static int64_t strips_of(const plb_depthwise_params *p, int columns) {
    return (int64_t)p->n * p->to_height * ((p->to_width + 1 + columns - 1) / columns);
}

// Vectors of channels side by side in a block: as many as divide all of them, up to 32.
static int side_by_side(int vectors) {
    if (vectors <= 32) return vectors;
    for (int n = 32; n >= 16; n--) {
        if (vectors % n == 0) return n;
    }
    return 32;
}

static plb_cuda_grid grid_of(const plb_depthwise_params *p, variant v, int deep, int64_t resident) {
    const int vectors = (p->c + v.channels - 1) / v.channels, columns = side_by_side(vectors);
    const int rows = PLB_DEPTHWISE_THREADS / (columns * deep);
    const int across = (vectors + columns - 1) / columns;
    int64_t down = (strips_of(p, v.columns) + rows - 1) / rows;
    if (down > resident / across) down = resident / across;
    if (down > 65535) down = 65535;
    if (down < 1) down = 1;
    return (plb_cuda_grid){.blocks = {(unsigned)across, (unsigned)down},
                           .threads = {(unsigned)columns, (unsigned)rows, (unsigned)deep}};
}

// ---------------------------------------------------------------------------- launches
typedef struct maker {
    const plb_query *q;
    const plb_conv_shape *shape;
    plb_depthwise_params *params;
    plb_own *own;
} maker;

static void name_of(const maker *m, variant v, char *name, size_t bytes) {
    const char *what = m->q->op == PLB_OP_conv_weight_grad ? "_dw"
                       : pairs(m->q, m->shape)             ? "_dx"
                                                           : "";
    snprintf(name, bytes, "depthwise%s_k%ds%dw%dv%d", what, (int)m->shape->kernel[1],
             (int)m->shape->stride[1], v.columns, v.channels);
}

// The grid of the function for `v`; `deep`: threads for each strip.
static plb_status lay_out(const maker *m, variant v, int deep, const char *name,
                          plb_cuda_grid *out) {
    int64_t resident;
    const int taps = (int)(m->shape->kernel[1] * m->shape->kernel[2]);
    PLB_TRY(plb_own_resident(m->own, name, m->q->out[0].dtype, PLB_DEPTHWISE_THREADS, &resident));
    *out = grid_of(m->params, v, deep, resident);
    out->shared_bytes = out->threads[0] * (unsigned)(v.channels * taps) * (unsigned)sizeof(float);
    return PLB_OK;
}

static plb_status add_image(const maker *m, variant v, plb_own_list *list) {
    char name[64];
    plb_cuda_grid grid;
    name_of(m, v, name, sizeof name);
    PLB_TRY(lay_out(m, v, 1, name, &grid));
    return plb_own_add(m->own, list, name, m->q->out[0].dtype, grid);
}

// Partial sums of as many blocks as the device holds at once, then their sum. The first variant
// says how many.
static plb_status add_weight_grad(const maker *m, variant v, plb_own_list *list) {
    char name[64];
    plb_cuda_grid grid;
    const plb_dtype dtype = m->q->out[0].dtype;
    const int k = (int)m->shape->kernel[1], sums = k * k * m->params->c;
    name_of(m, v, name, sizeof name);
    PLB_TRY(lay_out(m, v, k, name, &grid));
    grid.shared_bytes *= grid.threads[1];
    if (!m->params->splits) m->params->splits = (int32_t)grid.blocks[1];
    grid.blocks[1] = (unsigned)m->params->splits;
    PLB_TRY(plb_own_add(m->own, list, name, dtype, grid));
    snprintf(name, sizeof name, "depthwise_dw_finish_k%d", k);
    const unsigned blocks = (unsigned)((sums + PLB_DEPTHWISE_FINISH - 1) / PLB_DEPTHWISE_FINISH);
    const plb_cuda_grid finish = {.blocks = {blocks},
                                  .threads = {PLB_DEPTHWISE_FINISH, PLB_DEPTHWISE_FINISH}};
    return plb_own_add(m->own, list, name, dtype, finish);
}

static plb_status add_steps(const maker *m, variant v, plb_own_list *list) {
    return m->q->op == PLB_OP_conv_weight_grad ? add_weight_grad(m, v, list)
                                               : add_image(m, v, list);
}

// Operands that do not begin on 16 bytes have launches of their own, an element a thread.
static plb_status add_lists(const maker *m, variant v) {
    const bool even = pairs(m->q, m->shape) || m->q->op == PLB_OP_conv_weight_grad;
    const variant any = {even ? 2 : 1, 1};
    if (v.channels > 1) PLB_TRY(add_steps(m, v, &m->own->aligned));
    return add_steps(m, any, &m->own->any);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_conv_shape s;
    plb_own *own;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    plb_depthwise_params p = params_of(q, &s);
    const variant v = variant_of(q, &s, choice);
    if (!v.columns) return plb_fail(PLB_EUNSUPPORTED, "depthwise: no variant %s here", choice);
    PLB_TRY(plb_own_begin(q, "", &p, sizeof p, out, &own));
    const maker m = {q, &s, &p, own};
    plb_status status = add_lists(&m, v);
    out->flops = plb_operands_flops(q);
    out->bytes = plb_operands_bytes(q);
    if (q->op == PLB_OP_conv_weight_grad) {
        const size_t sums = (size_t)(s.kernel[1] * s.kernel[2] * s.c);
        out->workspace_bytes = (size_t)p.splits * sums * sizeof(float);
    }
    memcpy(own->params.bytes, &p, sizeof p);
    return plb_own_end(out, status);
}

const plb_kernel plb_cuda_kernel_conv_depthwise = {.name = "depthwise",
                                                   .op = PLB_OP_conv,
                                                   .refuse = refuse,
                                                   .choices = choices,
                                                   .prepare = prepare,
                                                   .tuned = true};
