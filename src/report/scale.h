// SPDX-License-Identifier: Apache-2.0
// From values to places on paper: the ends of an axis, rounded outwards, and its ticks.
#ifndef PLB_REPORT_SCALE_H
#define PLB_REPORT_SCALE_H

#include "report/figure.h"

enum { PLB_MOST_TICKS = 24 };

typedef struct plb_scale {
    plb_unit unit;
    bool log;
    double low, high; // values at the ends
    double from, to;  // places of the ends
    double tick[PLB_MOST_TICKS];
    int ticks;
} plb_scale;

// Ends and about `about` ticks for values from `least` to `most` (NaN: there are none). A
// logarithmic axis needs values above 0; the caller leaves others out.
void plb_scale_fit(plb_scale *scale, const plb_figure_axis *axis, double least, double most,
                   int about);
// Puts the ticks at these values, if they are few: batches of 8, 16, 32 are better labels than 10
// and 100. `values` may be in any order and repeat.
void plb_scale_ticks_at(plb_scale *scale, const double *values, size_t count, int most);
// The place of a value, which is never beyond the ends' places: an end's for what is beyond them.
double plb_scale_at(const plb_scale *scale, double value);
bool plb_scale_holds(const plb_scale *scale, double value); // not NaN, and within the ends
void plb_scale_tick_text(const plb_scale *scale, int tick, char out[PLB_UNIT_BYTES_SHOWN]);

#endif
