// SPDX-License-Identifier: Apache-2.0
// Figures in a terminal: bars of blocks, lines of Braille dots (2 x 4 to a letter), grids of
// shaded cells. Where there are no colours, letters and shades tell series apart.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "report/escape.h"
#include "report/scale.h"
#include "report/terminal.h"

enum { MOST_COLUMNS = 160, ROWS = 16, LABEL = 26 };

static const char *const markers[] = {"●", "■", "▲", "◆", "▼", "○"};
static const char *const shades[] = {"█", "▓", "▒", "░", "▚", "▞"};

typedef struct plot {
    const plb_figure *f;
    const plb_terminal *terminal;
    plb_strbuf *out;
    plb_arena *arena;
    int columns;
} plot;

static void put(const plot *p, const char *text) {
    plb_strbuf_append(p->out, text, strlen(text));
}

static plb_ink ink_of(const plb_figure *f, size_t series) {
    const int colour = f->series[series].colour;
    return (plb_ink)(PLB_INK_SERIES + 1 + (colour > 0 ? (size_t)colour - 1 : series) % PLB_PALETTE);
}

static void put_legend(const plot *p, const char *const *signs) {
    int used = 0;
    if (p->f->series_count < 2) return;
    for (size_t i = 0; i < p->f->series_count; i++) {
        const int wide = plb_text_columns(p->f->series[i].name) + 4;
        if (used && used + wide > p->columns) put(p, "\n"), used = 0;
        plb_put_ink(p->out, p->terminal, ink_of(p->f, i));
        const plb_series_style style = p->f->series[i].style;
        const bool line = style == PLB_SERIES_LINE || style == PLB_SERIES_DASHED;
        put(p, line && signs == markers ? "─" : signs[i % 6]);
        plb_put_plain(p->out, p->terminal);
        put(p, " ");
        plb_escape_terminal(p->out, p->f->series[i].name);
        put(p, "  ");
        used += wide;
    }
    put(p, "\n");
}

// ---------------------------------------------------------------------------- bars
static void range_of(const plb_figure *f, double *least, double *most) {
    *least = *most = (double)NAN;
    for (size_t s = 0; s < f->series_count; s++) {
        for (size_t i = 0; i < f->series[s].count; i++) {
            double y = f->series[s].y[i];
            if (isinf(y) || (f->y.log && !(y > 0))) continue;
            *least = fmin(*least, y), *most = fmax(*most, y);
        }
    }
}

// How far `value` lies between the ends, from 0 to 1; halfway where both are the same.
static double share_of(double value, double least, double most, bool log_scale) {
    const double share = log_scale ? (log(value) - log(least)) / (log(most) - log(least))
                                   : (value - least) / (most - least);
    return isnan(share) ? 0.5 : fmin(fmax(share, 0), 1);
}

static int label_columns(const plb_figure *f) {
    int widest = 0;
    for (size_t i = 0; i < f->categories; i++) {
        const int wide = plb_text_columns(f->category[i]);
        if (wide > widest) widest = wide;
    }
    return widest < LABEL ? widest : LABEL;
}

// A bar of whole blocks and one of an eighth to seven eighths.
static void put_blocks(const plot *p, double length) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const int parts = (int)lround(fmax(length, 0) * 8);
    plb_put_repeated(p->out, "█", parts / 8);
    put(p, parts == 0 && length > 0 ? "▏" : eighths[parts % 8]);
}

static void put_value(const plot *p, size_t series, size_t i) {
    const plb_figure_series *s = &p->f->series[series];
    char text[PLB_UNIT_BYTES_SHOWN];
    if (isnan(s->y[i])) {
        put(p, " ");
        plb_escape_terminal(p->out, s->label && s->label[i] ? s->label[i] : "no value");
        return;
    }
    plb_unit_show(p->f->y.unit, s->y[i], text);
    plb_strbuf_printf(p->out, " %s", text);
    if (!s->low || !s->high || isnan(s->low[i]) || isnan(s->high[i])) return;
    plb_unit_show(p->f->y.unit, s->low[i], text);
    plb_strbuf_printf(p->out, " (%s", text);
    plb_unit_show(p->f->y.unit, s->high[i], text);
    plb_strbuf_printf(p->out, " to %s)", text);
}

static void plot_bars(const plot *p) {
    const plb_figure *f = p->f;
    double least, most;
    range_of(f, &least, &most);
    const int label = label_columns(f), room = p->columns - label - 34;
    put_legend(p, f->y.log ? markers : shades);
    for (size_t c = 0; c < f->categories; c++) {
        for (size_t s = 0; s < f->series_count; s++) {
            const double y = f->series[s].y[c];
            const bool own =
                f->series_count == 1 && f->category_colour && f->category_colour[c] > 0;
            plb_put_padded(p->out, s ? "" : f->category[c], label, true);
            put(p, " ");
            plb_put_ink(p->out, p->terminal,
                        own ? (plb_ink)(PLB_INK_SERIES + f->category_colour[c]) : ink_of(f, s));
            if (f->y.log && y > 0 && most > least) {
                plb_put_repeated(p->out, "·", (int)(room * share_of(y, least, most, true)));
                put(p, markers[s % 6]);
            } else if (!f->y.log && y > 0) {
                if (f->series_count > 1)
                    plb_put_repeated(p->out, shades[s % 6], (int)lround(room * fmin(y / most, 1)));
                else
                    put_blocks(p, room * fmin(y / most, 1));
            }
            plb_put_plain(p->out, p->terminal);
            put_value(p, s, c);
            put(p, "\n");
        }
    }
}

// What stands behind a stack: the sum, unless it is a whole, or why there is none.
static void put_sum(const plot *p, size_t category, double sum) {
    const plb_figure *f = p->f;
    const char *why = "no value";
    char text[PLB_UNIT_BYTES_SHOWN];
    if (sum > 0) {
        plb_unit_show(f->y.unit, sum, text);
        if (f->y.unit != PLB_UNIT_SHARE) plb_strbuf_printf(p->out, " %s", text);
        return;
    }
    for (size_t s = 0; s < f->series_count; s++) {
        const plb_figure_series *part = &f->series[s];
        if (isnan(part->y[category]) && part->label && part->label[category])
            why = part->label[category];
    }
    put(p, " ");
    plb_escape_terminal(p->out, why);
}

static void plot_stack(const plot *p) {
    const plb_figure *f = p->f;
    const int label = label_columns(f), room = p->columns - label - 14;
    double most = 0;
    for (size_t c = 0; c < f->categories; c++) {
        double sum = 0;
        for (size_t s = 0; s < f->series_count; s++) sum += fmax(f->series[s].y[c], 0);
        most = fmax(most, sum);
    }
    put_legend(p, shades);
    for (size_t c = 0; c < f->categories; c++) {
        double sum = 0;
        int used = 0;
        plb_put_padded(p->out, f->category[c], label, true);
        put(p, " ");
        for (size_t s = 0; most > 0 && s < f->series_count; s++) {
            sum += fmax(f->series[s].y[c], 0);
            const int to = (int)lround(room * sum / most);
            plb_put_ink(p->out, p->terminal, ink_of(f, s));
            plb_put_repeated(p->out, shades[s % 6], to - used);
            used = to;
        }
        plb_put_plain(p->out, p->terminal);
        put_sum(p, c, sum);
        put(p, "\n");
    }
}

// ---------------------------------------------------------------------------- lines
// Letters of Braille: bit k of a cell is the dot of Unicode's numbering.
typedef struct dots {
    unsigned char bits[ROWS][MOST_COLUMNS];
    unsigned char owner[ROWS][MOST_COLUMNS];  // the series drawn last, counted from 1
    unsigned char marker[ROWS][MOST_COLUMNS]; // likewise: its marker stands here
    int columns;
} dots;

static bool inside(const dots *d, double x, double y) {
    return x >= 0 && y >= 0 && x < 2 * d->columns && y < 4 * ROWS;
}

static void set_dot(dots *d, double x, double y, size_t series) {
    static const unsigned char bit[4][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
    if (!inside(d, x, y)) return;
    const int px = (int)x, py = (int)y;
    d->bits[py / 4][px / 2] |= (unsigned char)(1u << bit[py % 4][px % 2]);
    d->owner[py / 4][px / 2] = (unsigned char)(series + 1);
}

static void set_marker(dots *d, double x, double y, size_t series) {
    if (inside(d, x, y)) d->marker[(int)y / 4][(int)x / 2] = (unsigned char)(series + 1);
}

static void draw_line(dots *d, double x0, double y0, double x1, double y1, size_t series) {
    const int steps = (int)ceil(fmax(fabs(x1 - x0), fabs(y1 - y0))) + 1;
    for (int i = 0; i <= steps; i++) {
        const double share = (double)i / steps;
        set_dot(d, x0 + (x1 - x0) * share, y0 + (y1 - y0) * share, series);
    }
}

static bool usable(const plb_figure *f, double x, double y) {
    return isfinite(x) && isfinite(y) && (!f->x.log || x > 0) && (!f->y.log || y > 0);
}

static void draw_series(dots *d, const plot *p, const plb_scale *x, const plb_scale *y,
                        size_t series) {
    const plb_figure *f = p->f;
    const plb_figure_series *s = &f->series[series];
    const bool line = s->style == PLB_SERIES_LINE || s->style == PLB_SERIES_DASHED;
    const bool joined = line || (f->kind == PLB_FIGURE_LINES && s->style != PLB_SERIES_DOTS);
    for (size_t i = 0; i < s->count; i++) {
        if (!usable(f, s->x[i], s->y[i])) continue;
        const double px = plb_scale_at(x, s->x[i]), py = plb_scale_at(y, s->y[i]);
        if (joined && i && usable(f, s->x[i - 1], s->y[i - 1])) {
            draw_line(d, plb_scale_at(x, s->x[i - 1]), plb_scale_at(y, s->y[i - 1]), px, py,
                      series);
        }
        if (!line && s->count <= (size_t)d->columns / 2)
            set_marker(d, px, py, series);
        else
            set_dot(d, px, py, series);
    }
}

static void put_cell(const plot *p, const dots *d, int row, int column) {
    const int marker = d->marker[row][column], owner = d->owner[row][column];
    const unsigned char bits = d->bits[row][column];
    if (!marker && !bits) {
        put(p, " ");
        return;
    }
    plb_put_ink(p->out, p->terminal, ink_of(p->f, (size_t)(marker ? marker : owner) - 1));
    if (marker)
        put(p, markers[(marker - 1) % 6]);
    else // U+2800 + bits in UTF-8
        plb_strbuf_printf(p->out, "\xe2%c%c", 0xa0 + (bits >> 6), 0x80 + (bits & 0x3f));
    plb_put_plain(p->out, p->terminal);
}

// The text of the tick that belongs to this row of letters; "" if none does.
static void tick_of_row(const plb_scale *y, int row, char text[PLB_UNIT_BYTES_SHOWN]) {
    *text = '\0';
    for (int i = 0; i < y->ticks; i++) {
        if (plb_scale_holds(y, y->tick[i]) && (int)plb_scale_at(y, y->tick[i]) / 4 == row)
            plb_scale_tick_text(y, i, text);
    }
}

static void put_x_ticks(const plot *p, const plb_scale *x, int label) {
    char text[PLB_UNIT_BYTES_SHOWN];
    int at = 0;
    plb_put_repeated(p->out, " ", label + 2);
    for (int i = 0; i < x->ticks; i++) {
        if (!plb_scale_holds(x, x->tick[i])) continue;
        plb_scale_tick_text(x, i, text);
        const int wide = plb_text_columns(text);
        int from = (int)plb_scale_at(x, x->tick[i]) / 2 - wide / 2;
        if (from < 0) from = 0;
        if ((at && from <= at) || label + 2 + from + wide > p->columns) continue;
        plb_put_repeated(p->out, " ", from - at);
        put(p, text);
        at = from + wide;
    }
    put(p, "\n");
}

static void put_axes_titles(const plot *p) {
    const char *x = p->f->x.title, *y = p->f->y.title;
    if (!x && !y) return;
    plb_escape_terminal(p->out, y ? y : "");
    if (x) put(p, y ? " over " : "over ");
    plb_escape_terminal(p->out, x ? x : "");
    put(p, "\n");
}

static void put_frame(const plot *p, const dots *d, const plb_scale *x, const plb_scale *y,
                      int label) {
    char text[PLB_UNIT_BYTES_SHOWN];
    for (int row = 0; row < ROWS; row++) {
        tick_of_row(y, row, text);
        plb_put_padded(p->out, text, label, true);
        put(p, *text ? " ┤" : " │");
        for (int column = 0; column < d->columns; column++) put_cell(p, d, row, column);
        put(p, "\n");
    }
    plb_put_repeated(p->out, " ", label + 1);
    put(p, "└");
    plb_put_repeated(p->out, "─", d->columns);
    put(p, "\n");
    put_x_ticks(p, x, label);
    put_axes_titles(p);
}

static int tick_columns(const plb_scale *scale) {
    char text[PLB_UNIT_BYTES_SHOWN];
    int widest = 0;
    for (int i = 0; i < scale->ticks; i++) {
        plb_scale_tick_text(scale, i, text);
        const int wide = plb_text_columns(text);
        if (wide > widest) widest = wide;
    }
    return widest;
}

static void fit_scales(const plot *p, plb_scale *x, plb_scale *y, bool summed) {
    const plb_figure *f = p->f;
    double least, most, x_least = (double)NAN, x_most = (double)NAN;
    range_of(f, &least, &most);
    for (size_t s = 0; s < f->series_count; s++) {
        for (size_t i = 0; i < f->series[s].count; i++) {
            const double v = f->series[s].x[i];
            if (!isfinite(v) || (f->x.log && !(v > 0))) continue;
            x_least = fmin(x_least, v), x_most = fmax(x_most, v);
        }
    }
    for (size_t i = 0; summed && f->series_count && i < f->series[0].count; i++) {
        double sum = 0;
        for (size_t s = 0; s < f->series_count; s++) sum += fmax(f->series[s].y[i], 0);
        least = 0, most = fmax(most, sum);
    }
    plb_scale_fit(x, &f->x, x_least, x_most, 6);
    if (!f->x.log && x_most > x_least) x->low = x_least, x->high = x_most;
    plb_scale_fit(y, &f->y, least, most, 4);
}

static plb_status plot_lines(const plot *p) {
    plb_scale x, y;
    dots *d = plb_arena_alloc(p->arena, sizeof *d);
    if (!d) return plb_fail(PLB_ENOMEM, "out of memory for a plot");
    fit_scales(p, &x, &y, false);
    const int label = tick_columns(&y);
    d->columns = p->columns - label - 2;
    x.from = 0, x.to = 2 * d->columns - 1, y.from = 4 * ROWS - 1, y.to = 0;
    put_legend(p, markers);
    for (size_t s = 0; s < p->f->series_count && s < 255; s++) draw_series(d, p, &x, &y, s);
    put_frame(p, d, &x, &y, label);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- areas
// The value of a series at x, between its neighbours.
static double value_at(const plb_figure_series *s, double x) {
    for (size_t i = 1; i < s->count; i++) {
        if (x > s->x[i]) continue;
        const double wide = s->x[i] - s->x[i - 1];
        const double share = wide > 0 ? (x - s->x[i - 1]) / wide : 1;
        return fmax(s->y[i - 1], 0) * (1 - share) + fmax(s->y[i], 0) * share;
    }
    return s->count ? fmax(s->y[s->count - 1], 0) : 0;
}

static void plot_areas(const plot *p) {
    const plb_figure *f = p->f;
    plb_scale x, y;
    char text[PLB_UNIT_BYTES_SHOWN];
    fit_scales(p, &x, &y, true);
    const int label = tick_columns(&y), columns = p->columns - label - 2;
    x.from = 0, x.to = 2 * columns - 1, y.from = 4 * ROWS - 1, y.to = 0;
    put_legend(p, shades);
    for (int row = 0; row < ROWS; row++) {
        tick_of_row(&y, row, text);
        plb_put_padded(p->out, text, label, true);
        put(p, *text ? " ┤" : " │");
        const double level = y.low + (y.high - y.low) * (ROWS - row - 0.5) / ROWS;
        for (int column = 0; column < columns; column++) {
            const double at = x.low + (x.high - x.low) * (column + 0.5) / columns;
            double sum = 0;
            size_t s = 0;
            while (s < f->series_count && (sum += value_at(&f->series[s], at)) <= level) s++;
            if (s < f->series_count) plb_put_ink(p->out, p->terminal, ink_of(f, s));
            put(p, s < f->series_count ? shades[s % 6] : " ");
            if (s < f->series_count) plb_put_plain(p->out, p->terminal);
        }
        put(p, "\n");
    }
    plb_put_repeated(p->out, " ", label + 1);
    put(p, "└");
    plb_put_repeated(p->out, "─", columns);
    put(p, "\n");
    put_x_ticks(p, &x, label);
    put_axes_titles(p);
}

// ---------------------------------------------------------------------------- grids
static void put_heat_cell(const plot *p, size_t series, size_t cell, double least, double most,
                          int wide) {
    static const char *const steps[] = {" ", "░", "▒", "▓", "█"};
    const plb_figure_series *s = &p->f->series[series];
    char text[PLB_UNIT_BYTES_SHOWN];
    const double value = s->y[cell];
    const bool log_scale = p->f->y.log && least > 0;
    const double share = share_of(value, least, most, log_scale);
    if (isnan(value)) {
        plb_put_padded(p->out, s->label && s->label[cell] ? s->label[cell] : "-", wide, true);
        return;
    }
    plb_unit_show(p->f->y.unit, value, text);
    if (p->terminal->colour) {
        const uint32_t rgb = plb_ramp(share);
        plb_put_colour(p->out, p->terminal, rgb, true);
        plb_put_colour(p->out, p->terminal, plb_ink_rgb(plb_ink_over(rgb), 0), false);
        plb_put_padded(p->out, text, wide, true);
        plb_put_plain(p->out, p->terminal);
    } else {
        put(p, steps[(int)lround(share * 4)]);
        plb_put_padded(p->out, text, wide - 1, true);
    }
}

static void plot_heat(const plot *p) {
    const plb_figure *f = p->f;
    double least, most;
    int label = f->row_title ? plb_text_columns(f->row_title) : 0;
    range_of(f, &least, &most);
    for (size_t i = 0; i < f->rows; i++) {
        const int wide = plb_text_columns(f->row[i]);
        if (wide > label) label = wide;
    }
    if (label > LABEL) label = LABEL;
    const int wide = f->categories ? (p->columns - label - 1) / (int)f->categories : 0;
    const int cell = wide > 10 ? 10 : wide < 5 ? 5 : wide;
    for (size_t s = 0; s < f->series_count; s++) {
        plb_escape_terminal(p->out, f->series[s].name);
        put(p, "\n");
        for (size_t i = f->rows; i-- > 0;) {
            plb_put_padded(p->out, f->row[i], label, true);
            put(p, " ");
            for (size_t k = 0; k < f->categories; k++)
                put_heat_cell(p, s, i * f->categories + k, least, most, cell);
            put(p, "\n");
        }
        plb_put_padded(p->out, f->row_title ? f->row_title : "", label, true);
        put(p, " ");
        for (size_t k = 0; k < f->categories; k++)
            plb_put_padded(p->out, f->category[k], cell, true);
        put(p, "  ");
        plb_escape_terminal(p->out, f->x.title ? f->x.title : "");
        put(p, "\n\n");
    }
}

plb_status plb_figure_terminal(const plb_figure *figure, const plb_terminal *terminal,
                               plb_strbuf *out) {
    plot p = {.f = figure, .terminal = terminal, .out = out, .arena = plb_arena_new()};
    plb_status status = PLB_OK;
    if (!p.arena) return plb_fail(PLB_ENOMEM, "out of memory for a plot");
    p.columns = plb_terminal_columns(terminal);
    plb_put_bold(out, terminal);
    plb_escape_terminal(out, figure->title);
    plb_put_plain(out, terminal);
    put(&p, "\n");
    switch (figure->kind) {
    case PLB_FIGURE_BARS: plot_bars(&p); break;
    case PLB_FIGURE_STACK: plot_stack(&p); break;
    case PLB_FIGURE_LINES:
    case PLB_FIGURE_POINTS: status = plot_lines(&p); break;
    case PLB_FIGURE_AREAS: plot_areas(&p); break;
    case PLB_FIGURE_HEAT: plot_heat(&p); break;
    }
    put(&p, "\n");
    plb_arena_free(p.arena);
    if (!status && out->failed) status = plb_fail(PLB_ENOMEM, "out of memory for a plot");
    return status;
}
