// SPDX-License-Identifier: Apache-2.0
#include "data/contact_sheet.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "data/draw.h"

enum { GLYPH_WIDTH = 6, GLYPH_HEIGHT = 7, GAP = 4, NAME_LETTERS = 16, LEAST_SIDE = 48 };
static const uint8_t paper[3] = {250, 250, 248}, ink[3] = {30, 30, 36};

// Letters of 5 x 7 points; a row is five bits, the left one highest. The last one stands for all
// that are not here.
static const struct {
    char letter;
    uint8_t row[GLYPH_HEIGHT];
} glyphs[] = {
    {' ', {0}},
    {'A', {0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
    {'B', {0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e}},
    {'C', {0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e}},
    {'D', {0x1e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1e}},
    {'E', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f}},
    {'F', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10}},
    {'G', {0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f}},
    {'H', {0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
    {'I', {0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'J', {0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c}},
    {'K', {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11}},
    {'L', {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f}},
    {'M', {0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11}},
    {'N', {0x11, 0x19, 0x15, 0x13, 0x11, 0x11, 0x11}},
    {'O', {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
    {'P', {0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10}},
    {'Q', {0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d}},
    {'R', {0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11}},
    {'S', {0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e}},
    {'T', {0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04}},
    {'U', {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
    {'V', {0x11, 0x11, 0x11, 0x11, 0x11, 0x0a, 0x04}},
    {'W', {0x11, 0x11, 0x11, 0x15, 0x15, 0x15, 0x0a}},
    {'X', {0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11}},
    {'Y', {0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04}},
    {'Z', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f}},
    {'0', {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}},
    {'1', {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'2', {0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f}},
    {'3', {0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e}},
    {'4', {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}},
    {'5', {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e}},
    {'6', {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e}},
    {'7', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08}},
    {'8', {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}},
    {'9', {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c}},
    {'-', {0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00}},
    {'_', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}},
    {'/', {0x01, 0x01, 0x02, 0x04, 0x08, 0x10, 0x10}},
    {'.', {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}},
    {',', {0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08}},
    {':', {0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00}},
    {'(', {0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02}},
    {')', {0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08}},
    {'?', {0x0e, 0x11, 0x01, 0x02, 0x04, 0x00, 0x04}},
};
enum { GLYPHS = sizeof glyphs / sizeof *glyphs };

static const uint8_t *glyph_of(char letter) {
    int wanted = toupper((unsigned char)letter);
    for (int i = 0; i < GLYPHS; i++)
        if (glyphs[i].letter == wanted) return glyphs[i].row;
    return glyphs[GLYPHS - 1].row;
}

static void set_pixel(plb_image *to, int64_t x, int64_t y, const uint8_t *colour) {
    if (x >= 0 && y >= 0 && x < to->width && y < to->height)
        memcpy(to->pixels + 3 * (y * to->width + x), colour, 3);
}

static void write_text(plb_image *to, int64_t left, int64_t top, const char *text, int letters) {
    for (int i = 0; text[i] && i < letters; i++, left += GLYPH_WIDTH) {
        const uint8_t *rows = glyph_of(text[i]);
        for (int y = 0; y < GLYPH_HEIGHT; y++)
            for (int x = 0; x < 5; x++)
                if (rows[y] >> (4 - x) & 1) set_pixel(to, left + x, top + y, ink);
    }
}

typedef struct sheet {
    const plb_dataset *set;
    int64_t columns, rows, scale; // pixels a pixel
    uint64_t seed;
    plb_scratch scratch;
    void *sample;
    int64_t *members; // indices of a class's samples
    plb_image *image;
} sheet;

static int64_t cell_height(const sheet *s) {
    return s->set->info.height * s->scale + GAP;
}

static int64_t names_width(void) {
    return NAME_LETTERS * GLYPH_WIDTH + 2 * GAP;
}

static uint8_t value_at(const plb_dataset_info *info, const void *sample, int64_t channel,
                        int64_t at) {
    int64_t i = channel * info->height * info->width + at;
    if (info->dtype == PLB_U8) return ((const uint8_t *)sample)[i];
    return plb_pixel(((const float *)sample)[i]);
}

// One channel is grey; of four the last is left out.
static void draw_sample(sheet *s, int64_t left, int64_t top) {
    const plb_dataset_info *info = &s->set->info;
    for (int64_t y = 0; y < info->height * s->scale; y++) {
        for (int64_t x = 0; x < info->width * s->scale; x++) {
            int64_t at = y / s->scale * info->width + x / s->scale;
            uint8_t colour[3];
            for (int c = 0; c < 3; c++)
                colour[c] = value_at(info, s->sample, info->channels < 3 ? 0 : c, at);
            set_pixel(s->image, left + x, top + y, colour);
        }
    }
}

static int64_t find_members(sheet *s, int64_t class) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->set->info.count; i++)
        if (s->set->ops->label(s->set, i) == class) s->members[count++] = i;
    return count;
}

// The first `columns` of the class's samples in an order drawn by Fisher and Yates' method.
static plb_status draw_row(sheet *s, int64_t class, int64_t top) {
    const plb_dataset_info *info = &s->set->info;
    int64_t members = find_members(s, class), left = names_width();
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)class);
    write_text(s->image, GAP, top + GAP, info->class_names ? info->class_names[class] : number,
               NAME_LETTERS);
    snprintf(number, sizeof number, "%lld", (long long)members);
    write_text(s->image, GAP, top + GAP + GLYPH_HEIGHT + 3, number, NAME_LETTERS);
    for (int64_t k = 0; k < s->columns && k < members; k++, left += info->width * s->scale + GAP) {
        uint32_t word = plb_philox(s->seed, (uint64_t) class, (uint64_t)k).word[0];
        int64_t other = k + (int64_t)((uint64_t)word * (uint64_t)(members - k) >> 32);
        int64_t chosen = s->members[other];
        s->members[other] = s->members[k];
        PLB_TRY(plb_dataset_get(s->set, chosen, &s->scratch, s->sample, NULL));
        draw_sample(s, left, top);
    }
    return PLB_OK;
}

static plb_status draw_all(sheet *s, const char *title) {
    const plb_dataset_info *info = &s->set->info;
    char line[160];
    for (int64_t i = 0; i < s->image->width * s->image->height; i++)
        memcpy(s->image->pixels + 3 * i, paper, 3);
    snprintf(line, sizeof line, "%s: %lld samples, %lld classes, %lld x %lld x %lld",
             title ? title : info->name, (long long)info->count, (long long)info->classes,
             (long long)info->channels, (long long)info->height, (long long)info->width);
    write_text(s->image, GAP, GAP, line, sizeof line);
    int64_t top = GLYPH_HEIGHT + 2 * GAP;
    for (int64_t r = 0; r < s->rows; r++, top += cell_height(s))
        PLB_TRY(draw_row(s, r * info->classes / s->rows, top));
    return PLB_OK;
}

static plb_status make_room(sheet *s) {
    const plb_dataset_info *info = &s->set->info;
    int64_t width = names_width() + s->columns * (info->width * s->scale + GAP);
    int64_t title_width = 90 * GLYPH_WIDTH;
    s->sample = plb_alloc(plb_dataset_sample_bytes(s->set));
    s->members = plb_alloc_array((size_t)info->count + 1, sizeof *s->members);
    if (!s->sample || !s->members)
        return plb_fail(PLB_ENOMEM, "%s: no memory for a contact sheet", info->name);
    return plb_image_new(GLYPH_HEIGHT + 2 * GAP + s->rows * cell_height(s),
                         width > title_width ? width : title_width, s->image);
}

plb_status plb_contact_sheet(const plb_dataset *set, const plb_contact_options *options,
                             plb_image *out) {
    const plb_dataset_info *info = &set->info;
    int64_t rows = options->rows > 0 ? options->rows : 20, side = info->width;
    *out = (plb_image){0};
    sheet s = {.set = set,
               .columns = options->columns > 0 ? options->columns : 10,
               .rows = rows < info->classes ? rows : info->classes,
               .scale = side >= LEAST_SIDE ? 1 : (LEAST_SIDE + side - 1) / side,
               .seed = options->seed,
               .image = out};
    plb_status status;
    PLB_TRY_OUT(make_room(&s));
    PLB_TRY_OUT(draw_all(&s, options->title));
out:
    plb_scratch_free(&s.scratch);
    plb_free(s.sample);
    plb_free(s.members);
    if (status) plb_image_free(out);
    return status;
}
