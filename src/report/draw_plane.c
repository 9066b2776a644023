// SPDX-License-Identifier: Apache-2.0
// Figures over two axes: lines with bands, points, areas on top of each other.
#include <math.h>
#include <string.h>

#include "report/sheet.h"

enum { FEW_POINTS = 40 }; // up to here every point of a line has a marker

typedef struct plane {
    plb_sheet *sheet;
    plb_frame frame;
    plb_scale x, y;
} plane;

typedef struct range {
    double least, most;
} range;

static void widen(range *r, double value, bool log) {
    if (isnan(value) || isinf(value) || (log && !(value > 0))) return;
    r->least = fmin(r->least, value), r->most = fmax(r->most, value);
}

static void find_ranges(const plb_figure *f, range *x, range *y) {
    *x = *y = (range){(double)NAN, (double)NAN};
    for (size_t s = 0; s < f->series_count; s++) {
        const plb_figure_series *row = &f->series[s];
        for (size_t i = 0; i < row->count; i++) {
            widen(x, row->x[i], f->x.log);
            widen(y, row->y[i], f->y.log);
            if (row->low) widen(y, row->low[i], f->y.log);
            if (row->high) widen(y, row->high[i], f->y.log);
        }
    }
}

static void find_sum(const plb_figure *f, range *y) {
    for (size_t i = 0; f->series_count && i < f->series[0].count; i++) {
        double sum = 0;
        for (size_t s = 0; s < f->series_count; s++) sum += fmax(f->series[s].y[i], 0);
        widen(y, sum, false);
    }
    widen(y, 0, false);
}

// Ticks where the values are, if the axis counts and has few different ones.
static void ticks_of_counts(plane *p) {
    const plb_figure *f = p->sheet->figure;
    double values[256];
    size_t n = 0;
    if (f->x.unit != PLB_UNIT_COUNT) return;
    for (size_t s = 0; s < f->series_count; s++) {
        for (size_t i = 0; i < f->series[s].count; i++) {
            if (n == sizeof values / sizeof *values) return;
            values[n++] = f->series[s].x[i];
        }
    }
    plb_scale_ticks_at(&p->x, values, n, p->sheet->narrow ? 8 : 12);
}

static void begin(plane *p, plb_sheet *sheet) {
    const plb_figure *f = sheet->figure;
    const bool areas = f->kind == PLB_FIGURE_AREAS;
    range x, y;
    *p = (plane){.sheet = sheet};
    find_ranges(f, &x, &y);
    if (areas) y = (range){(double)NAN, (double)NAN}, find_sum(f, &y);
    plb_put_legend(sheet, !areas);
    plb_scale_fit(&p->x, &f->x, x.least, x.most, sheet->narrow ? 4 : 8);
    plb_scale_fit(&p->y, &f->y, y.least, y.most, 5);
    // A line of epochs or iterations fills the width; only bars need round ends.
    if (!f->x.log && f->x.low == 0 && f->x.high == 0 && x.most > x.least)
        p->x.low = f->x.zero ? fmin(x.least, 0) : x.least, p->x.high = x.most;
    p->frame.left = plb_tick_width(&p->y, sheet->size - 1) + 14;
    p->frame.right = sheet->d->width - 14;
    p->frame.top = sheet->y + (f->y.title && *f->y.title ? sheet->size + 17 : 4) +
                   (f->mark ? sheet->size + 2 : 0);
    p->frame.bottom = p->frame.top + (sheet->narrow ? 210 : 290);
    p->x.from = p->frame.left + (areas ? 0 : 8), p->x.to = p->frame.right - (areas ? 0 : 8);
    p->y.from = p->frame.bottom, p->y.to = p->frame.top;
    ticks_of_counts(p);
    plb_put_y_axis(sheet, &p->frame, &p->y);
    sheet->y = plb_put_x_axis(sheet, &p->frame, &p->x);
}

static bool shown(const plane *p, double x, double y) {
    const plb_figure *f = p->sheet->figure;
    return !isnan(x) && !isnan(y) && (!f->x.log || x > 0) && (!f->y.log || y > 0);
}

static plb_point place(const plane *p, double x, double y) {
    return (plb_point){plb_scale_at(&p->x, x), plb_scale_at(&p->y, y)};
}

// Room for the points of a path there and back.
static plb_point *take_points(const plane *p, size_t count) {
    plb_point *points = plb_arena_alloc(p->sheet->d->arena, (2 * count + 1) * sizeof *points);
    if (!points) p->sheet->d->failed = true;
    return points;
}

static void put_band(const plane *p, size_t series) {
    const plb_figure_series *s = &p->sheet->figure->series[series];
    if (!s->low || !s->high) return;
    plb_point *points = take_points(p, s->count);
    for (size_t from = 0; points && from < s->count; from++) {
        size_t n = 0, to = from;
        while (to < s->count && shown(p, s->x[to], s->low[to]) && shown(p, s->x[to], s->high[to]))
            to++;
        for (size_t i = from; i < to; i++) points[n++] = place(p, s->x[i], s->high[i]);
        for (size_t i = to; i > from; i--) points[n++] = place(p, s->x[i - 1], s->low[i - 1]);
        if (to - from > 1) {
            plb_shape *band = plb_put_path(p->sheet->d, points, n, true);
            band->fill = plb_series_ink(p->sheet->figure, series), band->opacity = 0.2;
        }
        from = to;
    }
}

static void put_line(const plane *p, size_t series) {
    const plb_figure_series *s = &p->sheet->figure->series[series];
    plb_point *points = take_points(p, s->count);
    for (size_t from = 0; points && from < s->count; from++) {
        size_t n = 0;
        while (from < s->count && shown(p, s->x[from], s->y[from])) {
            points[n++] = place(p, s->x[from], s->y[from]);
            from++;
        }
        if (n < 2) continue;
        plb_shape *line = plb_put_path(p->sheet->d, points, n, false);
        line->stroke = plb_series_ink(p->sheet->figure, series), line->width = 2;
        line->dash = plb_series_dash(p->sheet->figure, series);
        line->tip = *s->name ? s->name : NULL;
    }
}

// An interval of one point where no band can show it.
static void put_interval(const plane *p, size_t series, size_t i) {
    const plb_figure_series *s = &p->sheet->figure->series[series];
    if (!s->low || !s->high || !shown(p, s->x[i], s->low[i]) || !shown(p, s->x[i], s->high[i]))
        return;
    plb_point low = place(p, s->x[i], s->low[i]), high = place(p, s->x[i], s->high[i]);
    const plb_ink ink = plb_series_ink(p->sheet->figure, series);
    plb_put_line(p->sheet->d, low.x, low.y, high.x, high.y, ink, 1.5);
}

static const char *what_of(const plane *p, size_t series, size_t i) {
    const plb_figure *f = p->sheet->figure;
    char x[PLB_UNIT_BYTES_SHOWN];
    plb_unit_show(f->x.unit, f->series[series].x[i], x);
    const char *text =
        plb_arena_printf(p->sheet->d->arena, "%s %s", f->x.title ? f->x.title : "x", x);
    if (!text) p->sheet->d->failed = true;
    return text ? text : "";
}

static void put_points(const plane *p, size_t series) {
    const plb_figure *f = p->sheet->figure;
    const plb_figure_series *s = &f->series[series];
    const double radius = s->count > 200 ? 2 : f->kind == PLB_FIGURE_POINTS ? 4.5 : 3.5;
    for (size_t i = 0; i < s->count; i++) {
        if (!shown(p, s->x[i], s->y[i])) continue;
        plb_point at = place(p, s->x[i], s->y[i]);
        if (s->style == PLB_SERIES_DOTS || s->count == 1 || f->kind == PLB_FIGURE_POINTS)
            put_interval(p, series, i);
        plb_shape *marker =
            plb_put_marker(p->sheet->d, series, at.x, at.y, radius, plb_series_ink(f, series));
        marker->tip = plb_tip(p->sheet, what_of(p, series, i), series, i);
    }
}

// Why a point is missing stands at the top of the frame, above its place; what would lie over
// another such word is left to the table.
static void put_reasons(const plane *p) {
    const plb_figure *f = p->sheet->figure;
    const double size = p->sheet->size - 2;
    double free_from[4] = {0};
    for (size_t series = 0; series < f->series_count; series++) {
        const plb_figure_series *s = &f->series[series];
        for (size_t i = 0; s->label && i < s->count; i++) {
            if (!isnan(s->y[i]) || !s->label[i] || isnan(s->x[i])) continue;
            size_t row = series % 4;
            double x = plb_scale_at(&p->x, s->x[i]);
            const char *text = plb_text_fit(p->sheet->d, s->label[i], size, 90);
            double half = plb_text_width(text, size) / 2;
            x = fmin(fmax(x, p->frame.left + half), p->frame.right - half);
            if (x - half < free_from[row]) continue;
            free_from[row] = x + half + 4;
            plb_put_text(p->sheet->d, x, p->frame.top + (double)(row + 1) * (size + 2), 0, size,
                         plb_series_ink(f, series), text)
                ->tip = plb_tip(p->sheet, what_of(p, series, i), series, i);
        }
    }
}

static void put_mark(const plane *p) {
    const plb_figure *f = p->sheet->figure;
    if (!f->mark || !plb_scale_holds(&p->x, f->mark_x)) return;
    const double x = plb_scale_at(&p->x, f->mark_x), size = p->sheet->size - 1;
    const bool right = x > (p->frame.left + p->frame.right) / 2;
    plb_put_line(p->sheet->d, x, p->frame.top - 4, x, p->frame.bottom, PLB_INK_FAINT, 1.5)->dash =
        "4 3";
    plb_put_text(p->sheet->d, right ? x + 4 : x - 4, p->frame.top - 6, right ? 1 : -1, size,
                 PLB_INK_FAINT, f->mark);
}

static void put_areas(const plane *p) {
    const plb_figure *f = p->sheet->figure;
    const size_t count = f->series_count ? f->series[0].count : 0;
    double *below = plb_arena_alloc(p->sheet->d->arena, (count + 1) * sizeof *below);
    plb_point *points = take_points(p, count);
    if (!below || !points) {
        p->sheet->d->failed = true;
        return;
    }
    for (size_t series = 0; series < f->series_count; series++) {
        const plb_figure_series *s = &f->series[series];
        for (size_t i = 0; i < count; i++) {
            double top = below[i] + fmax(s->y[i], 0);
            points[i] = place(p, s->x[i], top);
            points[2 * count - 1 - i] = place(p, s->x[i], below[i]);
            below[i] = top;
        }
        plb_shape *area = plb_put_path(p->sheet->d, points, 2 * count, true);
        area->fill = plb_series_ink(f, series), area->opacity = 0.85;
        area->tip = s->name;
    }
}

void plb_draw_plane(plb_sheet *sheet) {
    const plb_figure *f = sheet->figure;
    plane p;
    begin(&p, sheet);
    if (f->kind == PLB_FIGURE_AREAS) put_areas(&p);
    for (size_t s = 0; f->kind == PLB_FIGURE_LINES && s < f->series_count; s++)
        if (f->series[s].style != PLB_SERIES_DOTS) put_band(&p, s);
    for (size_t s = 0; f->kind != PLB_FIGURE_AREAS && s < f->series_count; s++) {
        const plb_series_style style = f->series[s].style;
        const bool line = style == PLB_SERIES_LINE || style == PLB_SERIES_DASHED;
        const bool dots = style == PLB_SERIES_DOTS || f->kind == PLB_FIGURE_POINTS;
        if (line || !dots) put_line(&p, s);
        if (!line && (dots || f->series[s].count <= FEW_POINTS)) put_points(&p, s);
    }
    put_reasons(&p);
    put_mark(&p);
}
