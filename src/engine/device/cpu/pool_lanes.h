// SPDX-License-Identifier: Apache-2.0
// Included by pool_rows_body.h for each width, with LANES, the number of channels that are worked
// on at once, and NAME, which makes names of it. No guard: it is meant to be included repeatedly.
typedef float NAME(floats) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
#define FLOATS NAME(floats)
#define INTS   NAME(ints)

// Macros, because functions cannot return vectors of any width without changing the ABI.
#define LOAD(p)               (*(const FLOATS *)(p))
#define CHOOSE(mask, yes, no) ((FLOATS)(((mask) & (INTS)(yes)) | (~(mask) & (INTS)(no))))

// Of the channels from c on, for pixel w of the row.
INLINE void NAME(max_pixel)(const plb_pool_row *r, int64_t w, int64_t c, bool keep) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_window *wd = &g->window[0][r->d], *wh = &g->window[1][r->h];
    const plb_pool_window *ww = &g->window[2][w];
    const float *x = r->from + c;
    int64_t start = (wd->first * g->in[1] + wh->first) * g->in[2] + ww->first;
    FLOATS best = LOAD(x + start * g->channels);
    INTS at = (INTS){0} + (int32_t)start;
    for (int64_t d = 0; d < wd->count; d++) {
        for (int64_t h = 0; h < wh->count; h++) {
            int64_t row = (wd->first + d * g->dilation[0]) * g->in[1] + wh->first;
            int64_t position = (row + h * g->dilation[1]) * g->in[2] + ww->first;
            for (int64_t t = 0; t < ww->count; t++, position += g->dilation[2]) {
                FLOATS v = LOAD(x + position * g->channels);
                INTS wins = (v > best) | ((v != v) & (best == best)); // a NaN wins
                best = CHOOSE(wins, v, best);
                if (keep) at = (wins & ((INTS){0} + (int32_t)position)) | (~wins & at);
            }
        }
    }
    *(FLOATS *)(r->to + w * g->channels + c) = best;
    if (keep) *(INTS *)(r->at + w * g->channels + c) = at;
}

// Rows of a window are added up on their own: fewer roundings in a chain.
INLINE void NAME(mean_pixel)(const plb_pool_row *r, int64_t w, int64_t c) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_window *wd = &g->window[0][r->d], *wh = &g->window[1][r->h];
    const plb_pool_window *ww = &g->window[2][w];
    FLOATS sum = {0};
    for (int64_t d = 0; d < wd->count; d++) {
        for (int64_t h = 0; h < wh->count; h++) {
            int64_t row = ((wd->first + d) * g->in[1] + wh->first + h) * g->in[2] + ww->first;
            const float *x = r->from + row * g->channels + c;
            FLOATS part = {0};
            for (int64_t t = 0; t < ww->count; t++) part += LOAD(x + t * g->channels);
            sum += part;
        }
    }
    float scale = 1 / (wd->divisor * wh->divisor * ww->divisor);
    *(FLOATS *)(r->to + w * g->channels + c) = sum * scale;
}

INLINE void NAME(mean_grad_pixel)(const plb_pool_row *r, int64_t w, int64_t c) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_cover cd = g->cover[0][r->d], ch = g->cover[1][r->h], cw = g->cover[2][w];
    FLOATS sum = {0};
    for (int64_t d = cd.first; d < cd.end; d++) {
        for (int64_t h = ch.first; h < ch.end; h++) {
            float divisor = g->window[0][d].divisor * g->window[1][h].divisor;
            const float *dy = r->from + (d * g->out[1] + h) * g->out[2] * g->channels + c;
            for (int64_t o = cw.first; o < cw.end; o++) {
                float scale = 1 / (divisor * g->window[2][o].divisor);
                sum += LOAD(dy + o * g->channels) * scale;
            }
        }
    }
    *(FLOATS *)(r->to + w * g->channels + c) = sum;
}

// dx = sum of dy over those windows around the pixel whose maximum it is. Adds -1 a maximum to
// *met, but only of channels that are `fresh`: the others were counted before.
INLINE void NAME(max_grad_pixel)(const plb_pool_row *r, int64_t w, int64_t c, const INTS *fresh,
                                 INTS *met) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_cover cd = g->cover[0][r->d], ch = g->cover[1][r->h], cw = g->cover[2][w];
    INTS position = (INTS){0} + (int32_t)((r->d * g->in[1] + r->h) * g->in[2] + w);
    FLOATS sum = {0};
    for (int64_t d = cd.first; d < cd.end; d++) {
        for (int64_t h = ch.first; h < ch.end; h++) {
            int64_t row = (d * g->out[1] + h) * g->out[2] * g->channels + c;
            for (int64_t o = cw.first; o < cw.end; o++) {
                int64_t offset = row + o * g->channels;
                INTS hit = *(const INTS *)(r->index + offset) == position;
                sum += (FLOATS)(hit & (INTS)LOAD(r->from + offset));
                *met += hit & *fresh;
            }
        }
    }
    *(FLOATS *)(r->to + w * g->channels + c) = sum;
}

// ---------------------------------------------------------------------------- rows
// The last channels of a row are done together with some before them, a second time.
#define FOR_CHANNELS(c)                    \
    for (int64_t c = r->begin; c < r->end; \
         c = c + 2 * LANES <= r->end || c + LANES >= r->end ? c + LANES : r->end - LANES)

static void NAME(max_row)(const plb_pool_row *r) {
    for (int64_t w = 0; w < r->g->out[2]; w++) {
        FOR_CHANNELS(c) {
            if (r->at) {
                NAME(max_pixel)(r, w, c, true);
            } else {
                NAME(max_pixel)(r, w, c, false);
            }
        }
    }
}

static void NAME(mean_row)(const plb_pool_row *r) {
    for (int64_t w = 0; w < r->g->out[2]; w++) {
        FOR_CHANNELS(c) NAME(mean_pixel)(r, w, c);
    }
}

static void NAME(mean_grad_row)(const plb_pool_row *r) {
    for (int64_t w = 0; w < r->g->in[2]; w++) {
        FOR_CHANNELS(c) NAME(mean_grad_pixel)(r, w, c);
    }
}

static int64_t NAME(max_grad_row)(const plb_pool_row *r) {
    int64_t total = 0;
    INTS all = ~(INTS){0}, last = {0}, met = {0};
    int64_t whole = (r->end - r->begin) / LANES * LANES;
    for (int i = 0; i < LANES; i++) last[i] = r->end - LANES + i >= r->begin + whole ? -1 : 0;
    for (int64_t w = 0; w < r->g->in[2]; w++) {
        FOR_CHANNELS(c) {
            NAME(max_grad_pixel)(r, w, c, (c - r->begin) % LANES ? &last : &all, &met);
        }
    }
    for (int i = 0; i < LANES; i++) total -= met[i];
    return total;
}

#undef FOR_CHANNELS
#undef LOAD
#undef CHOOSE
#undef FLOATS
#undef INTS
