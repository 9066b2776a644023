// SPDX-License-Identifier: Apache-2.0
#include "report/run_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "bench/stats.h"

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a run's cases");
}

// ---------------------------------------------------------------------------- what is alike
const char *plb_sweep_name(plb_sweep sweep) {
    static const char *const names[PLB_SWEEPS] = {"batch", "size", "threads"};
    return names[sweep];
}

int64_t plb_sweep_value(const plb_case *c, plb_sweep sweep) {
    return sweep == PLB_SWEEP_BATCH ? c->batch : sweep == PLB_SWEEP_SIZE ? c->size : c->threads;
}

bool plb_run_case_alike(const plb_case *a, const plb_case *b, unsigned free_sweeps) {
    for (int k = 0; k < PLB_SWEEPS; k++) {
        if (free_sweeps & 1u << k) continue;
        if (plb_sweep_value(a, (plb_sweep)k) != plb_sweep_value(b, (plb_sweep)k)) return false;
    }
    // Batches of other shapes have other bytes.
    const bool shapes = (free_sweeps & (1u << PLB_SWEEP_BATCH | 1u << PLB_SWEEP_SIZE)) != 0;
    return strcmp(a->model, b->model) == 0 && strcmp(a->task, b->task) == 0 &&
           strcmp(a->device, b->device) == 0 && a->classes == b->classes &&
           strcmp(a->dtype, b->dtype) == 0 && strcmp(a->math, b->math) == 0 &&
           strcmp(a->autocast, b->autocast) == 0 && strcmp(a->region, b->region) == 0 &&
           strcmp(a->cache, b->cache) == 0 && a->in_flight == b->in_flight &&
           strcmp(a->input, b->input) == 0 &&
           (shapes || strcmp(a->input_digest, b->input_digest) == 0);
}

// ---------------------------------------------------------------------------- one case
static double known(int64_t value) {
    return value < 0 ? (double)NAN : (double)value;
}

static double planned_of(const char *memory) {
    json_t *json = memory ? json_loads(memory, 0, NULL) : NULL;
    const json_t *value = json_object_get(json, "planned_bytes");
    const double bytes = json_is_number(value) ? json_number_value(value) : (double)NAN;
    json_decref(json);
    return bytes;
}

static plb_status read_starts(plb_store *store, plb_arena *arena, plb_run_case *c) {
    enum { RESULTS = 6 };
    plb_start_row *starts;
    double *const results[RESULTS] = {&c->load_ns,   &c->first_call_ns, &c->compile_ns,
                                      &c->rss_bytes, &c->device_bytes,  &c->planned_bytes};
    size_t count, known_count[RESULTS] = {0};
    PLB_TRY(plb_store_starts(store, c->row->id, arena, &starts, &count));
    double *values = plb_arena_alloc(arena, RESULTS * (count + 1) * sizeof *values);
    if (!values) return no_memory();
    c->warmup_iterations = -1, c->first_start = count ? starts[0].id : -1;
    for (size_t i = 0; i < count; i++) {
        const plb_start_row *s = &starts[i];
        const double of_start[RESULTS] = {known(s->load_ns),           known(s->first_call_ns),
                                          known(s->compile_ns),        known(s->peak_rss_bytes),
                                          known(s->device_peak_bytes), planned_of(s->memory)};
        for (size_t k = 0; k < RESULTS; k++)
            if (!isnan(of_start[k])) values[k * count + known_count[k]++] = of_start[k];
        if (s->warmup_iterations > c->warmup_iterations)
            c->warmup_iterations = s->warmup_iterations;
    }
    for (size_t k = 0; k < RESULTS; k++)
        *results[k] = plb_median(values + k * count, known_count[k]);
    return PLB_OK;
}

static const char *name_case(const plb_case *c, plb_arena *arena) {
    plb_strbuf text = {0};
    plb_strbuf_printf(&text, "%s", c->stack);
    for (int i = 0; i < c->setting_count; i++)
        plb_strbuf_printf(&text, " %s=%s", c->settings[i].key, c->settings[i].value);
    if (strcmp(c->layout, "default") != 0) plb_strbuf_printf(&text, " %s", c->layout);
    const char *copy = text.failed ? NULL : plb_arena_strdup(arena, text.text);
    plb_strbuf_free(&text);
    return copy;
}

static plb_status read_case(plb_run_cases *all, const plb_measurement_row *row, plb_run_case *c) {
    c->row = row, c->ratio = (double)NAN;
    PLB_TRY(plb_case_parse(row->keys, &c->c));
    PLB_TRY(plb_summary_of_row(all->store, row, all->arena, &c->s));
    PLB_TRY(read_starts(all->store, all->arena, c));
    c->ok = row->outcome && strcmp(row->outcome, "ok") == 0 && !isnan(c->s.median_ns);
    c->name = name_case(&c->c, all->arena);
    return c->name ? PLB_OK : no_memory();
}

// ---------------------------------------------------------------------------- groups
typedef struct slot {
    uint64_t key;
    int group;
} slot;

// The canonical text without what the members of a group may differ in.
static plb_status group_text(const plb_case *c, char *text) {
    plb_case plain, blank = *c;
    plb_case_init(&plain);
    memcpy(blank.stack, plain.stack, sizeof blank.stack);
    memcpy(blank.layout, plain.layout, sizeof blank.layout);
    blank.setting_count = 0;
    return plb_case_text(&blank, text);
}

static plb_status number_groups(plb_run_cases *all) {
    char text[PLB_CASE_TEXT_BYTES];
    plb_map *known_groups = plb_map_new();
    plb_status status = known_groups ? PLB_OK : no_memory();
    for (size_t i = 0; !status && i < all->count; i++) {
        PLB_TRY_OUT(group_text(&all->item[i].c, text));
        int64_t group = plb_map_get(known_groups, text, -1);
        if (group < 0) {
            group = (int64_t)all->groups++;
            PLB_TRY_OUT(plb_map_set(known_groups, text, group));
        }
        all->item[i].group = (int)group;
    }
out:
    plb_map_free(known_groups);
    return status;
}

// Groups in the order of their first case, cases within in the order in which they were made.
static int by_group(const void *a, const void *b) {
    const plb_run_case *x = a, *y = b;
    if (x->group != y->group) return (x->group > y->group) - (x->group < y->group);
    return (x->row->id > y->row->id) - (x->row->id < y->row->id);
}

static void find_floor(plb_run_group *g) {
    for (const char *const *level = plb_case_levels(); !g->floor && *level; level++) {
        for (size_t i = 0; !g->floor && i < g->members; i++) {
            if (g->member[i].ok && strcmp(g->member[i].c.stack, *level) == 0)
                g->floor = &g->member[i];
        }
    }
    for (size_t i = 0; !g->floor && i < g->members; i++)
        if (g->member[i].ok) g->floor = &g->member[i];
    for (size_t i = 0; i < g->members; i++) {
        g->ok += g->member[i].ok;
        if (g->floor && g->member[i].ok)
            g->member[i].ratio = g->member[i].s.median_ns / g->floor->s.median_ns;
    }
}

// ---------------------------------------------------------------------------- words
// One key of a case in words, "" where it is not worth a word.
typedef struct words {
    char text[96];
} words;

enum { KEYS = 10 };

static words key_in_words(const plb_case *c, int key) {
    words w = {""};
    switch (key) {
    case 0: snprintf(w.text, sizeof w.text, "batch %" PRId64, c->batch); break;
    case 1:
        if (c->size > 0) snprintf(w.text, sizeof w.text, "%" PRId64 "×%" PRId64, c->size, c->size);
        break;
    case 2: snprintf(w.text, sizeof w.text, "%s", c->device); break;
    case 3:
        snprintf(w.text, sizeof w.text, "%s%s%s", c->dtype, strcmp(c->math, "f32") ? " " : "",
                 strcmp(c->math, "f32") ? c->math : "");
        break;
    case 4:
        if (strcmp(c->autocast, "none") != 0)
            snprintf(w.text, sizeof w.text, "autocast %s", c->autocast);
        break;
    case 5:
        snprintf(w.text, sizeof w.text, "%" PRId64 " thread%s", c->threads,
                 c->threads == 1 ? "" : "s");
        break;
    case 6: snprintf(w.text, sizeof w.text, "%s", c->region); break;
    case 7: snprintf(w.text, sizeof w.text, "caches %s", c->cache); break;
    case 8:
        if (c->in_flight > 1)
            snprintf(w.text, sizeof w.text, "%" PRId64 " requests in flight", c->in_flight);
        break;
    case 9:
        if (strcmp(c->input, "normal") != 0) snprintf(w.text, sizeof w.text, "input %s", c->input);
        break;
    default: break;
    }
    return w;
}

static bool varies(const plb_run_cases *all, int key) {
    for (size_t i = 1; i < all->count; i++) {
        if (strcmp(key_in_words(&all->item[i].c, key).text,
                   key_in_words(&all->item[0].c, key).text) != 0)
            return true;
    }
    return false;
}

static const char *take_text(plb_run_cases *all, plb_strbuf *text) {
    const char *copy =
        text->failed || !text->text ? NULL : plb_arena_strdup(all->arena, text->text);
    plb_strbuf_free(text);
    return copy;
}

static const char *title_group(plb_run_cases *all, const plb_case *c, const bool shown[KEYS]) {
    plb_strbuf text = {0};
    plb_strbuf_printf(&text, "%s %s", c->model, c->task);
    for (int k = 0; k < KEYS; k++) {
        const words w = key_in_words(c, k);
        // Batches are what people look for first.
        if ((shown[k] || k == 0) && *w.text) plb_strbuf_printf(&text, ", %s", w.text);
    }
    return take_text(all, &text);
}

static plb_status put_titles(plb_run_cases *all) {
    plb_strbuf common = {0};
    bool shown[KEYS];
    for (int k = 0; k < KEYS; k++) {
        shown[k] = varies(all, k);
        const words w = all->count ? key_in_words(&all->item[0].c, k) : (words){""};
        if (!shown[k] && *w.text)
            plb_strbuf_printf(&common, "%s%s", common.length ? ", " : "", w.text);
    }
    all->common = common.length ? take_text(all, &common) : "";
    for (size_t g = 0; g < all->groups; g++) {
        const plb_case *c = &all->group[g].member[0].c;
        all->group[g].title = title_group(all, c, shown);
        all->group[g].name = plb_arena_printf(all->arena, "%s-%s-%zu", c->model, c->task, g + 1);
        if (!all->group[g].title || !all->group[g].name) return no_memory();
    }
    return all->common ? PLB_OK : no_memory();
}

// ---------------------------------------------------------------------------- comparisons
static plb_status compare(plb_run_cases *all) {
    char name[32];
    snprintf(name, sizeof name, "run:%" PRId64, all->run->id);
    const plb_compare_request request = {
        .a = plb_arena_strdup(all->arena, name), .by = "stack", .baseline = plb_case_levels()};
    if (!request.a) return no_memory();
    if (!all->count) return PLB_OK;
    PLB_TRY(plb_compare_run(all->store, &request, all->arena, &all->compared));
    for (size_t i = 0; i < all->compared.count; i++) {
        const plb_pair *pair = &all->compared.pairs[i];
        for (size_t k = 0; k < all->count; k++) {
            if (!pair->refused && all->item[k].row->id == pair->b->id) all->item[k].pair = pair;
        }
    }
    return PLB_OK;
}

plb_status plb_run_cases_read(plb_store *store, const plb_run_row *run, plb_arena *arena,
                              plb_run_cases *out) {
    plb_measurement_row *rows;
    const plb_measurement_filter filter = {.run = run->id, .algorithm = PLB_SUMMARY_ALGORITHM};
    *out = (plb_run_cases){.store = store, .run = run, .arena = arena};
    PLB_TRY(plb_store_measurements(store, &filter, arena, &rows, &out->count));
    out->item = plb_arena_alloc(arena, (out->count + 1) * sizeof *out->item);
    if (!out->item) return no_memory();
    for (size_t i = 0; i < out->count; i++) PLB_TRY(read_case(out, &rows[i], &out->item[i]));
    PLB_TRY(number_groups(out));
    if (out->count) qsort(out->item, out->count, sizeof *out->item, by_group);
    out->group = plb_arena_alloc(arena, (out->groups + 1) * sizeof *out->group);
    if (!out->group) return no_memory();
    for (size_t i = 0; i < out->count; i++) {
        plb_run_group *g = &out->group[out->item[i].group];
        if (!g->members++) g->member = &out->item[i];
        out->ok += out->item[i].ok;
    }
    for (size_t g = 0; g < out->groups; g++) find_floor(&out->group[g]);
    PLB_TRY(put_titles(out));
    return compare(out);
}

const char *plb_run_command(const plb_run_cases *cases, const char *part) {
    const char *measure = cases->run->command ? cases->run->command : "";
    const char *text =
        plb_arena_printf(cases->arena, "%s%splumb report %" PRId64 " --part %s -o %s.png", measure,
                         *measure ? "\n" : "", cases->run->id, part, part);
    return text ? text : "";
}
