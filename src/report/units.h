// SPDX-License-Identifier: Apache-2.0
// Numbers with units, as tables and axes show them: the value is kept in its base unit, and the
// text is scaled to be read.
#ifndef PLB_REPORT_UNITS_H
#define PLB_REPORT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "plumb/status.h"

typedef enum plb_unit {
    PLB_UNIT_NONE,       // a plain number: "0.0371"
    PLB_UNIT_COUNT,      // whole numbers: "1024"; in thousands from 100,000 on: "131 k"
    PLB_UNIT_NS,         // nanoseconds, shown as "37.1 ms"
    PLB_UNIT_SECONDS,    // seconds, shown as "37.1 ms", "2.5 min"
    PLB_UNIT_BYTES,      // "44.7 MiB", powers of 1024
    PLB_UNIT_RATIO,      // "1.032×"
    PLB_UNIT_SHARE,      // 0 to 1, shown as "37.1 %"
    PLB_UNIT_PER_SECOND, // "12.1 k/s"
    PLB_UNIT_FLOPS,      // flop per second: "1.82 TFLOP/s"
    PLB_UNIT_FLOP_BYTE,  // arithmetic intensity: "12.5 FLOP/B"
    PLB_UNITS
} plb_unit;

enum { PLB_UNIT_BYTES_SHOWN = 32 };

// Three significant digits and the unit; "-" for NaN.
PLB_API void plb_unit_show(plb_unit unit, double value, char out[PLB_UNIT_BYTES_SHOWN]);
// A tick of an axis whose largest value is `magnitude`: the ticks of one axis share a unit. It has
// as many digits as tell it from a tick that is `apart` from it; four if they are enough.
PLB_API void plb_unit_show_tick(plb_unit unit, double value, double magnitude, double apart,
                                char out[PLB_UNIT_BYTES_SHOWN]);
// What values of this magnitude are divided by, and what is written behind them; *suffix is static.
PLB_API double plb_unit_scale(plb_unit unit, double magnitude, const char **suffix);
// "2026-11-28 04:30" in local time; "-" before 1970, which stands for unknown.
PLB_API void plb_moment_show(int64_t unix_ms, char out[PLB_UNIT_BYTES_SHOWN]);
// What follows a column's title in CSV: "ns", "bytes", ""; static.
PLB_API const char *plb_unit_base(plb_unit unit);

#endif
