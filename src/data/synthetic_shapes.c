// SPDX-License-Identifier: Apache-2.0
// Ten outlines of about radius 1 around (0, 0), as signed distances. Turns are at most 30 degrees,
// so that none becomes another. Striped they are ten more: twenty classes, as PASCAL VOC has, with
// as many samples each as VOC 2012 has objects that are not difficult, so that a recipe for VOC
// meets the same classes, as unevenly filled, on a machine without it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/core/status.h"
#include "data/draw.h"
#include "data/synthetic_set.h"
#include "data/voc.h"

static float circle(plb_point p) {
    return plb_circle_distance(p, (plb_point){0}, 0.9f);
}

static float square(plb_point p) {
    return plb_box_distance(p, 0.75f, 0.75f);
}

static float triangle(plb_point p) {
    static const plb_point corner[] = {{0, -1}, {0.866f, 0.5f}, {-0.866f, 0.5f}};
    return plb_polygon_distance(p, corner, 3);
}

static float cross(plb_point p) {
    return fminf(plb_box_distance(p, 0.95f, 0.28f), plb_box_distance(p, 0.28f, 0.95f));
}

static float ring(plb_point p) {
    return fabsf(plb_circle_distance(p, (plb_point){0}, 0.72f)) - 0.2f;
}

// Five corners on radius 1, five between them on radius 0.42: (r sin a, -r cos a), a in 36 degrees.
static float star(plb_point p) {
    static const plb_point corner[] = {
        {0, -1},     {0.247f, -0.340f}, {0.951f, -0.309f}, {0.399f, 0.130f},   {0.588f, 0.809f},
        {0, 0.420f}, {-0.588f, 0.809f}, {-0.399f, 0.130f}, {-0.951f, -0.309f}, {-0.247f, -0.340f}};
    return plb_polygon_distance(p, corner, 10);
}

static float crescent(plb_point p) {
    float disc = plb_circle_distance(p, (plb_point){0}, 0.9f);
    float bite = plb_circle_distance(p, (plb_point){0.45f, -0.1f}, 0.7f);
    return fmaxf(disc, -bite);
}

// Two discs and, below, the corner whose sides touch them: from (0, 0.95) the tangent points are
// (±0.791, -0.037).
static float heart(plb_point p) {
    static const plb_point corner[] = {
        {0, 0.95f}, {0.791f, -0.037f}, {0.4f, -0.35f}, {-0.4f, -0.35f}, {-0.791f, -0.037f}};
    float right = plb_circle_distance(p, (plb_point){0.4f, -0.35f}, 0.5f);
    float left = plb_circle_distance(p, (plb_point){-0.4f, -0.35f}, 0.5f);
    return fminf(fminf(left, right), plb_polygon_distance(p, corner, 5));
}

static float bar(plb_point p) {
    return plb_box_distance(p, 0.97f, 0.2f);
}

static float arrow(plb_point p) {
    static const plb_point corner[] = {{1, 0},          {0.2f, 0.7f},     {0.2f, 0.24f},
                                       {-0.95f, 0.24f}, {-0.95f, -0.24f}, {0.2f, -0.24f},
                                       {0.2f, -0.7f}};
    return plb_polygon_distance(p, corner, 7);
}

enum { OUTLINES = 10, VOC_CLASSES = 2 * OUTLINES };

static const struct {
    const char *name;
    float (*distance)(plb_point p);
} shapes[OUTLINES] = {{"circle", circle},     {"square", square}, {"triangle", triangle},
                      {"cross", cross},       {"ring", ring},     {"star", star},
                      {"crescent", crescent}, {"heart", heart},   {"bar", bar},
                      {"arrow", arrow}};

typedef struct colour {
    float part[3]; // red, green, blue; 0 to 1
} colour;

static colour draw_colour(plb_dice *dice) {
    colour drawn;
    for (int c = 0; c < 3; c++) drawn.part[c] = plb_dice_uniform(dice, 0.05f, 0.95f);
    return drawn;
}

static float contrast(const colour *a, const colour *b) {
    float sum = 0;
    for (int c = 0; c < 3; c++) sum += fabsf(a->part[c] - b->part[c]);
    return sum;
}

// What a sample shows; lengths in pixels.
typedef struct scene {
    colour shape, stripe, from, to; // the background runs from one colour to the other
    float gradient_x, gradient_y;
    float x, y, radius, c, s; // centre, size, turn
    float noise;
    bool striped;
} scene;

static scene draw_scene(plb_dice *dice, int64_t size) {
    const float least_contrast = 0.6f, side = (float)size;
    scene shown = {.from = draw_colour(dice)};
    shown.to = shown.from;
    for (int c = 0; c < 3; c++) shown.to.part[c] += plb_dice_uniform(dice, -0.25f, 0.25f);
    // A colour too near to the background is drawn again; twenty failures are one in 10^11.
    for (int attempt = 0; attempt < 20; attempt++) {
        shown.shape = draw_colour(dice);
        if (contrast(&shown.shape, &shown.from) > least_contrast &&
            contrast(&shown.shape, &shown.to) > least_contrast)
            break;
    }
    float angle = plb_dice_uniform(dice, 0, 6.2831853f);
    shown.gradient_x = cosf(angle) / side, shown.gradient_y = sinf(angle) / side;
    shown.radius = side * plb_dice_uniform(dice, 0.18f, 0.42f);
    shown.x = plb_dice_uniform(dice, shown.radius, side - shown.radius);
    shown.y = plb_dice_uniform(dice, shown.radius, side - shown.radius);
    float turn = plb_dice_uniform(dice, -0.5235988f, 0.5235988f);
    shown.c = cosf(turn), shown.s = sinf(turn);
    shown.noise = plb_dice_uniform(dice, 0, 0.2f);
    return shown;
}

// How much of pixel (x, y) the shape covers.
static float shape_at(const scene *shown, float (*distance)(plb_point), float x, float y) {
    float dx = x - shown->x, dy = y - shown->y, far = shown->radius + 1;
    if (dx * dx + dy * dy > far * far) return 0;
    plb_point p = {(shown->c * dx + shown->s * dy) / shown->radius,
                   (shown->c * dy - shown->s * dx) / shown->radius};
    return plb_coverage(distance(p) * shown->radius);
}

// Stripes of 0.3 of the radius, along the shape's own y.
static const colour *colour_at(const scene *shown, float x, float y) {
    float across = (shown->c * (y - shown->y) - shown->s * (x - shown->x)) / shown->radius;
    bool odd = (int)floorf(across / 0.3f) & 1;
    return shown->striped && odd ? &shown->stripe : &shown->shape;
}

static void draw_sample(const plb_dataset *set, int64_t i, int64_t class, uint8_t *pixels) {
    int64_t size = set->info.height, plane = size * size;
    uint64_t key = ((const plb_synthetic_set *)set)->key;
    plb_dice dice = plb_dice_new(key, i, PLB_STREAM_SAMPLE);
    plb_dice noise = plb_dice_new(key, i, PLB_STREAM_NOISE);
    scene shown = draw_scene(&dice, size);
    float (*distance)(plb_point) = shapes[class % OUTLINES].distance;
    shown.striped = class >= OUTLINES;
    for (int c = 0; c < 3; c++) shown.stripe.part[c] = 1 - shown.shape.part[c];
    for (int64_t k = 0; k < plane; k++) {
        float x = (float)(k % size) + 0.5f, y = (float)(k / size) + 0.5f;
        float cover = shape_at(&shown, distance, x, y);
        float along = 0.5f + (x - 0.5f * (float)size) * shown.gradient_x +
                      (y - 0.5f * (float)size) * shown.gradient_y;
        const colour *paint = colour_at(&shown, x, y);
        uint32_t word = plb_dice_word(&noise); // a byte per colour
        for (int c = 0; c < 3; c++, word >>= 8) {
            float ground = shown.from.part[c] + along * (shown.to.part[c] - shown.from.part[c]);
            float shade = ground + cover * (paint->part[c] - ground);
            float grain = (float)(word & 255u) / 255.0f - 0.5f;
            pixels[c * plane + k] = plb_pixel(shade + shown.noise * grain);
        }
    }
}

static plb_status shapes_get(const plb_dataset *set, int64_t i, plb_scratch *scratch,
                             void *sample) {
    (void)scratch;
    draw_sample(set, i, plb_synthetic_label(set, i), sample); // [3,size,size]
    return PLB_OK;
}

plb_status plb_synthetic_shapes_new(const plb_synthetic_options *options, plb_dataset **out) {
    static const plb_dataset_ops ops = {.get = shapes_get, .label = plb_synthetic_label};
    const char *names[10];
    for (int k = 0; k < 10; k++) names[k] = shapes[k].name;
    plb_dataset_info info = {.name = "shapes",
                             .kind = "synthetic",
                             .count = options->split == PLB_TRAIN ? 10000 : 2000,
                             .classes = 10,
                             .channels = 3,
                             .height = 64,
                             .width = 64,
                             .dtype = PLB_U8,
                             .class_names = names,
                             .mean = {0.5f, 0.5f, 0.5f},
                             .std = {0.273f, 0.273f, 0.273f}};
    return plb_synthetic_new(&info, &ops, options, out);
}

// ---------------------------------------------------------------------------- as many as VOC has
// Objects that are not difficult, of the lists train and val, by class in alphabetical order
// (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/dbstats.html).
static const int16_t voc_objects[2][VOC_CLASSES] = {
    {432, 353, 560, 426, 629,  292, 1013, 605, 1178, 290,
     304, 756, 350, 357, 4194, 484, 400,  281, 313,  392},
    {433, 358, 559, 424, 630,  301, 1004, 612, 1176, 298,
     305, 759, 360, 356, 4372, 489, 413,  285, 315,  392}};
static const int64_t voc_total[2] = {13609, 13841};

// Classes come mixed, by a step that is prime to both totals: any first part of the set has about
// the whole one's shares.
static int64_t voc_label(const plb_dataset *set, int64_t i) {
    enum { STEP = 7919 };
    const int split = ((const plb_synthetic_set *)set)->split;
    int64_t at = i % voc_total[split] * STEP % voc_total[split], class = 0;
    while (at >= voc_objects[split][class]) at -= voc_objects[split][class ++];
    return class;
}

static plb_status voc_get(const plb_dataset *set, int64_t i, plb_scratch *scratch, void *sample) {
    (void)scratch;
    draw_sample(set, i, voc_label(set, i), sample);
    return PLB_OK;
}

plb_status plb_synthetic_voc_new(const plb_synthetic_options *options, plb_dataset **out) {
    static const plb_dataset_ops ops = {.get = voc_get, .label = voc_label};
    char text[VOC_CLASSES][48];
    const char *names[VOC_CLASSES];
    for (int k = 0; k < VOC_CLASSES; k++) {
        snprintf(text[k], sizeof text[k], "%s (%s%s)", plb_voc_names[k],
                 k < OUTLINES ? "" : "striped ", shapes[k % OUTLINES].name);
        names[k] = text[k];
    }
    plb_dataset_info info = {.name = "voc-shapes",
                             .kind = "synthetic",
                             .count = voc_total[options->split],
                             .classes = VOC_CLASSES,
                             .channels = 3,
                             .height = 96,
                             .width = 96,
                             .dtype = PLB_U8,
                             .class_names = names,
                             .mean = {0.5f, 0.5f, 0.5f},
                             .std = {0.273f, 0.273f, 0.273f}};
    return plb_synthetic_new(&info, &ops, options, out);
}
