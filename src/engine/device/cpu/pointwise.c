// SPDX-License-Identifier: Apache-2.0
// One kernel for all pointwise ops and their fused chains. The nest of loops is cut into tiles of
// at most BLOCK elements, rows x columns of its two innermost axes; each instruction runs over a
// whole tile. Operands that lie in memory as the tile does are read where they are; others (a
// value for each channel, a scalar, another stride or dtype) are first brought into a block of
// their own, once for as many tiles as see the same.
//
// In-place safe: the last instruction alone may write to the output directly, everything else is
// stored when the tile is done, and an input that shares an output's memory lies exactly as it.
#include "engine/device/cpu/pointwise.h"
#include "base/core/alloc.h"
#include "base/core/status.h"

enum { BLOCK = 1024 };

typedef struct pointwise {
    plb_lane_program program;
    const plb_vec *vec;
    plb_nest nest;         // operands: outputs, then inputs; rank at least 2
    int64_t rows, columns; // of a tile
    int64_t row_tiles, column_tiles, tiles;
    int64_t count;
    size_t slot_bytes;
} pointwise;

// What a thread knows about its blocks.
typedef struct worker {
    const pointwise *s;
    const plb_call *call;
    char *blocks;
    void *values[PLB_FUSED_MAX_VALUES];
    int64_t kept[PLB_FUSED_MAX_IN]; // offset of what the input's block holds
    int64_t kept_rows[PLB_FUSED_MAX_IN], kept_columns[PLB_FUSED_MAX_IN]; // 0: it holds nothing
} worker;

typedef struct tile {
    int64_t outer, row, column; // where it begins
    int64_t rows, columns;
} tile;

static const char *refuse(const plb_query *q) {
    plb_lane_program program;
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    }
    for (int k = 0; k < q->n_out; k++) {
        if (q->out[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    }
    return plb_lane_compile(q, &program);
}

static int64_t offset_of(const pointwise *s, int k, const tile *t) {
    const int outer = s->nest.rank - 2;
    return plb_nest_offset(&s->nest, k, outer, t->outer) + t->row * s->nest.stride[k][outer] +
           t->column * s->nest.stride[k][outer + 1];
}

// Whether operand k lies in memory as the tile does.
static bool lies_as(const pointwise *s, int k, const tile *t) {
    const int64_t *stride = &s->nest.stride[k][s->nest.rank - 2];
    return (stride[1] == 1 || t->columns == 1) && (t->rows == 1 || stride[0] == t->columns);
}

static char *element(const plb_tensor *tensor, int64_t offset) {
    return (char *)tensor->data + offset * (int64_t)plb_dtype_size(tensor->dtype);
}

static void bring(worker *w, int k, const tile *t) {
    const pointwise *s = w->s;
    const plb_lane_program *p = &s->program;
    const plb_tensor *in = &w->call->in[k];
    const int operand = p->n_out + k;
    const int64_t offset = offset_of(s, operand, t);
    if (plb_lane_is_native(p->lane[k], p->dtype[k]) && lies_as(s, operand, t)) {
        w->values[k] = element(in, offset);
        return;
    }
    w->values[k] = w->blocks + (size_t)p->slot[k] * s->slot_bytes;
    const int64_t *stride = &s->nest.stride[operand][s->nest.rank - 2];
    bool repeats = stride[0] == 0 || (t->rows == 1 && w->kept_rows[k] == 1);
    if (repeats && w->kept[k] == offset && w->kept_rows[k] >= t->rows &&
        w->kept_columns[k] == t->columns) {
        return;
    }
    if (lies_as(s, operand, t)) {
        plb_lane_load(s->vec, p->lane[k], w->values[k], p->dtype[k], element(in, offset), 1,
                      t->rows * t->columns);
    } else {
        const int64_t row_bytes = t->columns * (int64_t)plb_lane_bytes(p->lane[k]);
        for (int64_t r = 0; r < t->rows; r++) {
            plb_lane_load(s->vec, p->lane[k], (char *)w->values[k] + r * row_bytes, p->dtype[k],
                          element(in, offset + r * stride[0]), stride[1], t->columns);
        }
    }
    w->kept[k] = offset, w->kept_rows[k] = t->rows, w->kept_columns[k] = t->columns;
}

// Output k's memory, when the last instruction may write there.
static void *direct(const worker *w, int k, const tile *t) {
    const plb_lane_program *p = &w->s->program;
    const int value = p->out[k];
    bool fits = value == p->n_in + p->n_instr - 1 &&
                plb_lane_is_native(p->lane[value], p->dtype[value]) && lies_as(w->s, k, t);
    return fits ? element(&w->call->out[k], offset_of(w->s, k, t)) : NULL;
}

static void store(const worker *w, int k, const tile *t) {
    const pointwise *s = w->s;
    const plb_lane_program *p = &s->program;
    const int value = p->out[k];
    const int64_t *stride = &s->nest.stride[k][s->nest.rank - 2];
    char *to = element(&w->call->out[k], offset_of(s, k, t));
    if (w->values[value] == to) return;
    if (lies_as(s, k, t)) {
        plb_lane_store(s->vec, p->lane[value], w->values[value], p->dtype[value], to, 1,
                       t->rows * t->columns);
        return;
    }
    const int64_t row_bytes = t->columns * (int64_t)plb_lane_bytes(p->lane[value]);
    const int64_t step = stride[0] * (int64_t)plb_dtype_size(p->dtype[value]);
    for (int64_t r = 0; r < t->rows; r++) {
        plb_lane_store(s->vec, p->lane[value], (char *)w->values[value] + r * row_bytes,
                       p->dtype[value], to + r * step, stride[1], t->columns);
    }
}

static void run_tile(worker *w, const tile *t) {
    const pointwise *s = w->s;
    const plb_lane_program *p = &s->program;
    for (int k = 0; k < p->n_in; k++) bring(w, k, t);
    for (int j = 0; j < p->n_instr; j++) {
        const int result = p->instr[j].result;
        w->values[result] = w->blocks + (size_t)p->slot[result] * s->slot_bytes;
        for (int k = 0; k < p->n_out && j == p->n_instr - 1; k++) {
            void *memory = direct(w, k, t);
            if (memory) w->values[result] = memory;
        }
        plb_lane_run(s->vec, &p->instr[j], w->values, t->rows * t->columns);
    }
    for (int k = 0; k < p->n_out; k++) store(w, k, t);
}

static void run_span(const pointwise *s, const plb_call *call, char *blocks, plb_span span) {
    worker w = {.s = s, .call = call, .blocks = blocks};
    const int64_t *dim = &s->nest.dim[s->nest.rank - 2];
    for (int64_t i = span.begin; i < span.end; i++) {
        int64_t rest = i / s->column_tiles;
        tile t = {.outer = rest / s->row_tiles,
                  .row = rest % s->row_tiles * s->rows,
                  .column = i % s->column_tiles * s->columns};
        t.rows = dim[0] - t.row < s->rows ? dim[0] - t.row : s->rows;
        t.columns = dim[1] - t.column < s->columns ? dim[1] - t.column : s->columns;
        run_tile(&w, &t);
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pointwise *s = state;
    if (s->count == 0) return PLB_OK;
    const int threads = plb_worth_threads(s->count, call->threads);
    const size_t bytes = (size_t)s->program.n_slots * s->slot_bytes;
    if (threads == 1) {
        run_span(s, call, call->workspace, (plb_span){0, s->tiles});
        return PLB_OK;
    }
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        run_span(s, call, (char *)call->workspace + (size_t)i * bytes,
                 plb_span_of(s->tiles, i, threads));
    }
    return PLB_OK;
}

// Long rows are cut evenly; short ones are taken together.
static void cut(pointwise *s) {
    const int64_t rows = s->nest.dim[s->nest.rank - 2], columns = s->nest.dim[s->nest.rank - 1];
    s->rows = 1, s->columns = columns;
    if (columns > BLOCK) {
        int64_t parts = (columns + BLOCK - 1) / BLOCK;
        s->columns = ((columns + parts - 1) / parts + 15) / 16 * 16;
    } else if (columns) {
        s->rows = BLOCK / columns < rows ? BLOCK / columns : rows;
    }
    if (s->count == 0) return;
    s->row_tiles = (rows + s->rows - 1) / s->rows;
    s->column_tiles = (columns + s->columns - 1) / s->columns;
    s->tiles = s->count / (rows * columns) * s->row_tiles * s->column_tiles;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "pointwise has one variant, found %s", choice);
    pointwise *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const char *reason = plb_lane_compile(q, &s->program);
    if (reason) {
        plb_free(s);
        return plb_fail(PLB_EUNSUPPORTED, "%s", reason);
    }
    s->vec = plb_vec_of(plb_cpu_isa());
    s->nest = plb_nest_of(&q->out[0].shape);
    for (int k = 0; k < q->n_out; k++) plb_nest_add(&s->nest, &q->out[k]);
    for (int k = 0; k < q->n_in; k++) plb_nest_add(&s->nest, &q->in[k]);
    plb_nest_simplify(&s->nest, 2);
    s->count = plb_nest_count(&s->nest);
    s->slot_bytes = BLOCK * (s->program.wide ? sizeof(double) : sizeof(float));
    cut(s);
    const int threads = plb_worth_threads(s->count, q->threads);
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes =
                            (size_t)threads * (size_t)s->program.n_slots * s->slot_bytes,
                        .flops = (double)s->count * s->program.n_instr};
    for (int k = 0; k < q->n_in; k++) {
        out->bytes +=
            (double)plb_shape_count(&q->in[k].shape) * (double)plb_dtype_size(q->in[k].dtype);
    }
    for (int k = 0; k < q->n_out; k++) {
        out->bytes += (double)s->count * (double)plb_dtype_size(q->out[k].dtype);
    }
    return PLB_OK;
}

const plb_kernel plb_cpu_pointwise = {
    .name = "pointwise", .op = PLB_OP_fused, .refuse = refuse, .prepare = prepare};
