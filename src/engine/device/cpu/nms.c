// SPDX-License-Identifier: Apache-2.0
// nms of plain f32. The candidates of a class are sorted by score once; then one is taken after the
// other, unless a box that was taken covers it. Classes are shared out among threads, each with its
// own part of the rows; in the end the parts are put together.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/order.h"
#include "plumb/ops.h"

typedef struct box {
    double low[2], high[2], area;
} box;

typedef struct nms {
    plb_nms_attrs attrs;
    int64_t batches, classes, boxes, most; // most: rows of a class
    size_t thread_bytes;
} nms;

// What a thread needs: its candidates, and the boxes that it has taken.
typedef struct worker {
    plb_entry *entries, *other;
    box *taken;
} worker;

static worker worker_of(const nms *s, void *workspace, int thread) {
    char *memory = (char *)workspace + (size_t)thread * s->thread_bytes;
    worker w = {.entries = (plb_entry *)(void *)memory};
    w.other = w.entries + s->boxes;
    w.taken = (box *)(void *)(w.other + s->boxes);
    return w;
}

// As fmax and fmin: a number wins over a NaN.
static double larger(double a, double b) {
    return a > b || b != b ? a : b;
}

static double smaller(double a, double b) {
    return a < b || b != b ? a : b;
}

static double clipped_area(const double low[2], const double high[2]) {
    return larger(high[0] - low[0], 0) * larger(high[1] - low[1], 0);
}

static box box_of(const nms *s, const float *v) {
    box b;
    for (int k = 0; k < 2; k++) {
        const double x = (double)v[k], y = (double)v[2 + k];
        b.low[k] = s->attrs.centred ? x - y / 2 : smaller(x, y);
        b.high[k] = s->attrs.centred ? x + y / 2 : larger(x, y);
    }
    b.area = clipped_area(b.low, b.high);
    return b;
}

static bool covers(const nms *s, const box *a, const box *b) {
    double low[2], high[2];
    for (int k = 0; k < 2; k++) {
        low[k] = larger(a->low[k], b->low[k]);
        high[k] = smaller(a->high[k], b->high[k]);
    }
    const double shared = clipped_area(low, high), all = a->area + b->area - shared;
    return (all > 0 ? shared / all : 0) > s->attrs.most_overlap;
}

// Those good enough, the best first; of equals the first.
static plb_entry *candidates(const nms *s, const worker *w, const float *scores, int64_t *n) {
    *n = 0;
    for (int64_t i = 0; i < s->boxes; i++) {
        if (!((double)scores[i] > s->attrs.least_score)) continue;
        w->entries[(*n)++] = (plb_entry){~plb_key_of_f32(scores[i]), i};
    }
    return plb_order_sort(w->entries, w->other, *n);
}

// Writes the rows of one class; returns how many.
static int64_t pick(const nms *s, const worker *w, const plb_call *call, int64_t index,
                    int64_t *rows) {
    const int64_t batch = index / s->classes;
    const float *boxes = (const float *)call->in[0].data + batch * s->boxes * 4;
    int64_t n, found = 0;
    const plb_entry *e = candidates(s, w, (const float *)call->in[1].data + index * s->boxes, &n);
    for (int64_t i = 0; i < n && found < s->most; i++) {
        const box b = box_of(s, boxes + e[i].at * 4);
        bool covered = false;
        for (int64_t k = 0; k < found && !covered; k++) covered = covers(s, &w->taken[k], &b);
        if (covered) continue;
        w->taken[found] = b;
        rows[3 * found] = batch, rows[3 * found + 1] = index % s->classes;
        rows[3 * found + 2] = e[i].at;
        found++;
    }
    if (found < s->most) rows[3 * found] = -1; // ends the part
    return found;
}

// Moves the parts of the rows together; what is left is zero.
static int64_t close_up(const nms *s, int64_t *rows) {
    int64_t found = 0;
    for (int64_t i = 0; i < s->batches * s->classes; i++) {
        const int64_t *part = rows + 3 * i * s->most;
        for (int64_t k = 0; k < s->most && part[3 * k] >= 0; k++, found++) {
            memmove(rows + 3 * found, part + 3 * k, 3 * sizeof *rows);
        }
    }
    const int64_t all = s->batches * s->classes * s->most;
    if (found < all) memset(rows + 3 * found, 0, (size_t)(all - found) * 3 * sizeof *rows);
    return found;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const nms *s = state;
    const int64_t classes = s->batches * s->classes;
    int64_t *rows = call->out[0].data;
    int threads = plb_worth_threads(16 * classes * s->boxes, call->threads);
    if (threads > classes) threads = classes ? (int)classes : 1;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        const worker w = worker_of(s, call->workspace, t);
        const plb_span span = plb_span_of(s->most ? classes : 0, t, threads);
        for (int64_t i = span.begin; i < span.end; i++) {
            pick(s, &w, call, i, rows + 3 * i * s->most);
        }
    }
    *(int64_t *)call->out[1].data = close_up(s, rows);
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *operands[] = {&q->in[0], &q->in[1], &q->out[0]};
    if (q->in[0].dtype != PLB_F32) return "f32 only";
    for (int k = 0; k < 3; k++) {
        if (operands[k]->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(operands[k])) {
            return "plain only";
        }
    }
    return NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "nms has one variant, found %s", choice);
    const plb_shape *scores = &q->in[1].shape, *rows = &q->out[0].shape;
    nms *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (nms){.attrs = *(const plb_nms_attrs *)q->attrs,
               .batches = scores->dim[0],
               .classes = scores->dim[1],
               .boxes = scores->dim[2]};
    const int64_t classes = s->batches * s->classes;
    s->most = classes ? rows->dim[0] / classes : 0;
    s->thread_bytes = (size_t)s->boxes * 2 * sizeof(plb_entry) + (size_t)s->most * sizeof(box);
    int64_t threads = classes < q->threads ? classes : q->threads;
    if (threads < 1) threads = 1;
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = (size_t)threads * s->thread_bytes,
                        .bytes = 4.0 * (double)(classes * s->boxes + s->batches * s->boxes * 4) +
                                 24.0 * (double)rows->dim[0]};
    return PLB_OK;
}

const plb_kernel plb_cpu_nms = {
    .name = "by score", .op = PLB_OP_nms, .refuse = refuse, .prepare = prepare};
