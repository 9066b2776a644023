// SPDX-License-Identifier: Apache-2.0
// A surface as a grid of coloured cells. Colours follow the logarithm of the value, since times
// over batches and resolutions span decades; all series of a figure share one scale, so that a
// darker cell is slower whichever stack is looked at. Ratios are pale at 1.
#include <math.h>
#include <stdio.h>

#include "report/sheet.h"

typedef struct heat {
    plb_sheet *sheet;
    size_t series;
    int against; // counted from 1; 0: values themselves
    double least, most;
    double left, cell_w, cell_h;
} heat;

static double value_of(const heat *h, size_t cell) {
    const plb_figure *f = h->sheet->figure;
    double value = f->series[h->series].y[cell];
    return h->against ? value / f->series[h->against - 1].y[cell] : value;
}

static void find_range(heat *h) {
    const plb_figure *f = h->sheet->figure;
    h->least = h->most = (double)NAN;
    for (size_t s = 0; s < f->series_count; s++) {
        for (size_t i = 0; i < f->series[s].count; i++) {
            double value = f->series[s].y[i];
            if (isnan(value) || isinf(value) || (f->y.log && !(value > 0))) continue;
            h->least = fmin(h->least, value), h->most = fmax(h->most, value);
        }
    }
}

enum { RATIO_END = 4 }; // ratios of 1/4 and 4 have the strongest colours

static uint32_t colour_of(const heat *h, double value) {
    if (h->against) return plb_ramp_ratio(fmin(fmax(log(value) / log(RATIO_END), -1), 1));
    if (!(h->most > h->least)) return plb_ramp(0.5);
    if (h->sheet->figure->y.log)
        return plb_ramp((log(value) - log(h->least)) / (log(h->most) - log(h->least)));
    return plb_ramp((value - h->least) / (h->most - h->least));
}

static const char *label_of(const heat *h, size_t cell) {
    const plb_figure_series *s = &h->sheet->figure->series[h->series];
    if (s->label && s->label[cell]) return s->label[cell];
    const plb_figure_series *other = h->against ? &h->sheet->figure->series[h->against - 1] : NULL;
    return other && other->label && other->label[cell] ? other->label[cell] : "";
}

static const char *tip_of(const heat *h, size_t row, size_t column, const char *value) {
    const plb_figure *f = h->sheet->figure;
    const char *name = f->series[h->series].name;
    const char *tip = plb_arena_printf(
        h->sheet->d->arena, "%s%s%s, %s %s, %s %s: %s", name, h->against ? " / " : "",
        h->against ? f->series[h->against - 1].name : "", f->x.title ? f->x.title : "column",
        f->category[column], f->row_title ? f->row_title : "row", f->row[row], value);
    if (!tip) h->sheet->d->failed = true;
    return tip;
}

static void put_cell(const heat *h, size_t row, size_t column, double x, double y) {
    plb_drawing *d = h->sheet->d;
    const plb_figure *f = h->sheet->figure;
    const size_t cell = row * f->categories + column;
    const double value = value_of(h, cell), size = h->cell_w < 52 ? 10 : 12;
    const bool known = !isnan(value) && (!(f->y.log || h->against) || value > 0);
    char text[PLB_UNIT_BYTES_SHOWN];
    plb_unit_show(h->against ? PLB_UNIT_RATIO : f->y.unit, value, text);
    const char *shown = known ? text : label_of(h, cell);
    const uint32_t colour = known ? colour_of(h, value) : 0;
    const plb_ink ground = known ? PLB_INK_RGB(colour) : (plb_ink)PLB_INK_WASH;
    plb_put_rect(d, x, y, h->cell_w - 1, h->cell_h - 1, ground)->tip =
        tip_of(h, row, column, *shown ? shown : "no value");
    if (plb_text_width(shown, size) <= h->cell_w - 2) {
        plb_put_text(d, x + h->cell_w / 2, y + h->cell_h / 2 + size * 0.35, 0, size,
                     known ? plb_ink_over(colour) : (plb_ink)PLB_INK_FAINT, shown);
    }
}

static double measure_rows(const plb_sheet *sheet) {
    double widest = 0;
    for (size_t i = 0; i < sheet->figure->rows; i++)
        widest = fmax(widest, plb_text_width(sheet->figure->row[i], sheet->size - 1));
    return widest;
}

// The rows, the first one at the bottom, as on a y axis.
static void put_grid(heat *h) {
    plb_sheet *sheet = h->sheet;
    const plb_figure *f = sheet->figure;
    const double size = sheet->size - 1;
    if (f->row_title) {
        plb_put_text(sheet->d, 4, sheet->y + size, -1, size, PLB_INK_FAINT, f->row_title);
        sheet->y += size + 8;
    }
    for (size_t i = f->rows; i-- > 0;) {
        plb_put_text(sheet->d, h->left - 6, sheet->y + h->cell_h / 2 + size * 0.35, 1, size,
                     PLB_INK_FAINT, plb_text_fit(sheet->d, f->row[i], size, h->left - 8));
        for (size_t k = 0; k < f->categories; k++)
            put_cell(h, i, k, h->left + (double)k * h->cell_w, sheet->y);
        sheet->y += h->cell_h;
    }
    sheet->y += size + 5;
    for (size_t k = 0; k < f->categories; k++) {
        plb_put_text(sheet->d, h->left + ((double)k + 0.5) * h->cell_w, sheet->y, 0, size,
                     PLB_INK_FAINT, plb_text_fit(sheet->d, f->category[k], size, h->cell_w));
    }
    if (f->x.title) {
        sheet->y += size + 6;
        plb_put_text(sheet->d, h->left + (double)f->categories * h->cell_w / 2, sheet->y, 0, size,
                     PLB_INK_FAINT, f->x.title);
    }
    sheet->y += 16;
}

// The scale of colours, with a few values.
static void put_key(const heat *h) {
    enum { STEPS = 24, TEXTS = 4 };
    plb_sheet *sheet = h->sheet;
    const plb_figure *f = sheet->figure;
    const double width = fmin(320, sheet->d->width - h->left - 30), size = sheet->size - 2;
    const bool log_key = f->y.log || h->against;
    const double low = h->against ? 1.0 / RATIO_END : h->least;
    const double high = h->against ? RATIO_END : h->most;
    if (!(high > low)) return;
    for (int i = 0; i < STEPS; i++) {
        double share = (i + 0.5) / STEPS;
        double value = log_key ? low * pow(high / low, share) : low + (high - low) * share;
        plb_put_rect(sheet->d, h->left + width * i / STEPS, sheet->y, width / STEPS + 0.5, 10,
                     PLB_INK_RGB(colour_of(h, value)));
    }
    for (int i = 0; i <= TEXTS; i++) {
        char text[PLB_UNIT_BYTES_SHOWN];
        double share = (double)i / TEXTS;
        double value = log_key ? low * pow(high / low, share) : low + (high - low) * share;
        plb_unit_show(h->against ? PLB_UNIT_RATIO : f->y.unit, value, text);
        plb_put_text(sheet->d, h->left + width * share, sheet->y + 10 + size + 2, i ? 0 : -1, size,
                     PLB_INK_FAINT, text);
    }
    sheet->y += 10 + size + 8;
}

static void put_one(plb_sheet *sheet, size_t series, int against) {
    const plb_figure *f = sheet->figure;
    heat h = {.sheet = sheet, .series = series, .against = against};
    find_range(&h);
    h.left = fmin(measure_rows(sheet) + 12, sheet->d->width * 0.3);
    h.cell_w = fmin((sheet->d->width - h.left - 6) / fmax((double)f->categories, 1), 90);
    h.cell_h = fmax(fmin(h.cell_w * 0.6, 36), 20);
    if (sheet->options->series == 0 && *f->series[series].name) {
        plb_put_text(sheet->d, 4, sheet->y + sheet->size, -1, sheet->size, PLB_INK_TEXT,
                     f->series[series].name)
            ->bold = true;
        sheet->y += sheet->size + 10;
    }
    put_grid(&h);
    put_key(&h);
}

void plb_draw_heat(plb_sheet *sheet) {
    const plb_figure *f = sheet->figure;
    const int one = sheet->options->series;
    if (!f->categories || !f->rows) return;
    for (size_t s = 0; s < f->series_count; s++) {
        if (one && (size_t)one != s + 1) continue;
        put_one(sheet, s, one ? sheet->options->against : 0);
        if (!one && s + 1 < f->series_count) sheet->y += 18;
    }
}
