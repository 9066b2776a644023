// SPDX-License-Identifier: Apache-2.0
// A drawing as PNG and PDF, by cairo. The library is opened when the first picture is asked for:
// it brings a dozen others (X11, fontconfig) along, which would lengthen the start of every worker
// and lie in its memory while that is measured.
#include <cairo-pdf.h>
#include <cairo.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "base/core/status.h"
#include "base/core/symbol.h"
#include "report/drawing.h"
#include "report/escape.h"

#define CAIRO_FUNCTIONS(X)                 \
    X(cairo_arc)                           \
    X(cairo_close_path)                    \
    X(cairo_create)                        \
    X(cairo_destroy)                       \
    X(cairo_fill_preserve)                 \
    X(cairo_image_surface_create)          \
    X(cairo_line_to)                       \
    X(cairo_move_to)                       \
    X(cairo_new_path)                      \
    X(cairo_paint)                         \
    X(cairo_pdf_surface_create_for_stream) \
    X(cairo_pdf_surface_set_size)          \
    X(cairo_rectangle)                     \
    X(cairo_restore)                       \
    X(cairo_save)                          \
    X(cairo_scale)                         \
    X(cairo_select_font_face)              \
    X(cairo_set_dash)                      \
    X(cairo_set_font_size)                 \
    X(cairo_set_line_join)                 \
    X(cairo_set_line_width)                \
    X(cairo_set_source_rgba)               \
    X(cairo_show_page)                     \
    X(cairo_show_text)                     \
    X(cairo_status)                        \
    X(cairo_status_to_string)              \
    X(cairo_stroke_preserve)               \
    X(cairo_surface_destroy)               \
    X(cairo_surface_finish)                \
    X(cairo_surface_status)                \
    X(cairo_surface_write_to_png_stream)   \
    X(cairo_text_extents)

#define FIELD(name) __typeof__(name) *name;
static struct {
    bool open;
    CAIRO_FUNCTIONS(FIELD)
} cairo;

#define FIND(name) \
    if (!plb_find_symbol(library, #name, &cairo.name)) missing = #name;

static plb_status open_cairo(void) {
    const char *missing = NULL;
    if (cairo.open) return PLB_OK;
    void *library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return plb_fail(PLB_EMISSING,
                        "PNG and PDF are drawn by cairo, which is not installed "
                        "(Debian: libcairo2): %s",
                        dlerror());
    }
    CAIRO_FUNCTIONS(FIND)
    if (missing) return plb_fail(PLB_EMISSING, "libcairo.so.2 has no function %s", missing);
    cairo.open = true;
    return PLB_OK;
}

static void set_ink(cairo_t *c, plb_ink ink, double opacity) {
    uint32_t rgb = plb_ink_rgb(ink, 0);
    cairo.cairo_set_source_rgba(c, (double)(rgb >> 16 & 255) / 255, (double)(rgb >> 8 & 255) / 255,
                                (double)(rgb & 255) / 255, opacity > 0 ? opacity : 1);
}

static void trace(cairo_t *c, const plb_shape *s) {
    cairo.cairo_new_path(c);
    switch (s->kind) {
    case PLB_SHAPE_RECT:
        cairo.cairo_rectangle(c, s->at.x, s->at.y, fmax(s->w, 0), fmax(s->h, 0));
        break;
    case PLB_SHAPE_CIRCLE: cairo.cairo_arc(c, s->at.x, s->at.y, s->w, 0, 2 * acos(-1)); break;
    case PLB_SHAPE_PATH:
        for (size_t i = 0; i < s->points; i++) cairo.cairo_line_to(c, s->point[i].x, s->point[i].y);
        if (s->closed) cairo.cairo_close_path(c);
        break;
    case PLB_SHAPE_TEXT: break;
    }
}

static void set_dash(cairo_t *c, const char *dash) {
    double lengths[2] = {5, 4};
    if (dash && sscanf(dash, "%lf %lf", &lengths[0], &lengths[1]) == 2)
        cairo.cairo_set_dash(c, lengths, 2, 0);
    else
        cairo.cairo_set_dash(c, NULL, 0, 0);
}

static void put_text(cairo_t *c, const plb_shape *s) {
    plb_strbuf clean = {0};
    cairo_text_extents_t extents;
    plb_escape_terminal(&clean, s->text);
    const char *text = clean.text && !clean.failed ? clean.text : "";
    cairo.cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                                 s->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo.cairo_set_font_size(c, s->size);
    cairo.cairo_text_extents(c, text, &extents);
    double shift = s->anchor < 0 ? 0 : s->anchor ? extents.x_advance : extents.x_advance / 2;
    cairo.cairo_move_to(c, s->at.x - shift, s->at.y);
    set_ink(c, s->fill, 1);
    cairo.cairo_show_text(c, text);
    plb_strbuf_free(&clean);
}

static void put_shape(cairo_t *c, const plb_shape *s) {
    if (s->kind == PLB_SHAPE_TEXT) {
        put_text(c, s);
        return;
    }
    trace(c, s);
    if (s->fill != PLB_INK_NONE) {
        set_ink(c, s->fill, s->opacity);
        cairo.cairo_fill_preserve(c);
    }
    if (s->stroke != PLB_INK_NONE) {
        set_ink(c, s->stroke, 1);
        set_dash(c, s->dash);
        cairo.cairo_set_line_width(c, s->width);
        cairo.cairo_stroke_preserve(c);
    }
}

static void put_drawing(cairo_t *c, const plb_drawing *d) {
    set_ink(c, PLB_INK_PAPER, 1);
    cairo.cairo_paint(c);
    cairo.cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    for (const plb_shape *s = d->first; s; s = s->next) put_shape(c, s);
}

static cairo_status_t append(void *context, const unsigned char *bytes, unsigned int length) {
    plb_strbuf *out = context;
    plb_strbuf_append(out, (const char *)bytes, length);
    return out->failed ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static plb_status status_of(cairo_status_t code, const plb_strbuf *out) {
    if (out->failed || code == CAIRO_STATUS_NO_MEMORY)
        return plb_fail(PLB_ENOMEM, "out of memory for a picture");
    if (code != CAIRO_STATUS_SUCCESS)
        return plb_fail(PLB_EBROKEN, "cairo cannot draw: %s", cairo.cairo_status_to_string(code));
    return PLB_OK;
}

plb_status plb_drawing_png(const plb_drawing *drawing, double scale, plb_strbuf *out) {
    PLB_TRY(open_cairo());
    cairo_surface_t *surface = cairo.cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)ceil(drawing->width * scale), (int)ceil(drawing->height * scale));
    cairo_t *c = cairo.cairo_create(surface);
    cairo.cairo_scale(c, scale, scale);
    put_drawing(c, drawing);
    cairo_status_t code = cairo.cairo_status(c);
    if (code == CAIRO_STATUS_SUCCESS)
        code = cairo.cairo_surface_write_to_png_stream(surface, append, out);
    cairo.cairo_destroy(c);
    cairo.cairo_surface_destroy(surface);
    return status_of(code, out);
}

plb_status plb_drawings_pdf(const plb_drawing *const *drawing, size_t count, plb_strbuf *out) {
    PLB_TRY(open_cairo());
    const double points = 0.75; // of 1/72 inch in a CSS pixel
    cairo_surface_t *surface = cairo.cairo_pdf_surface_create_for_stream(append, out, 1, 1);
    cairo_t *c = cairo.cairo_create(surface);
    for (size_t i = 0; i < count; i++) {
        cairo.cairo_pdf_surface_set_size(surface, drawing[i]->width * points,
                                         drawing[i]->height * points);
        cairo.cairo_save(c);
        cairo.cairo_scale(c, points, points);
        put_drawing(c, drawing[i]);
        cairo.cairo_restore(c);
        cairo.cairo_show_page(c);
    }
    cairo_status_t code = cairo.cairo_status(c);
    cairo.cairo_destroy(c);
    cairo.cairo_surface_finish(surface);
    if (code == CAIRO_STATUS_SUCCESS) code = cairo.cairo_surface_status(surface);
    cairo.cairo_surface_destroy(surface);
    return status_of(code, out);
}
