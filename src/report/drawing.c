// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.h"

#include <string.h>

static plb_shape *put(plb_drawing *d, plb_shape_kind kind) {
    static _Thread_local plb_shape spare;
    plb_shape *s = d->failed ? NULL : plb_arena_alloc(d->arena, sizeof *s);
    if (!s) {
        d->failed = true;
        return &spare;
    }
    s->kind = kind;
    if (d->last)
        d->last->next = s;
    else
        d->first = s;
    d->last = s;
    return s;
}

plb_shape *plb_put_rect(plb_drawing *d, double x, double y, double w, double h, plb_ink fill) {
    plb_shape *s = put(d, PLB_SHAPE_RECT);
    s->at = (plb_point){x, y}, s->w = w, s->h = h, s->fill = fill;
    return s;
}

plb_shape *plb_put_circle(plb_drawing *d, double x, double y, double radius, plb_ink fill) {
    plb_shape *s = put(d, PLB_SHAPE_CIRCLE);
    s->at = (plb_point){x, y}, s->w = radius, s->fill = fill;
    return s;
}

plb_shape *plb_put_path(plb_drawing *d, const plb_point *point, size_t points, bool closed) {
    plb_shape *s = put(d, PLB_SHAPE_PATH);
    s->point = points ? plb_arena_copy(d->arena, point, points * sizeof *point) : NULL;
    if (points && !s->point) d->failed = true;
    s->points = s->point ? points : 0, s->closed = closed;
    return s;
}

plb_shape *plb_put_line(plb_drawing *d, double x1, double y1, double x2, double y2, plb_ink stroke,
                        double width) {
    plb_shape *s = plb_put_path(d, (plb_point[]){{x1, y1}, {x2, y2}}, 2, false);
    s->stroke = stroke, s->width = width;
    return s;
}

plb_shape *plb_put_text(plb_drawing *d, double x, double y, int anchor, double size, plb_ink ink,
                        const char *text) {
    plb_shape *s = put(d, PLB_SHAPE_TEXT);
    s->at = (plb_point){x, y}, s->anchor = anchor, s->size = size, s->fill = ink;
    s->text = plb_arena_strdup(d->arena, text);
    if (!s->text) {
        d->failed = true;
        s->text = "";
    }
    return s;
}

// Widths in font sizes, a little more than common sans-serif fonts have.
static double width_of(unsigned char c) {
    if (strchr("iljI.,:;'|!`", c)) return 0.31;
    if (strchr("frt()[]/\\- \"", c)) return 0.39;
    if (strchr("mwMW%@", c)) return 0.98;
    if (strchr("<>=+~&#^", c)) return 0.84;
    if (c >= 'A' && c <= 'Z') return 0.70;
    return 0.61;
}

static bool is_start(unsigned char c) {
    return (c & 0xc0) != 0x80;
}

double plb_text_width(const char *text, double size) {
    double width = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x80)
            width += width_of(*p);
        else if (is_start(*p))
            width += *p >= 0xe3 ? 1 : 0.65; // East Asian letters are square
    }
    return width * size;
}

const char *plb_text_fit(plb_drawing *d, const char *text, double size, double room) {
    if (plb_text_width(text, size) <= room) return text;
    char *cut = plb_arena_alloc(d->arena, strlen(text) + sizeof "…");
    if (!cut) {
        d->failed = true;
        return "";
    }
    size_t length = strlen(text);
    for (;;) {
        while (length && !is_start((unsigned char)text[length])) length--;
        memcpy(cut, text, length);
        memcpy(cut + length, "…", sizeof "…");
        if (!length || plb_text_width(cut, size) <= room) return cut;
        length--;
    }
}
