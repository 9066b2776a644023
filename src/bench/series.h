// SPDX-License-Identifier: Apache-2.0
// The samples of one start while they are being taken: when is the warm-up over, how large should
// the next block be, is it enough? One process that runs a case is one series. The rules and their
// reasons are in docs/measuring.md. Call order:
//
//     plb_series *s = plb_series_new(&options);
//     do {
//         int64_t n = plb_series_next(s);                  // iterations of the next block
//         plb_series_phase phase = plb_series_phase_of(s); // store this block as WARMUP or TIMED
//         ... take the block ...
//         PLB_TRY(plb_series_append(s, samples_ns, count, iterations_per_sample));
//     } while (plb_series_stop_of(s) == PLB_STOP_NOT_YET);
//
// Of workers that are interleaved each has its own series; the group stops when all of them would,
// and those that would already are given more blocks, which never makes an interval worse.
#ifndef PLB_BENCH_SERIES_H
#define PLB_BENCH_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef enum plb_series_phase { PLB_PHASE_WARMUP, PLB_PHASE_TIMED } plb_series_phase;

typedef enum plb_stop {
    PLB_STOP_NOT_YET,
    PLB_STOP_PRECISE, // the interval of the median is narrow enough
    PLB_STOP_TIME,    // the time of this start is spent
    PLB_STOP_COUNT,   // more samples than anyone will read
} plb_stop;

typedef struct plb_series_options {
    double precision;      // half-width of the interval over the median; 0: 0.01
    int64_t time_ns;       // to spend on timed iterations of this start; 0: 1 s
    int64_t warmup_max_ns; // then go on, but say that it was never steady; 0: max(time_ns, 5 s)
    bool queued;           // a block of n iterations gives one sample, their total
} plb_series_options;

typedef struct plb_series plb_series;

PLB_API plb_series *plb_series_new(const plb_series_options *options); // NULL when out of memory
PLB_API void plb_series_free(plb_series *series);

// How many iterations the next block should have, at least 1.
PLB_API int64_t plb_series_next(const plb_series *series);

// Appends the samples of a block, in the order in which they were taken. Each is the time of
// `iterations_per_sample` iterations: 1, but n for queued. PLB_EINVAL: none, or one below 0.
// Appending may end the warm-up: the block that ends it is still warm-up.
PLB_API PLB_MUST_USE plb_status plb_series_append(plb_series *series, const int64_t *samples_ns,
                                                  size_t count, int64_t iterations_per_sample);

PLB_API plb_series_phase plb_series_phase_of(const plb_series *series);
PLB_API plb_stop plb_series_stop_of(const plb_series *series);
PLB_API const char *plb_stop_name(plb_stop stop); // "precise", "time", "count", "" for not yet

// What is known so far. A figure that needs more samples than there are is NaN, never 0.
typedef struct plb_series_summary {
    int64_t warmup_iterations;
    bool steady; // the warm-up ended on a steady series
    bool drift;  // the timed series moves by more than its noise and the precision allow
    int64_t samples, iterations; // timed
    double median_ns;            // of one iteration
    double low_ns, high_ns;      // 95 % interval of the median inside this start
    double relative_half_width;  // of that interval
    double p05_ns, p95_ns, min_ns;
    double autocorrelation; // of neighbouring samples
} plb_series_summary;

PLB_API void plb_series_summarize(const plb_series *series, plb_series_summary *out);

// Whether times[count], in order, move between their halves by more than `precision` and than their
// noise explains.
PLB_API bool plb_series_drifts(const double *times, size_t count, double precision);

// ---------------------------------------------------------------------------- the clock
typedef struct plb_clock_facts {
    double resolution_ns; // the smallest step seen between two readings
    double overhead_ns;   // of one reading
} plb_clock_facts;

PLB_API void plb_clock_measure(plb_clock_facts *out); // takes about 1 ms

// PLB_EINVAL, with the case's title and what to do, if an iteration of `median_ns` is too short
// for a clock like this to time within `precision`. Not for queued, where n makes it long.
PLB_API PLB_MUST_USE plb_status plb_clock_check(const plb_clock_facts *clock, double median_ns,
                                                double precision, const char *title);

#endif
