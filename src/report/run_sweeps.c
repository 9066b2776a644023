// SPDX-License-Identifier: Apache-2.0
// Where batch, size or threads of a run take several values: slices along each, speed-up over
// threads, and surfaces over batch and size.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "report/palette.h"
#include "report/run_cases.h"

enum { MOST_STACKS = 32, MOST_VALUES = 64, MOST_FIGURES = 16, LEAST_POINTS = 3 };

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a run's sweeps");
}

// Cases that differ in the stack and in what is swept.
typedef struct family {
    const plb_run_cases *all;
    const plb_run_case *first;
    unsigned free_sweeps;
    const char *stack[MOST_STACKS];
    int colour[MOST_STACKS];
    size_t stacks;
    int64_t value[2][MOST_VALUES]; // of the (first and second) sweep, in ascending order
    size_t values[2];
} family;

static void insert(int64_t *values, size_t *count, int64_t value) {
    size_t at = 0;
    while (at < *count && values[at] < value) at++;
    if ((at < *count && values[at] == value) || *count == MOST_VALUES) return;
    for (size_t i = (*count)++; i > at; i--) values[i] = values[i - 1];
    values[at] = value;
}

static void gather(const plb_run_cases *all, const plb_run_case *first, unsigned free_sweeps,
                   const plb_sweep *sweep, size_t sweeps, family *out) {
    *out = (family){.all = all, .first = first, .free_sweeps = free_sweeps};
    for (size_t i = 0; i < all->count; i++) {
        const plb_run_case *c = &all->item[i];
        size_t k = 0;
        if (!plb_run_case_alike(&first->c, &c->c, free_sweeps)) continue;
        for (size_t n = 0; n < sweeps; n++)
            insert(out->value[n], &out->values[n], plb_sweep_value(&c->c, sweep[n]));
        while (k < out->stacks && strcmp(out->stack[k], c->name) != 0) k++;
        if (k < out->stacks || out->stacks == MOST_STACKS) continue;
        out->colour[out->stacks] = plb_stack_colour(c->c.stack);
        out->stack[out->stacks++] = c->name;
    }
}

// Leaves out stacks that have fewer than `least` cases of the family: one point is no curve.
static void drop_sparse(family *f, size_t least) {
    size_t kept = 0;
    for (size_t k = 0; k < f->stacks; k++) {
        size_t cases = 0;
        for (size_t i = 0; i < f->all->count; i++) {
            cases += strcmp(f->all->item[i].name, f->stack[k]) == 0 &&
                     plb_run_case_alike(&f->first->c, &f->all->item[i].c, f->free_sweeps);
        }
        if (cases < least) continue;
        f->stack[kept] = f->stack[k], f->colour[kept++] = f->colour[k];
    }
    f->stacks = kept;
}

// Whether `c` is the first case of its family, so that each family is drawn once.
static bool leads(const plb_run_cases *all, const plb_run_case *c, unsigned free_sweeps) {
    for (const plb_run_case *k = all->item; k < c; k++)
        if (plb_run_case_alike(&k->c, &c->c, free_sweeps)) return false;
    return true;
}

static const plb_run_case *find(const family *f, size_t stack, const plb_sweep *sweep,
                                size_t sweeps, const int64_t *value) {
    for (size_t i = 0; i < f->all->count; i++) {
        const plb_run_case *c = &f->all->item[i];
        bool fits = strcmp(c->name, f->stack[stack]) == 0 &&
                    plb_run_case_alike(&f->first->c, &c->c, f->free_sweeps);
        for (size_t n = 0; fits && n < sweeps; n++)
            fits = plb_sweep_value(&c->c, sweep[n]) == value[n];
        if (fits) return c;
    }
    return NULL;
}

// "resnet18 infer, 224×224, 2 threads": the case without what is swept.
static const char *title_of(const family *f, const char *tail) {
    const plb_case *c = &f->first->c;
    char batch[32] = "", size[48] = "", threads[32] = "";
    if (!(f->free_sweeps & 1u << PLB_SWEEP_BATCH))
        snprintf(batch, sizeof batch, ", batch %" PRId64, c->batch);
    if (!(f->free_sweeps & 1u << PLB_SWEEP_SIZE) && c->size)
        snprintf(size, sizeof size, ", %" PRId64 "×%" PRId64, c->size, c->size);
    if (!(f->free_sweeps & 1u << PLB_SWEEP_THREADS))
        snprintf(threads, sizeof threads, ", %" PRId64 " thread%s", c->threads,
                 c->threads == 1 ? "" : "s");
    const char *text = plb_arena_printf(f->all->arena, "%s %s%s%s%s: %s", c->model, c->task, batch,
                                        size, threads, tail);
    return text ? text : "";
}

static const char *name_of(const family *f, const char *kind) {
    const char *text = plb_arena_printf(f->all->arena, "%s-%s-%s-%d", kind, f->first->c.model,
                                        f->first->c.task, f->first->group + 1);
    return text ? text : "";
}

static const char *outcome_of(const plb_run_case *c) {
    return !c ? NULL : c->ok ? NULL : c->row->outcome ? c->row->outcome : "unfinished";
}

// ---------------------------------------------------------------------------- slices
typedef struct slice {
    double *x, *y, *low, *high;
    const char **label; // why there is no value
} slice;

// The fewest threads that any stack was measured with, mostly one: speed-ups relate to them. 0: no
// stack was.
static int64_t base_of(const family *f) {
    const plb_sweep sweep = PLB_SWEEP_THREADS;
    for (size_t i = 0; i < f->values[0]; i++) {
        for (size_t k = 0; k < f->stacks; k++) {
            const plb_run_case *c = find(f, k, &sweep, 1, &f->value[0][i]);
            if (c && c->ok) return f->value[0][i];
        }
    }
    return 0;
}

static const char *threads_text(const family *f, int64_t threads) {
    if (threads == 1) return "one thread";
    const char *text = plb_arena_printf(f->all->arena, "%" PRId64 " threads", threads);
    return text ? text : "";
}

// From times to ratios to the base. A stack that lacks the base has none, and says why.
static plb_status relate(const family *f, size_t stack, int64_t base, slice *s) {
    const plb_sweep sweep = PLB_SWEEP_THREADS;
    const plb_run_case *c = find(f, stack, &sweep, 1, &base);
    const double alone = c && c->ok ? c->s.median_ns : (double)NAN;
    const char *lacks = c && !c->ok ? outcome_of(c) : "no case";
    const char *why = plb_arena_printf(f->all->arena, "%s with %s", lacks, threads_text(f, base));
    if (!why) return no_memory();
    for (size_t i = 0; i < f->values[0]; i++) {
        const double slow = s->high[i], fast = s->low[i];
        if (isnan(alone) && !isnan(s->y[i])) s->label[i] = why;
        s->y[i] = alone / s->y[i], s->low[i] = alone / slow, s->high[i] = alone / fast;
    }
    return PLB_OK;
}

// One stack along one sweep. Over batches: per sample; over threads: as a ratio to the fewest.
static plb_status fill_slice(const family *f, size_t stack, plb_sweep sweep,
                             plb_figure_series *out) {
    const size_t n = f->values[0];
    double *x = plb_arena_alloc(f->all->arena, 4 * (n + 1) * sizeof *x);
    const char **label = plb_arena_alloc(f->all->arena, (n + 1) * sizeof *label);
    if (!x || !label) return no_memory();
    slice s = {x, x + n + 1, x + 2 * (n + 1), x + 3 * (n + 1), label};
    for (size_t i = 0; i < n; i++) {
        const plb_run_case *c = find(f, stack, &sweep, 1, &f->value[0][i]);
        const bool known = c && c->ok;
        double divisor = known && sweep == PLB_SWEEP_BATCH ? (double)c->c.batch : 1;
        s.x[i] = (double)f->value[0][i];
        s.y[i] = known ? c->s.median_ns / divisor : (double)NAN;
        s.low[i] = known ? c->s.low_ns / divisor : (double)NAN;
        s.high[i] = known ? c->s.high_ns / divisor : (double)NAN;
        s.label[i] = outcome_of(c);
    }
    if (sweep == PLB_SWEEP_THREADS) PLB_TRY(relate(f, stack, base_of(f), &s));
    *out = (plb_figure_series){.name = f->stack[stack],
                               .count = n,
                               .x = s.x,
                               .y = s.y,
                               .low = s.low,
                               .high = s.high,
                               .label = s.label,
                               .colour = f->colour[stack]};
    return PLB_OK;
}

static plb_status add_ideal(const family *f, plb_figure_series *out) {
    const size_t n = f->values[0];
    const double base = (double)base_of(f);
    double *x = plb_arena_alloc(f->all->arena, 2 * (n + 1) * sizeof *x);
    if (!x) return no_memory();
    double *y = x + n + 1;
    for (size_t i = 0; i < n; i++) x[i] = (double)f->value[0][i], y[i] = x[i] / base;
    *out = (plb_figure_series){.name = "as many times as threads",
                               .count = n,
                               .x = x,
                               .y = y,
                               .style = PLB_SERIES_DASHED,
                               .colour = PLB_PALETTE};
    return PLB_OK;
}

static const char *caption_of(const family *f, plb_sweep sweep) {
    if (sweep == PLB_SWEEP_BATCH)
        return "Time of one sample. Where a line falls, a larger batch uses the machine better.";
    if (sweep == PLB_SWEEP_SIZE)
        return "Time of one iteration; height and width of the input grow together.";
    const char *text = plb_arena_printf(
        f->all->arena, "How many times faster than %s; the dashed line is perfect.",
        threads_text(f, base_of(f)));
    return text ? text : "";
}

static const char *measure_of(const family *f, plb_sweep sweep) {
    if (sweep == PLB_SWEEP_BATCH) return "time of one sample";
    if (sweep == PLB_SWEEP_SIZE) return "time of one iteration";
    const char *text =
        plb_arena_printf(f->all->arena, "speed-up against %s", threads_text(f, base_of(f)));
    return text ? text : "";
}

static plb_status add_slice(const family *f, plb_sweep sweep, plb_section *s) {
    static const char *const kinds[] = {"over-batch", "over-size", "over-threads"};
    static const char *const tails[] = {"over the batch", "over the size", "over threads"};
    plb_figure_series series[MOST_STACKS + 1];
    size_t count = f->stacks;
    for (size_t k = 0; k < f->stacks; k++) PLB_TRY(fill_slice(f, k, sweep, &series[k]));
    if (sweep == PLB_SWEEP_THREADS) PLB_TRY(add_ideal(f, &series[count++]));
    const char *name = name_of(f, kinds[sweep]);
    const plb_figure figure = {
        .kind = PLB_FIGURE_LINES,
        .name = name,
        .title = title_of(f, tails[sweep]),
        .caption = caption_of(f, sweep),
        .command = plb_run_command(f->all, name),
        .x = {.title = plb_sweep_name(sweep), .unit = PLB_UNIT_COUNT, .log = true},
        .y = {.title = measure_of(f, sweep),
              .unit = sweep == PLB_SWEEP_THREADS ? PLB_UNIT_RATIO : PLB_UNIT_NS,
              .log = true},
        .series = series,
        .series_count = count,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- surfaces
static const char *const *texts_of(const family *f, int axis) {
    const char **texts = plb_arena_alloc(f->all->arena, (f->values[axis] + 1) * sizeof *texts);
    for (size_t i = 0; texts && i < f->values[axis]; i++) {
        texts[i] = plb_arena_printf(f->all->arena, "%" PRId64, f->value[axis][i]);
        if (!texts[i]) return NULL;
    }
    return texts;
}

static plb_status fill_grid(const family *f, size_t stack, plb_figure_series *out) {
    static const plb_sweep both[] = {PLB_SWEEP_BATCH, PLB_SWEEP_SIZE};
    const size_t n = f->values[0] * f->values[1];
    double *y = plb_arena_alloc(f->all->arena, (n + 1) * sizeof *y);
    const char **label = plb_arena_alloc(f->all->arena, (n + 1) * sizeof *label);
    if (!y || !label) return no_memory();
    for (size_t i = 0; i < n; i++) {
        const int64_t value[] = {f->value[0][i % f->values[0]], f->value[1][i / f->values[0]]};
        const plb_run_case *c = find(f, stack, both, 2, value);
        y[i] = c && c->ok ? c->s.median_ns / (double)c->c.batch : (double)NAN;
        label[i] = outcome_of(c);
    }
    *out = (plb_figure_series){.name = f->stack[stack], .count = n, .y = y, .label = label};
    return PLB_OK;
}

static plb_status add_surface(const family *f, plb_section *s) {
    plb_figure_series series[MOST_STACKS];
    for (size_t k = 0; k < f->stacks; k++) PLB_TRY(fill_grid(f, k, &series[k]));
    const char *name = name_of(f, "surface");
    const plb_figure figure = {
        .kind = PLB_FIGURE_HEAT,
        .name = name,
        .title = title_of(f, "over batch and size"),
        .caption = "Time of one sample. All stacks share one scale of colours.",
        .command = plb_run_command(f->all, name),
        .x = {.title = "batch"},
        .y = {.title = "time of one sample", .unit = PLB_UNIT_NS, .log = true},
        .category = texts_of(f, 0),
        .categories = f->values[0],
        .row = texts_of(f, 1),
        .rows = f->values[1],
        .row_title = "size",
        .series = series,
        .series_count = f->stacks,
    };
    if (!figure.category || !figure.row) return no_memory();
    plb_section_figure(s, &figure);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- all of them
static plb_section *section_of(plb_document *d, plb_section **section) {
    if (!*section) *section = plb_document_section(d, "Sweeps");
    return *section;
}

static bool is_surface(family *f) {
    drop_sparse(f, 4);
    return f->values[0] > 1 && f->values[1] > 1 && f->values[0] * f->values[1] > 5 && f->stacks;
}

static bool is_slice(family *f, plb_sweep sweep) {
    drop_sparse(f, 2);
    if (!f->stacks) return false;
    return sweep == PLB_SWEEP_THREADS ? f->values[0] >= 2 && base_of(f) > 0
                                      : f->values[0] >= LEAST_POINTS;
}

static plb_status add_slices(const plb_run_cases *all, plb_document *d, plb_section **section,
                             size_t *left_out) {
    size_t figures = 0;
    for (int k = 0; k < PLB_SWEEPS; k++) {
        const plb_sweep sweep = (plb_sweep)k;
        for (size_t i = 0; i < all->count; i++) {
            family f;
            if (!leads(all, &all->item[i], 1u << k)) continue;
            gather(all, &all->item[i], 1u << k, &sweep, 1, &f);
            if (!is_slice(&f, sweep)) continue;
            if (figures++ < MOST_FIGURES)
                PLB_TRY(add_slice(&f, sweep, section_of(d, section)));
            else
                ++*left_out;
        }
    }
    return PLB_OK;
}

plb_status plb_run_add_sweeps(const plb_run_cases *all, plb_document *d) {
    static const plb_sweep both[] = {PLB_SWEEP_BATCH, PLB_SWEEP_SIZE};
    const unsigned free_sweeps = 1u << PLB_SWEEP_BATCH | 1u << PLB_SWEEP_SIZE;
    plb_section *section = NULL;
    size_t figures = 0, left_out = 0;
    for (size_t i = 0; i < all->count; i++) {
        family f;
        if (!leads(all, &all->item[i], free_sweeps)) continue;
        gather(all, &all->item[i], free_sweeps, both, 2, &f);
        if (!is_surface(&f)) continue;
        if (figures++ < MOST_FIGURES)
            PLB_TRY(add_surface(&f, section_of(d, &section)));
        else
            left_out++;
    }
    PLB_TRY(add_slices(all, d, &section, &left_out));
    if (left_out)
        plb_section_say(section,
                        "%zu more sweeps have no figure here; the table of all cases has their "
                        "numbers.",
                        left_out);
    return PLB_OK;
}
