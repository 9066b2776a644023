// SPDX-License-Identifier: Apache-2.0
// A drawing as SVG 1.1, with text as text.
#include <math.h>
#include <stdio.h>

#include "report/drawing.h"
#include "report/escape.h"

#define FONT "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif"

// A tenth of a pixel is enough, and "12" is shorter than "12.0".
static void put_number(plb_strbuf *out, double value) {
    char text[32];
    int n = snprintf(text, sizeof text, "%.1f", fabs(value) < 0.05 ? 0 : value);
    if (n > 2 && text[n - 1] == '0') n -= 2;
    plb_strbuf_append(out, text, (size_t)n);
}

static void put_attribute(plb_strbuf *out, const char *name, double value) {
    plb_strbuf_printf(out, " %s=\"", name);
    put_number(out, value);
    plb_strbuf_append(out, "\"", 1);
}

static void put_paint(const plb_shape *s, bool page, plb_strbuf *out) {
    const char *fill = plb_ink_class(s->fill), *stroke = plb_ink_class(s->stroke);
    const bool stroked = s->stroke != PLB_INK_NONE;
    if (page && (fill || stroke)) {
        plb_strbuf_printf(out, " class=\"%s%s%s%s%s\"", fill ? "f-" : "", fill ? fill : "",
                          fill && stroke ? " " : "", stroke ? "l-" : "", stroke ? stroke : "");
    }
    if (s->fill == PLB_INK_NONE)
        plb_strbuf_printf(out, " fill=\"none\"");
    else if (!page || !fill)
        plb_strbuf_printf(out, " fill=\"#%06x\"", plb_ink_rgb(s->fill, 0));
    if (stroked && (!page || !stroke))
        plb_strbuf_printf(out, " stroke=\"#%06x\"", plb_ink_rgb(s->stroke, 0));
    if (stroked) put_attribute(out, "stroke-width", s->width);
    if (s->opacity > 0) plb_strbuf_printf(out, " fill-opacity=\"%.2g\"", s->opacity);
    if (s->dash) plb_strbuf_printf(out, " stroke-dasharray=\"%s\"", s->dash);
}

static void put_path(const plb_shape *s, plb_strbuf *out) {
    plb_strbuf_printf(out, "<path d=\"");
    for (size_t i = 0; i < s->points; i++) {
        plb_strbuf_append(out, i ? "L" : "M", 1);
        put_number(out, s->point[i].x);
        plb_strbuf_append(out, " ", 1);
        put_number(out, s->point[i].y);
    }
    plb_strbuf_printf(out, "%s\"", s->closed ? "Z" : "");
}

static const char *open_shape(const plb_shape *s, plb_strbuf *out) {
    switch (s->kind) {
    case PLB_SHAPE_RECT:
        plb_strbuf_printf(out, "<rect");
        put_attribute(out, "x", s->at.x), put_attribute(out, "y", s->at.y);
        put_attribute(out, "width", fmax(s->w, 0)), put_attribute(out, "height", fmax(s->h, 0));
        return "rect";
    case PLB_SHAPE_CIRCLE:
        plb_strbuf_printf(out, "<circle");
        put_attribute(out, "cx", s->at.x), put_attribute(out, "cy", s->at.y);
        put_attribute(out, "r", s->w);
        return "circle";
    case PLB_SHAPE_PATH: put_path(s, out); return "path";
    case PLB_SHAPE_TEXT:
        plb_strbuf_printf(out, "<text");
        put_attribute(out, "x", s->at.x), put_attribute(out, "y", s->at.y);
        put_attribute(out, "font-size", s->size);
        if (s->anchor >= 0)
            plb_strbuf_printf(out, " text-anchor=\"%s\"", s->anchor ? "end" : "middle");
        if (s->bold) plb_strbuf_printf(out, " font-weight=\"600\"");
        return "text";
    }
    return "g";
}

static void put_shape(const plb_shape *s, bool page, plb_strbuf *out) {
    const char *element = open_shape(s, out);
    put_paint(s, page, out);
    if (!s->tip && s->kind != PLB_SHAPE_TEXT) {
        plb_strbuf_append(out, "/>", 2);
        return;
    }
    plb_strbuf_append(out, ">", 1);
    if (s->tip) {
        plb_strbuf_printf(out, "<title>");
        plb_escape_html(out, s->tip);
        plb_strbuf_printf(out, "</title>");
    }
    if (s->kind == PLB_SHAPE_TEXT) plb_escape_html(out, s->text);
    plb_strbuf_printf(out, "</%s>", element);
}

void plb_drawing_svg(const plb_drawing *drawing, bool page, const char *extra, plb_strbuf *out) {
    plb_strbuf_printf(out, "<svg%s viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"",
                      page ? "" : " xmlns=\"http://www.w3.org/2000/svg\"", drawing->width,
                      drawing->height);
    plb_escape_html(out, drawing->label ? drawing->label : "");
    plb_strbuf_printf(out, "\"%s", extra);
    if (!page) {
        plb_strbuf_printf(out, " width=\"%.0f\" height=\"%.0f\" font-family=\"%s\">\n",
                          drawing->width, drawing->height, FONT);
        plb_strbuf_printf(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n");
    } else {
        plb_strbuf_append(out, ">", 1);
    }
    for (const plb_shape *s = drawing->first; s; s = s->next) {
        put_shape(s, page, out);
        if (!page) plb_strbuf_append(out, "\n", 1);
    }
    plb_strbuf_printf(out, "</svg>\n");
}
