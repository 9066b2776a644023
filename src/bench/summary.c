// SPDX-License-Identifier: Apache-2.0
#include "bench/summary.h"

#include <math.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/status.h"
#include "bench/series.h"
#include "bench/stats.h"

static const double drift_precision = 0.01;

static plb_status fail_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a summary");
}

// ---------------------------------------------------------------------------- one start
static size_t gather(const plb_store_block *blocks, size_t count, plb_start_summary *out,
                     double *times) {
    size_t n = 0;
    bool first = true;
    for (size_t b = 0; b < count; b++) {
        const plb_store_block *block = &blocks[b];
        if (block->kind != PLB_BLOCK_TIMED) continue;
        if (first) out->began_ns = block->began_ns;
        first = false;
        const double each = 1 / (double)block->iterations_per_sample;
        for (size_t i = 0; i < block->count; i++) {
            int64_t ns = block->samples_ns[i];
            times[n++] = (ns ? (double)ns : 0.5) * each; // 0: below half a step of the clock
        }
        out->iterations += (int64_t)block->count * block->iterations_per_sample;
    }
    out->samples = (int64_t)n;
    return n;
}

// Means of the logs of the medians of each sweep's blocks.
static plb_status sum_sweeps(const plb_store_block *blocks, size_t count, double *scratch,
                             plb_arena *arena, plb_start_summary *out) {
    int64_t last = -1;
    for (size_t b = 0; b < count; b++) {
        if (blocks[b].kind == PLB_BLOCK_TIMED && blocks[b].sweep > last) last = blocks[b].sweep;
    }
    if (last < 0) return PLB_OK;
    if (last >= PLB_MOST_SWEEPS) {
        return plb_fail(PLB_EINVAL, "sweep %lld of a start: expected less than %d", (long long)last,
                        PLB_MOST_SWEEPS);
    }
    size_t sweeps = (size_t)last + 1;
    float *mean = plb_arena_alloc(arena, sweeps * sizeof *mean);
    int *members = plb_arena_alloc(arena, sweeps * sizeof *members);
    if (!mean || !members) return fail_memory();
    for (size_t b = 0; b < count; b++) {
        const plb_store_block *block = &blocks[b];
        if (block->kind != PLB_BLOCK_TIMED || block->sweep < 0) continue;
        for (size_t i = 0; i < block->count; i++)
            scratch[i] = block->samples_ns[i] ? (double)block->samples_ns[i] : 0.5;
        double median = plb_median(scratch, block->count) / (double)block->iterations_per_sample;
        mean[block->sweep] += (float)log(median);
        members[block->sweep]++;
    }
    for (size_t q = 0; q < sweeps; q++) mean[q] = members[q] ? mean[q] / (float)members[q] : NAN;
    out->sweep = mean, out->sweep_count = (int64_t)sweeps;
    return PLB_OK;
}

plb_status plb_start_summarize(const plb_store_block *blocks, size_t count, plb_arena *arena,
                               plb_start_summary *out, double **times, size_t *time_count) {
    size_t most = 0;
    for (size_t b = 0; b < count; b++) most += blocks[b].count;
    *times = plb_arena_alloc(arena, 2 * most * sizeof **times + 1);
    if (!*times) return fail_memory();
    *out = (plb_start_summary){.group = -1, .median_ns = NAN, .log_median = NAN, .variance = NAN};
    size_t n = *time_count = gather(blocks, count, out, *times);
    if (!n) return PLB_OK;
    plb_location location;
    PLB_TRY(plb_series_location(*times, n, &location));
    out->log_median = location.center;
    out->median_ns = exp(location.center);
    out->variance = location.variance;
    out->dof = location.dof;
    out->drift = plb_series_drifts(*times, n, drift_precision);
    return sum_sweeps(blocks, count, *times + most, arena, out);
}

// ---------------------------------------------------------------------------- all starts
void plb_summary_combine(plb_summary *out) {
    const double n = (double)out->starts;
    out->median_ns = out->low_ns = out->high_ns = NAN;
    out->samples = 0, out->drift = false;
    if (!out->starts) return;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < out->starts; i++) {
        mean += out->start[i].log_median / n;
        out->samples += out->start[i].samples;
        out->drift |= out->start[i].drift;
    }
    for (int64_t i = 0; i < out->starts; i++)
        squares += (out->start[i].log_median - mean) * (out->start[i].log_median - mean);
    out->median_ns = exp(mean);
    if (out->starts < 2) return;
    double half = plb_student_quantile(0.975, n - 1) * sqrt(squares / (n - 1) / n);
    out->low_ns = exp(mean - half), out->high_ns = exp(mean + half);
}

// All samples of all starts, one after the other, for quantiles.
typedef struct pool {
    double *values;
    size_t count;
} pool;

static plb_status pool_add(pool *p, plb_arena *arena, const double *times, size_t count) {
    double *both = plb_arena_alloc(arena, (p->count + count) * sizeof *both + 1);
    if (!both) return fail_memory();
    if (p->count) memcpy(both, p->values, p->count * sizeof *both);
    if (count) memcpy(both + p->count, times, count * sizeof *both);
    p->values = both;
    p->count += count;
    return PLB_OK;
}

static plb_status summarize(plb_store *store, int64_t measurement_id, plb_arena *arena,
                            plb_summary *out) {
    plb_start_row *rows;
    size_t row_count;
    pool all = {0};
    PLB_TRY(plb_store_starts(store, measurement_id, arena, &rows, &row_count));
    out->start = plb_arena_alloc(arena, (row_count + 1) * sizeof *out->start);
    if (!out->start) return fail_memory();
    for (size_t i = 0; i < row_count; i++) {
        plb_store_block *blocks;
        size_t block_count, time_count;
        double *times;
        plb_start_summary *start = &out->start[out->starts];
        PLB_TRY(plb_store_blocks(store, rows[i].id, arena, &blocks, &block_count));
        PLB_TRY(plb_start_summarize(blocks, block_count, arena, start, &times, &time_count));
        if (!time_count) continue;
        start->number = rows[i].number, start->group = rows[i].group;
        start->steady = rows[i].steady == 1;
        PLB_TRY(pool_add(&all, arena, times, time_count));
        out->starts++;
    }
    plb_summary_combine(out);
    out->min_ns = plb_quantile(all.values, all.count, 0);
    out->p05_ns = plb_quantile(all.values, all.count, 0.05);
    out->p95_ns = plb_quantile(all.values, all.count, 0.95);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the cache
// The body: three doubles, the number of starts, then each start's struct without its pointer, and
// its sweeps. Native byte order: `magic` tells a file from another kind of machine.
typedef struct head {
    uint64_t magic;
    double min_ns, p05_ns, p95_ns;
    int64_t starts;
} head;

static const uint64_t magic = UINT64_C(0x504c425355400001) + sizeof(plb_start_summary);

static uint8_t *encode(const plb_summary *s, plb_arena *arena, size_t *size) {
    *size = sizeof(head);
    for (int64_t i = 0; i < s->starts; i++)
        *size += sizeof *s->start + (size_t)s->start[i].sweep_count * sizeof(float);
    uint8_t *body = plb_arena_alloc(arena, *size), *at = body;
    if (!body) return NULL;
    const head h = {magic, s->min_ns, s->p05_ns, s->p95_ns, s->starts};
    memcpy(at, &h, sizeof h), at += sizeof h;
    for (int64_t i = 0; i < s->starts; i++) {
        plb_start_summary start = s->start[i];
        start.sweep = NULL;
        memcpy(at, &start, sizeof start), at += sizeof start;
        size_t bytes = (size_t)start.sweep_count * sizeof(float);
        if (bytes) memcpy(at, s->start[i].sweep, bytes), at += bytes;
    }
    return body;
}

// False if the body is not what `encode` makes; it is then computed anew. Sweeps are used in place:
// all that lies before them is a multiple of 4 bytes long.
static bool decode(const uint8_t *body, size_t size, plb_arena *arena, plb_summary *out) {
    head h;
    if (size < sizeof h) return false;
    memcpy(&h, body, sizeof h);
    size_t at = sizeof h;
    if (h.magic != magic || h.starts < 0 || (size_t)h.starts > size / sizeof *out->start)
        return false;
    out->min_ns = h.min_ns, out->p05_ns = h.p05_ns, out->p95_ns = h.p95_ns;
    out->start = plb_arena_alloc(arena, ((size_t)h.starts + 1) * sizeof *out->start);
    if (!out->start) return false;
    for (int64_t i = 0; i < h.starts; i++) {
        plb_start_summary *start = &out->start[i];
        if (size - at < sizeof *start) return false;
        memcpy(start, body + at, sizeof *start), at += sizeof *start;
        size_t sweeps = (size_t)start->sweep_count;
        if (start->sweep_count < 0 || sweeps > (size - at) / sizeof(float)) return false;
        start->sweep = (const float *)(const void *)(body + at);
        at += sweeps * sizeof(float);
    }
    out->starts = h.starts;
    plb_summary_combine(out);
    return at == size;
}

plb_status plb_summary_of_row(plb_store *store, const plb_measurement_row *row, plb_arena *arena,
                              plb_summary *out) {
    *out = (plb_summary){0};
    if (row->summary && decode(row->summary, row->summary_bytes, arena, out)) return PLB_OK;
    *out = (plb_summary){0};
    PLB_TRY(summarize(store, row->id, arena, out));
    size_t size;
    const uint8_t *body = encode(out, arena, &size);
    if (!body) return fail_memory();
    // A cache that cannot be written, on a full disk say, is no reason not to answer.
    if (plb_store_put_summary(store, row->id, PLB_SUMMARY_ALGORITHM, row->samples_hash, body, size))
        plb_log_line(PLB_LOG_DEBUG, "%s", plb_error_text());
    return PLB_OK;
}

plb_status plb_summary_to_show(plb_store *store, const plb_measurement_row *row, plb_arena *arena,
                               plb_summary *out) {
    PLB_TRY(plb_summary_of_row(store, row, arena, out));
    if (row->outcome && strcmp(row->outcome, "ok") == 0) return PLB_OK;
    out->median_ns = out->low_ns = out->high_ns = NAN;
    out->min_ns = out->p05_ns = out->p95_ns = NAN;
    return PLB_OK;
}

plb_status plb_summary_load(plb_store *store, int64_t measurement_id, plb_arena *arena,
                            plb_summary *out) {
    plb_measurement_row *row;
    size_t count;
    const plb_measurement_filter filter = {
        .measurement = measurement_id, .brief = true, .algorithm = PLB_SUMMARY_ALGORITHM};
    PLB_TRY(plb_store_measurements(store, &filter, arena, &row, &count));
    if (!count) {
        return plb_fail(PLB_EINVAL, "%s: there is no measurement %lld", plb_store_path(store),
                        (long long)measurement_id);
    }
    return plb_summary_of_row(store, row, arena, out);
}
