// SPDX-License-Identifier: Apache-2.0
// What the kinds of figures share while they are laid out: legend, markers, axes.
#ifndef PLB_REPORT_SHEET_H
#define PLB_REPORT_SHEET_H

#include "report/drawing.h"
#include "report/scale.h"

typedef struct plb_sheet {
    const plb_figure *figure;
    const plb_draw_options *options;
    plb_drawing *d;
    bool narrow;
    double size; // of texts
    double y;    // what was used so far from the top
} plb_sheet;

// The part of the sheet that the axes enclose.
typedef struct plb_frame {
    double left, top, right, bottom;
} plb_frame;

plb_ink plb_series_ink(const plb_figure *figure, size_t series);
const char *plb_series_dash(const plb_figure *figure, size_t series); // NULL: none
// The marker of the series-th series: six shapes take turns.
plb_shape *plb_put_marker(plb_drawing *d, size_t series, double x, double y, double radius,
                          plb_ink ink);
void plb_put_title(plb_sheet *sheet);
// A row (or more) of names with swatches: squares, or the lines and markers themselves.
void plb_put_legend(plb_sheet *sheet, bool lines);
// Vertical lines with texts below, and the title below them; returns where it ends.
double plb_put_x_axis(plb_sheet *sheet, const plb_frame *frame, const plb_scale *scale);
// Horizontal lines with texts on the left; the title above the frame.
void plb_put_y_axis(plb_sheet *sheet, const plb_frame *frame, const plb_scale *scale);
double plb_tick_width(const plb_scale *scale, double size); // of the widest text
// "name: value (low to high)" in the arena.
const char *plb_tip(plb_sheet *sheet, const char *what, size_t series, size_t index);

void plb_draw_bars(plb_sheet *sheet);
void plb_draw_stack(plb_sheet *sheet);
void plb_draw_plane(plb_sheet *sheet); // LINES, POINTS, AREAS
void plb_draw_heat(plb_sheet *sheet);

#endif
