// SPDX-License-Identifier: Apache-2.0
// The warm-up ends when the second half of its newer half agrees with the first: a transient of n
// samples is then over after about 2n, without anyone having said how long it may be. The samples
// that showed it are not used again: keeping those on which one stopped would bias the result.
#include "bench/series.h"

#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "bench/stats.h"

static const double default_precision = 0.01;
static const int64_t default_time_ns = 1000000000;
static const int64_t least_warmup_ns = 50000000; // a quarter of the time, if that is shorter
static const int64_t default_warmup_max_ns = 5000000000;
static const int64_t block_min_ns = 2000000, block_max_ns = 100000000;
enum {
    BLOCKS_A_START = 24,    // aimed at: enough sweeps for interleaving, and for autocorrelation
    MAX_BLOCK = 4096,       // iterations
    MAX_SAMPLES = 1 << 20,  // of one start
    LEAST_SAMPLES = 3,      // of one start, however long they take
    WARMUP_SAMPLES = 2,     // at least: with the first call, that came before, three iterations
    LEAST_FOR_PRECISE = 64, // before an interval is believed when it says "enough"
    LEAST_WARMUP = 4        // samples, before the warm-up is given up
};

struct plb_series {
    plb_series_options options;
    double *times; // of one iteration, ns; the phase's samples in order
    size_t count, capacity;
    double *scratch; // as large as times
    plb_series_phase phase;
    bool steady;
    int64_t warmup_iterations, iterations; // iterations: timed
    double spent_ns;                       // in this phase
    double last_ns;                        // of one iteration, the newest block's median
    int64_t last_block;                    // iterations of the newest block
};

plb_series *plb_series_new(const plb_series_options *options) {
    plb_series *s = plb_alloc(sizeof *s);
    if (!s) return NULL;
    s->options = *options;
    plb_series_options *o = &s->options;
    if (!(o->precision > 0)) o->precision = default_precision;
    if (o->time_ns <= 0) o->time_ns = default_time_ns;
    if (o->warmup_max_ns <= 0) {
        o->warmup_max_ns = o->time_ns > default_warmup_max_ns ? o->time_ns : default_warmup_max_ns;
    }
    return s;
}

void plb_series_free(plb_series *series) {
    if (!series) return;
    plb_free(series->times);
    plb_free(series->scratch);
    plb_free(series);
}

plb_series_phase plb_series_phase_of(const plb_series *series) {
    return series->phase;
}

int64_t plb_series_next(const plb_series *series) {
    const int64_t least = series->options.queued ? 2 : 1;
    if (!series->last_block) return least;
    double block_ns = (double)series->options.time_ns / BLOCKS_A_START;
    if (block_ns < (double)block_min_ns) block_ns = (double)block_min_ns;
    if (block_ns > (double)block_max_ns) block_ns = (double)block_max_ns;
    double wanted = series->last_ns > 0 ? block_ns / series->last_ns : MAX_BLOCK;
    // In the warm-up the last block may have been far slower, or faster, than what comes.
    if (series->phase == PLB_PHASE_WARMUP && wanted > 2.0 * (double)series->last_block)
        wanted = 2.0 * (double)series->last_block;
    if (wanted > MAX_BLOCK) wanted = MAX_BLOCK;
    return wanted < (double)least ? least : (int64_t)wanted;
}

// ---------------------------------------------------------------------------- warm-up
// The median distance from the median, as a standard deviation of normal values.
static double spread_about(double *values, size_t count, double center) {
    for (size_t i = 0; i < count; i++) values[i] = fabs(values[i] - center);
    return 1.4826 * plb_median(values, count);
}

// Whether the newer half of times[count] is level.
static bool is_level(plb_series *s) {
    if (s->count < 2) return false;
    size_t half = s->count / 4 ? s->count / 4 : 1;
    const double *newer = s->times + s->count - half, *older = newer - half;
    memcpy(s->scratch, older, half * sizeof *older);
    double before = plb_median(s->scratch, half);
    double noise = spread_about(s->scratch, half, before);
    memcpy(s->scratch, newer, half * sizeof *newer);
    double after = plb_median(s->scratch, half);
    double noise_after = spread_about(s->scratch, half, after);
    if (noise_after > noise) noise = noise_after;
    // Of two medians of `half` values each: 1.2533 noise sqrt(2 / half) is one standard deviation.
    double tolerance = 2 * 1.2533 * noise * sqrt(2 / (double)half) / before;
    double precision = s->options.precision;
    if (tolerance < precision) tolerance = precision;
    if (tolerance > 5 * precision) tolerance = 5 * precision;
    return fabs(log(after / before)) <= tolerance;
}

static void end_warmup(plb_series *s, bool steady) {
    s->steady = steady;
    s->phase = PLB_PHASE_TIMED;
    s->count = 0;
    s->spent_ns = 0;
}

static void watch_warmup(plb_series *s) {
    double least = (double)s->options.time_ns / 4;
    if (least > (double)least_warmup_ns) least = (double)least_warmup_ns;
    bool long_enough = s->count >= WARMUP_SAMPLES && s->spent_ns >= least;
    if (long_enough && is_level(s)) {
        end_warmup(s, true);
    } else if (s->count >= LEAST_WARMUP && s->spent_ns >= (double)s->options.warmup_max_ns) {
        end_warmup(s, false);
    } else if (s->count >= MAX_SAMPLES) {
        end_warmup(s, false);
    }
}

// ---------------------------------------------------------------------------- appending
static plb_status reserve(plb_series *s, size_t count) {
    if (count <= s->capacity) return PLB_OK;
    size_t capacity = s->capacity ? s->capacity : 256;
    while (capacity < count) capacity *= 2;
    double *times = plb_realloc_array(s->times, capacity, sizeof *times);
    if (times) s->times = times;
    double *scratch = plb_realloc_array(s->scratch, capacity, sizeof *scratch);
    if (scratch) s->scratch = scratch;
    if (!times || !scratch) return plb_fail(PLB_ENOMEM, "out of memory for %zu samples", count);
    s->capacity = capacity;
    return PLB_OK;
}

plb_status plb_series_append(plb_series *s, const int64_t *samples_ns, size_t count,
                             int64_t iterations_per_sample) {
    if (!count || iterations_per_sample < 1) {
        return plb_fail(PLB_EINVAL, "a block of samples: expected some, of one iteration or more");
    }
    for (size_t i = 0; i < count; i++) {
        if (samples_ns[i] < 0) {
            return plb_fail(PLB_EINVAL, "sample %zu of a block: expected a time, found %lld ns", i,
                            (long long)samples_ns[i]);
        }
    }
    PLB_TRY(reserve(s, s->count + count));
    const double each = 1 / (double)iterations_per_sample;
    for (size_t i = 0; i < count; i++) {
        // A clock that did not move still measured something below half its step.
        double ns = samples_ns[i] ? (double)samples_ns[i] : 0.5;
        s->times[s->count + i] = ns * each;
        s->spent_ns += ns;
    }
    memcpy(s->scratch, s->times + s->count, count * sizeof *s->scratch);
    s->last_ns = plb_median(s->scratch, count);
    s->last_block = (int64_t)count * iterations_per_sample;
    s->count += count;
    if (s->phase == PLB_PHASE_WARMUP) {
        s->warmup_iterations += s->last_block;
        watch_warmup(s);
    } else {
        s->iterations += s->last_block;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- results
// The interval of the median as a share of it, from the batches; NaN if it cannot be told.
static double half_width(const plb_location *location) {
    if (isnan(location->variance)) return NAN;
    return plb_student_quantile(0.975, location->dof) * sqrt(location->variance);
}

plb_stop plb_series_stop_of(const plb_series *s) {
    if (s->phase == PLB_PHASE_WARMUP) return PLB_STOP_NOT_YET;
    if (s->count >= MAX_SAMPLES) return PLB_STOP_COUNT;
    const double time_ns = (double)s->options.time_ns;
    if (s->spent_ns >= time_ns && s->count >= LEAST_SAMPLES) return PLB_STOP_TIME;
    if (s->count < LEAST_FOR_PRECISE) return PLB_STOP_NOT_YET;
    plb_location location;
    if (plb_series_location(s->times, s->count, &location)) return PLB_STOP_NOT_YET;
    return half_width(&location) <= s->options.precision ? PLB_STOP_PRECISE : PLB_STOP_NOT_YET;
}

const char *plb_stop_name(plb_stop stop) {
    static const char *const names[] = {"", "precise", "time", "count"};
    return names[stop];
}

// Mann's test for a trend: how many pairs of values are in rising order less those in falling
// order, over the standard deviation that this has if the order is chance (Kendall 1975).
static double trend_score(const double *values, size_t count) {
    double score = 0, n = (double)count;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            score += (values[k] > values[i]) - (values[k] < values[i]);
    return fabs(score) / sqrt(n * (n - 1) * (2 * n + 5) / 18);
}

bool plb_series_drifts(const double *times, size_t count, double precision) {
    double medians[PLB_MAX_BATCHES], half[PLB_MAX_BATCHES];
    size_t batches = plb_batch_count(count);
    if (count < 16) return false;
    double *scratch = plb_alloc_array(count / batches + 1, sizeof *scratch);
    if (!scratch) return false; // only a remark is lost
    plb_batch_medians(times, count, batches, scratch, medians);
    plb_free(scratch);
    memcpy(half, medians, batches / 2 * sizeof *half);
    double before = plb_median(half, batches / 2);
    memcpy(half, medians + (batches + 1) / 2, batches / 2 * sizeof *half);
    double after = plb_median(half, batches / 2);
    return fabs(after - before) > precision && trend_score(medians, batches) > 3.2;
}

static void summarize_times(const plb_series *s, plb_series_summary *out) {
    plb_location location;
    if (plb_series_location(s->times, s->count, &location)) return;
    double half = half_width(&location);
    out->median_ns = exp(location.center);
    out->low_ns = exp(location.center - half);
    out->high_ns = exp(location.center + half);
    out->relative_half_width = half;
    memcpy(s->scratch, s->times, s->count * sizeof *s->scratch);
    out->p05_ns = plb_quantile(s->scratch, s->count, 0.05);
    out->p95_ns = plb_quantile(s->scratch, s->count, 0.95);
    out->min_ns = plb_quantile(s->scratch, s->count, 0);
    out->autocorrelation = plb_autocorrelation(s->times, s->count);
    out->drift = plb_series_drifts(s->times, s->count, s->options.precision);
}

void plb_series_summarize(const plb_series *s, plb_series_summary *out) {
    *out = (plb_series_summary){.warmup_iterations = s->warmup_iterations,
                                .steady = s->steady,
                                .median_ns = NAN,
                                .low_ns = NAN,
                                .high_ns = NAN,
                                .relative_half_width = NAN,
                                .p05_ns = NAN,
                                .p95_ns = NAN,
                                .min_ns = NAN,
                                .autocorrelation = NAN};
    if (s->phase == PLB_PHASE_WARMUP || !s->count) return;
    out->samples = (int64_t)s->count;
    out->iterations = s->iterations;
    summarize_times(s, out);
}
