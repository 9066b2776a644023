// SPDX-License-Identifier: Apache-2.0
// M = V U for every position, and the fetching of what comes next while memory would be idle.
// Part of winograd_body.h.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_MULTIPLY_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_MULTIPLY_H

enum {
    LINE_FLOATS = 16,
    DEPTH = 4096 / (2 * LANES),                     // channels of U that fill 16 KB, half of L1
    WEIGHT_LINES = LANES * 2 * LANES / LINE_FLOATS, // lines of U in a vector of channels
};

typedef struct plb_weight_fetch {
    const float *next; // a panel of U that is needed soon
    int lines;         // of it to fetch for each vector of channels
} plb_weight_fetch;

// rows tiles x vectors of output channels, `depth` input channels, summed in runs: a run's sum is
// kept apart in registers and then added to the total, which bounds the rounding error.
PLB_INLINE void micro_kernel(const int rows, const int vectors, const float *v, const float *u,
                             float *m, int64_t depth, int64_t run, bool add,
                             plb_weight_fetch fetch) {
    for (int64_t begin = 0; begin < depth; begin += run, add = true) {
        int64_t steps = (depth - begin < run ? depth - begin : run) / LANES;
        vec sum[ROWS][2];
        for (int i = 0; i < rows; i++) {
            for (int h = 0; h < vectors; h++) sum[i][h] = vec_zero();
        }
        for (; steps--; v += ROWS * LANES, u += LANES * vectors * LANES) {
            for (int i = 0; i < fetch.lines; i++, fetch.next += LINE_FLOATS) {
                _mm_prefetch((const char *)fetch.next, _MM_HINT_T1);
            }
#pragma GCC unroll 16
            for (int c = 0; c < LANES; c++) {
                vec w[2];
                for (int h = 0; h < vectors; h++) w[h] = vec_load(u + (c * vectors + h) * LANES);
#pragma GCC unroll 16
                for (int i = 0; i < rows; i++) {
                    vec x = vec_all(v[i * LANES + c]);
                    for (int h = 0; h < vectors; h++) sum[i][h] = vec_fma(x, w[h], sum[i][h]);
                }
            }
        }
        for (int i = 0; i < rows; i++) {
            for (int h = 0; h < vectors; h++) {
                float *to = m + (i * vectors + h) * LANES;
                vec_store(to, add ? vec_add(sum[i][h], vec_load(to)) : sum[i][h]);
            }
        }
    }
}

PLB_INLINE void micro_kernel_of(int64_t rows, const int vectors, const float *v, const float *u,
                                float *m, int64_t depth, int64_t run, bool add,
                                plb_weight_fetch fetch) {
    switch (rows) {
#define PLB_ROWS(n) \
    case n: micro_kernel(n, vectors, v, u, m, depth, run, add, fetch); break;
        PLB_EACH_ROW_COUNT(PLB_ROWS)
#undef PLB_ROWS
    }
}

static void rows_wide(int64_t rows, const float *v, const float *u, float *m, int64_t depth,
                      int64_t run, bool add, plb_weight_fetch fetch) {
    micro_kernel_of(rows, 2, v, u, m, depth, run, add, fetch);
}

static void rows_narrow(int64_t rows, const float *v, const float *u, float *m, int64_t depth,
                        int64_t run, bool add, plb_weight_fetch fetch) {
    micro_kernel_of(rows, 1, v, u, m, depth, run, add, fetch);
}

// Lines of an NHWC tensor that are fetched in turn, an equal number in each of `steps` steps.
typedef struct plb_fetch_walk {
    const float *pixel;   // channel 0 of those to fetch
    int64_t channels;     // from one pixel to the next
    int64_t line, lines;  // of the pixel: next, all
    int64_t total, steps; // lines to fetch, and steps to do it in
    int64_t credit;       // lines that are due, times steps
    bool write;
} plb_fetch_walk;

// Channels c_begin .. c_end of the pixels under tiles first .. first + count, part i of n of them.
// Tiles are spread over the image evenly enough to count pixels by tiles.
static plb_fetch_walk walk_of(const plb_winograd_plan *plan, const float *data, int64_t pixels,
                              int64_t channels, int64_t first, int64_t count, int64_t c_begin,
                              int64_t c_end, int64_t i, int64_t n, int64_t steps) {
    int64_t per_image = plan->tiles_h * plan->tiles_w, begin = first * pixels / per_image;
    int64_t end = (first + count) * pixels / per_image;
    int64_t lines = (c_end - c_begin + LINE_FLOATS - 1) / LINE_FLOATS;
    int64_t all = (end - begin) * lines, at = all * i / n;
    return (plb_fetch_walk){.pixel = data + (begin + at / lines) * channels + c_begin,
                            .channels = channels,
                            .line = at % lines,
                            .lines = lines,
                            .total = all * (i + 1) / n - at,
                            .steps = steps};
}

static void walk(plb_fetch_walk *w) {
    for (w->credit += w->total; w->credit >= w->steps; w->credit -= w->steps) {
        const float *p = w->pixel + w->line * LINE_FLOATS;
        if (w->write) {
            __asm__ volatile("prefetchw %0" ::"m"(*p));
        } else {
            _mm_prefetch((const char *)p, _MM_HINT_T1);
        }
        if (++w->line == w->lines) w->line = 0, w->pixel += w->channels;
    }
}

// What a job's output transform writes and reads, and the input of the tiles that follow.
typedef struct plb_data_fetch {
    plb_fetch_walk out, residual, in;
} plb_data_fetch;

static plb_data_fetch data_fetch_of(const plb_winograd_plan *plan, const plb_winograd_job *job,
                                    int64_t steps) {
    const int64_t c_begin = job->panel_begin * 2 * LANES, c_stop = job->panel_end * 2 * LANES;
    const int64_t c_end = c_stop < plan->out_c ? c_stop : plan->out_c;
    const int64_t in_pixels = plan->in_h * plan->in_w, out_pixels = plan->out_h * plan->out_w;
    plb_data_fetch f = {.residual.steps = 1, .in.steps = 1}; // of no lines
    f.out = walk_of(plan, job->y, out_pixels, plan->out_c, job->first, job->count, c_begin, c_end,
                    0, 1, steps);
    f.out.write = true;
    if (job->residual && job->residual != job->y) {
        f.residual = f.out, f.residual.write = false;
        f.residual.pixel = job->residual + (f.out.pixel - job->y);
    }
    if (job->next_count) { // each chunk of output channels fetches its share
        int64_t chunks = (plan->panels + plan->chunk_panels - 1) / plan->chunk_panels;
        f.in = walk_of(plan, job->x, in_pixels, plan->in_c, job->next_first, job->next_count, 0,
                       plan->in_c, job->panel_begin / plan->chunk_panels, chunks, steps);
    }
    return f;
}

// One position and panel of channels, input channels c .. c + depth, all tiles of the block.
static void multiply_panel(const plb_winograd_plan *plan, const plb_winograd_job *job,
                           const float *v, const float *u, float *m, int64_t depth, bool add,
                           bool wide, const float *next) {
    const int64_t panels = (job->count + ROWS - 1) / ROWS, vectors = wide ? 2 : 1;
    plb_weight_fetch fetch = {next, (int)((WEIGHT_LINES + panels - 1) / panels)};
    int64_t fetched = 0;
    for (int64_t j = 0; j < panels; j++) {
        int64_t begin = job->count * j / panels, rows = job->count * (j + 1) / panels - begin;
        if (fetched >= WEIGHT_LINES) fetch.lines = 0;
        float *to = m + begin * vectors * LANES;
        if (wide) {
            rows_wide(rows, v, u, to, depth, plan->points.run, add, fetch);
        } else {
            rows_narrow(rows, v, u, to, depth, plan->points.run, add, fetch);
        }
        v += plan->in_c * ROWS;
        fetched += fetch.lines;
        fetch.next += fetch.lines * depth / LANES * LINE_FLOATS;
    }
}

static void multiply(const plb_winograd_plan *plan, const plb_winograd_job *job) {
    const int64_t positions = plan->edge * plan->edge, span = job->panel_end - job->panel_begin;
    plb_data_fetch fetch = data_fetch_of(plan, job, positions * span);
    for (int64_t at = 0; at < positions; at++) {
        for (int64_t c = 0; c < plan->in_c; c += DEPTH) {
            int64_t depth = plan->in_c - c < DEPTH ? plan->in_c - c : DEPTH;
            for (int64_t panel = job->panel_begin; panel < job->panel_end; panel++) {
                bool wide = plan->out_c - panel * 2 * LANES > LANES;
                int64_t row = (wide ? 2 : 1) * LANES;
                const float *u = job->packed + (panel * positions + at) * plan->u_stride + c * row;
                float *m = job->m + ((panel - job->panel_begin) * positions + at) * plan->m_stride;
                if (c == 0) walk(&fetch.out), walk(&fetch.residual), walk(&fetch.in);
                const float *next = panel + 1 < job->panel_end
                                        ? u + positions * plan->u_stride
                                        : job->packed +
                                              (job->panel_begin * positions + at) * plan->u_stride +
                                              (c + depth) * row;
                multiply_panel(plan, job, job->v + at * plan->v_stride + c * ROWS, u, m, depth,
                               c > 0, wide, next);
            }
        }
    }
}

#endif
