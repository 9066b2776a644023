// SPDX-License-Identifier: Apache-2.0
#include "study/results.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static const char *text_of(const json_t *object, const char *key, plb_arena *arena) {
    const char *text = json_string_value(json_object_get(object, key));
    const char *copy = text ? plb_arena_strdup(arena, text) : NULL;
    return copy ? copy : "";
}

// What a file is called here: its name without folders, and the extents that the cell has.
static const char *name_of_model(const json_t *keys, plb_arena *arena) {
    const char *model = text_of(keys, "model", arena), *slash = strrchr(model, '/');
    const char *dims = json_string_value(json_object_get(keys, "dims"));
    const char *name = slash ? slash + 1 : model;
    if (json_is_array(json_object_get(keys, "input"))) return name;
    if (!dims) return model;
    const char *text = plb_arena_printf(arena, *dims ? "%s, %s" : "%s%s", name, dims);
    return text ? text : model;
}

static int64_t int_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static plb_status read_item(const plb_study_item_row *row, plb_arena *arena, plb_result *out) {
    json_error_t error;
    json_t *keys = json_loads(row->keys, 0, &error);
    if (!keys) return plb_fail(PLB_EINVAL, "an item of a study: %s", error.text);
    *out = (plb_result){.part = row->part,
                        .model = name_of_model(keys, arena),
                        .stack = text_of(keys, "stack", arena),
                        .device = text_of(keys, "device", arena),
                        .task = text_of(keys, "task", arena),
                        .region = text_of(keys, "region", arena),
                        .data = text_of(keys, "data", arena),
                        .threads = int_of(keys, "threads"),
                        .batch = int_of(keys, "batch"),
                        .size = int_of(keys, "size"),
                        .seed = int_of(keys, "seed"),
                        .train = !strcmp(text_of(keys, "kind", arena), "train"),
                        .ok = !strcmp(row->outcome, "ok"),
                        .outcome = row->outcome,
                        .reason = row->reason};
    json_decref(keys);
    if (row->results) out->json = json_loads(row->results, 0, &error);
    return PLB_OK;
}

static plb_status read_spec(plb_results *r) {
    json_error_t error;
    json_t *options = json_loads(r->study.options, 0, &error);
    if (!options) return plb_fail(PLB_EINVAL, "options of a study: %s", error.text);
    plb_spec_options how = {.stored = true,
                            .quick = json_is_true(json_object_get(options, "quick")),
                            .set = json_string_value(json_object_get(options, "set")),
                            .devices = json_string_value(json_object_get(options, "device"))};
    r->quick = how.quick;
    plb_status status = plb_study_spec_parse(r->study.spec, strlen(r->study.spec), r->study.name,
                                             &how, r->arena, &r->spec);
    json_decref(options);
    return status;
}

plb_status plb_results_load(plb_store *store, int64_t run_id, plb_results *out) {
    plb_study_item_row *rows = NULL;
    size_t count = 0;
    plb_status status;
    *out = (plb_results){.arena = plb_arena_new()};
    if (!out->arena) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    PLB_TRY_OUT(plb_store_find_study(store, run_id, NULL, out->arena, &out->study));
    PLB_TRY_OUT(read_spec(out));
    PLB_TRY_OUT(plb_store_items(store, run_id, out->arena, &rows, &count));
    out->items = plb_arena_alloc(out->arena, (count + 1) * sizeof *out->items);
    if (!out->items) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a study"));
    for (; out->count < count; out->count++)
        PLB_TRY_OUT(read_item(&rows[out->count], out->arena, &out->items[out->count]));
out:
    if (status) plb_results_free(out);
    return status;
}

void plb_results_free(plb_results *r) {
    for (size_t i = 0; i < r->count; i++) json_decref(r->items[i].json);
    plb_arena_free(r->arena);
    *r = (plb_results){0};
}

// ---------------------------------------------------------------------------- numbers
static double number(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double plb_result_number(const plb_result *item, const char *key) {
    return number(json_object_get(item->json, key));
}

int plb_result_epochs(const plb_result *item) {
    return (int)json_array_size(json_object_get(item->json, "epochs")) - 1;
}

double plb_result_epoch(const plb_result *item, int e, const char *key) {
    const json_t *epochs = json_object_get(item->json, "epochs");
    size_t count = json_array_size(epochs), at = e < 0 ? count - 1 : (size_t)e;
    return at < count ? number(json_object_get(json_array_get(epochs, at), key)) : NAN;
}

int plb_result_beside(const plb_result *item) {
    double beside = plb_result_number(item, "beside");
    return beside > 1 ? (int)beside : 1;
}

double plb_result_memory(const plb_result *item) {
    const json_t *memory = json_object_get(item->json, "memory");
    const json_t *device = json_array_get(json_object_get(memory, "devices"), 0);
    double allocated = number(json_object_get(device, "allocated_peak_bytes"));
    if (!isnan(allocated)) return allocated;
    double planned = number(json_object_get(memory, "planned_bytes"));
    if (!isnan(planned)) return planned;
    return number(json_object_get(memory, "rss_bytes")) -
           number(json_object_get(memory, "libraries_rss_bytes"));
}

// ---------------------------------------------------------------------------- pools
static bool alike(const plb_result *a, const plb_result *b) {
    return !strcmp(a->model, b->model) && !strcmp(a->stack, b->stack) &&
           !strcmp(a->device, b->device) && !strcmp(a->task, b->task) &&
           !strcmp(a->region, b->region) && a->threads == b->threads && a->batch == b->batch &&
           a->size == b->size;
}

static int epochs_asked(const plb_results *r, const char *part) {
    for (size_t i = 0; i < r->spec.part_count; i++)
        if (!strcmp(r->spec.parts[i].name, part)) return (int)r->spec.parts[i].epochs;
    return 0;
}

static bool counts(const plb_result *item, int asked) {
    return item->ok || (item->train && asked > 1 && 2 * plb_result_epochs(item) >= asked);
}

static void count_epochs(plb_pool *pools, int count) {
    int last = INT_MAX;
    for (int i = 0; i < count; i++) {
        pools[i].epochs = INT_MAX;
        for (int k = 0; k < pools[i].count; k++) {
            int epochs = plb_result_epochs(pools[i].items[k]);
            if (epochs < pools[i].epochs) pools[i].epochs = epochs;
        }
        if (pools[i].epochs < last) last = pools[i].epochs;
    }
    for (int i = 0; i < count; i++) pools[i].last = last;
}

static int pool_of(const plb_result *item, const plb_pool *pools, int count) {
    int k = 0;
    while (k < count && !alike(pools[k].first, item)) k++;
    return k;
}

// Counted first, so that each pool has its stretch of `items`.
static int make_pools(const plb_results *r, const char *part, plb_pool *pools,
                      const plb_result **items) {
    const int asked = epochs_asked(r, part);
    int count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const plb_result *item = &r->items[i];
        if (strcmp(item->part, part) != 0 || !counts(item, asked)) continue;
        const int k = pool_of(item, pools, count);
        if (k == count) pools[count++] = (plb_pool){.first = item};
        pools[k].count++;
    }
    for (int k = 0; k < count; k++) {
        pools[k].items = items, items += pools[k].count;
        pools[k].count = 0;
    }
    for (size_t i = 0; i < r->count; i++) {
        const plb_result *item = &r->items[i];
        if (strcmp(item->part, part) != 0 || !counts(item, asked)) continue;
        plb_pool *pool = &pools[pool_of(item, pools, count)];
        pool->items[pool->count++] = item;
    }
    return count;
}

int plb_results_pools(const plb_results *r, const char *part, plb_pool **out) {
    *out = plb_arena_alloc(r->arena, (r->count + 1) * sizeof **out);
    const plb_result **items = plb_arena_alloc(r->arena, (r->count + 1) * sizeof *items);
    if (!*out || !items) return 0;
    const int count = make_pools(r, part, *out, items);
    count_epochs(*out, count);
    return count;
}

plb_band plb_pool_epoch(const plb_pool *pool, int e, const char *key) {
    plb_band band = {0, INFINITY, -INFINITY};
    for (int i = 0; i < pool->count; i++) {
        double value = plb_result_epoch(pool->items[i], e < 0 ? pool->last : e, key);
        band.mean += value / pool->count;
        band.low = fmin(band.low, value), band.high = fmax(band.high, value);
    }
    return isnan(band.mean) ? (plb_band){NAN, NAN, NAN} : band;
}

const char *plb_part_title(const plb_results *r, const plb_study_part *part) {
    for (size_t i = 0; part->stand_in && i < r->count; i++) {
        const plb_result *item = &r->items[i];
        const char *note = json_string_value(json_object_get(item->json, "data_note"));
        if (strcmp(item->part, part->name) != 0 || !note || strncmp(note, "stand-in", 8) != 0)
            continue;
        const char *title =
            plb_arena_printf(r->arena, "%s (stand-in: %s)", part->title, part->stand_in);
        return title ? title : part->title;
    }
    return part->title;
}

const char *plb_result_label(const plb_results *r, const plb_result *item, plb_arena *arena) {
    bool devices = false, threads = false, models = false;
    for (size_t i = 0; i < r->count; i++) {
        const plb_result *other = &r->items[i];
        if (strcmp(other->part, item->part) != 0) continue;
        devices |= strcmp(other->device, item->device) != 0;
        threads |= other->threads != item->threads;
        models |= strcmp(other->model, item->model) != 0;
    }
    char count[32] = "";
    if (threads)
        snprintf(count, sizeof count, ", %lld thread%s", (long long)item->threads,
                 item->threads == 1 ? "" : "s");
    const char *label =
        plb_arena_printf(arena, "%s%s%s%s%s%s", models ? item->model : "", models ? ", " : "",
                         item->stack, devices ? ", " : "", devices ? item->device : "", count);
    return label ? label : item->stack;
}
