// SPDX-License-Identifier: Apache-2.0
#include "base/rank_interval.h"

#include <math.h>
#include <stdlib.h>

static const double outside = 0.05; // how often the median may lie there

// With B values below the median, B of Binomial(count, 1/2), it lies between the ranks `low` and
// count - 1 - low where low < B < count - low: it is outside with 2 P(B <= low). The terms of that
// sum are had as logarithms, for 2^-count is no double above 1074.
bool plb_median_ranks(size_t count, size_t *low, size_t *high) {
    double term = -(double)count * M_LN2, below = 0;
    size_t fit = 0; // how many ranks from 0 on would do
    for (; fit < count / 2; fit++) {
        below += exp(term);
        if (2 * below > outside) break;
        term += log((double)(count - fit) / (double)(fit + 1));
    }
    if (!fit) return false;
    *low = fit - 1, *high = count - fit;
    return true;
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

plb_rank_interval plb_rank_interval_of(double *values, size_t count) {
    size_t low, high;
    if (!count) return (plb_rank_interval){NAN, NAN, NAN};
    qsort(values, count, sizeof *values, by_size);
    const double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    if (!plb_median_ranks(count, &low, &high)) return (plb_rank_interval){median, NAN, NAN};
    return (plb_rank_interval){median, values[low], values[high]};
}
