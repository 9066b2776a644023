// SPDX-License-Identifier: Apache-2.0
// A figure as a list of shapes, between the code that lays it out (draw*.c) and the code that puts
// it down: an SVG writer of our own and cairo. Why not cairo's SVG: it turns text into outlines,
// which no screen reader reads, no search finds and no dark page recolours, and its names collide
// when several figures share a page. Why a list: the height is known once all is laid out.
// Units are CSS pixels, y grows downwards.
#ifndef PLB_REPORT_DRAWING_H
#define PLB_REPORT_DRAWING_H

#include <stdbool.h>

#include "base/core/arena.h"
#include "base/core/strbuf.h"
#include "report/figure.h"
#include "report/palette.h"

typedef struct plb_point {
    double x, y;
} plb_point;

typedef enum plb_shape_kind {
    PLB_SHAPE_RECT,
    PLB_SHAPE_CIRCLE,
    PLB_SHAPE_PATH,
    PLB_SHAPE_TEXT
} plb_shape_kind;

typedef struct plb_shape {
    plb_shape_kind kind;
    plb_ink fill, stroke;
    double opacity;   // of the fill; 0: 1
    double width;     // of the stroke
    const char *dash; // "5 3"; NULL: none
    plb_point at;     // of a rectangle's upper left corner, a circle's middle, a text's base line
    double w, h;      // of a rectangle; w: a circle's radius
    const plb_point *point; // of a path
    size_t points;
    bool closed;
    const char *text;
    double size; // of the text
    int anchor;  // -1: the text begins at `at`, 0: is centred there, 1: ends there
    bool bold;
    const char *tip; // what is said when it is pointed at; NULL: nothing
    struct plb_shape *next;
} plb_shape;

typedef struct plb_drawing {
    plb_arena *arena;
    const char *label; // for who does not see it
    double width, height;
    plb_shape *first, *last;
    bool failed; // memory was lacking
} plb_drawing;

typedef struct plb_draw_options {
    double width;  // 0: 720; below 500 what stands side by side is put below each other
    bool untipped; // without what is said when a shape is pointed at: for fingers
    bool titled;   // with the title: where no caption stands beside it
    // HEAT: the series to draw, counted from 1, and the one that its values are divided by (0: by
    // none). Series 0: all, one below the other.
    int series, against;
} plb_draw_options;

// Lays the figure out. All of it lives in the arena. PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_draw(const plb_figure *figure, const plb_draw_options *options,
                                         plb_arena *arena, plb_drawing *out);

// As an <svg> element. `page`: with the classes of our pages (dark mode), without a background;
// else a document of its own, in the light colours. `extra`: attributes for the element, or "".
PLB_API void plb_drawing_svg(const plb_drawing *drawing, bool page, const char *extra,
                             plb_strbuf *out);
// By cairo; `scale` pixels a unit. PLB_EMISSING in a build without it.
PLB_API PLB_MUST_USE plb_status plb_drawing_png(const plb_drawing *drawing, double scale,
                                                plb_strbuf *out);
// A page each.
PLB_API PLB_MUST_USE plb_status plb_drawings_pdf(const plb_drawing *const *drawing, size_t count,
                                                 plb_strbuf *out);

// ---------------------------------------------------------------------------- for draw*.c
// Each adds a shape and returns it, for what is beyond the arguments; a spare one after a failure.
plb_shape *plb_put_rect(plb_drawing *d, double x, double y, double w, double h, plb_ink fill);
plb_shape *plb_put_circle(plb_drawing *d, double x, double y, double radius, plb_ink fill);
plb_shape *plb_put_line(plb_drawing *d, double x1, double y1, double x2, double y2, plb_ink stroke,
                        double width);
// `points` is copied.
plb_shape *plb_put_path(plb_drawing *d, const plb_point *point, size_t points, bool closed);
plb_shape *plb_put_text(plb_drawing *d, double x, double y, int anchor, double size, plb_ink ink,
                        const char *text);

// How wide a text is likely to be in a sans-serif font of this size; rather too wide.
double plb_text_width(const char *text, double size);
// The text, or as much of it as fits and "…"; in the drawing's arena.
const char *plb_text_fit(plb_drawing *d, const char *text, double size, double room);

#endif
