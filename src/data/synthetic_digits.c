// SPDX-License-Identifier: Apache-2.0
// Each digit is a few pen strokes, lines and arcs of ellipses, in a box of x in -0.6…0.6 and y in
// -1…1. A sample bends, slants, scales, turns and shifts them; a pixel's ink follows from its
// distance to the nearest stroke.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "data/draw.h"
#include "data/synthetic_set.h"

// A line from (a, b) to (c, d), or the arc of an ellipse at (a, b) with radii c, d, from one angle
// to another in degrees (0 to the right, 90 down).
typedef struct stroke {
    enum { NONE, LINE, ARC } kind;
    float a, b, c, d, from, to;
} stroke;

enum { MOST_STROKES = 5, ARC_PIECES = 14 };

static const stroke digits[10][MOST_STROKES] = {
    {{ARC, 0, 0, 0.55f, 1, 0, 360}},
    {{LINE, -0.18f, -0.75f, 0.05f, -1, 0, 0}, {LINE, 0.05f, -1, 0.05f, 1, 0, 0}},
    {{ARC, 0, -0.5f, 0.5f, 0.5f, -175, 35},
     {LINE, 0.41f, -0.21f, -0.55f, 1, 0, 0},
     {LINE, -0.55f, 1, 0.55f, 1, 0, 0}},
    {{ARC, 0, -0.5f, 0.48f, 0.5f, -165, 90}, {ARC, 0, 0.5f, 0.55f, 0.5f, -90, 160}},
    {{LINE, 0.15f, -1, -0.55f, 0.3f, 0, 0},
     {LINE, -0.55f, 0.3f, 0.6f, 0.3f, 0, 0},
     {LINE, 0.25f, -0.5f, 0.25f, 1, 0, 0}},
    {{LINE, 0.48f, -1, -0.4f, -1, 0, 0},
     {LINE, -0.4f, -1, -0.45f, 0.04f, 0, 0},
     {ARC, -0.02f, 0.4f, 0.54f, 0.6f, -143, 150}},
    {{ARC, 0.5f, 0.45f, 1, 1.45f, -178, -98}, {ARC, 0, 0.45f, 0.5f, 0.54f, 0, 360}},
    {{LINE, -0.52f, -1, 0.52f, -1, 0, 0}, {LINE, 0.52f, -1, -0.12f, 1, 0, 0}},
    {{ARC, 0, -0.5f, 0.42f, 0.48f, 0, 360}, {ARC, 0, 0.5f, 0.52f, 0.5f, 0, 360}},
    {{ARC, 0, -0.46f, 0.47f, 0.52f, 0, 360},
     {LINE, 0.47f, -0.5f, 0.42f, 0.2f, 0, 0},
     {LINE, 0.42f, 0.2f, 0.25f, 1, 0, 0}},
};

// How this sample is written; lengths in pixels.
typedef struct hand {
    float xx, xy, yx, yy, x0, y0; // pixel = matrix * point + (x0, y0)
    float bend_x, bend_y, phase;  // a slow wave along the other axis, in box units
    float half_pen, ink, noise;
} hand;

static hand draw_hand(plb_dice *dice, int64_t size) {
    float unit = (float)size / 28.0f; // as large as MNIST's digits in 28 pixels
    float height = unit * plb_dice_uniform(dice, 8.0f, 10.0f);
    float width = height * plb_dice_uniform(dice, 0.8f, 1.15f);
    float slant = plb_dice_uniform(dice, -0.25f, 0.1f);
    float angle = plb_dice_uniform(dice, -0.15f, 0.15f);
    float c = cosf(angle), s = sinf(angle), centre = 0.5f * (float)size;
    hand how = {.xx = c * width, .xy = c * slant * height - s * height};
    how.yx = s * width, how.yy = s * slant * height + c * height;
    how.x0 = centre + unit * plb_dice_uniform(dice, -2, 2);
    how.y0 = centre + unit * plb_dice_uniform(dice, -2, 2);
    how.bend_x = plb_dice_uniform(dice, -0.1f, 0.1f);
    how.bend_y = plb_dice_uniform(dice, -0.1f, 0.1f);
    how.phase = plb_dice_uniform(dice, 0, 6.2831853f);
    how.half_pen = unit * plb_dice_uniform(dice, 0.9f, 1.7f);
    how.ink = plb_dice_uniform(dice, 0.75f, 1.1f); // more than 1: saturated strokes
    how.noise = plb_dice_uniform(dice, 0, 0.1f);
    return how;
}

static plb_point place(const hand *how, float x, float y) {
    float bent_x = x + how->bend_x * sinf(2.5f * y + how->phase);
    float bent_y = y + how->bend_y * sinf(2.5f * x + how->phase);
    return (plb_point){how->xx * bent_x + how->xy * bent_y + how->x0,
                       how->yx * bent_x + how->yy * bent_y + how->y0};
}

static int64_t clamp_to(float value, int64_t size) {
    return value < 0 ? 0 : value > (float)size ? size : (int64_t)value;
}

// Lowers the squared distances of the pixels that the pen can reach from segment ab.
static void draw_segment(float *distance2, int64_t size, plb_point a, plb_point b, float reach) {
    int64_t top = clamp_to(fminf(a.y, b.y) - reach, size);
    int64_t bottom = clamp_to(fmaxf(a.y, b.y) + reach + 1, size);
    int64_t left = clamp_to(fminf(a.x, b.x) - reach, size);
    int64_t right = clamp_to(fmaxf(a.x, b.x) + reach + 1, size);
    for (int64_t y = top; y < bottom; y++) {
        for (int64_t x = left; x < right; x++) {
            plb_point centre = {(float)x + 0.5f, (float)y + 0.5f};
            float d = plb_segment_distance2(centre, a, b);
            if (d < distance2[y * size + x]) distance2[y * size + x] = d;
        }
    }
}

// Lines are cut into pieces too, so that bending bends them.
static void draw_stroke(float *distance2, int64_t size, const hand *how, const stroke *line) {
    const float radians = 0.017453293f, reach = how->half_pen + 1;
    plb_point before = {0};
    for (int i = 0; i <= ARC_PIECES; i++) {
        float t = (float)i / ARC_PIECES, x, y;
        if (line->kind == LINE) {
            x = line->a + t * (line->c - line->a), y = line->b + t * (line->d - line->b);
        } else {
            float angle = radians * (line->from + t * (line->to - line->from));
            x = line->a + line->c * cosf(angle), y = line->b + line->d * sinf(angle);
        }
        plb_point now = place(how, x, y);
        if (i > 0) draw_segment(distance2, size, before, now, reach);
        before = now;
    }
}

// Noise of a pixel is the difference of two uniform bytes: a triangle, mean zero.
static void ink_pixels(const float *distance2, int64_t count, const hand *how, plb_dice noise,
                       uint8_t *pixels) {
    uint32_t word = 0;
    for (int64_t i = 0; i < count; i++, word >>= 16) {
        if (i % 2 == 0) word = plb_dice_word(&noise);
        float shade = 0;
        if (distance2[i] < INFINITY)
            shade = how->ink * plb_coverage(sqrtf(distance2[i]) - how->half_pen);
        int grain = (int)(word & 255u) - (int)(word >> 8 & 255u);
        pixels[i] = plb_pixel(shade + how->noise * (float)grain / 255.0f);
    }
}

static plb_status digits_get(const plb_dataset *set, int64_t i, plb_scratch *scratch,
                             void *sample) {
    int64_t size = set->info.height, count = size * size;
    uint64_t key = ((const plb_synthetic_set *)set)->key;
    float *distance2 = plb_scratch_reserve(scratch, 0, (size_t)count * sizeof *distance2);
    if (!distance2) return plb_fail(PLB_ENOMEM, "%s: no memory to draw", set->info.name);
    for (int64_t k = 0; k < count; k++) distance2[k] = INFINITY;
    plb_dice dice = plb_dice_new(key, i, PLB_STREAM_SAMPLE);
    hand how = draw_hand(&dice, size);
    const stroke *strokes = digits[plb_synthetic_label(set, i)];
    for (int s = 0; s < MOST_STROKES && strokes[s].kind != NONE; s++)
        draw_stroke(distance2, size, &how, &strokes[s]);
    ink_pixels(distance2, count, &how, plb_dice_new(key, i, PLB_STREAM_NOISE), sample);
    return PLB_OK;
}

plb_status plb_synthetic_digits_new(const plb_synthetic_options *options, plb_dataset **out) {
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static const plb_dataset_ops ops = {.get = digits_get, .label = plb_synthetic_label};
    plb_dataset_info info = {.name = "digits",
                             .kind = "synthetic",
                             .count = options->split == PLB_TRAIN ? 60000 : 10000,
                             .classes = 10,
                             .channels = 1,
                             .height = 28,
                             .width = 28,
                             .dtype = PLB_U8,
                             .class_names = names,
                             .mean = {0.1276f},
                             .std = {0.2850f}};
    return plb_synthetic_new(&info, &ops, options, out);
}
