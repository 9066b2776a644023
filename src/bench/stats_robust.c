// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "bench/stats.h"

// ---------------------------------------------------------------------------- order
// Moves values so that values[k] is what sorting would put there (Hoare's quickselect, the pivot
// from three values).
static double select_kth(double *values, size_t count, size_t k) {
    size_t low = 0, high = count - 1;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        double a = values[low], b = values[mid], c = values[high];
        double pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i >= j) break;
            double swap = values[i];
            values[i++] = values[j], values[j--] = swap;
        }
        // Everything up to j is at most the pivot, everything from j + 1 at least.
        if (i == j && values[i] > pivot) j--;
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[k];
}

static double smallest(const double *values, size_t count) {
    double least = values[0];
    for (size_t i = 1; i < count; i++) least = values[i] < least ? values[i] : least;
    return least;
}

double plb_quantile(double *values, size_t count, double p) {
    if (!count) return NAN;
    double at = p * (double)(count - 1);
    size_t k = (size_t)at;
    double low = select_kth(values, count, k);
    if (k + 1 >= count || at == (double)k) return low;
    return low + (at - (double)k) * (smallest(values + k + 1, count - k - 1) - low);
}

double plb_median(double *values, size_t count) {
    return plb_quantile(values, count, 0.5);
}

// ---------------------------------------------------------------------------- locations
static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return sum / (double)count;
}

static double squares_about(const double *values, size_t count, double center) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (values[i] - center) * (values[i] - center);
    return sum;
}

plb_location plb_mean_location(const double *values, size_t count) {
    if (!count) return (plb_location){NAN, NAN, 0};
    double mean = mean_of(values, count);
    if (count == 1) return (plb_location){mean, NAN, 0};
    double n = (double)count;
    return (plb_location){mean, squares_about(values, count, mean) / (n - 1) / n, n - 1};
}

double plb_autocorrelation(const double *values, size_t count) {
    if (count < 4) return NAN;
    double mean = mean_of(values, count), total = squares_about(values, count, mean), sum = 0;
    if (!(total > 0)) return NAN;
    for (size_t i = 1; i < count; i++) sum += (values[i - 1] - mean) * (values[i] - mean);
    return sum / total + 1 / (double)count;
}

// How much larger the variance of a mean is than that of independent values, if the correlation
// falls off geometrically: (1 + r) / (1 − r). Never less than 1. Of few values r is hardly known,
// and a chance 0.8 would make an interval three times as wide: it is drawn towards 0, as if eight
// more values without correlation had been seen.
static double inflation(const double *values, size_t count) {
    double r = plb_autocorrelation(values, count) * (double)count / ((double)count + 8);
    if (!(r > 0)) return 1;
    if (r > 0.8) r = 0.8;
    return (1 + r) / (1 - r);
}

plb_location plb_trimmed_location(const double *values, size_t count, double *scratch) {
    size_t cut = count / 5, kept = count - 2 * cut;
    if (count < 3) return plb_mean_location(values, count);
    double *sorted = scratch, *winsorized = scratch + count;
    memcpy(sorted, values, count * sizeof *sorted);
    for (size_t i = 1; i < count; i++) { // few values: insertion sorts them fastest
        double value = sorted[i];
        size_t k = i;
        for (; k > 0 && sorted[k - 1] > value; k--) sorted[k] = sorted[k - 1];
        sorted[k] = value;
    }
    double low = sorted[cut], high = sorted[count - 1 - cut];
    for (size_t i = 0; i < count; i++)
        winsorized[i] = values[i] < low ? low : values[i] > high ? high : values[i];
    double squares = squares_about(winsorized, count, mean_of(winsorized, count));
    double h = (double)kept;
    return (plb_location){.center = mean_of(sorted + cut, kept),
                          .variance = squares / (h * (h - 1)) * inflation(winsorized, count),
                          .dof = h - 1};
}

// ---------------------------------------------------------------------------- batches
size_t plb_batch_count(size_t count) {
    if (count < 8) return count;
    size_t batches = count / 8;
    return batches < 8 ? 8 : batches > PLB_MAX_BATCHES ? PLB_MAX_BATCHES : batches;
}

void plb_batch_medians(const double *values, size_t count, size_t batches, double *scratch,
                       double *out) {
    for (size_t b = 0; b < batches; b++) {
        size_t from = b * count / batches, to = (b + 1) * count / batches;
        memcpy(scratch, values + from, (to - from) * sizeof *scratch);
        out[b] = log(plb_median(scratch, to - from));
    }
}

plb_status plb_series_location(const double *values, size_t count, plb_location *out) {
    double medians[PLB_MAX_BATCHES], scratch[2 * PLB_MAX_BATCHES];
    *out = (plb_location){NAN, NAN, 0};
    if (!count) return PLB_OK;
    size_t batches = plb_batch_count(count);
    double *batch = plb_alloc_array(count / batches + 1, sizeof *batch);
    if (!batch) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_batch_medians(values, count, batches, batch, medians);
    plb_free(batch);
    *out = plb_trimmed_location(medians, batches, scratch);
    return PLB_OK;
}
