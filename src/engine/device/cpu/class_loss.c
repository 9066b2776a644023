// SPDX-License-Identifier: Apache-2.0
// cross_entropy, nll and their gradients: one pass over each position's scores. A first pass over
// the targets checks them and sums their weights, so that nothing is written for a bad target.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/lines.h"
#include "engine/device/cpu/vec.h"
#include "engine/ops/class_loss.h"

typedef struct class_kernel {
    plb_op_id op;
    const plb_vec *vec;
    plb_line_set lines; // operands: scores or their gradient; of a gradient: both
    size_t rows_bytes;
    int scores, target, weight; // numbers of inputs; scores -1: none
    int n_lines;                // operands of `lines`
} class_kernel;

// One run.
typedef struct class_run {
    const class_kernel *k;
    const plb_call *call;
    plb_class_loss loss;
    const int64_t *target;
    const float *weight; // NULL: ones
    float each, hard;    // smoothing over classes, and what is left
    double weights;      // sum of all classes' weights
} class_run;

static float weight_of(const class_run *r, int64_t c) {
    return r->weight ? r->weight[c] : 1;
}

static bool is_gradient(plb_op_id op) {
    return op == PLB_OP_cross_entropy_grad || op == PLB_OP_nll_grad;
}

// d loss / d (contribution of position i).
static float gradient_at(const class_run *r, int64_t i) {
    const float *dy = r->call->in[0].data;
    if (r->loss.attrs->reduction == PLB_REDUCE_NONE) return dy[i];
    double scale = r->loss.attrs->reduction == PLB_REDUCE_MEAN ? r->loss.total : 1;
    return (float)((double)dy[0] / scale);
}

enum { SHORT = 48 }; // extents below: the rows of a group share one loop of exponentials

static float max_of(const class_run *r, const float *x) {
    const int64_t n = r->k->lines.extent;
    if (n >= SHORT) return r->k->vec->max(x, n);
    float max = -INFINITY;
    for (int64_t c = 0; c < n; c++) max = x[c] > max ? x[c] : max;
    return max;
}

// e[rows][classes] = e^(x - max of the row), with their sums.
static void exponentials(const class_run *r, const float *x, float *e, int64_t rows, float *max,
                         float *sum) {
    const int64_t n = r->k->lines.extent;
    for (int64_t j = 0; j < rows; j++) {
        max[j] = max_of(r, x + j * n);
        if (n >= SHORT) {
            sum[j] = r->k->vec->exp_shifted(e + j * n, x + j * n, max[j], n);
        } else {
            for (int64_t i = j * n; i < (j + 1) * n; i++) e[i] = x[i] - max[j];
        }
    }
    if (n >= SHORT) return;
    r->k->vec->exp_shifted(e, e, 0, rows * n);
    for (int64_t j = 0; j < rows; j++) {
        sum[j] = 0;
        for (int64_t i = j * n; i < (j + 1) * n; i++) sum[j] += e[i];
    }
}

// log_sum: log(sum e^(x - max)). Large scores would swallow it, so that their difference comes
// first.
static double cross_entropy_at(const class_run *r, const float *x, float max, float log_sum,
                               int64_t t) {
    double hard = (double)weight_of(r, t) * (double)(max - x[t] + log_sum), soft = 0;
    if (r->each == 0) return hard;
    const int64_t n = r->k->lines.extent;
    for (int64_t c = 0; c < n; c++) soft += (double)(weight_of(r, c) * (max - x[c] + log_sum));
    return (double)r->hard * hard + (double)r->each * soft;
}

// dx holds e^(x - max), whose sum is given.
static void cross_entropy_grad_at(const class_run *r, float *dx, float sum, int64_t i, int64_t t) {
    const int64_t n = r->k->lines.extent;
    const float g = gradient_at(r, i), hard = r->hard * weight_of(r, t);
    const float share = (hard + r->each * (float)r->weights) / sum;
    for (int64_t c = 0; c < n && r->each == 0; c++) dx[c] *= g * share;
    for (int64_t c = 0; c < n && r->each != 0; c++) {
        dx[c] = g * (share * dx[c] - r->each * weight_of(r, c));
    }
    dx[t] -= g * hard;
}

// Losses of a group of positions; returns their sum.
static double loss_group(const class_run *r, const float *x, float *scratch, int64_t first,
                         int64_t n) {
    const class_kernel *k = r->k;
    const int64_t classes = k->lines.extent;
    float max[PLB_LINES_ELEMENTS], sums[PLB_LINES_ELEMENTS];
    double sum = 0;
    if (k->op == PLB_OP_cross_entropy) exponentials(r, x, scratch, n, max, sums);
    for (int64_t j = 0; j < n; j++) {
        const int64_t t = r->target[first + j];
        const float *row = x + j * classes;
        double here = 0;
        if (t == r->loss.attrs->ignore_index) {
            here = 0;
        } else if (k->op == PLB_OP_cross_entropy) {
            here = cross_entropy_at(r, row, max[j], logf(sums[j]), t);
        } else {
            here = -(double)(weight_of(r, t) * row[t]);
        }
        sum += here;
        if (r->loss.attrs->reduction == PLB_REDUCE_NONE) {
            ((float *)r->call->out[0].data)[first + j] = (float)here;
        }
    }
    return sum;
}

static void gradient_group(const class_run *r, const float *x, float *y, int64_t first, int64_t n) {
    const class_kernel *k = r->k;
    const int64_t classes = k->lines.extent;
    float max[PLB_LINES_ELEMENTS], sums[PLB_LINES_ELEMENTS];
    if (k->op == PLB_OP_cross_entropy_grad) exponentials(r, x, y, n, max, sums);
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = first + j, t = r->target[i];
        const bool counts = t != r->loss.attrs->ignore_index;
        float *row = y + j * classes;
        if (!counts || k->op == PLB_OP_nll_grad) memset(row, 0, (size_t)classes * sizeof *row);
        if (counts && k->op == PLB_OP_nll_grad) row[t] = -gradient_at(r, i) * weight_of(r, t);
        if (counts && k->op == PLB_OP_cross_entropy_grad) {
            cross_entropy_grad_at(r, row, sums[j], i, t);
        }
    }
}

static double run_group(const class_run *r, char *buffers, int64_t first, int64_t n) {
    const class_kernel *k = r->k;
    float *second = (float *)(buffers + k->rows_bytes);
    const float *x = NULL;
    if (k->scores >= 0) {
        x = plb_lines_get(&k->lines, 0, r->call->in[k->scores].data, first, n, (float *)buffers);
    }
    if (!is_gradient(k->op)) return loss_group(r, x, second, first, n);
    float *y = plb_lines_place(&k->lines, r->call->out[0].data, first, second);
    gradient_group(r, x, y, first, n);
    plb_lines_put(&k->lines, k->n_lines - 1, r->call->out[0].data, first, n, y);
    return 0;
}

static double run_positions(const class_run *r, int threads) {
    const class_kernel *k = r->k;
    double *sums = r->call->workspace, sum = 0;
    char *buffers = (char *)r->call->workspace + 64 * (size_t)threads;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(k->lines.count, i, threads);
        double part = 0;
        for (int64_t first = span.begin; first < span.end; first += k->lines.group) {
            int64_t n = span.end - first < k->lines.group ? span.end - first : k->lines.group;
            part += run_group(r, buffers + (size_t)i * 2 * k->rows_bytes, first, n);
        }
        sums[8 * i] = part;
    }
    for (int i = 0; i < threads; i++) sum += sums[8 * i];
    return sum;
}

static int threads_for(const class_kernel *k, int threads) {
    const bool scores = k->op == PLB_OP_cross_entropy || k->op == PLB_OP_cross_entropy_grad;
    return plb_worth_threads((scores ? 4 : 1) * k->lines.count * k->lines.extent, threads);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const class_kernel *k = state;
    const plb_loss_attrs *attrs = call->attrs;
    const plb_tensor *weight = &call->in[k->weight];
    class_run r = {.k = k, .call = call, .target = call->in[k->target].data};
    r.loss = (plb_class_loss){
        .attrs = attrs, .target = &call->in[k->target], .classes = k->lines.extent};
    if (call->n_in > k->weight && weight->data) {
        r.loss.weight = weight;
        r.weight = weight->data;
    }
    PLB_TRY(plb_class_begin(plb_op_of(k->op)->name, &r.loss));
    r.each = (float)(attrs->smoothing / (double)k->lines.extent);
    r.hard = (float)(1 - attrs->smoothing);
    for (int64_t c = 0; c < k->lines.extent; c++) r.weights += (double)weight_of(&r, c);
    double sum = k->lines.count ? run_positions(&r, threads_for(k, call->threads)) : 0;
    if (is_gradient(k->op) || attrs->reduction == PLB_REDUCE_NONE) return PLB_OK;
    if (attrs->reduction == PLB_REDUCE_MEAN) sum /= r.loss.total;
    ((float *)call->out[0].data)[0] = (float)sum;
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        const plb_tensor *t = &q->in[k];
        if (t->dtype == PLB_DTYPE_COUNT) continue;
        if (t->dtype != PLB_F32 && t->dtype != PLB_I64) return "f32 only";
        if (t->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(t)) return "plain only";
    }
    return q->out[0].layout.kind != PLB_LAYOUT_PLAIN ? "plain only" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "class loss has one variant, found %s", choice);
    class_kernel *k = plb_alloc(sizeof *k);
    if (!k) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const int dy = is_gradient(q->op);
    k->op = q->op;
    k->vec = plb_vec_of(plb_cpu_isa());
    k->scores = q->op == PLB_OP_nll_grad ? -1 : dy;
    k->target = q->op == PLB_OP_nll_grad ? 1 : dy + 1;
    k->weight = k->target + 1;
    const plb_tensor *operands[2];
    if (k->scores >= 0) operands[k->n_lines++] = &q->in[k->scores];
    if (dy) operands[k->n_lines++] = &q->out[0];
    k->lines = plb_line_set_of(operands, k->n_lines, 1);
    k->rows_bytes = plb_lines_bytes(&k->lines);
    const size_t threads = (size_t)threads_for(k, q->threads);
    const double count = (double)(k->lines.count * k->lines.extent);
    *out = (plb_launch){.state = k,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = threads * (64 + 2 * k->rows_bytes),
                        .flops = 4 * count,
                        .bytes = k->n_lines * count * sizeof(float)};
    return PLB_OK;
}

const plb_kernel plb_cpu_class_loss = {
    .name = "rows", .op = PLB_OP_cross_entropy, .refuse = refuse, .prepare = prepare};
