// SPDX-License-Identifier: Apache-2.0
// Direct convolutions as kernels of conv, conv_input_grad and conv_weight_grad: which images and
// rows each thread does, which taps meet which pixel, and the packing of weights.
#include "engine/device/cpu/conv_direct.h"

#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/nest.h"

enum {
    BIAS = 2,
    RESIDUAL = 3,
    MOST_CHANNELS = 64,
    MOST_WEIGHTS = 1 << 16, // a quarter of a usual second-level cache
    MOST_TOTALS = 1 << 18,  // floats that a weight gradient keeps for each thread
    MOST_SOURCE = 1 << 20,  // floats of the transposed images
};

static const plb_direct_kernels *kernels(void) {
    return plb_cpu_isa() == PLB_ISA_AVX512 ? &plb_direct_avx512 : &plb_direct_avx2;
}

// ---------------------------------------------------------------------------- refusing
// Channels last, or the same in memory.
static bool channels_last(const plb_tensor *t) {
    plb_tensor as = *t;
    as.layout = (plb_layout){PLB_LAYOUT_NHWC, 0};
    return t->layout.kind != PLB_LAYOUT_BLOCKED && plb_tensor_is_dense(&as);
}

static const char *refuse_operands(const plb_query *q) {
    const bool weight_grad = q->op == PLB_OP_conv_weight_grad;
    for (int k = 0; k < q->n_in + 1; k++) {
        const plb_tensor *t = k < q->n_in ? &q->in[k] : &q->out[0];
        if (t->dtype == PLB_DTYPE_COUNT) continue;
        if (t->dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
        if (plb_shape_count(&t->shape) == 0) return "an operand is empty";
        const bool weights = k == q->n_in ? weight_grad : k == 1 && !weight_grad;
        if (k == BIAS && k < q->n_in) continue;
        if (weights && t->layout.kind != PLB_LAYOUT_PLAIN) return "plain weights only";
        if (!weights && !channels_last(t)) return "channels-last only";
    }
    return NULL;
}

static const char *refuse(const plb_query *q) {
    plb_conv_shape s;
    if (plb_cpu_isa() == PLB_ISA_PORTABLE) return "no AVX2";
    const char *reason = refuse_operands(q);
    if (reason) return reason;
    if (q->op == PLB_OP_conv &&
        ((const plb_conv_attrs *)q->attrs)->epilogue.activation == PLB_ACT_SILU) {
        return "activations that are no bounds";
    }
    if (plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s) != PLB_OK) {
        return "shapes do not fit";
    }
    const int lanes = kernels()->lanes;
    const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2], weights = s.c * s.k * taps;
    const bool input_grad = q->op == PLB_OP_conv_input_grad;
    const int64_t *from = input_grad ? s.out : s.in, from_c = input_grad ? s.k : s.c;
    const int64_t width = from[2] + s.pad[2] + s.pad_end[2];
    if (s.groups != 1) return "one group only";
    if (s.n < lanes / 2) return "fewer images than half of a vector's lanes";
    if (s.c > MOST_CHANNELS || s.k > MOST_CHANNELS || weights > MOST_WEIGHTS)
        return "many channels";
    if (s.kernel[0] * s.kernel[1] > PLB_DIRECT_TAPS) return "large kernel";
    if (q->op == PLB_OP_conv_weight_grad && weights * lanes > MOST_TOTALS) return "many weights";
    if (from[0] * from[1] * width * from_c * lanes > MOST_SOURCE) return "large images";
    return NULL;
}

// ---------------------------------------------------------------------------- which taps meet what
// Position of the source that position `at` of the result meets with tap `tap`, counted so that
// both grow together; -1: none.
static int64_t source_of(const plb_conv_shape *s, bool input_grad, int i, int64_t at, int64_t tap) {
    if (!input_grad) {
        const int64_t from = at * s->stride[i] - s->pad[i] + tap * s->dilation[i];
        return from >= 0 && from < s->in[i] ? from : -1;
    }
    const int64_t start = at + s->pad[i] - (s->kernel[i] - 1 - tap) * s->dilation[i];
    if (start < 0 || start % s->stride[i] || start / s->stride[i] >= s->out[i]) return -1;
    return start / s->stride[i];
}

// Runs of axis i, along the width as long as possible, else of single taps.
static void list_runs(const plb_direct_plan *plan, int i, int32_t *first, plb_direct_run *runs) {
    int32_t n = 0;
    for (int64_t at = 0; at < plan->to[i]; at++) {
        first[at] = n;
        for (int32_t tap = 0; tap < plan->shape.kernel[i]; tap++) {
            const int32_t from = (int32_t)source_of(&plan->shape, plan->input_grad, i, at, tap);
            plb_direct_run *last = n > first[at] ? &runs[n - 1] : NULL;
            if (from < 0) continue;
            if (i == 2 && last && last->from + last->count == from &&
                last->tap + last->count == tap) {
                last->count++;
            } else {
                runs[n++] = (plb_direct_run){from, tap, 1};
            }
        }
    }
    first[plan->to[i]] = n;
}

static bool next_is_alike(const plb_direct_plan *plan, int64_t at) {
    const plb_direct_axis *w = &plan->axis[2];
    const int32_t n = w->first[at + 1] - w->first[at];
    if (n != w->first[at + 2] - w->first[at + 1]) return false;
    const plb_direct_run *a = w->runs + w->first[at], *b = w->runs + w->first[at + 1];
    for (int32_t i = 0; i < n; i++) {
        if (a[i].tap != b[i].tap || a[i].count != b[i].count) return false;
        if (b[i].from - a[i].from != plan->step) return false;
    }
    return true;
}

static void list_alike(const plb_direct_plan *plan, uint8_t *alike) {
    for (int64_t at = plan->to[2] - 1; at >= 0; at--) {
        alike[at] = 1;
        if (at + 1 < plan->to[2] && next_is_alike(plan, at)) {
            alike[at] = alike[at + 1] < PLB_DIRECT_PIXELS ? (uint8_t)(alike[at + 1] + 1)
                                                          : (uint8_t)PLB_DIRECT_PIXELS;
        }
    }
}

// ---------------------------------------------------------------------------- preparing
static size_t lines_of(int64_t floats) { // whole cache lines, in floats
    return (size_t)(floats + 15) / 16 * 16;
}

static int threads_for(const plb_query *q, const plb_direct_plan *plan) {
    enum { FLOPS_A_THREAD = 1000000 };
    const int64_t blocks = (plan->shape.n + plan->kernels->lanes - 1) / plan->kernels->lanes;
    const double worth = 1 + plb_conv_flops(&plan->shape) / FLOPS_A_THREAD;
    int64_t threads = blocks * plan->to[0] * plan->to[1];
    if (threads > q->threads) threads = q->threads;
    return (double)threads > worth ? (int)worth : (int)threads;
}

static void size_weight_grad(plb_direct_plan *plan) {
    enum { DY_FLOATS = 6144 }; // half of a first-level cache for dy of a block of channels
    const plb_conv_shape *s = &plan->shape;
    const int64_t lanes = plan->kernels->lanes;
    plan->padded_w = (s->out[2] - 1) * s->stride[2] + (s->kernel[2] - 1) * s->dilation[2] + 1;
    plan->j_count = s->kernel[2] * s->c;
    plan->grad_rows = DY_FLOATS / (s->out[2] * plan->kernels->grad_channels * lanes);
    if (plan->grad_rows > PLB_DIRECT_ROWS) plan->grad_rows = PLB_DIRECT_ROWS;
    if (plan->grad_rows < 1) plan->grad_rows = 1;
    plan->source_floats = lines_of(s->in[0] * s->in[1] * plan->padded_w * s->c * lanes);
    plan->row_floats = lines_of(plan->grad_rows * s->out[2] * s->k * lanes);
    plan->total_floats = lines_of(s->k * s->kernel[0] * s->kernel[1] * plan->j_count * lanes);
}

static void size_conv(plb_direct_plan *plan) {
    const int64_t lanes = plan->kernels->lanes;
    const int64_t blocks = (plan->to_c + PLB_DIRECT_CHANNELS - 1) / PLB_DIRECT_CHANNELS;
    plan->channel_block = (plan->to_c + blocks - 1) / blocks;
    plan->step = plan->input_grad ? 1 : plan->shape.stride[2];
    plan->source_floats =
        lines_of(plan->from[0] * plan->from[1] * plan->from[2] * plan->from_c * lanes);
    plan->row_floats = lines_of(plan->to[2] * plan->to_c * lanes);
}

// One block of memory: the plan, and behind it its lists.
static plb_status plan_new(const plb_query *q, plb_direct_plan **out) {
    plb_conv_shape s;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, q->attrs, &s));
    const bool input_grad = q->op == PLB_OP_conv_input_grad;
    const int64_t *to = input_grad ? s.in : s.out, *from = input_grad ? s.out : s.in;
    size_t firsts = 0, runs = 0;
    for (int i = 0; i < 3; i++) {
        firsts += (size_t)to[i] + 1;
        runs += (size_t)(to[i] * s.kernel[i]);
    }
    plb_direct_plan *plan = plb_alloc(sizeof *plan + firsts * sizeof(int32_t) +
                                      runs * sizeof(plb_direct_run) + (size_t)to[2]);
    if (!plan) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *plan = (plb_direct_plan){.shape = s, .kernels = kernels(), .input_grad = input_grad};
    plan->from_c = input_grad ? s.k : s.c, plan->to_c = input_grad ? s.c : s.k;
    memcpy(plan->from, from, sizeof plan->from);
    memcpy(plan->to, to, sizeof plan->to);
    if (q->op == PLB_OP_conv_weight_grad) {
        size_weight_grad(plan);
    } else {
        size_conv(plan);
        int32_t *first = (int32_t *)(plan + 1);
        plb_direct_run *run = (plb_direct_run *)(first + firsts);
        uint8_t *alike = (uint8_t *)(run + runs);
        for (int i = 0; i < 3; i++) {
            plan->axis[i] = (plb_direct_axis){first, run};
            list_runs(plan, i, first, run);
            first += to[i] + 1, run += to[i] * s.kernel[i];
        }
        list_alike(plan, alike);
        plan->alike = alike;
    }
    plan->threads = threads_for(q, plan);
    *out = plan;
    return PLB_OK;
}

static size_t floats_a_thread(const plb_direct_plan *plan) {
    return plan->source_floats + plan->row_floats + plan->total_floats;
}

// packed[block of channels of the result][tap][from_c][channels of the block], the taps of an input
// gradient backwards.
static plb_status pack(void *state, const plb_call *call, void *packed, plb_stream *stream) {
    (void)stream;
    const plb_direct_plan *plan = state;
    const plb_conv_shape *s = &plan->shape;
    const float *w = call->in[1].data;
    float *to = packed;
    const int64_t taps = s->kernel[0] * s->kernel[1] * s->kernel[2];
    const bool forward = !plan->input_grad;
    for (int64_t first = 0; first < plan->to_c; first += plan->channel_block) {
        int64_t last = first + plan->channel_block;
        if (last > plan->to_c) last = plan->to_c;
        for (int64_t t = 0; t < taps; t++) {
            for (int64_t f = 0; f < plan->from_c; f++) {
                for (int64_t k = first; k < last; k++) {
                    *to++ = forward ? w[(k * s->c + f) * taps + t]
                                    : w[(f * s->c + k) * taps + taps - 1 - t];
                }
            }
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- running
// Rows `begin` .. `end` of all rows of all blocks of images, one block after the other.
typedef struct piece {
    int64_t first, images, row_begin, row_end, next;
} piece;

static piece piece_of(const plb_direct_plan *plan, int64_t begin, int64_t end) {
    const int64_t rows = plan->to[0] * plan->to[1], block = begin / rows;
    piece p = {.first = block * plan->kernels->lanes, .row_begin = begin % rows, .row_end = rows};
    p.images = plan->shape.n - p.first;
    if (p.images > plan->kernels->lanes) p.images = plan->kernels->lanes;
    p.next = (block + 1) * rows;
    if (p.next > end) p.row_end = rows - (p.next - end), p.next = end;
    return p;
}

static plb_span span_of(const plb_direct_plan *plan, int thread) {
    const int64_t lanes = plan->kernels->lanes, blocks = (plan->shape.n + lanes - 1) / lanes;
    return plb_span_of(blocks * plan->to[0] * plan->to[1], thread, plan->threads);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_direct_plan *plan = state;
    const plb_epilogue *e = &((const plb_conv_attrs *)call->attrs)->epilogue;
    plb_direct_end end = {.low = -INFINITY, .high = INFINITY};
    if (call->n_in > BIAS) end.bias = call->in[BIAS].data;
    if (call->n_in > RESIDUAL) end.residual = call->in[RESIDUAL].data;
    if (e->activation == PLB_ACT_RELU) end.low = 0;
    if (e->activation == PLB_ACT_CLAMP) end.low = (float)e->alpha, end.high = (float)e->beta;
#pragma omp parallel for schedule(static, 1) if (plan->threads > 1)
    for (int t = 0; t < plan->threads; t++) {
        const plb_span span = span_of(plan, t);
        float *workspace = (float *)call->workspace + (size_t)t * floats_a_thread(plan);
        for (int64_t at = span.begin; at < span.end;) {
            const piece p = piece_of(plan, at, span.end);
            plan->kernels->rows(plan, call->in[0].data, call->packed, &end, p.first, p.images,
                                p.row_begin, p.row_end, call->out[0].data, workspace);
            at = p.next;
        }
    }
    return PLB_OK;
}

static plb_status run_weight_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_direct_plan *plan = state;
    const size_t stride = floats_a_thread(plan);
    float *workspace = call->workspace;
#pragma omp parallel for schedule(static, 1) if (plan->threads > 1)
    for (int t = 0; t < plan->threads; t++) {
        const plb_span span = span_of(plan, t);
        for (int64_t at = span.begin; at < span.end;) {
            const piece p = piece_of(plan, at, span.end);
            plan->kernels->weight_rows(plan, call->in[0].data, call->in[1].data, p.first, p.images,
                                       p.row_begin, p.row_end, at == span.begin,
                                       workspace + (size_t)t * stride);
            at = p.next;
        }
    }
    plan->kernels->weight_sum(plan, workspace + plan->source_floats + plan->row_floats,
                              plan->threads, stride, call->out[0].data);
    return PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "direct has one variant, found %s", choice);
    plb_direct_plan *plan = NULL;
    PLB_TRY(plan_new(q, &plan));
    *out = (plb_launch){
        .state = plan, .release = plb_free, .run = run, .flops = plb_conv_flops(&plan->shape)};
    out->workspace_bytes = (size_t)plan->threads * floats_a_thread(plan) * sizeof(float);
    if (q->op == PLB_OP_conv_weight_grad) {
        out->run = run_weight_grad;
        return PLB_OK;
    }
    out->pack = pack;
    out->packed_inputs = 1u << 1;
    out->packed_bytes = (size_t)plb_shape_count(&q->in[1].shape) * sizeof(float);
    return PLB_OK;
}

const plb_kernel plb_cpu_conv_direct = {
    .name = "direct", .op = PLB_OP_conv, .refuse = refuse, .prepare = prepare, .tuned = true};
