// SPDX-License-Identifier: Apache-2.0
// Reductions of f32 over any axes. The axes stand in the order in which the operand lies in
// memory; its innermost one decides. Where that is reduced, rows are folded to one number each;
// where it is kept, rows are folded onto each other, column by column (the gradient of a bias over
// channels-last pixels). Accumulators are f64, filled from short chains of f32.
//
// A job is one output element, or a run of columns. Many jobs are shared among the threads; of few
// jobs, each is cut into units that the threads share, and partial results are joined in order.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

enum { COLUMNS = 512, PIECE = 8192, ROW_PIECE = 64 };

typedef enum fold {
    FOLD_SUM,
    FOLD_ABS,
    FOLD_SQUARES,
    FOLD_PRODUCT,
    FOLD_MAX,
    FOLD_MIN,
    FOLD_EXP
} fold;

typedef struct reduction {
    const plb_vec *vec;
    plb_op_id op;
    fold fold;
    bool columns;            // the innermost axis is kept
    plb_nest kept, over;     // operands: x, y; over: the reduced axes without the one of a row
    int64_t row, row_stride; // extent of the reduced axis that a unit walks, its stride in x
    int64_t width, step;     // columns: of the innermost axis, its stride in y
    int64_t pieces, chunks;  // of a row; of the columns
    int64_t jobs, units;     // units of a job
    int64_t cells;           // of an output element
    double correction;
} reduction;

static double first_of(fold f) {
    return f == FOLD_PRODUCT ? 1 : f == FOLD_MAX ? -INFINITY : f == FOLD_MIN ? INFINITY : 0;
}

static double join(fold f, double a, double b) {
    switch (f) {
    case FOLD_PRODUCT: return a * b;
    case FOLD_MAX: return isnan(a) || a > b ? a : b;
    case FOLD_MIN: return isnan(a) || a < b ? a : b;
    default: return a + b;
    }
}

static double sum_exp(const reduction *r, const float *a, float shift, int64_t n) {
    enum { N = 512 };
    float exps[N];
    double sum = 0;
    for (int64_t i = 0; i < n; i += N) {
        sum += (double)r->vec->exp_shifted(exps, a + i, shift, n - i < N ? n - i : N);
    }
    return sum;
}

// n columns, at most COLUMNS.
static void columns_exp(const reduction *r, double *acc, const double *shift, const float *a,
                        int64_t rows, int64_t n) {
    float exps[COLUMNS];
    for (int64_t i = 0; i < rows; i++, a += r->row_stride) {
        for (int64_t j = 0; j < n; j++) exps[j] = (float)((double)a[j] - shift[j]);
        r->vec->op[PLB_OP_exp](&(plb_vec_args){.a = exps, .b = exps, .c = exps, .y = exps, .n = n});
        r->vec->columns_sum(acc, exps, 1, n, n);
    }
}

static double fold_row(const reduction *r, fold f, const float *a, double shift, int64_t n) {
    switch (f) {
    case FOLD_SUM: return r->vec->sum(a, n);
    case FOLD_ABS: return r->vec->sum_abs(a, n);
    case FOLD_SQUARES: return r->vec->sum_squares(a, shift, n);
    case FOLD_PRODUCT: return r->vec->product(a, n);
    case FOLD_MAX: return r->vec->has_nan(a, n) ? (double)NAN : (double)r->vec->max(a, n);
    case FOLD_EXP: return sum_exp(r, a, (float)shift, n);
    default: return r->vec->has_nan(a, n) ? (double)NAN : (double)r->vec->min(a, n);
    }
}

// A row whose elements do not lie side by side goes through a buffer.
static double fold_strided(const reduction *r, fold f, const float *a, double shift, int64_t n) {
    enum { N = 512 };
    float buffer[N];
    double acc = first_of(f);
    if (r->row_stride == 1) return fold_row(r, f, a, shift, n);
    for (int64_t i = 0; i < n; i += N) {
        const int64_t m = n - i < N ? n - i : N;
        for (int64_t j = 0; j < m; j++) buffer[j] = a[(i + j) * r->row_stride];
        acc = join(f, acc, fold_row(r, f, buffer, shift, m));
    }
    return acc;
}

static void fold_columns(const reduction *r, fold f, double *acc, const double *shift,
                         const float *a, int64_t rows, int64_t n) {
    switch (f) {
    case FOLD_SUM: r->vec->columns_sum(acc, a, rows, r->row_stride, n); break;
    case FOLD_ABS: r->vec->columns_abs(acc, a, rows, r->row_stride, n); break;
    case FOLD_SQUARES: r->vec->columns_squares(acc, shift, a, rows, r->row_stride, n); break;
    case FOLD_PRODUCT: r->vec->columns_product(acc, a, rows, r->row_stride, n); break;
    case FOLD_MAX: r->vec->columns_max(acc, a, rows, r->row_stride, n); break;
    case FOLD_MIN: r->vec->columns_min(acc, a, rows, r->row_stride, n); break;
    case FOLD_EXP: columns_exp(r, acc, shift, a, rows, n); break;
    }
}

static int64_t columns_of(const reduction *r, int64_t job) {
    if (!r->columns) return 1;
    const int64_t begin = job % r->chunks * COLUMNS;
    return r->width - begin < COLUMNS ? r->width - begin : COLUMNS;
}

// Folds some units of a job onto acc[columns]; `shift` as FOLD_SQUARES and FOLD_EXP want it.
static void fold_units(const reduction *r, fold f, const float *x, int64_t job, plb_span units,
                       const double *shift, double *acc) {
    const int64_t place = job / r->chunks, column = job % r->chunks * COLUMNS;
    const int64_t piece = r->columns ? ROW_PIECE : PIECE, n = columns_of(r, job);
    x += plb_nest_offset(&r->kept, 0, r->kept.rank, place) + (r->columns ? column : 0);
    for (int64_t u = units.begin; u < units.end; u++) {
        const int64_t i = u % r->pieces * piece;
        const int64_t rows = r->row - i < piece ? r->row - i : piece;
        const float *a =
            x + plb_nest_offset(&r->over, 0, r->over.rank, u / r->pieces) + i * r->row_stride;
        if (r->columns) {
            fold_columns(r, f, acc, shift, a, rows, n);
        } else {
            acc[0] = join(f, acc[0], fold_strided(r, f, a, shift[0], rows));
        }
    }
}

static void start(fold f, double *acc, int64_t n) {
    for (int64_t j = 0; j < n; j++) acc[j] = first_of(f);
}

static double finish(const reduction *r, double acc) {
    const double n = (double)r->cells, left = n - r->correction;
    switch (r->op) {
    case PLB_OP_reduce_mean: return acc / n;
    case PLB_OP_reduce_var: return acc / (left > 0 ? left : 0);
    case PLB_OP_reduce_norm: return r->fold == FOLD_SQUARES ? sqrt(acc) : acc;
    default: return acc;
    }
}

static void put(const reduction *r, float *y, int64_t job, const double *acc) {
    const int64_t n = columns_of(r, job);
    y += plb_nest_offset(&r->kept, 1, r->kept.rank, job / r->chunks) +
         job % r->chunks * COLUMNS * r->step;
    for (int64_t j = 0; j < n; j++) y[j * r->step] = (float)finish(r, acc[j]);
}

// A variance and a logsumexp take two folds: the second is around what the first found.
static bool folds_twice(const reduction *r) {
    return r->op == PLB_OP_reduce_var || r->op == PLB_OP_reduce_logsumexp;
}

static fold first_fold(const reduction *r) {
    return r->op == PLB_OP_reduce_var ? FOLD_SUM : FOLD_MAX;
}

static double shift_from(const reduction *r, double first) {
    if (r->op == PLB_OP_reduce_var) return first / (double)r->cells;
    return isinf(first) ? 0 : first;
}

// What the second fold leaves to do with its shift.
static void shift_back(const reduction *r, double *acc, const double *shift, int64_t n) {
    if (r->op != PLB_OP_reduce_logsumexp) return;
    for (int64_t j = 0; j < n; j++) acc[j] = log(acc[j]) + shift[j];
}

static void run_job(const reduction *r, const float *x, float *y, int64_t job) {
    double acc[COLUMNS], shift[COLUMNS] = {0};
    const int64_t n = columns_of(r, job);
    const plb_span all = {0, r->units};
    if (folds_twice(r)) {
        start(first_fold(r), acc, n);
        fold_units(r, first_fold(r), x, job, all, shift, acc);
        for (int64_t j = 0; j < n; j++) shift[j] = shift_from(r, acc[j]);
    }
    start(r->fold, acc, n);
    fold_units(r, r->fold, x, job, all, shift, acc);
    shift_back(r, acc, shift, n);
    put(r, y, job, acc);
}

// One fold of one job by several threads; parts[threads][COLUMNS], the result in the first.
static void share(const reduction *r, fold f, const float *x, int64_t job, int threads,
                  const double *shift, double *parts) {
    const int64_t n = columns_of(r, job);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        double *acc = parts + (size_t)i * COLUMNS;
        start(f, acc, n);
        fold_units(r, f, x, job, plb_span_of(r->units, i, threads), shift, acc);
    }
    for (int i = 1; i < threads; i++) {
        for (int64_t j = 0; j < n; j++) {
            parts[j] = join(f, parts[j], parts[(size_t)i * COLUMNS + (size_t)j]);
        }
    }
}

static void run_shared(const reduction *r, const float *x, float *y, int64_t job, int threads,
                       double *parts) {
    double shift[COLUMNS] = {0};
    const int64_t n = columns_of(r, job);
    if (folds_twice(r)) {
        share(r, first_fold(r), x, job, threads, shift, parts);
        for (int64_t j = 0; j < n; j++) shift[j] = shift_from(r, parts[j]);
    }
    share(r, r->fold, x, job, threads, shift, parts);
    shift_back(r, parts, shift, n);
    put(r, y, job, parts);
}

// Whether all threads do one job after the other: where a job keeps more of them busy than there
// are jobs, or keeps all busy and the last jobs would leave some without one.
static bool shares_jobs(const reduction *r, int of_a_job, int threads) {
    if (of_a_job < 2 || r->units <= r->jobs) return false;
    return r->jobs < of_a_job || (of_a_job == threads && r->jobs < 4 * threads);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const reduction *r = state;
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    const int64_t count = plb_shape_count(&call->in[0].shape);
    const int threads = plb_worth_threads(count, call->threads);
    const int of_a_job = plb_worth_threads(count / r->jobs, threads);
    if (shares_jobs(r, of_a_job, threads)) {
        for (int64_t job = 0; job < r->jobs; job++) {
            run_shared(r, x, y, job, of_a_job, call->workspace);
        }
        return PLB_OK;
    }
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(r->jobs, i, threads);
        for (int64_t job = span.begin; job < span.end; job++) run_job(r, x, y, job);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the kernel
static int64_t axes_of(const plb_query *q) {
    const int64_t axes = ((const plb_reduce_attrs *)q->attrs)->axes;
    return axes ? axes : ((int64_t)1 << q->in[0].shape.rank) - 1;
}

// x and, with stride 0 along reduced axes, y.
static plb_nest nest_of(const plb_query *q) {
    const plb_reduce_attrs *attrs = q->attrs;
    const plb_tensor *x = &q->in[0];
    const int64_t axes = axes_of(q);
    plb_tensor y = q->out[0];
    y.shape = x->shape;
    for (int i = 0, k = 0; i < x->shape.rank; i++) {
        const bool reduced = axes >> i & 1;
        y.stride[i] = reduced ? 0 : q->out[0].stride[k];
        k += !reduced || attrs->keep;
    }
    plb_nest nest = plb_nest_of(&x->shape);
    plb_nest_add(&nest, x);
    plb_nest_add(&nest, &y);
    plb_nest_simplify(&nest, 1);
    return nest;
}

static bool reduced(const plb_nest *nest, int axis) {
    return nest->stride[1][axis] == 0;
}

static void append_axis(plb_nest *to, const plb_nest *from, int axis) {
    to->dim[to->rank] = from->dim[axis];
    for (int k = 0; k < from->n; k++) to->stride[k][to->rank] = from->stride[k][axis];
    to->rank++;
}

static void cut(reduction *r, const plb_nest *nest) {
    const int inner = nest->rank - 1;
    int row = inner;
    while (row >= 0 && !reduced(nest, row)) row--;
    r->columns = !reduced(nest, inner);
    r->kept.n = r->over.n = 2;
    r->row = row >= 0 ? nest->dim[row] : 1;
    r->row_stride = row >= 0 ? nest->stride[0][row] : 1;
    r->width = r->step = r->chunks = 1;
    for (int i = 0; i < nest->rank; i++) {
        if (i == row || (i == inner && r->columns)) continue;
        append_axis(reduced(nest, i) ? &r->over : &r->kept, nest, i);
    }
    if (r->columns) {
        r->width = nest->dim[inner], r->step = nest->stride[1][inner];
        r->chunks = (r->width + COLUMNS - 1) / COLUMNS;
    }
    const int64_t piece = r->columns ? ROW_PIECE : PIECE;
    r->pieces = (r->row + piece - 1) / piece;
    r->units = plb_nest_count(&r->over) * r->pieces;
    r->jobs = plb_nest_count(&r->kept) * r->chunks;
    r->cells = plb_nest_count(&r->over) * r->row;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *x = &q->in[0];
    const double p = ((const plb_reduce_attrs *)q->attrs)->p;
    if (x->dtype != PLB_F32) return "f32 only";
    if (x->layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    if (q->out[0].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    if (plb_shape_count(&x->shape) == 0) return "nothing to reduce";
    if (q->op == PLB_OP_reduce_norm && p != 1 && p != 2) return "norms of 1 and 2 only";
    const plb_nest nest = nest_of(q);
    const int inner = nest.rank - 1;
    bool gaps = nest.dim[inner] > 1 && !reduced(&nest, inner) && nest.stride[0][inner] != 1;
    return gaps ? "columns have gaps" : NULL;
}

static fold fold_of(const plb_query *q) {
    switch (q->op) {
    case PLB_OP_reduce_prod: return FOLD_PRODUCT;
    case PLB_OP_reduce_max: return FOLD_MAX;
    case PLB_OP_reduce_min: return FOLD_MIN;
    case PLB_OP_reduce_var: return FOLD_SQUARES;
    case PLB_OP_reduce_logsumexp: return FOLD_EXP;
    case PLB_OP_reduce_norm:
        return ((const plb_reduce_attrs *)q->attrs)->p == 1 ? FOLD_ABS : FOLD_SQUARES;
    default: return FOLD_SUM;
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "reduce has one variant, found %s", choice);
    reduction *r = plb_alloc(sizeof *r);
    if (!r) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const plb_nest nest = nest_of(q);
    r->vec = plb_vec_of(plb_cpu_isa());
    r->op = q->op, r->fold = fold_of(q);
    r->correction = ((const plb_reduce_attrs *)q->attrs)->p;
    cut(r, &nest);
    const int64_t count = plb_shape_count(&q->in[0].shape);
    const size_t threads = (size_t)plb_worth_threads(count, q->threads);
    *out = (plb_launch){.state = r,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = threads * COLUMNS * sizeof(double),
                        .flops = (double)count,
                        .bytes = (double)count * sizeof(float)};
    return PLB_OK;
}

const plb_kernel plb_cpu_reduce = {
    .name = "reduce", .op = PLB_OP_reduce_sum, .refuse = refuse, .prepare = prepare};
