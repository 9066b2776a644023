// SPDX-License-Identifier: Apache-2.0
// Drawing by distance: a pixel is covered as far as the signed distance of its centre from an
// outline (negative inside) says, so that edges are smooth at any size. And the dice that decide
// where and how to draw: counter-based, so a sample is a function of (key, index) alone.
#ifndef PLB_DATA_DRAW_H
#define PLB_DATA_DRAW_H

#include <stdint.h>

#include "base/core/philox.h"
#include "data/streams.h"

typedef struct plb_point {
    float x, y; // y grows downwards, as rows do
} plb_point;

// A sequence of random numbers that belongs to one sample.
typedef struct plb_dice {
    uint64_t key, index;
    plb_stream_use use;
    int64_t used; // words
    plb_philox_block block;
} plb_dice;

static inline plb_dice plb_dice_new(uint64_t key, int64_t index, plb_stream_use use) {
    return (plb_dice){.key = key, .index = (uint64_t)index, .use = use};
}

static inline uint32_t plb_dice_word(plb_dice *dice) {
    if (dice->used % 4 == 0)
        dice->block = plb_philox(dice->key, dice->index, plb_stream(dice->use, dice->used / 4));
    return dice->block.word[dice->used++ % 4];
}

// Uniform in [low, high).
static inline float plb_dice_uniform(plb_dice *dice, float low, float high) {
    return low + (high - low) * plb_uniform_f32(plb_dice_word(dice));
}

// How much of a pixel lies inside, its centre `distance` pixels from the edge.
static inline float plb_coverage(float distance) {
    float inside = 0.5f - distance;
    return inside < 0 ? 0 : inside > 1 ? 1 : inside;
}

// A fraction as a pixel, clamped.
static inline uint8_t plb_pixel(float fraction) {
    return fraction <= 0 ? 0 : fraction >= 1 ? 255 : (uint8_t)(fraction * 255.0f + 0.5f);
}

// Square of the distance of p from the segment ab.
float plb_segment_distance2(plb_point p, plb_point a, plb_point b);
// Signed distances. A polygon has its corners in either sense and must not cross itself.
float plb_polygon_distance(plb_point p, const plb_point *corner, int count);
float plb_circle_distance(plb_point p, plb_point centre, float radius);
float plb_box_distance(plb_point p, float half_width, float half_height); // centred at (0, 0)

#endif
