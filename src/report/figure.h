// SPDX-License-Identifier: Apache-2.0
// A figure as data: what is drawn, not how. One description is drawn as SVG into pages, as PNG and
// PDF for papers, as Unicode in a terminal, and always comes with a table of its numbers and the
// command that makes it again.
//
//     kind     series                                          axes
//     BARS     one value a category, with interval             y: the value (bars lie)
//     STACK    one part of each category's bar                 y: the value
//     LINES    x and y, with a band (low, high) or markers     x, y
//     POINTS   x and y alone; a series with .style LINE among them is a line (roofs)
//     AREAS    parts of a whole over x, on top of each other   x, y; all series have the same x
//     HEAT     one grid a series: y[row * categories + column] y: the value (its colour)
//
// Intervals and bands are drawn where low and high are given and not NaN. A value that is NaN is
// left out; its label, if it has one ("oom"), stands in its place.
#ifndef PLB_REPORT_FIGURE_H
#define PLB_REPORT_FIGURE_H

#include <stddef.h>

#include "base/core/arena.h"
#include "report/units.h"

typedef enum plb_figure_kind {
    PLB_FIGURE_BARS,
    PLB_FIGURE_STACK,
    PLB_FIGURE_LINES,
    PLB_FIGURE_POINTS,
    PLB_FIGURE_AREAS,
    PLB_FIGURE_HEAT,
} plb_figure_kind;

typedef struct plb_figure_axis {
    const char *title; // "batch", "time of one iteration"
    plb_unit unit;
    bool log;
    bool zero;        // begins at 0 even if no value is near it; bars always do, unless log
    double low, high; // both 0: from the values
} plb_figure_axis;

typedef enum plb_series_style {
    PLB_SERIES_AUTO,   // markers where there are few points
    PLB_SERIES_LINE,   // a line without markers
    PLB_SERIES_DASHED, // the same, dashed: a reference, a limit
    PLB_SERIES_DOTS,   // markers without a line
} plb_series_style;

typedef struct plb_figure_series {
    const char *name;         // "torch-eager"
    size_t count;             // of values: BARS, STACK: categories; HEAT: rows * categories
    const double *x;          // LINES, POINTS, AREAS; else NULL
    const double *y;          // [count]; NaN: none
    const double *low, *high; // [count] or NULL
    const char *const *label; // [count] or NULL, each may be NULL: of a point, or why there is none
    plb_series_style style;
    // 0: by the series' place. n: the n-th colour of the palette, counted from 1, so that a stack
    // keeps its colour in all figures of a document.
    int colour;
} plb_figure_series;

typedef struct plb_figure {
    plb_figure_kind kind;
    const char *name;    // "levels-mnist_cnn": names its file; "f-…" its anchor; [a-zA-Z0-9_.-]
    const char *title;   // one line
    const char *caption; // a sentence or two: what is to be seen; NULL: none
    const char *command; // that measures and draws it again; NULL: the document's
    plb_figure_axis x, y;
    const char *const *category; // BARS, STACK: the bars; HEAT: the columns
    size_t categories;
    const int *category_colour; // BARS of one series: as .colour of a series; NULL: all alike
    const char *const *row;     // HEAT: the rows, the lowest first
    size_t rows;
    const char *row_title; // HEAT: what the rows are; x.title says it of the columns
    const plb_figure_series *series;
    size_t series_count;
    const char *mark; // what a vertical line at mark_x says; NULL: no line
    double mark_x;
} plb_figure;

// A copy of all that it points to, in the arena. PLB_EINVAL if counts do not fit the kind.
PLB_API PLB_MUST_USE plb_status plb_figure_copy(const plb_figure *figure, plb_arena *arena,
                                                plb_figure **out);

// The colour (1, 2, …) that a stack has in every figure; others share what is left by their name's
// hash.
PLB_API int plb_stack_colour(const char *stack);

#endif
