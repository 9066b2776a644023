// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/core/status.h"
#include "report/sheet.h"

enum { WIDE = 720, NARROW_BELOW = 500 };

plb_status plb_draw(const plb_figure *figure, const plb_draw_options *options, plb_arena *arena,
                    plb_drawing *out) {
    plb_sheet sheet = {.figure = figure, .options = options, .d = out};
    *out = (plb_drawing){.arena = arena, .width = options->width > 0 ? options->width : WIDE};
    sheet.narrow = out->width < NARROW_BELOW;
    sheet.size = sheet.narrow ? 12 : 13;
    sheet.y = 4;
    out->label = figure->caption ? plb_arena_printf(arena, "%s. %s", figure->title, figure->caption)
                                 : figure->title;
    if (!out->label) out->failed = true;
    if (options->titled) plb_put_title(&sheet);
    switch (figure->kind) {
    case PLB_FIGURE_BARS: plb_draw_bars(&sheet); break;
    case PLB_FIGURE_STACK: plb_draw_stack(&sheet); break;
    case PLB_FIGURE_LINES:
    case PLB_FIGURE_POINTS:
    case PLB_FIGURE_AREAS: plb_draw_plane(&sheet); break;
    case PLB_FIGURE_HEAT: plb_draw_heat(&sheet); break;
    }
    out->height = ceil(sheet.y + 4);
    for (plb_shape *s = out->first; options->untipped && s; s = s->next) s->tip = NULL;
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a figure") : PLB_OK;
}

// ---------------------------------------------------------------------------- series
plb_ink plb_series_ink(const plb_figure *figure, size_t series) {
    int colour = figure->series[series].colour;
    size_t place = colour > 0 ? (size_t)colour - 1 : series;
    return (plb_ink)(PLB_INK_SERIES + 1 + place % PLB_PALETTE);
}

const char *plb_series_dash(const plb_figure *figure, size_t series) {
    return figure->series[series].style == PLB_SERIES_DASHED ? "5 4" : NULL;
}

// Corners on a circle of radius r around the middle; the first at `turn` of a full turn.
static plb_shape *put_polygon(plb_drawing *d, double x, double y, double r, int corners,
                              double turn) {
    plb_point point[4];
    const double pi = acos(-1);
    for (int i = 0; i < corners; i++) {
        double angle = 2 * pi * (turn + (double)i / corners);
        point[i] = (plb_point){x + r * cos(angle), y + r * sin(angle)};
    }
    return plb_put_path(d, point, (size_t)corners, true);
}

plb_shape *plb_put_marker(plb_drawing *d, size_t series, double x, double y, double radius,
                          plb_ink ink) {
    plb_shape *s;
    switch (series % 6) {
    case 0: s = plb_put_circle(d, x, y, radius, ink); break;
    case 1: s = put_polygon(d, x, y, radius * 1.25, 4, 0.125); break; // a square
    case 2: s = put_polygon(d, x, y, radius * 1.35, 3, 0.75); break;  // point up
    case 3: s = put_polygon(d, x, y, radius * 1.35, 4, 0); break;     // a diamond
    case 4: s = put_polygon(d, x, y, radius * 1.35, 3, 0.25); break;  // point down
    default:
        s = plb_put_circle(d, x, y, radius * 0.8, PLB_INK_PAPER);
        s->stroke = ink, s->width = 2;
        return s;
    }
    s->fill = ink;
    return s;
}

const char *plb_tip(plb_sheet *sheet, const char *what, size_t series, size_t index) {
    const plb_figure *f = sheet->figure;
    const plb_figure_series *s = &f->series[series];
    char value[PLB_UNIT_BYTES_SHOWN], low[PLB_UNIT_BYTES_SHOWN], high[PLB_UNIT_BYTES_SHOWN];
    const char *label = s->label && s->label[index] ? s->label[index] : "";
    const char *name = *s->name ? s->name : what, *gap = *label ? ", " : "";
    plb_unit_show(f->y.unit, s->y[index], value);
    const char *text;
    if (isnan(s->y[index])) {
        text = plb_arena_printf(sheet->d->arena, "%s, %s: %s", name, what,
                                *label ? label : "no value");
    } else if (s->low && s->high && !isnan(s->low[index]) && !isnan(s->high[index])) {
        plb_unit_show(f->y.unit, s->low[index], low);
        plb_unit_show(f->y.unit, s->high[index], high);
        text = plb_arena_printf(sheet->d->arena, "%s, %s: %s (%s to %s)%s%s", name, what, value,
                                low, high, gap, label);
    } else {
        text = plb_arena_printf(sheet->d->arena, "%s, %s: %s%s%s", name, what, value, gap, label);
    }
    if (!text) sheet->d->failed = true;
    return text;
}

// ---------------------------------------------------------------------------- title and legend
void plb_put_title(plb_sheet *sheet) {
    const double size = sheet->narrow ? 14 : 16;
    const char *text = plb_text_fit(sheet->d, sheet->figure->title, size, sheet->d->width - 8);
    plb_put_text(sheet->d, 4, sheet->y + size, -1, size, PLB_INK_TEXT, text)->bold = true;
    sheet->y += size + 14;
}

static void put_swatch(plb_sheet *sheet, size_t i, bool lines, double x, double y) {
    const plb_figure *f = sheet->figure;
    const plb_series_style style = f->series[i].style;
    const plb_ink ink = plb_series_ink(f, i);
    if (!lines) {
        plb_put_rect(sheet->d, x + 4, y - 10, 12, 12, ink);
        return;
    }
    if (style != PLB_SERIES_DOTS && f->kind != PLB_FIGURE_POINTS) {
        plb_put_line(sheet->d, x, y - 4, x + 22, y - 4, ink, 2)->dash = plb_series_dash(f, i);
    } else if (style == PLB_SERIES_LINE || style == PLB_SERIES_DASHED) {
        plb_put_line(sheet->d, x, y - 4, x + 22, y - 4, ink, 2)->dash = plb_series_dash(f, i);
        return;
    }
    if (style == PLB_SERIES_AUTO || style == PLB_SERIES_DOTS)
        plb_put_marker(sheet->d, i, x + 11, y - 4, 4, ink);
}

void plb_put_legend(plb_sheet *sheet, bool lines) {
    const plb_figure *f = sheet->figure;
    const double swatch = lines ? 28 : 20, line = 20;
    double x = 4;
    if (f->series_count < 2 && !(f->series_count && *f->series[0].name)) return;
    sheet->y += line;
    for (size_t i = 0; i < f->series_count; i++) {
        const char *name =
            plb_text_fit(sheet->d, f->series[i].name, sheet->size, sheet->d->width - swatch - 8);
        double width = swatch + plb_text_width(name, sheet->size) + 12;
        if (x > 4 && x + width > sheet->d->width) x = 4, sheet->y += line;
        put_swatch(sheet, i, lines, x, sheet->y - 4);
        plb_put_text(sheet->d, x + swatch, sheet->y - 4, -1, sheet->size, PLB_INK_TEXT, name);
        x += width;
    }
    sheet->y += 8;
}

// ---------------------------------------------------------------------------- axes
double plb_tick_width(const plb_scale *scale, double size) {
    char text[PLB_UNIT_BYTES_SHOWN];
    double widest = 0;
    for (int i = 0; i < scale->ticks; i++) {
        plb_scale_tick_text(scale, i, text);
        widest = fmax(widest, plb_text_width(text, size));
    }
    return widest;
}

double plb_put_x_axis(plb_sheet *sheet, const plb_frame *frame, const plb_scale *scale) {
    const double size = sheet->size - 1;
    double free_from = -1, end = frame->bottom + size + 6;
    char text[PLB_UNIT_BYTES_SHOWN];
    for (int i = 0; i < scale->ticks; i++) {
        if (!plb_scale_holds(scale, scale->tick[i])) continue;
        double x = plb_scale_at(scale, scale->tick[i]);
        plb_put_line(sheet->d, x, frame->top, x, frame->bottom, PLB_INK_GRID, 1);
        plb_scale_tick_text(scale, i, text);
        double half = plb_text_width(text, size) / 2;
        double middle = fmin(fmax(x, half), sheet->d->width - half);
        if (middle - half < free_from) continue; // would lie over its neighbour
        plb_put_text(sheet->d, middle, end, 0, size, PLB_INK_FAINT, text);
        free_from = middle + half + 6;
    }
    plb_put_line(sheet->d, frame->left, frame->bottom, frame->right, frame->bottom, PLB_INK_FAINT,
                 1);
    const plb_figure *f = sheet->figure;
    const bool lies = f->kind == PLB_FIGURE_BARS || f->kind == PLB_FIGURE_STACK;
    const char *title = lies ? f->y.title : f->x.title;
    if (title && *title) {
        end += size + 6;
        plb_put_text(sheet->d, (frame->left + frame->right) / 2, end, 0, size, PLB_INK_FAINT,
                     plb_text_fit(sheet->d, title, size, sheet->d->width));
    }
    return end + 6;
}

void plb_put_y_axis(plb_sheet *sheet, const plb_frame *frame, const plb_scale *scale) {
    const double size = sheet->size - 1;
    const char *title = sheet->figure->y.title;
    char text[PLB_UNIT_BYTES_SHOWN];
    for (int i = 0; i < scale->ticks; i++) {
        if (!plb_scale_holds(scale, scale->tick[i])) continue;
        double y = plb_scale_at(scale, scale->tick[i]);
        plb_put_line(sheet->d, frame->left, y, frame->right, y, PLB_INK_GRID, 1);
        plb_scale_tick_text(scale, i, text);
        plb_put_text(sheet->d, frame->left - 6, y + size * 0.35, 1, size, PLB_INK_FAINT, text);
    }
    if (title && *title) {
        plb_put_text(sheet->d, 4, frame->top - 15, -1, size, PLB_INK_FAINT,
                     plb_text_fit(sheet->d, title, size, sheet->d->width - 8));
    }
}
