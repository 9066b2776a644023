// SPDX-License-Identifier: Apache-2.0
#include "report/units.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

typedef struct step {
    double from, scale; // values from `from` on are shown divided by `scale`
    const char *suffix;
} step;

enum { MOST_STEPS = 7 };

// The largest first; the last one serves whatever is smaller.
static const struct {
    const char *base;
    step steps[MOST_STEPS];
} units[PLB_UNITS] = {
    [PLB_UNIT_NONE] = {"", {{0, 1, ""}}},
    [PLB_UNIT_COUNT] = {"", {{1e11, 1e9, " G"}, {1e8, 1e6, " M"}, {1e5, 1e3, " k"}, {0, 1, ""}}},
    [PLB_UNIT_NS] = {"ns",
                     {{7.2e12, 3.6e12, " h"},
                      {1.2e11, 6e10, " min"},
                      {1e9, 1e9, " s"},
                      {1e6, 1e6, " ms"},
                      {1e3, 1e3, " µs"},
                      {0, 1, " ns"}}},
    [PLB_UNIT_SECONDS] = {"s",
                          {{7.2e3, 3.6e3, " h"},
                           {120, 60, " min"},
                           {1, 1, " s"},
                           {1e-3, 1e-3, " ms"},
                           {1e-6, 1e-6, " µs"},
                           {0, 1e-9, " ns"}}},
    [PLB_UNIT_BYTES] = {"bytes",
                        {{0x1p40, 0x1p40, " TiB"},
                         {0x1p30, 0x1p30, " GiB"},
                         {0x1p20, 0x1p20, " MiB"},
                         {0x1p10, 0x1p10, " KiB"},
                         {0, 1, " B"}}},
    [PLB_UNIT_RATIO] = {"", {{0, 1, "×"}}},
    [PLB_UNIT_SHARE] = {"", {{0, 0.01, " %"}}},
    [PLB_UNIT_PER_SECOND] =
        {"1/s", {{1e9, 1e9, " G/s"}, {1e6, 1e6, " M/s"}, {1e3, 1e3, " k/s"}, {0, 1, " /s"}}},
    [PLB_UNIT_FLOPS] = {"flop/s",
                        {{1e15, 1e15, " PFLOP/s"},
                         {1e12, 1e12, " TFLOP/s"},
                         {1e9, 1e9, " GFLOP/s"},
                         {1e6, 1e6, " MFLOP/s"},
                         {0, 1, " FLOP/s"}}},
    [PLB_UNIT_FLOP_BYTE] = {"flop/byte", {{0, 1, " FLOP/B"}}},
};

double plb_unit_scale(plb_unit unit, double magnitude, const char **suffix) {
    const step *s = units[unit].steps;
    while (s->from > 0 && !(fabs(magnitude) >= s->from)) s++;
    *suffix = s->suffix;
    return s->scale;
}

const char *plb_unit_base(plb_unit unit) {
    return units[unit].base;
}

// Digits after the point for three significant ones, never fewer than a whole number needs.
static int digits_of(double value) {
    double size = fabs(value);
    return size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : size >= 0.09995 ? 3 : 4;
}

void plb_unit_show(plb_unit unit, double value, char out[PLB_UNIT_BYTES_SHOWN]) {
    const char *suffix;
    if (unit == PLB_UNIT_SHARE && fabs(value) < 1e-12) value = 0; // two equal means' rounding
    // 999,800 ns are 1.00 ms: what rounds up to the next step belongs to it.
    double scale = plb_unit_scale(unit, value * 1.0005, &suffix), shown = value / scale;
    bool whole = shown == floor(shown) && fabs(shown) < 1e6;
    if (isnan(value))
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "-");
    else if (isinf(value))
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "%s∞", value < 0 ? "−" : "");
    else if (value == 0 || (whole && scale == 1 && unit != PLB_UNIT_RATIO))
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "%.0f%s", shown, suffix);
    else if (fabs(shown) < 0.001 || fabs(shown) >= 1e6)
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "%.3g%s", shown, suffix);
    else if (unit == PLB_UNIT_RATIO && fabs(shown) < 99.995)
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "%.*f%s", fabs(shown) < 9.9995 ? 3 : 2, shown, suffix);
    else
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "%.*f%s", digits_of(shown), shown, suffix);
}

static double decade_of(double value) {
    return floor(log10(fabs(value)) + 1e-9);
}

void plb_unit_show_tick(plb_unit unit, double value, double magnitude, double apart,
                        char out[PLB_UNIT_BYTES_SHOWN]) {
    const char *suffix;
    const double scale = plb_unit_scale(unit, magnitude, &suffix);
    const double needed =
        value != 0 && apart > 0 ? decade_of(value / scale) - decade_of(apart / scale) + 1 : 0;
    const int digits = (int)fmin(fmax(needed, 4), 15);
    snprintf(out, PLB_UNIT_BYTES_SHOWN, "%.*g%s", digits, value / scale, value == 0 ? "" : suffix);
}

void plb_moment_show(int64_t unix_ms, char out[PLB_UNIT_BYTES_SHOWN]) {
    const time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    if (unix_ms < 0 || !localtime_r(&seconds, &parts) ||
        !strftime(out, PLB_UNIT_BYTES_SHOWN, "%Y-%m-%d %H:%M", &parts))
        snprintf(out, PLB_UNIT_BYTES_SHOWN, "-");
}
