// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "bench/series.h"
#include "bench/stats.h"

// The best of many short stretches, since in a long one somebody else gets the processor.
void plb_clock_measure(plb_clock_facts *out) {
    enum { STRETCHES = 200, READINGS = 100 };
    int64_t step = INT64_MAX, least = INT64_MAX;
    for (int stretch = 0; stretch < STRETCHES; stretch++) {
        int64_t begin = plb_now_ns(), last = begin;
        for (int i = 0; i < READINGS; i++) {
            int64_t now = plb_now_ns();
            if (now > last && now - last < step) step = now - last;
            last = now;
        }
        least = last - begin < least ? last - begin : least;
    }
    out->resolution_ns = step < INT64_MAX ? (double)step : NAN;
    out->overhead_ns = (double)least / READINGS;
}

// A time is read with an error of up to one step at each end, and includes one reading. With this
// many of them in it the error of a single sample stays below twice the precision, and that of the
// median, over which the steps average out, well below the precision.
plb_status plb_clock_check(const plb_clock_facts *clock, double median_ns, double precision,
                           const char *title) {
    double step = fmax(clock->resolution_ns, clock->overhead_ns);
    double least = step / precision;
    if (!(median_ns < least)) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "%s: an iteration of %.0f ns is too short for the clock, whose readings are "
                    "%.0f ns apart: expected at least %.0f ns for a precision of %.2g %%; time it "
                    "with --region queued, or with a larger --batch",
                    title, median_ns, step, least, 100 * precision);
}
