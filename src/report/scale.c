// SPDX-License-Identifier: Apache-2.0
#include "report/scale.h"

#include <math.h>
#include <stddef.h>

// What lies farther out stands at the end of its axis: steps and powers beyond would overflow.
#define MOST 1e300

// The least of 1, 2, 5 times a power of ten that is not below `value`.
static double round_up(double value) {
    double power = pow(10, floor(log10(value))), digit = value / power;
    return power * (digit <= 1.0000001 ? 1 : digit <= 2.0000001 ? 2 : digit <= 5.0000001 ? 5 : 10);
}

static double round_down(double value) {
    double power = pow(10, floor(log10(value) + 1e-9)), digit = value / power;
    return power * (digit >= 4.9999999 ? 5 : digit >= 1.9999999 ? 2 : 1);
}

static void fit_linear(plb_scale *s, const plb_figure_axis *axis, double least, double most,
                       int about) {
    const char *suffix;
    least = fmin(fmax(least, -MOST), MOST), most = fmin(fmax(most, -MOST), MOST);
    if (axis->zero || (least >= 0 && least < 0.4 * most)) least = fmin(least, 0);
    if (most <= 0 && axis->zero) most = 0;
    if (!(most - least > 1 / MOST)) most = least + (fabs(least) > 1 / MOST ? fabs(least) * 0.1 : 1);
    // Ticks are round numbers of the unit that they are shown in: of MiB, of minutes. The axis' end
    // chooses it, which may lie where a larger one begins: 115 s end at 2 minutes.
    double step = 0, end = fmax(fabs(least), fabs(most));
    for (int pass = 0; pass < 2; pass++) {
        double unit = plb_unit_scale(axis->unit, end, &suffix);
        step = round_up((most - least) / unit / about) * unit;
        if (axis->unit == PLB_UNIT_COUNT && step < 1) step = 1;
        s->low = floor(least / step + 1e-9) * step;
        s->high = ceil(most / step - 1e-9) * step;
        end = fmax(fabs(s->low), fabs(s->high));
    }
    s->ticks = 0;
    for (int i = 0; i < PLB_MOST_TICKS && s->low + i * step <= s->high + step / 2; i++)
        s->tick[s->ticks++] = fabs(s->low + i * step) < step / 1e6 ? 0 : s->low + i * step;
}

// Bytes: powers of two. Others: powers of ten, with 2 and 5 between where there is room.
static void ticks_log(plb_scale *s, int about) {
    s->ticks = 0;
    if (s->unit == PLB_UNIT_BYTES) {
        int low = (int)ceil(log2(s->low) - 1e-9), high = (int)floor(log2(s->high) + 1e-9), step = 1;
        while ((high - low) / step >= about) step = step == 1 ? 2 : step == 2 ? 5 : step * 2;
        for (int e = (int)ceil((double)low / step) * step; e <= high && s->ticks < PLB_MOST_TICKS;
             e += step)
            s->tick[s->ticks++] = exp2(e);
        return;
    }
    double decades = log10(s->high) - log10(s->low);
    int every = 1;
    while (decades / every > about) every++;
    for (int e = (int)floor(log10(s->low) + 1e-9); e <= (int)ceil(log10(s->high)); e++) {
        static const double between[] = {1, 2, 5};
        for (int i = 0; i < (decades * 3 <= about + 1 ? 3 : 1); i++) {
            double at = between[i] * pow(10, e);
            if (at < s->low * (1 - 1e-9) || at > s->high * (1 + 1e-9) || e % every != 0) continue;
            if (s->ticks < PLB_MOST_TICKS) s->tick[s->ticks++] = at;
        }
    }
}

static void fit_log(plb_scale *s, double least, double most, int about) {
    if (!(least > 0)) least = most > 0 ? most / 10 : 1;
    if (!(most >= least)) most = least;
    least = fmin(fmax(least, 1 / MOST), MOST), most = fmin(fmax(most, 1 / MOST), MOST);
    if (s->unit == PLB_UNIT_BYTES) {
        s->low = exp2(floor(log2(least) + 1e-9)), s->high = exp2(ceil(log2(most) - 1e-9));
        if (s->low == s->high) s->low /= 2, s->high *= 2;
    } else {
        s->low = round_down(least), s->high = round_up(most);
        if (s->high / s->low < 1.5)
            s->low = round_down(least * 0.6), s->high = round_up(most * 1.6);
    }
    ticks_log(s, about);
}

void plb_scale_fit(plb_scale *scale, const plb_figure_axis *axis, double least, double most,
                   int about) {
    const bool given = axis->low != 0 || axis->high != 0;
    scale->unit = axis->unit, scale->log = axis->log;
    if (!(least <= most)) least = axis->log ? 1 : 0, most = axis->log ? 10 : 1;
    if (given) least = axis->low, most = axis->high;
    if (axis->log)
        fit_log(scale, least, most, about);
    else
        fit_linear(scale, axis, least, most, about);
}

void plb_scale_ticks_at(plb_scale *scale, const double *values, size_t count, int most) {
    double kept[PLB_MOST_TICKS];
    int n = 0;
    for (size_t i = 0; i < count; i++) {
        int at = 0;
        if (!plb_scale_holds(scale, values[i])) continue;
        while (at < n && kept[at] < values[i]) at++;
        if (at < n && kept[at] == values[i]) continue;
        if (n == most || n == PLB_MOST_TICKS) return;
        for (int k = n++; k > at; k--) kept[k] = kept[k - 1];
        kept[at] = values[i];
    }
    if (!n) return;
    for (int i = 0; i < n; i++) scale->tick[i] = kept[i];
    scale->ticks = n;
}

bool plb_scale_holds(const plb_scale *scale, double value) {
    double slack = scale->log ? scale->low * 1e-9 : (scale->high - scale->low) * 1e-9;
    return value >= scale->low - slack && value <= scale->high + slack;
}

double plb_scale_at(const plb_scale *scale, double value) {
    double v = fmin(fmax(value, scale->low), scale->high);
    // The ends' ratio may overflow; the difference of their logarithms does not.
    double share = scale->log ? (log(v) - log(scale->low)) / (log(scale->high) - log(scale->low))
                              : (v - scale->low) / (scale->high - scale->low);
    return scale->from + fmin(fmax(share, 0), 1) * (scale->to - scale->from);
}

// How far its nearest neighbour is; 0: there is none.
static double step_at(const plb_scale *scale, int tick) {
    const double *at = scale->tick + tick;
    const double before = tick > 0 ? at[0] - at[-1] : 0;
    const double behind = tick + 1 < scale->ticks ? at[1] - at[0] : 0;
    return before > 0 && behind > 0 ? fmin(before, behind) : fmax(before, behind);
}

void plb_scale_tick_text(const plb_scale *scale, int tick, char out[PLB_UNIT_BYTES_SHOWN]) {
    // The ticks of a logarithmic axis are far apart: each has the unit that suits it.
    const double value = scale->tick[tick];
    plb_unit_show_tick(scale->unit, value,
                       scale->log ? value : fmax(fabs(scale->low), fabs(scale->high)),
                       step_at(scale, tick), out);
}
