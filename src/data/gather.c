// SPDX-License-Identifier: Apache-2.0
#include "data/gather.h"

#include <math.h>
#include <string.h>

#include "base/core/philox.h"
#include "base/core/status.h"
#include "data/streams.h"

plb_status plb_gather_init(plb_gather *gather, const plb_dataset_info *info, const float *mean,
                           const float *std) {
    *gather = (plb_gather){.channels = info->channels,
                           .height = info->height,
                           .width = info->width,
                           .dtype = info->dtype};
    for (int64_t c = 0; c < info->channels; c++) {
        float m = mean ? mean[c] : info->mean[c], s = std ? std[c] : info->std[c];
        if (!(s > 0) || !isfinite(s) || !isfinite(m))
            return plb_fail(PLB_EINVAL,
                            "%s: channel %d: expected a finite mean and a positive standard "
                            "deviation, found %g and %g",
                            info->name, (int)c, (double)m, (double)s);
        gather->mean[c] = m, gather->std[c] = s;
        for (int v = 0; v < 256; v++) gather->table[c][v] = ((float)v / 255.0f - m) / s;
    }
    return PLB_OK;
}

static void map_u8(const float *restrict table, const uint8_t *restrict from, int64_t count,
                   float *restrict to) {
    for (int64_t i = 0; i < count; i++) to[i] = table[from[i]];
}

static void map_u8_mirrored(const float *restrict table, const uint8_t *restrict from,
                            int64_t count, float *restrict to) {
    for (int64_t i = 0; i < count; i++) to[count - 1 - i] = table[from[i]];
}

static void map_f32(float mean, float std, const float *from, int64_t count, float *to) {
    for (int64_t i = 0; i < count; i++) to[i] = (from[i] - mean) / std;
}

// Where the crop begins in the unpadded picture, and whether it is mirrored.
typedef struct placement {
    int64_t dy, dx;
    bool flip;
} placement;

static placement draw_placement(const plb_gather *gather, int64_t epoch, int64_t index) {
    plb_philox_block draw =
        plb_philox(gather->seed, (uint64_t)index, plb_stream(PLB_STREAM_AUGMENT, epoch));
    uint64_t span = 2 * (uint64_t)gather->crop_padding + 1;
    return (placement){.dy = (int64_t)(draw.word[0] * span >> 32) - gather->crop_padding,
                       .dx = (int64_t)(draw.word[1] * span >> 32) - gather->crop_padding,
                       .flip = gather->flip && draw.word[2] >> 31};
}

static void mirror(float *row, int64_t width) {
    for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
        float kept = row[a];
        row[a] = row[b], row[b] = kept;
    }
}

// One row of the crop: black, the part that lies inside the picture, black.
static void crop_row(const plb_gather *gather, int64_t c, const void *plane, int64_t y,
                     placement at, float *to) {
    int64_t width = gather->width, begin = at.dx < 0 ? -at.dx : 0;
    int64_t end = at.dx > 0 ? width - at.dx : width;
    float black = (0.0f - gather->mean[c]) / gather->std[c];
    bool outside = y < 0 || y >= gather->height || begin >= end;
    if (outside) begin = end = width;
    for (int64_t x = 0; x < begin; x++) to[x] = black;
    for (int64_t x = end; x < width; x++) to[x] = black;
    if (outside) return;
    int64_t from = y * width + begin + at.dx;
    if (gather->dtype == PLB_U8)
        map_u8(gather->table[c], (const uint8_t *)plane + from, end - begin, to + begin);
    else
        map_f32(gather->mean[c], gather->std[c], (const float *)plane + from, end - begin,
                to + begin);
}

void plb_gather_sample(const plb_gather *gather, const void *sample, int64_t epoch, int64_t index,
                       float *x) {
    bool augment = gather->flip || gather->crop_padding > 0;
    placement at = augment ? draw_placement(gather, epoch, index) : (placement){0};
    int64_t height = gather->height, width = gather->width, plane = height * width;
    size_t element_bytes = gather->dtype == PLB_U8 ? 1 : sizeof(float);
    for (int64_t c = 0; c < gather->channels; c++) {
        const char *from = (const char *)sample + (size_t)(c * plane) * element_bytes;
        float *to = x + c * plane;
        if (!augment && gather->dtype == PLB_U8) {
            map_u8(gather->table[c], (const uint8_t *)from, plane, to);
            continue;
        }
        if (gather->dtype == PLB_U8 && !at.dy && !at.dx) { // nothing is cut off
            for (int64_t y = 0; y < height; y++)
                (at.flip ? map_u8_mirrored : map_u8)(
                    gather->table[c], (const uint8_t *)from + y * width, width, to + y * width);
            continue;
        }
        for (int64_t y = 0; y < height; y++) {
            crop_row(gather, c, from, y + at.dy, at, to + y * width);
            if (at.flip) mirror(to + y * width, width);
        }
    }
}

static void mirror_pixels(uint8_t *row, int64_t width) {
    for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
        uint8_t kept = row[a];
        row[a] = row[b], row[b] = kept;
    }
}

static void crop_pixels(const plb_gather *gather, const uint8_t *plane, int64_t y, placement at,
                        uint8_t *to) {
    int64_t width = gather->width, begin = at.dx < 0 ? -at.dx : 0;
    int64_t end = at.dx > 0 ? width - at.dx : width;
    memset(to, 0, (size_t)width);
    if (y < 0 || y >= gather->height || begin >= end) return;
    memcpy(to + begin, plane + y * width + begin + at.dx, (size_t)(end - begin));
}

void plb_gather_pixels(const plb_gather *gather, const void *sample, int64_t epoch, int64_t index,
                       uint8_t *x) {
    int64_t height = gather->height, width = gather->width, plane = height * width;
    if (!gather->flip && gather->crop_padding == 0) {
        memcpy(x, sample, (size_t)(gather->channels * plane));
        return;
    }
    placement at = draw_placement(gather, epoch, index);
    for (int64_t c = 0; c < gather->channels; c++) {
        const uint8_t *from = (const uint8_t *)sample + c * plane;
        for (int64_t y = 0; y < height; y++, x += width) {
            crop_pixels(gather, from, y + at.dy, at, x);
            if (at.flip) mirror_pixels(x, width);
        }
    }
}
