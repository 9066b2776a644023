// SPDX-License-Identifier: Apache-2.0
// The median of few values with an interval that needs no distribution: of two order statistics the
// true median lies between them unless too many values fell to one side of it, and how many fall to
// one side is a binomial number, whatever the values are drawn from.
#ifndef PLB_BASE_RANK_INTERVAL_H
#define PLB_BASE_RANK_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "plumb/status.h"

enum { PLB_RANKS_FEWEST = 6 }; // values: even the whole range of five holds the median too rarely

typedef struct plb_rank_interval {
    double median;    // NaN of none
    double low, high; // of at least 95 %; NaN below PLB_RANKS_FEWEST values
} plb_rank_interval;

// The ranks, from 0 in ascending order, of the narrowest symmetric interval that holds the median
// of what `count` independent values are drawn from with at least 95 %. False: there is none.
PLB_API bool plb_median_ranks(size_t count, size_t *low, size_t *high);

// Sorts values[count], none of them NaN.
PLB_API plb_rank_interval plb_rank_interval_of(double *values, size_t count);

#endif
