// SPDX-License-Identifier: Apache-2.0
// Pools and their gradients, any strides: whole vectors of channels where channels are innermost
// in all operands, else one element a thread.
#include "engine/device/cuda/kernels/pool.h"
#include "base/core/status.h"
#include "engine/device/cuda/own.h"
#include "engine/device/cuda/pool.h"
#include "engine/ops/pool_shape.h"

// The operands with spatial axes, in the order in which kernels know their strides.
static int operands_of(const plb_query *q, const plb_tensor **t) {
    int n = 0;
    for (int k = 0; k < q->n_in; k++) t[n++] = &q->in[k];
    for (int k = 0; k < q->n_out && n < PLB_POOL_OPERANDS; k++) t[n++] = &q->out[k];
    return n;
}

static bool is_gradient(plb_op_id op) {
    return op == PLB_OP_max_pool_grad || op == PLB_OP_avg_pool_grad ||
           op == PLB_OP_adaptive_avg_pool_grad || op == PLB_OP_interpolate_grad;
}

void plb_cuda_pool_strides(const plb_tensor *t, int64_t stride[2 + PLB_POOL_AXES]) {
    const int axes = t->shape.rank - 2;
    for (int i = 0; i < 2; i++) stride[i] = t->stride[i];
    for (int i = 0; i < PLB_POOL_AXES; i++) {
        const int axis = i - (PLB_POOL_AXES - axes);
        stride[2 + i] = axis < 0 ? 0 : t->stride[2 + axis];
    }
}

static void set_axis(plb_pool_params *p, const plb_pool_shape *s) {
    for (int i = 0; i < PLB_POOL_AXES; i++) {
        p->in[i] = (int32_t)s->in[i], p->out[i] = (int32_t)s->out[i];
        p->kernel[i] = (int32_t)s->kernel[i], p->step[i] = (int32_t)s->stride[i];
        p->dilation[i] = (int32_t)s->dilation[i];
        p->pad[i] = (int32_t)s->pad[i], p->pad_end[i] = (int32_t)s->pad_end[i];
    }
    p->count_include_pad = s->count_include_pad;
}

void plb_cuda_pool_extents(const plb_query *q, plb_pool_params *p) {
    const bool back = is_gradient(q->op);
    const plb_tensor *first = &q->in[q->n_in - 1]; // of values: an index comes before them
    int64_t from[PLB_MAX_SPATIAL], to[PLB_MAX_SPATIAL];
    plb_spatial_extents(&first->shape, from);
    plb_spatial_extents(&q->out[0].shape, to);
    p->n = (int32_t)first->shape.dim[0], p->c = (int32_t)first->shape.dim[1];
    for (int i = 0; i < PLB_POOL_AXES; i++) {
        p->in[i] = (int32_t)(back ? to : from)[i];
        p->out[i] = (int32_t)(back ? from : to)[i];
    }
    const plb_tensor *t[PLB_POOL_OPERANDS];
    const int n = operands_of(q, t);
    p->channel_inner = 1;
    for (int k = 0; k < n; k++) {
        plb_cuda_pool_strides(t[k], p->stride[k]);
        p->channel_inner &= p->stride[k][1] == 1;
    }
}

// Extents, windows and strides. Neither adaptive pools nor max_pool_take have windows.
static plb_status params_of(const plb_query *q, plb_pool_params *p) {
    const char *name = plb_op_of(q->op)->name;
    *p = (plb_pool_params){0};
    plb_pool_shape s;
    plb_cuda_pool_extents(q, p);
    if (q->op == PLB_OP_max_pool || q->op == PLB_OP_avg_pool) {
        PLB_TRY(plb_pool_shape_of(&q->in[0].shape, q->attrs, name, &s));
        set_axis(p, &s);
    } else if (q->op == PLB_OP_max_pool_grad || q->op == PLB_OP_avg_pool_grad) {
        PLB_TRY(plb_pool_shape_of_grad(&q->in[0].shape, q->attrs, name, &s));
        set_axis(p, &s);
    }
    p->count = plb_shape_count(&q->out[0].shape);
    return PLB_OK;
}

bool plb_cuda_pool_wide(const plb_query *q, const plb_pool_params *p) {
    const int width = 16 / (int)plb_dtype_size(q->out[0].dtype);
    if (!p->channel_inner || p->c % width) return false;
    const plb_tensor *t[PLB_POOL_OPERANDS];
    const int n = operands_of(q, t);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < 2 + PLB_POOL_AXES; i++) {
            if (i != 1 && p->stride[k][i] % width) return false;
        }
    }
    return true;
}

// Whether window `out` along an axis has a pixel of x at all.
static bool has_pixel(const plb_pool_params *p, int axis, int out) {
    for (int tap = 0; tap < p->kernel[axis]; tap++) {
        const int at = out * p->step[axis] - p->pad[axis] + tap * p->dilation[axis];
        if (at >= 0 && at < p->in[axis]) return true;
    }
    return false;
}

static const char *refuse(const plb_query *q) {
    const char *why = plb_own_refuse(q);
    if (why) return why;
    plb_pool_params p;
    if (params_of(q, &p)) return "the window does not fit";
    if (q->op != PLB_OP_max_pool_grad) return NULL;
    for (int axis = 0; axis < PLB_POOL_AXES; axis++) {
        for (int out = 0; out < p.out[axis]; out++) {
            if (!has_pixel(&p, axis, out)) return "a window lies in the padding";
        }
    }
    return NULL;
}

static const char *name_of(plb_op_id op) {
    switch (op) {
    case PLB_OP_max_pool: return "max_pool";
    case PLB_OP_max_pool_grad: return "max_pool_grad";
    case PLB_OP_max_pool_take: return "max_pool_take";
    case PLB_OP_avg_pool: return "avg_pool";
    case PLB_OP_avg_pool_grad: return "avg_pool_grad";
    case PLB_OP_adaptive_avg_pool: return "adaptive_pool";
    default: return "adaptive_pool_grad";
    }
}

static const char *wide_name_of(plb_op_id op) {
    switch (op) {
    case PLB_OP_max_pool: return "max_pool_wide";
    case PLB_OP_max_pool_grad: return "max_pool_grad_wide";
    case PLB_OP_avg_pool: return "avg_pool_wide";
    case PLB_OP_avg_pool_grad: return "avg_pool_grad_wide";
    case PLB_OP_adaptive_avg_pool: return "adaptive_pool_wide";
    case PLB_OP_adaptive_avg_pool_grad: return "adaptive_pool_grad_wide";
    default: return NULL;
    }
}

enum { WAVES = 32 };

plb_cuda_grid plb_cuda_pool_grid(const plb_query *q, int64_t count) {
    return (plb_cuda_grid){.blocks = {plb_cuda_blocks(q->device, count, PLB_POOL_THREADS, WAVES)},
                           .threads = {PLB_POOL_THREADS}};
}

static int width_of(const plb_query *q) {
    return 16 / (int)plb_dtype_size(q->out[0].dtype);
}

// One window for the whole plane, channels last.
static bool is_global(const plb_query *q, const plb_pool_params *p) {
    const bool adaptive =
        q->op == PLB_OP_adaptive_avg_pool || q->op == PLB_OP_adaptive_avg_pool_grad;
    return adaptive && p->out[0] * p->out[1] * p->out[2] == 1 && p->n <= 65535 &&
           plb_own_channels_last(&q->in[0]) && plb_own_channels_last(&q->out[0]);
}

// Vectors of channels side by side in a block that sums over pixels: more than one where rows of
// threads would find no pixel, or where there are blocks enough for the device, as memory gives 32
// bytes and more at once.
static int columns_of(const plb_query *q, const plb_pool_params *p, int vectors) {
    enum { MOST = 16, BLOCKS_EACH = 4 };
    const int64_t pixels = (int64_t)p->in[0] * p->in[1] * p->in[2];
    int columns = 1;
    while (columns < MOST) {
        const bool idle = PLB_POOL_THREADS / columns > pixels;
        const int64_t plenty = (int64_t)(columns == 1 ? 1 : BLOCKS_EACH) * q->device->sm_count;
        const int64_t blocks = (vectors + 2 * columns - 1) / (2 * columns) * (int64_t)p->n;
        if (!idle && blocks < plenty) break;
        columns *= 2;
    }
    return columns < vectors ? columns : vectors;
}

// Forward a block sums its channels over all pixels; backward all pixels get the same.
static plb_status add_global(const plb_query *q, plb_own *own, const plb_pool_params *p,
                             bool wide) {
    const plb_dtype dtype = q->out[0].dtype;
    plb_own_list *list = wide ? &own->aligned : &own->any;
    if (is_gradient(q->op)) {
        return plb_own_add(own, list, wide ? "spread_pool_wide" : "spread_pool", dtype,
                           plb_cuda_pool_grid(q, p->count / (wide ? width_of(q) : 1)));
    }
    const int vectors = p->c / (wide ? width_of(q) : 1), columns = columns_of(q, p, vectors);
    const plb_cuda_grid grid = {
        .blocks = {(unsigned)((vectors + columns - 1) / columns), (unsigned)p->n},
        .threads = {(unsigned)columns, (unsigned)(PLB_POOL_THREADS / columns)}};
    return plb_own_add(own, list, wide ? "global_pool_wide" : "global_pool", dtype, grid);
}

// A window of 2x2 or 3x3 pixels side by side, each with a pixel of x inside.
static int square_of(const plb_query *q, const plb_pool_params *p) {
    const int k = p->kernel[1];
    const bool fits = q->op == PLB_OP_max_pool && p->in[0] == 1 && p->kernel[0] == 1 &&
                      p->pad[0] == 0 && (k == 2 || k == 3) && p->kernel[2] == k &&
                      p->dilation[1] == 1 && p->dilation[2] == 1;
    if (!fits) return 0;
    for (int axis = 1; axis < PLB_POOL_AXES; axis++) {
        for (int out = 0; out < p->out[axis]; out++) {
            if (!has_pixel(p, axis, out)) return 0;
        }
    }
    return k;
}

// Gradient of 3x3 pixels, two apart, padded by one: as many windows as tiles of 2x2 pixels.
static bool is_usual_gradient(const plb_query *q, const plb_pool_params *p) {
    if (q->op != PLB_OP_max_pool_grad || p->in[0] != 1 || p->kernel[0] != 1 || p->pad[0]) {
        return false;
    }
    for (int axis = 1; axis < PLB_POOL_AXES; axis++) {
        const bool usual = p->kernel[axis] == 3 && p->step[axis] == 2 && p->pad[axis] == 1 &&
                           p->dilation[axis] == 1 && p->out[axis] == (p->in[axis] + 1) / 2;
        if (!usual) return false;
    }
    return true;
}

// Gradient of 2x2 pixels, side by side, that leave no pixel out.
static bool is_side_by_side(const plb_query *q, const plb_pool_params *p) {
    if (q->op != PLB_OP_max_pool_grad || p->in[0] != 1 || p->kernel[0] != 1 || p->pad[0]) {
        return false;
    }
    for (int axis = 1; axis < PLB_POOL_AXES; axis++) {
        const bool beside = p->kernel[axis] == 2 && p->step[axis] == 2 && p->pad[axis] == 0 &&
                            p->dilation[axis] == 1 && p->in[axis] == 2 * p->out[axis];
        if (!beside) return false;
    }
    return true;
}

static const char *function_of(const plb_query *q, const plb_pool_params *p, bool wide) {
    const int square = square_of(q, p);
    if (square == 2) return wide ? "max_pool_2x2" : "max_pool_2x2_one";
    if (square && wide) return "max_pool_3x3";
    if (wide && is_usual_gradient(q, p)) return "max_pool_grad_3x3";
    if (is_side_by_side(q, p)) return wide ? "max_pool_grad_2x2_wide" : "max_pool_grad_2x2";
    return wide ? wide_name_of(q->op) : name_of(q->op);
}

static plb_status add_steps(const plb_query *q, plb_own *own, const plb_pool_params *p, bool wide) {
    const plb_dtype dtype = q->out[0].dtype;
    plb_own_list *list = wide ? &own->aligned : &own->any;
    const bool max_grad = q->op == PLB_OP_max_pool_grad;
    if (is_global(q, p)) return add_global(q, own, p, wide);
    const int windows = p->out[1] * p->out[2];
    if (!wide && !p->channel_inner && windows <= PLB_POOL_SMALL && is_side_by_side(q, p)) {
        const int64_t each = PLB_POOL_PLANES(windows);
        const plb_cuda_grid planes = {
            .blocks = {(unsigned)(((int64_t)p->n * p->c + each - 1) / each)},
            .threads = {PLB_POOL_THREADS}};
        return plb_own_add(own, list, "max_pool_grad_planes", dtype, planes);
    }
    const plb_cuda_grid one = {.blocks = {1}, .threads = {1}};
    if (max_grad) PLB_TRY(plb_own_add(own, list, "pool_clear_flag", PLB_DTYPE_COUNT, one));
    const plb_cuda_grid grid = plb_cuda_pool_grid(q, p->count / (wide ? width_of(q) : 1));
    PLB_TRY(plb_own_add(own, list, function_of(q, p, wide), dtype, grid));
    if (!max_grad) return PLB_OK;
    const plb_cuda_grid strays = plb_cuda_pool_grid(q, (int64_t)p->n * p->c);
    return plb_own_add(own, list, "max_pool_strays", dtype, strays);
}

static plb_status add_lists(const plb_query *q, plb_own *own, const plb_pool_params *p) {
    if (p->count == 0) return PLB_OK;
    PLB_TRY(add_steps(q, own, p, false));
    const bool wide = wide_name_of(q->op) && plb_cuda_pool_wide(q, p);
    return wide ? add_steps(q, own, p, true) : PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    plb_pool_params p;
    PLB_TRY(params_of(q, &p));
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    if (q->op == PLB_OP_max_pool) out->optional_outputs = 1u << 1;
    if (q->op == PLB_OP_max_pool_grad) out->workspace_bytes = sizeof(int32_t);
    const double taps = (double)p.kernel[0] * p.kernel[1] * p.kernel[2];
    out->flops = (double)p.count * (taps > 0 ? taps : 1);
    return plb_own_end(out, add_lists(q, own, &p));
}

const plb_kernel plb_cuda_kernel_pool = {
    .name = "gather", .op = PLB_OP_max_pool, .refuse = refuse, .prepare = prepare};
