// SPDX-License-Identifier: Apache-2.0
// The statistics that series, summaries and verdicts share: distributions, robust locations with
// their standard errors, and what neighbouring values have to do with each other. NaN means "too
// few values to say". Sources stand in docs/measuring.md.
#ifndef PLB_BENCH_STATS_H
#define PLB_BENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "plumb/status.h"

// ---------------------------------------------------------------------------- distributions
// P(T <= t) of Student's t; `dof` > 0, need not be whole.
PLB_API double plb_student_cdf(double t, double dof);
// P(T > t), without loss of digits in the tail.
PLB_API double plb_student_tail(double t, double dof);
// The t with P(T <= t) = p, 0 < p < 1.
PLB_API double plb_student_quantile(double p, double dof);
// P(F > f) of Fisher's F.
PLB_API double plb_fisher_tail(double f, double dof1, double dof2);

// ---------------------------------------------------------------------------- order
// The median; reorders values[count]. NaN of none.
PLB_API double plb_median(double *values, size_t count);
// The p-quantile (linear between order statistics: type 7 of Hyndman and Fan); reorders.
PLB_API double plb_quantile(double *values, size_t count, double p);

// ---------------------------------------------------------------------------- locations
typedef struct plb_location {
    double center;
    double variance; // of the center; NaN below 2 values
    double dof;      // of that variance
} plb_location;

// Mean and variance of the mean of values that are taken as independent.
PLB_API plb_location plb_mean_location(const double *values, size_t count);

// Mean of the values without the lowest and the highest fifth, with the variance that winsorizing
// gives it (Tukey and McLaughlin 1963, Yuen 1974), raised by what neighbours have in common. For
// values in order of time; reorders nothing. `scratch[2 * count]`.
PLB_API plb_location plb_trimmed_location(const double *values, size_t count, double *scratch);

// Correlation of neighbours, corrected for its bias of −1/count; NaN below 4 values or if all are
// equal.
PLB_API double plb_autocorrelation(const double *values, size_t count);

// Logs of the medians of `batches` contiguous batches of values[count] > 0, in order of time.
// scratch[count / batches + 1].
PLB_API void plb_batch_medians(const double *values, size_t count, size_t batches, double *scratch,
                               double *out);
// How many batches suit so many samples: batches of 8 or more, 8 to 32 of them; below 64 samples
// 8 batches, or one a sample.
PLB_API size_t plb_batch_count(size_t count);

enum { PLB_MAX_BATCHES = 32 };

// Center of a series of times in order: log scale, batch medians, trimmed. PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_series_location(const double *values, size_t count,
                                                    plb_location *out);

#endif
