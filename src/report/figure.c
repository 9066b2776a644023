// SPDX-License-Identifier: Apache-2.0
#include "report/figure.h"

#include <math.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "report/palette.h"

static const char *const kinds[] = {"bars", "stack", "lines", "points", "areas", "heat"};

static size_t expected_count(const plb_figure *f, const plb_figure_series *s) {
    switch (f->kind) {
    case PLB_FIGURE_BARS:
    case PLB_FIGURE_STACK: return f->categories;
    case PLB_FIGURE_HEAT: return f->categories * f->rows;
    case PLB_FIGURE_AREAS: return f->series[0].count;
    case PLB_FIGURE_LINES:
    case PLB_FIGURE_POINTS: return s->count;
    }
    return s->count;
}

static plb_status check(const plb_figure *f) {
    const bool plane =
        f->kind == PLB_FIGURE_LINES || f->kind == PLB_FIGURE_POINTS || f->kind == PLB_FIGURE_AREAS;
    for (size_t i = 0; i < f->series_count; i++) {
        const plb_figure_series *s = &f->series[i];
        size_t expected = expected_count(f, s);
        if (s->count != expected || (s->count && !s->y)) {
            return plb_fail(PLB_EINVAL, "figure %s (%s), series %s: expected %zu values, found %zu",
                            f->name, kinds[f->kind], s->name, expected, s->y ? s->count : 0);
        }
        if (plane && s->count && !s->x) {
            return plb_fail(PLB_EINVAL, "figure %s (%s), series %s: expected x beside y", f->name,
                            kinds[f->kind], s->name);
        }
    }
    return PLB_OK;
}

// Copies into the arena; after the first failure *failed stays true and copies are NULL.
typedef struct copier {
    plb_arena *arena;
    bool failed;
} copier;

static const char *copy_text(copier *c, const char *text) {
    const char *copy = text ? plb_arena_strdup(c->arena, text) : NULL;
    if (text && !copy) c->failed = true;
    return copy;
}

static const double *copy_values(copier *c, const double *values, size_t count) {
    if (!values || !count) return NULL;
    const double *copy = plb_arena_copy(c->arena, values, count * sizeof *values);
    if (!copy) c->failed = true;
    return copy;
}

static const char *const *copy_texts(copier *c, const char *const *texts, size_t count) {
    if (!texts || !count) return NULL;
    const char **copy = plb_arena_alloc(c->arena, count * sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) copy[i] = copy_text(c, texts[i]);
    if (!copy) c->failed = true;
    return copy;
}

static const plb_figure_series *copy_series(copier *c, const plb_figure *f) {
    plb_figure_series *copy = plb_arena_alloc(c->arena, (f->series_count + 1) * sizeof *copy);
    if (!copy) {
        c->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < f->series_count; i++) {
        const plb_figure_series *s = &f->series[i];
        copy[i] = *s;
        copy[i].name = copy_text(c, s->name ? s->name : "");
        copy[i].x = copy_values(c, s->x, s->count);
        copy[i].y = copy_values(c, s->y, s->count);
        copy[i].low = copy_values(c, s->low, s->count);
        copy[i].high = copy_values(c, s->high, s->count);
        copy[i].label = copy_texts(c, s->label, s->count);
    }
    return copy;
}

// A name that a file and an anchor may have.
static const char *copy_name(copier *c, const char *name) {
    char *copy = plb_arena_strdup(c->arena, name && *name ? name : "figure");
    if (!copy) c->failed = true;
    for (char *p = copy; p && *p; p++) {
        bool fine = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                    (*p >= '0' && *p <= '9') || (*p == '.' && p != copy) || *p == '_';
        if (!fine) *p = '-';
    }
    return copy;
}

plb_status plb_figure_copy(const plb_figure *figure, plb_arena *arena, plb_figure **out) {
    copier c = {.arena = arena};
    *out = NULL;
    PLB_TRY(check(figure));
    plb_figure *f = plb_arena_copy(arena, figure, sizeof *figure);
    if (!f) return plb_fail(PLB_ENOMEM, "out of memory for a figure");
    f->name = copy_name(&c, figure->name);
    f->title = copy_text(&c, figure->title ? figure->title : "");
    f->caption = copy_text(&c, figure->caption);
    f->command = copy_text(&c, figure->command);
    f->x.title = copy_text(&c, figure->x.title);
    f->y.title = copy_text(&c, figure->y.title);
    f->category = copy_texts(&c, figure->category, figure->categories);
    if (figure->category_colour && figure->categories) {
        f->category_colour = plb_arena_copy(arena, figure->category_colour,
                                            figure->categories * sizeof *f->category_colour);
        c.failed |= !f->category_colour;
    }
    f->row = copy_texts(&c, figure->row, figure->rows);
    f->row_title = copy_text(&c, figure->row_title);
    f->mark = copy_text(&c, figure->mark);
    f->series = copy_series(&c, figure);
    if (c.failed) return plb_fail(PLB_ENOMEM, "out of memory for a figure");
    *out = f;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- colours of stacks
static const char *const stacks[PLB_PALETTE] = {"plumb-plan",   "torch-eager",  "onnxruntime",
                                                "openvino",     "torch-script", "torch-cudagraph",
                                                "plumb-interp", "libtorch",     "torch-compile",
                                                "plumb-replay", "plumb-ref"};

int plb_stack_colour(const char *stack) {
    for (int i = 0; i < PLB_PALETTE; i++) {
        if (strcmp(stack, stacks[i]) == 0) return i + 1;
    }
    return (int)(plb_hash_string(PLB_HASH_SEED, stack) % PLB_PALETTE) + 1;
}
