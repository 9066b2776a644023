// SPDX-License-Identifier: Apache-2.0
// Bars that lie: names of stacks and models are long, and a column of them is read from top to
// bottom. On a logarithmic axis a bar's length would mean nothing, so that dots stand there.
#include <math.h>

#include "report/sheet.h"

typedef struct bars {
    plb_sheet *sheet;
    plb_frame frame;
    plb_scale scale;
    double thick, gap; // of a bar, between categories
    double label_room; // left of the frame; 0: labels stand above their bars
} bars;

static double measure_labels(const plb_sheet *sheet) {
    double widest = 0;
    for (size_t i = 0; i < sheet->figure->categories; i++)
        widest = fmax(widest, plb_text_width(sheet->figure->category[i], sheet->size));
    return widest;
}

// The widest text that stands behind a bar.
static double measure_values(const plb_sheet *sheet, bool stacked) {
    const plb_figure *f = sheet->figure;
    char text[PLB_UNIT_BYTES_SHOWN];
    double widest = 0;
    for (size_t c = 0; c < f->categories; c++) {
        double sum = 0;
        for (size_t s = 0; s < f->series_count; s++) {
            sum = (stacked && !isnan(f->series[s].y[c]) ? sum : 0) +
                  (stacked && isnan(f->series[s].y[c]) ? 0 : f->series[s].y[c]);
            plb_unit_show(f->y.unit, sum, text);
            widest = fmax(widest, plb_text_width(text, sheet->size - 1));
        }
    }
    return widest;
}

static void begin(bars *b, plb_sheet *sheet, double least, double most, bool stacked) {
    const plb_figure *f = sheet->figure;
    const double width = sheet->d->width;
    plb_figure_axis axis = f->y;
    if (!axis.log) axis.zero = true;
    *b = (bars){.sheet = sheet};
    b->thick = stacked || f->series_count == 1 ? 18 : 13;
    b->gap = sheet->narrow ? 6 : 9;
    b->label_room = sheet->narrow ? 0 : fmin(measure_labels(sheet) + 12, width * 0.4);
    plb_put_legend(sheet, false);
    b->frame.left = sheet->narrow ? 6 : b->label_room + 4;
    b->frame.right = width - measure_values(sheet, stacked) - 12;
    b->frame.top = sheet->y;
    const double bars_of_one = stacked || f->y.log ? 1 : (double)f->series_count;
    const double row = bars_of_one * b->thick + b->gap + (sheet->narrow ? sheet->size + 6 : 0);
    b->frame.bottom = b->frame.top + (double)f->categories * row + b->gap;
    plb_scale_fit(&b->scale, &axis, least, most, sheet->narrow ? 4 : 6);
    b->scale.from = b->frame.left, b->scale.to = b->frame.right;
    sheet->y = plb_put_x_axis(sheet, &b->frame, &b->scale);
}

// The name of a category; *y is moved to where its bars begin.
static void put_label(const bars *b, size_t category, double tall, double *y) {
    plb_sheet *sheet = b->sheet;
    const char *name = sheet->figure->category[category];
    plb_shape *s;
    *y += b->gap;
    if (sheet->narrow) {
        const char *text = plb_text_fit(sheet->d, name, sheet->size, sheet->d->width - 8);
        s = plb_put_text(sheet->d, 4, *y + sheet->size - 2, -1, sheet->size, PLB_INK_TEXT, text);
        *y += sheet->size + 6;
    } else {
        const char *text = plb_text_fit(sheet->d, name, sheet->size, b->label_room - 8);
        s = plb_put_text(sheet->d, b->frame.left - 8, *y + tall / 2 + sheet->size * 0.35, 1,
                         sheet->size, PLB_INK_TEXT, text);
    }
    s->tip = name;
}

static void put_whisker(const bars *b, size_t series, size_t category, double y) {
    const plb_figure_series *s = &b->sheet->figure->series[series];
    if (!s->low || !s->high || isnan(s->low[category]) || isnan(s->high[category])) return;
    double from = plb_scale_at(&b->scale, s->low[category]);
    double to = plb_scale_at(&b->scale, s->high[category]);
    plb_put_line(b->sheet->d, from, y, to, y, PLB_INK_TEXT, 1.5);
    plb_put_line(b->sheet->d, from, y - 4, from, y + 4, PLB_INK_TEXT, 1.5);
    plb_put_line(b->sheet->d, to, y - 4, to, y + 4, PLB_INK_TEXT, 1.5);
}

static plb_ink ink_of(const plb_figure *f, size_t series, size_t category) {
    if (f->series_count == 1 && f->category_colour && f->category_colour[category] > 0)
        return (plb_ink)(PLB_INK_SERIES + 1 + (f->category_colour[category] - 1) % PLB_PALETTE);
    return plb_series_ink(f, series);
}

// What stands behind a bar: the value, or why there is none.
static void put_value(const bars *b, size_t series, size_t category, double x, double y) {
    plb_sheet *sheet = b->sheet;
    const plb_figure_series *s = &sheet->figure->series[series];
    char text[PLB_UNIT_BYTES_SHOWN];
    const double size = sheet->size - 1;
    if (!isnan(s->y[category])) {
        plb_unit_show(sheet->figure->y.unit, s->y[category], text);
        plb_put_text(sheet->d, x + 6, y + size * 0.35, -1, size, PLB_INK_TEXT, text);
        return;
    }
    const char *label = s->label && s->label[category] ? s->label[category] : "no value";
    plb_put_text(sheet->d, x + 6, y + size * 0.35, -1, size, PLB_INK_FAINT,
                 plb_text_fit(sheet->d, label, size, sheet->d->width - x - 8));
}

static void put_bar(const bars *b, size_t series, size_t category, double y) {
    plb_sheet *sheet = b->sheet;
    const plb_figure *f = sheet->figure;
    const double value = f->series[series].y[category];
    const char *tip = plb_tip(sheet, f->category[category], series, category);
    double end = b->frame.left, middle = y + b->thick / 2;
    if (!isnan(value) && (!f->y.log || value > 0)) {
        const double at = plb_scale_at(&b->scale, value), zero = plb_scale_at(&b->scale, 0);
        plb_shape *s =
            f->y.log ? plb_put_marker(sheet->d, series, at, middle, 5, ink_of(f, series, category))
                     : plb_put_rect(sheet->d, fmin(at, zero), y, fmax(fabs(at - zero), 1), b->thick,
                                    ink_of(f, series, category));
        s->tip = tip;
        put_whisker(b, series, category, middle);
        end = fmax(at, end);
        const plb_figure_series *row = &f->series[series];
        if (row->high && !isnan(row->high[category]))
            end = fmax(end, plb_scale_at(&b->scale, row->high[category]));
    }
    if (!f->y.log || f->series_count == 1) put_value(b, series, category, end, middle);
}

static void range_of_bars(const plb_figure *f, double *least, double *most) {
    *least = (double)NAN, *most = (double)NAN;
    for (size_t s = 0; s < f->series_count; s++) {
        const plb_figure_series *row = &f->series[s];
        for (size_t c = 0; c < f->categories; c++) {
            const double values[] = {row->y[c], row->low ? row->low[c] : (double)NAN,
                                     row->high ? row->high[c] : (double)NAN};
            for (int i = 0; i < 3; i++) {
                if (f->y.log && !(values[i] > 0)) continue;
                *least = fmin(*least, values[i]), *most = fmax(*most, values[i]);
            }
        }
    }
}

void plb_draw_bars(plb_sheet *sheet) {
    const plb_figure *f = sheet->figure;
    bars b;
    double least, most;
    range_of_bars(f, &least, &most);
    begin(&b, sheet, least, most, false);
    double y = b.frame.top;
    for (size_t c = 0; c < f->categories; c++) {
        const double rows = f->y.log ? 1 : (double)f->series_count;
        put_label(&b, c, rows * b.thick, &y);
        for (size_t s = 0; s < f->series_count; s++) {
            put_bar(&b, s, c, y);
            if (!f->y.log) y += b.thick;
        }
        if (f->y.log) y += b.thick;
    }
}

// ---------------------------------------------------------------------------- stacks
static void put_parts(const bars *b, size_t category, double y) {
    plb_sheet *sheet = b->sheet;
    const plb_figure *f = sheet->figure;
    const double size = sheet->size - 2;
    char text[PLB_UNIT_BYTES_SHOWN];
    const char *why = NULL;
    double sum = 0, end = b->frame.left;
    for (size_t s = 0; s < f->series_count; s++) {
        double value = f->series[s].y[category];
        if (isnan(value) && f->series[s].label && f->series[s].label[category])
            why = f->series[s].label[category];
        if (!(value > 0)) continue;
        const double from = plb_scale_at(&b->scale, sum), to = plb_scale_at(&b->scale, sum + value);
        plb_ink ink = plb_series_ink(f, s);
        plb_put_rect(sheet->d, from, y, fmax(to - from - 1, 0.5), b->thick, ink)->tip =
            plb_tip(sheet, f->category[category], s, category);
        plb_unit_show(f->y.unit, value, text);
        if (plb_text_width(text, size) + 6 < to - from)
            plb_put_text(sheet->d, (from + to) / 2, y + b->thick / 2 + size * 0.35, 0, size,
                         PLB_INK_PAPER, text);
        sum += value, end = to;
    }
    const double base = y + b->thick / 2 + size * 0.35;
    plb_unit_show(f->y.unit, sum, text);
    if (sum > 0 && f->y.unit != PLB_UNIT_SHARE)
        plb_put_text(sheet->d, end + 6, base, -1, size + 1, PLB_INK_TEXT, text);
    else if (!(sum > 0))
        plb_put_text(sheet->d, end + 6, base, -1, size + 1, PLB_INK_FAINT, why ? why : "no value");
}

void plb_draw_stack(plb_sheet *sheet) {
    const plb_figure *f = sheet->figure;
    bars b;
    double most = 0;
    for (size_t c = 0; c < f->categories; c++) {
        double sum = 0;
        for (size_t s = 0; s < f->series_count; s++) sum += fmax(f->series[s].y[c], 0);
        most = fmax(most, sum);
    }
    begin(&b, sheet, 0, most, true);
    double y = b.frame.top;
    for (size_t c = 0; c < f->categories; c++) {
        put_label(&b, c, b.thick, &y);
        put_parts(&b, c, y);
        y += b.thick;
    }
}
