// SPDX-License-Identifier: Apache-2.0
#include "report/palette.h"

#include <math.h>
#include <stddef.h>

typedef struct colour {
    uint32_t light, dark;
    const char *class;
} colour;

static const colour colours[PLB_INK_SERIES + PLB_PALETTE + 1] = {
    [PLB_INK_TEXT] = {0x1b2430, 0xe6ebf0, "t"},
    [PLB_INK_FAINT] = {0x5a6775, 0x9dabb8, "m"},
    [PLB_INK_GRID] = {0xdde3e8, 0x333e49, "g"},
    [PLB_INK_WASH] = {0xeef1f4, 0x262f38, "w"},
    [PLB_INK_PAPER] = {0xffffff, 0x161c22, "p"},
    [PLB_INK_SERIES + 1] = {0x0b5fa5, 0x5aa9f0, "s1"},
    [PLB_INK_SERIES + 2] = {0xb93a06, 0xff7a3c, "s2"},
    [PLB_INK_SERIES + 3] = {0x2a8a57, 0x5ccb93, "s3"},
    [PLB_INK_SERIES + 4] = {0x9579e2, 0xc9b6ff, "s4"},
    [PLB_INK_SERIES + 5] = {0xc88100, 0xf5c65a, "s5"},
    [PLB_INK_SERIES + 6] = {0xc2569b, 0xe080c4, "s6"},
    [PLB_INK_SERIES + 7] = {0x4293cc, 0x9cd0f5, "s7"},
    [PLB_INK_SERIES + 8] = {0x7a5c3e, 0xc9a67e, "s8"},
    [PLB_INK_SERIES + 9] = {0x8f1d3f, 0xf0708f, "s9"},
    [PLB_INK_SERIES + 10] = {0x14284b, 0x7d93c8, "s10"},
    [PLB_INK_SERIES + 11] = {0x5f6b76, 0xa5b0ba, "s11"},
};
enum { COLOURS = sizeof colours / sizeof *colours };

uint32_t plb_ink_rgb(plb_ink ink, int dark) {
    if (ink >= COLOURS) return ink & 0xffffff;
    return dark ? colours[ink].dark : colours[ink].light;
}

const char *plb_ink_class(plb_ink ink) {
    return ink < COLOURS ? colours[ink].class : NULL;
}

// Between two colours, each channel for itself.
static uint32_t mix(uint32_t a, uint32_t b, double share) {
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double x = (double)(a >> shift & 255), y = (double)(b >> shift & 255);
        out |= (uint32_t)lround(x + (y - x) * share) << shift;
    }
    return out;
}

static uint32_t along(const uint32_t *stops, int count, double share) {
    double at = fmin(fmax(share, 0), 1) * (count - 1);
    int i = (int)at;
    return i >= count - 1 ? stops[count - 1] : mix(stops[i], stops[i + 1], at - i);
}

uint32_t plb_ramp(double share) {
    static const uint32_t stops[] = {0xfdf4cf, 0xb5dcb4, 0x55afb0, 0x2f72a8, 0x2a2c6e};
    return along(stops, sizeof stops / sizeof *stops, share);
}

uint32_t plb_ramp_ratio(double share) {
    static const uint32_t below[] = {0xf4f3ef, 0x8fbbe0, 0x1c5a9c};
    static const uint32_t above[] = {0xf4f3ef, 0xf2b183, 0xb2450c};
    return share < 0 ? along(below, 3, -share) : along(above, 3, share);
}

// Relative luminance as in WCAG 2.
static double luminance(uint32_t rgb) {
    static const double weight[] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double v = (double)(rgb >> (16 - 8 * i) & 255) / 255;
        sum += weight[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

plb_ink plb_ink_over(uint32_t rgb) {
    double l =
        luminance(rgb); // contrast with white: 1.05 / (l + 0.05); with black: (l + 0.05) / 0.05
    return PLB_INK_RGB((l + 0.05) * (l + 0.05) < 1.05 * 0.05 ? 0xffffff : 0x000000);
}
