// SPDX-License-Identifier: Apache-2.0
// The section of a part that trains: times, curves, the step at which stacks part, operators.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/results.h"

static const double parted = 1e-3; // of the loss: more than rounding explains in the first steps

typedef struct teller {
    const plb_results *r;
    const plb_study_part *part;
    plb_document *d;
    plb_section *section;
    plb_pool *pools;
    int count;
    int beside; // most trainings that went on at a time; above 1 no time is told
} teller;

static double *numbers(teller *t, size_t count) {
    return plb_arena_alloc(plb_document_arena(t->d), (count + 1) * sizeof(double));
}

static const char *label_of(teller *t, const plb_pool *pool) {
    return plb_result_label(t->r, pool->first, plb_document_arena(t->d));
}

static const char *name_of(teller *t, const char *what) {
    const char *name = plb_arena_printf(plb_document_arena(t->d), "%s-%s", t->part->name, what);
    return name ? name : what;
}

static int most_beside(const teller *t) {
    int most = 1;
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < t->pools[i].count; k++) {
            int beside = plb_result_beside(t->pools[i].items[k]);
            most = beside > most ? beside : most;
        }
    return most;
}

// ---------------------------------------------------------------------------- the table
static double seconds(const plb_pool *pool) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < pool->count; i++)
        for (int e = 1; e <= plb_result_epochs(pool->items[i]); e++, count++)
            sum += plb_result_epoch(pool->items[i], e, "train_s");
    return count ? sum / count : NAN;
}

static plb_band time_band(const plb_pool *pool) {
    plb_band band = {seconds(pool), INFINITY, -INFINITY};
    for (int i = 0; i < pool->count; i++)
        for (int e = 1; e <= plb_result_epochs(pool->items[i]); e++) {
            double value = plb_result_epoch(pool->items[i], e, "train_s");
            band.low = fmin(band.low, value), band.high = fmax(band.high, value);
        }
    return band;
}

// The same stack, model and device with one thread; NULL: none.
static const plb_pool *single(const teller *t, const plb_pool *pool) {
    for (int i = 0; i < t->count; i++) {
        const plb_result *a = t->pools[i].first, *b = pool->first;
        if (a->threads == 1 && !strcmp(a->stack, b->stack) && !strcmp(a->device, b->device) &&
            !strcmp(a->model, b->model))
            return &t->pools[i];
    }
    return NULL;
}

static double efficiency(const teller *t, const plb_pool *pool) {
    const plb_pool *one = single(t, pool);
    return one ? seconds(one) / seconds(pool) / (double)pool->first->threads : NAN;
}

// Of an epoch: a last batch that is not whole is left out.
static double trained_samples(const plb_result *item) {
    double batch = (double)item->batch;
    return floor(plb_result_number(item, "train_samples") / batch) * batch;
}

// One column of numbers; those of time are left out where no time is told.
typedef struct number_column {
    const char *title;
    plb_unit unit;
    bool time;
} number_column;

static const number_column number_columns[] = {
    {"threads", PLB_UNIT_COUNT, false},       {"seeds", PLB_UNIT_COUNT, false},
    {"epoch", PLB_UNIT_SECONDS, true},        {"least", PLB_UNIT_SECONDS, true},
    {"most", PLB_UNIT_SECONDS, true},         {"samples/s", PLB_UNIT_PER_SECOND, true},
    {"efficiency", PLB_UNIT_SHARE, true},     {"hand-over", PLB_UNIT_SECONDS, true},
    {"train loss", PLB_UNIT_NONE, false},     {"test loss", PLB_UNIT_NONE, false},
    {"test accuracy", PLB_UNIT_SHARE, false}, {"least accuracy", PLB_UNIT_SHARE, false},
    {"most accuracy", PLB_UNIT_SHARE, false}, {"always the commonest", PLB_UNIT_SHARE, false},
};
enum { NUMBER_COLUMNS = sizeof number_columns / sizeof *number_columns };

static bool is_told(const teller *t, int column) {
    return t->beside == 1 || !number_columns[column].time;
}

static void say_row(const teller *t, plb_table *table, const plb_pool *p) {
    plb_band time = time_band(p), accuracy = plb_pool_epoch(p, -1, "test_accuracy");
    const double values[NUMBER_COLUMNS] = {
        (double)p->first->threads,
        p->count,
        time.mean,
        time.low,
        time.high,
        trained_samples(p->first) / time.mean,
        efficiency(t, p),
        plb_pool_epoch(p, -1, "handover_s").mean,
        plb_pool_epoch(p, -1, "train_loss").mean,
        plb_pool_epoch(p, -1, "test_loss").mean,
        accuracy.mean,
        accuracy.low,
        accuracy.high,
        plb_result_number(p->first, "majority"),
    };
    plb_table_text(table, "%s", p->first->model);
    plb_table_text(table, "%s", p->first->stack);
    plb_table_text(table, "%s", p->first->device);
    for (int i = 0; i < NUMBER_COLUMNS; i++)
        if (is_told(t, i)) plb_table_number(table, values[i]);
}

static void say_table(teller *t) {
    plb_table *table = plb_section_table(t->section, name_of(t, "results"),
                                         "Means over seeds; least and most beside them");
    plb_table_column(table, "model", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(table, "stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(table, "device", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (int i = 0; i < NUMBER_COLUMNS; i++)
        if (is_told(t, i))
            plb_table_column(table, number_columns[i].title, PLB_COLUMN_NUMBER,
                             number_columns[i].unit);
    for (int i = 0; i < t->count; i++) say_row(t, table, &t->pools[i]);
}

// The first pool of the same model before pool `i`, which is the first stack that the part names.
static const plb_pool *base_of(const teller *t, int i) {
    for (int k = 0; k < i; k++)
        if (!strcmp(t->pools[k].first->model, t->pools[i].first->model)) return &t->pools[k];
    return NULL;
}

static plb_table *agreement_table(teller *t) {
    plb_table *table =
        plb_section_table(t->section, name_of(t, "agreement"), "Whether stacks end alike");
    plb_table_column(table, "stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(table, "against", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(table, "seeds", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(table, "test accuracy", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(table, "difference", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(table, "noise allows", PLB_COLUMN_NUMBER, PLB_UNIT_SHARE);
    plb_table_column(table, "verdict", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    return table;
}

// Every stack's end beside the first one's, where a stack has more than one seed.
static void say_agreement(teller *t) {
    plb_table *table = NULL;
    plb_seed_spread spread = {NAN, 0};
    for (int i = 1; i < t->count; i++) {
        const plb_pool *base = base_of(t, i), *pool = &t->pools[i];
        if (base) spread = plb_pools_spread(t->pools, t->count, base->first->model);
        if (!base || !(spread.dof > 0)) continue;
        const plb_agreement a = plb_pools_agreement(&spread, base, pool);
        if (isnan(a.difference)) continue;
        if (!table) table = agreement_table(t);
        plb_table_text(table, "%s", label_of(t, pool));
        plb_table_text(table, "%s", label_of(t, base));
        plb_table_number(table, pool->count);
        plb_table_number(table, plb_pool_epoch(pool, -1, "test_accuracy").mean);
        plb_table_number(table, a.difference);
        plb_table_number(table, a.allowed);
        plb_table_badge(table, a.apart ? PLB_TONE_BAD : PLB_TONE_GOOD,
                        a.apart ? "apart" : "within noise");
    }
    if (!table) return;
    plb_section_say(
        t->section,
        "Noise is what seeds make of the mean accuracy after the last epoch: Student's "
        "test at 95 %%, with the spread over seeds of all stacks as one (standard "
        "deviation %.2f %%, %.0f degrees of freedom); and at least what chance makes of "
        "so many test samples. One of twenty that are alike lies outside.",
        100 * spread.seeds, spread.dof);
}

// ---------------------------------------------------------------------------- figures
static void draw_times(teller *t) {
    size_t n = (size_t)t->count;
    double *y = numbers(t, n), *low = numbers(t, n), *high = numbers(t, n);
    const char **names = plb_arena_alloc(plb_document_arena(t->d), (n + 1) * sizeof *names);
    int *colours = plb_arena_alloc(plb_document_arena(t->d), (n + 1) * sizeof *colours);
    if (!y || !low || !high || !names || !colours) return;
    for (size_t i = 0; i < n; i++) {
        plb_band band = time_band(&t->pools[i]);
        y[i] = band.mean, low[i] = band.low, high[i] = band.high;
        names[i] = label_of(t, &t->pools[i]);
        colours[i] = plb_stack_colour(t->pools[i].first->stack);
    }
    const plb_figure_series series = {.name = "", .count = n, .y = y, .low = low, .high = high};
    plb_section_figure(t->section,
                       &(plb_figure){.kind = PLB_FIGURE_BARS,
                                     .name = name_of(t, "times"),
                                     .title = "Time of one epoch of training",
                                     .y = {.title = "time", .unit = PLB_UNIT_SECONDS, .zero = true},
                                     .category = names,
                                     .categories = n,
                                     .category_colour = colours,
                                     .series = &series,
                                     .series_count = 1});
}

// One pool's curve over epochs, or over epoch x mean epoch time.
static bool fill_curve(teller *t, const plb_pool *p, const char *key, bool by_time,
                       plb_figure_series *out) {
    int epochs = p->epochs, first = !strncmp(key, "train", 5);
    size_t n = (size_t)(epochs + 1 - first);
    double *x = numbers(t, n), *y = numbers(t, n), *low = numbers(t, n), *high = numbers(t, n);
    double step = by_time ? seconds(p) : 1;
    if (!x || !y || !low || !high) return false;
    for (size_t k = 0; k < n; k++) {
        plb_band band = plb_pool_epoch(p, (int)k + first, key);
        x[k] = (double)(k + (size_t)first) * step;
        y[k] = band.mean, low[k] = band.low, high[k] = band.high;
    }
    *out = (plb_figure_series){.name = label_of(t, p),
                               .count = n,
                               .x = x,
                               .y = y,
                               .low = low,
                               .high = high,
                               .colour = plb_stack_colour(p->first->stack)};
    return true;
}

static void draw_curves(teller *t, const char *key, const char *title, plb_unit unit,
                        bool by_time) {
    plb_figure_series *series =
        plb_arena_alloc(plb_document_arena(t->d), (size_t)t->count * sizeof *series);
    size_t count = 0;
    char name[64];
    if (!series) return;
    for (int i = 0; i < t->count; i++)
        if (fill_curve(t, &t->pools[i], key, by_time, &series[count])) count++;
    snprintf(name, sizeof name, "%s-%s", key, by_time ? "time" : "epoch");
    plb_section_figure(
        t->section,
        &(plb_figure){.kind = PLB_FIGURE_LINES,
                      .name = name_of(t, name),
                      .title = title,
                      .caption = "Mean over seeds; the band is the least to the most.",
                      .x = {.title = by_time ? "epoch x mean time of an epoch" : "epoch",
                            .unit = by_time ? PLB_UNIT_SECONDS : PLB_UNIT_COUNT},
                      .y = {.title = unit == PLB_UNIT_SHARE ? "accuracy" : "loss", .unit = unit},
                      .series = series,
                      .series_count = count});
}

// ---------------------------------------------------------------------------- parting
static const plb_result *of_seed(const plb_pool *pool, int64_t seed) {
    for (int i = 0; i < pool->count; i++)
        if (pool->items[i]->seed == seed) return pool->items[i];
    return NULL;
}

// The first step of the first epoch whose losses differ by more than `parted` of the reference's;
// -1: none of those that both have. *out_largest: the largest difference before it.
static long parting_step(const plb_result *a, const plb_result *b, double *out_largest,
                         size_t *out_steps) {
    const json_t *x = json_object_get(a->json, "steps"), *y = json_object_get(b->json, "steps");
    size_t count =
        json_array_size(x) < json_array_size(y) ? json_array_size(x) : json_array_size(y);
    *out_largest = 0, *out_steps = count;
    for (size_t i = 0; i < count; i++) {
        double u = json_number_value(json_array_get(x, i));
        double v = json_number_value(json_array_get(y, i));
        double difference = fabs(u - v) / fmax(fabs(u), 1e-6);
        if (difference > parted) return (long)i + 1;
        *out_largest = fmax(*out_largest, difference);
    }
    return -1;
}

static void say_parting(teller *t) {
    plb_table *table = NULL;
    for (int i = 1; i < t->count; i++) {
        const plb_pool *base = base_of(t, i);
        const plb_result *mine = t->pools[i].items[0];
        const plb_result *theirs = base ? of_seed(base, mine->seed) : NULL;
        if (!theirs) continue;
        if (!table) {
            table = plb_section_table(t->section, name_of(t, "parting"),
                                      "Where losses part, step by step of the first epoch");
            plb_table_column(table, "stack", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
            plb_table_column(table, "against", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
            plb_table_column(table, "steps compared", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
            plb_table_column(table, "parts at step", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
            plb_table_column(table, "largest difference until then", PLB_COLUMN_NUMBER,
                             PLB_UNIT_NONE);
        }
        double largest;
        size_t steps;
        long step = parting_step(theirs, mine, &largest, &steps);
        plb_table_text(table, "%s", label_of(t, &t->pools[i]));
        plb_table_text(table, "%s", label_of(t, base));
        plb_table_number(table, (double)steps);
        plb_table_number(table, step < 0 ? NAN : (double)step);
        plb_table_number(table, largest);
    }
    if (!table) return;
    plb_section_say(
        t->section,
        "All stacks begin from one file of weights and see the same batches in the same "
        "order. Two losses of a step have parted when they differ by more than %g of "
        "the loss; no number there: they never did. Rounding differs between stacks, "
        "and training makes small differences large, so parting late is as it should "
        "be; parting at the first step would be a mistake. Batch norms over few values make "
        "it early: in f64, where hardly anything is rounded, ResNet-18 with weights changed by "
        "6e-8 of themselves parts from itself within eight steps (tools/parting shows it).%s",
        parted,
        t->part->dropout ? " Dropout is on here, and every stack draws its own random numbers: "
                           "different stacks part at the first step."
                         : "");
}

// ---------------------------------------------------------------------------- operators
static void operator_columns(plb_table *table) {
    static const struct {
        const char *title;
        plb_unit unit;
    } columns[] = {{"calls", PLB_UNIT_COUNT},
                   {"self CPU", PLB_UNIT_NS},
                   {"self CPU share", PLB_UNIT_SHARE},
                   {"CPU total", PLB_UNIT_NS},
                   {"CPU a call", PLB_UNIT_NS},
                   {"self device", PLB_UNIT_NS},
                   {"device total", PLB_UNIT_NS},
                   {"CPU memory", PLB_UNIT_BYTES},
                   {"self CPU memory", PLB_UNIT_BYTES},
                   {"device memory", PLB_UNIT_BYTES},
                   {"self device memory", PLB_UNIT_BYTES}};
    plb_table_column(table, "operator", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        plb_table_column(table, columns[i].title, PLB_COLUMN_NUMBER, columns[i].unit);
}

static double member(const json_t *row, const char *key) {
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void operator_row(plb_table *table, const json_t *row, double all_ns) {
    double calls = member(row, "calls"), cpu = member(row, "cpu_ns");
    const char *name = json_string_value(json_object_get(row, "name"));
    plb_table_text(table, "%s", name ? name : "?");
    plb_table_number(table, calls);
    plb_table_number(table, member(row, "self_cpu_ns"));
    plb_table_number(table, member(row, "self_cpu_ns") / all_ns);
    plb_table_number(table, cpu);
    plb_table_number(table, cpu / calls);
    plb_table_number(table, member(row, "self_device_ns"));
    plb_table_number(table, member(row, "device_ns"));
    plb_table_number(table, member(row, "cpu_bytes"));
    plb_table_number(table, member(row, "self_cpu_bytes"));
    plb_table_number(table, member(row, "device_bytes"));
    plb_table_number(table, member(row, "self_device_bytes"));
}

typedef struct ranked {
    double self_ns;
    size_t at;
} ranked;

static int costlier(const void *a, const void *b) {
    double x = ((const ranked *)a)->self_ns, y = ((const ranked *)b)->self_ns;
    return (x < y) - (x > y);
}

static void say_operators(teller *t, const plb_pool *pool) {
    const json_t *rows = json_object_get(pool->first->json, "operators");
    if (!json_array_size(rows)) return;
    double all_ns = 0;
    size_t count = json_array_size(rows);
    ranked *order = plb_arena_alloc(plb_document_arena(t->d), count * sizeof *order);
    if (!order) return;
    for (size_t i = 0; i < count; i++) {
        order[i] = (ranked){member(json_array_get(rows, i), "self_cpu_ns"), i};
        all_ns += order[i].self_ns;
    }
    qsort(order, count, sizeof *order, costlier);
    char name[64];
    snprintf(name, sizeof name, "operators-%s", pool->first->device);
    plb_table *table = plb_section_table(t->section, name_of(t, name), label_of(t, pool));
    operator_columns(table);
    for (size_t i = 0; i < count; i++)
        operator_row(table, json_array_get(rows, order[i].at), all_ns);
    double plain = plb_result_number(pool->first, "plain_s");
    double recorded = plb_result_number(pool->first, "recorded_s");
    plb_section_say(t->section,
                    "%s, %s: the epoch took %.3g s, and %.3g s while operators were recorded: "
                    "recording costs %+.0f %%.",
                    pool->first->stack, pool->first->device, plain, recorded,
                    100 * (recorded / plain - 1));
}

void plb_study_say_training(const plb_results *r, const plb_study_part *part, plb_document *d) {
    teller *t = plb_arena_alloc(plb_document_arena(d), sizeof *t);
    if (!t) return;
    *t = (teller){.r = r, .part = part, .d = d};
    t->count = plb_results_pools(r, part->name, &t->pools);
    t->beside = most_beside(t);
    t->section = plb_document_section(d, plb_part_title(r, part));
    if (part->about) plb_section_say(t->section, "%s", part->about);
    if (!t->count) {
        plb_section_say(t->section, "Nothing of this part was measured.");
        return;
    }
    const plb_result *first = t->pools[0].first;
    const char *note = json_string_value(json_object_get(first->json, "data_note"));
    plb_section_say(t->section,
                    "Data: %s%s%s%s; %.0f samples to train, %.0f to test, %.0f x %.0f pixels%s. "
                    "%s, rate %g, momentum %g, batch %lld, %d epoch%s.",
                    first->data, note ? " (" : "", note ? note : "", note ? ")" : "",
                    plb_result_number(first, "train_samples"),
                    plb_result_number(first, "test_samples"), plb_result_number(first, "size"),
                    plb_result_number(first, "size"),
                    json_is_true(json_object_get(first->json, "grey_repeated"))
                        ? ", the grey plane given three times"
                        : "",
                    part->optimizer, part->lr, part->momentum, (long long)first->batch,
                    (int)part->epochs, part->epochs == 1 ? "" : "s");
    if (t->pools[0].last < part->epochs)
        plb_section_say(t->section,
                        "Trainings were cut off: ends are those after epoch %d, the last one that "
                        "all have.",
                        t->pools[0].last);
    bool timed = t->beside == 1;
    if (!timed)
        plb_section_say(t->section,
                        "Up to %d trainings went on side by side on this machine: accuracies and "
                        "losses count, times would not, and are left out.",
                        t->beside);
    say_table(t);
    say_agreement(t);
    if (timed && t->count > 1) draw_times(t);
    if (t->pools[0].last > 1) {
        if (timed) draw_curves(t, "test_accuracy", "Accuracy, test", PLB_UNIT_SHARE, true);
        draw_curves(t, "test_accuracy", "Accuracy, test, by epoch", PLB_UNIT_SHARE, false);
        draw_curves(t, "train_accuracy", "Accuracy, train", PLB_UNIT_SHARE, timed);
        draw_curves(t, "train_loss", "Loss, train", PLB_UNIT_NONE, false);
        draw_curves(t, "test_loss", "Loss, test", PLB_UNIT_NONE, false);
    }
    if (!part->operators) say_parting(t);
    for (int i = 0; i < t->count; i++) say_operators(t, &t->pools[i]);
}
