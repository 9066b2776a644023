// SPDX-License-Identifier: Apache-2.0
// x to V = B^T x B and M to y = A^T M A, a vector of channels of one tile at a time. Part of
// winograd_body.h.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_TILES_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_TILES_H

typedef struct plb_tile_factors {
    vec pair[PAIRS][2], all[PAIRS], power[MAX_M][PAIRS];
} plb_tile_factors;

PLB_INLINE plb_tile_factors tile_factors_of(const plb_winograd_points *points) {
    plb_tile_factors f;
    for (int i = 0; i < PAIRS; i++) {
        for (int d = 0; d < 2; d++) f.pair[i][d] = vec_all(points->input_pair[i][d]);
        f.all[i] = vec_all(points->input_all[i]);
        for (int e = 0; e < MAX_M; e++) f.power[e][i] = vec_all(points->power[e][i]);
    }
    return f;
}

// Where tile t lies: image, and row and column of its first output.
typedef struct plb_tile_place {
    int64_t image, row, column;
} plb_tile_place;

PLB_INLINE plb_tile_place place_of(const plb_winograd_plan *plan, int m, int64_t t) {
    int64_t per_image = plan->tiles_h * plan->tiles_w, in_image = t % per_image;
    return (plb_tile_place){t / per_image, in_image / plan->tiles_w * m,
                            in_image % plan->tiles_w * m};
}

// o = B^T d, in the order 0, +p, -p, ..., infinity. The row of +-p_i is the polynomial
// x^zero (x +- p_i) prod over j != i of (x^2 - p_j^2), of its coefficients.
PLB_INLINE void input_1d(int pairs, int zero, const plb_tile_factors *f, const vec *d, vec *o) {
    vec low = d[2 * pairs], high = d[2 * pairs + zero];
    for (int j = 0; j < pairs; j++) {
        low = vec_fma(f->all[j], d[2 * j], low);
        high = vec_fma(f->all[j], d[2 * j + zero], high);
    }
    if (zero) o[0] = low;
    o[2 * pairs + zero] = high;
    for (int i = 0; i < pairs; i++) {
        vec even = d[2 * pairs - 2 + zero], odd = d[2 * pairs - 1 + zero];
        for (int j = 0; j < pairs - 1; j++) {
            even = vec_fma(f->pair[i][j], d[2 * j + zero], even);
            odd = vec_fma(f->pair[i][j], d[2 * j + 1 + zero], odd);
        }
        o[zero + 2 * i] = vec_fma(f->power[1][i], even, odd);
        o[zero + 2 * i + 1] = vec_fnma(f->power[1][i], even, odd);
    }
}

// o = A^T d: output e is the sum of p^e d over the points; infinity counts for the last alone.
PLB_INLINE void output_1d(int pairs, int zero, const plb_tile_factors *f, const vec *d, vec *o) {
    const int m = 2 * pairs + zero - 1;
    vec sum[2][PAIRS];
    for (int i = 0; i < pairs; i++) {
        sum[0][i] = vec_add(d[zero + 2 * i], d[zero + 2 * i + 1]);
        sum[1][i] = vec_sub(d[zero + 2 * i], d[zero + 2 * i + 1]);
    }
    for (int e = 0; e < m; e++) {
        vec y = e == m - 1 ? d[2 * pairs + zero] : e == 0 && zero ? d[0] : vec_zero();
        for (int i = 0; i < pairs; i++) {
            y = e ? vec_fma(f->power[e][i], sum[e & 1][i], y) : vec_add(y, sum[0][i]);
        }
        o[e] = y;
    }
}

// The part of a tile that lies inside its input: rows and columns begin .. end.
typedef struct plb_tile_inside {
    int row_begin, row_end, column_begin, column_end;
} plb_tile_inside;

PLB_INLINE plb_tile_inside inside_of(const plb_winograd_plan *plan, int edge, int64_t row,
                                     int64_t column) {
    int64_t rows = plan->in_h - row, columns = plan->in_w - column;
    return (plb_tile_inside){row < 0 ? (int)-row : 0, rows < edge ? (int)rows : edge,
                             column < 0 ? (int)-column : 0, columns < edge ? (int)columns : edge};
}

// One vector of one tile. `whole`: no part of it is padding.
PLB_INLINE void input_tile(int pairs, int zero, bool whole, const plb_tile_factors *f,
                           const float *x, int64_t row_step, int64_t column_step,
                           plb_tile_inside in, float *v, size_t stride) {
    const int edge = 2 * pairs + zero + 1;
    vec t[MAX_EDGE][MAX_EDGE], d[MAX_EDGE], o[MAX_EDGE];
    for (int c = 0; c < edge; c++) {
        if (!whole && (c < in.column_begin || c >= in.column_end)) {
            for (int r = 0; r < edge; r++) t[r][c] = vec_zero();
            continue;
        }
        for (int r = 0; r < edge; r++) {
            bool read = whole || (r >= in.row_begin && r < in.row_end);
            d[r] = read ? vec_load(x + r * row_step + c * column_step) : vec_zero();
        }
        input_1d(pairs, zero, f, d, o);
        for (int r = 0; r < edge; r++) t[r][c] = o[r];
    }
    for (int r = 0; r < edge; r++) {
        input_1d(pairs, zero, f, t[r], o);
        for (int c = 0; c < edge; c++) vec_store(v + (r * edge + c) * stride, o[c]);
    }
}

// A panel of tiles, channels c_begin .. c_end, in strips of a cache line.
PLB_INLINE void input_panel(int pairs, int zero, const plb_winograd_plan *plan,
                            const plb_tile_factors *f, const float *x, int64_t first, int64_t count,
                            int64_t c_begin, int64_t c_end, float *v) {
    enum { LINE = 16 };
    const int edge = 2 * pairs + zero + 1;
    const int64_t column_step = plan->in_c, row_step = plan->in_w * column_step;
    const float *from[ROWS];
    plb_tile_inside in[ROWS];
    for (int64_t i = 0; i < count; i++) {
        plb_tile_place at = place_of(plan, edge - 2, first + i);
        int64_t row = at.row - plan->pad, column = at.column - plan->pad;
        in[i] = inside_of(plan, edge, row, column);
        from[i] = x + (at.image * plan->in_h + row) * row_step + column * column_step;
    }
    for (int64_t line = c_begin; line < c_end; line += LINE) {
        int64_t line_end = line + LINE < c_end ? line + LINE : c_end;
        for (int64_t i = 0; i < count; i++) {
            bool whole = in[i].row_begin == 0 && in[i].row_end == edge && in[i].column_begin == 0 &&
                         in[i].column_end == edge;
            for (int64_t c = line; c < line_end; c += LANES) {
                float *to = v + c * ROWS + i * LANES;
                if (whole) {
                    input_tile(pairs, zero, true, f, from[i] + c, row_step, column_step, in[i], to,
                               plan->v_stride);
                } else {
                    input_tile(pairs, zero, false, f, from[i] + c, row_step, column_step, in[i], to,
                               plan->v_stride);
                }
            }
        }
    }
}

PLB_INLINE void input_variant(int pairs, int zero, const plb_winograd_plan *plan,
                              const plb_winograd_job *job, int64_t c_begin, int64_t c_end) {
    const plb_tile_factors f = tile_factors_of(&plan->points);
    const int64_t panels = (job->count + ROWS - 1) / ROWS;
    for (int64_t j = 0; j < panels; j++) { // all about equally full
        int64_t begin = job->count * j / panels, end = job->count * (j + 1) / panels;
        input_panel(pairs, zero, plan, &f, job->x, job->first + begin, end - begin, c_begin, c_end,
                    job->v + j * plan->in_c * ROWS);
    }
}

static void input(const plb_winograd_plan *plan, const plb_winograd_job *job, int64_t c_begin,
                  int64_t c_end) {
    PLB_EACH_VARIANT(plan, input_variant, job, c_begin, c_end)
}

typedef struct plb_tile_epilogue {
    vec low, high;
    const float *residual; // NULL, or of the same place as the output
} plb_tile_epilogue;

// One vector of one tile: `rows` x `columns` of its outputs lie inside the image.
PLB_INLINE void output_tile(int pairs, int zero, const plb_tile_factors *f, const float *products,
                            size_t stride, vec bias, const plb_tile_epilogue *end, float *y,
                            int64_t row_step, int64_t column_step, int rows, int columns) {
    const int edge = 2 * pairs + zero + 1, m = edge - 2;
    vec t[MAX_M][MAX_EDGE], d[MAX_EDGE], o[MAX_M];
    for (int c = 0; c < edge; c++) {
        for (int r = 0; r < edge; r++) d[r] = vec_load(products + (r * edge + c) * stride);
        output_1d(pairs, zero, f, d, o);
        for (int r = 0; r < m; r++) t[r][c] = o[r];
    }
    for (int r = 0; r < rows; r++) {
        output_1d(pairs, zero, f, t[r], o);
        for (int c = 0; c < m; c++) {
            if (c >= columns) break;
            int64_t at = r * row_step + c * column_step;
            vec out = vec_add(o[c], bias);
            if (end->residual) out = vec_add(out, vec_load(end->residual + at));
            vec_store(y + at, vec_min(end->high, vec_max(end->low, out)));
        }
    }
}

PLB_INLINE void output_variant(int pairs, int zero, const plb_winograd_plan *plan,
                               const plb_winograd_job *job, int64_t panel) {
    const int edge = 2 * pairs + zero + 1, m = edge - 2;
    const int64_t column_step = plan->out_c, row_step = plan->out_w * column_step;
    const int64_t k = panel * 2 * LANES, vectors = plan->out_c - k > LANES ? 2 : 1;
    const plb_tile_factors f = tile_factors_of(&plan->points);
    const float *products = job->m + (panel - job->panel_begin) * edge * edge * plan->m_stride;
    vec bias[2] = {vec_zero(), vec_zero()};
    plb_tile_epilogue end = {vec_all(job->low), vec_all(job->high), NULL};
    for (int64_t h = 0; job->bias && h < vectors; h++)
        bias[h] = vec_load(job->bias + k + h * LANES);
    for (int64_t i = 0; i < job->count; i++) {
        plb_tile_place at = place_of(plan, m, job->first + i);
        int64_t rows = plan->out_h - at.row, columns = plan->out_w - at.column;
        int64_t offset = (at.image * plan->out_h + at.row) * row_step + at.column * column_step + k;
        for (int64_t h = 0; h < vectors; h++) {
            if (job->residual) end.residual = job->residual + offset + h * LANES;
            output_tile(pairs, zero, &f, products + (i * vectors + h) * LANES, plan->m_stride,
                        bias[h], &end, job->y + offset + h * LANES, row_step, column_step,
                        rows < m ? (int)rows : m, columns < m ? (int)columns : m);
        }
    }
}

static void output(const plb_winograd_plan *plan, const plb_winograd_job *job) {
    for (int64_t panel = job->panel_begin; panel < job->panel_end; panel++) {
        PLB_EACH_VARIANT(plan, output_variant, job, panel)
    }
}

#endif
