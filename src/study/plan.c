// SPDX-License-Identifier: Apache-2.0
// From parts to items. Nesting, from the outside: seeds (so that one seed of all is there before
// the second of any), models, devices, threads, stacks, tasks, batches, sizes, regions: cells of
// one stack are neighbours, which share a worker.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "data/registry.h"
#include "study/work.h"

enum { MAX_ITEMS = 20000 };

static void write_input(const plb_study_part *part, plb_json *json) {
    plb_json_begin_array(json, "input");
    for (size_t i = 0; i < part->input.count; i++) plb_json_string(json, NULL, part->input.word[i]);
    plb_json_end(json);
}

static plb_status write_keys(plb_study *s, plb_study_item *item) {
    plb_json json = {.compact = true};
    plb_status status;
    const plb_study_part *part = item->part;
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "kind", part->kind == PLB_PART_TRAIN ? "train" : "sweep");
    plb_json_string(&json, "model", item->model);
    plb_json_string(&json, "stack", item->stack);
    plb_json_string(&json, "device", item->device);
    plb_json_int(&json, "threads", item->threads);
    plb_json_int(&json, "batch", item->batch);
    if (part->kind == PLB_PART_TRAIN) {
        plb_json_string(&json, "data", part->data);
        plb_json_int(&json, "seed", item->seed);
    } else {
        plb_json_string(&json, "task", item->task);
        plb_json_int(&json, "size", item->size);
        plb_json_string(&json, "region", item->region);
        if (item->dims) plb_json_string(&json, "dims", item->dims);
        if (plb_study_is_script(item->model)) write_input(part, &json);
    }
    plb_json_end(&json);
    PLB_TRY_OUT(plb_json_status(&json));
    item->keys = plb_arena_strdup(s->arena, json.text.text);
    if (!item->keys) status = plb_fail(PLB_ENOMEM, "out of memory for a study");
out:
    plb_json_free(&json);
    return status;
}

// Guesses: 12 GFLOP/s a CPU thread, 8 TFLOP/s a card, a millisecond a batch for everything else.
static double seconds_of(double flops, double batches, const plb_study_item *item) {
    bool card = strncmp(item->device, "cuda", 4) == 0;
    double rate = card ? 8e12 : 12e9 * (double)item->threads;
    return flops / rate + batches * 1e-3;
}

static void estimate(plb_study_item *item, const plb_facts *facts) {
    const plb_study_part *part = item->part;
    double flops = isnan(facts->flops) ? 1e9 : facts->flops; // unknown: of a middling network
    double one = flops / (double)facts->batch;               // a sample's
    if (part->kind == PLB_PART_SWEEP) {
        double first = seconds_of(one * (double)item->batch, 1, item);
        item->estimate_s = 0.3 + 3 * first + fmax(part->time, 3 * first);
        return;
    }
    double train = (double)(part->train_samples ? part->train_samples : 60000);
    double test = (double)(part->test_samples ? part->test_samples : 10000);
    double samples = train + test / 3; // evaluation is a third of the work
    double once = seconds_of(one * samples, samples / (double)item->batch, item);
    item->estimate_s = 2 + once * (double)(part->epochs + (part->operators ? 3 : 0));
}

// The size at which a part trains, as far as it is known before its data is opened.
static int64_t data_size(const plb_study_part *part) {
    static const struct {
        const char *name;
        int64_t size;
    } known[] = {
        {"mnist", 28}, {"fashion-mnist", 28}, {"digits", 28}, {"cifar10", 32}, {"cifar100", 32}};
    if (part->stand_in_size) return part->stand_in_size;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(part->data, known[i].name)) return known[i].size;
    return 96;
}

static plb_status describe_file(plb_study *s, plb_study_item *item, plb_facts *facts) {
    plb_status status = plb_study_describe_file(s, item, facts);
    if (status != PLB_EBROKEN || s->reference.failure.outcome != PLB_OUTCOME_REFUSED) return status;
    *facts = (plb_facts){.batch = 1}; // the worker will say it again
    return PLB_OK;
}

// Both kinds of part, asked once a model, batch and size.
static plb_status describe_for(plb_study *s, plb_study_item *item, plb_facts *facts) {
    const char *task = item->part->kind == PLB_PART_TRAIN ? "train" : item->task;
    int64_t size = item->part->kind == PLB_PART_TRAIN ? data_size(item->part) : item->size;
    if (item->dims) return describe_file(s, item, facts);
    if (plb_study_is_script(item->model)) return plb_study_describe_script(item, facts);
    if (!strcmp(facts->model, item->model) && facts->size == size &&
        facts->training == !strcmp(task, "train"))
        return PLB_OK;
    plb_status status = plb_study_describe(s, item->model, task, 2, size, 0, facts);
    if (status == PLB_EBROKEN && s->reference.failure.outcome == PLB_OUTCOME_REFUSED) {
        *facts = (plb_facts){.batch = 1, .size = size}; // the worker will say it again
        snprintf(facts->model, sizeof facts->model, "%s", item->model);
        return PLB_OK;
    }
    return status;
}

static plb_status add(plb_study *s, const plb_study_item *item, plb_facts *facts) {
    if (s->count == MAX_ITEMS)
        return plb_fail(PLB_EINVAL, "%s: expected at most %d items", s->spec->name, MAX_ITEMS);
    plb_study_item *grown = plb_realloc_array(s->items, s->count + 1, sizeof *grown);
    if (!grown) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    s->items = grown;
    s->items[s->count] = *item;
    plb_study_item *at = &s->items[s->count];
    PLB_TRY(write_keys(s, at));
    PLB_TRY(describe_for(s, at, facts));
    estimate(at, facts);
    s->count++;
    return PLB_OK;
}

// A file's cells: one row is a whole input, of the extents that dims gives.
static plb_status expand_file(plb_study *s, plb_study_item *item, plb_facts *facts) {
    const plb_study_part *p = item->part;
    for (size_t k = 0; k < p->dims.count; k++)
        for (size_t r = 0; r < p->regions.count; r++) {
            item->task = "infer", item->batch = 1, item->size = 0;
            item->dims = p->dims.word[k], item->region = p->regions.word[r];
            PLB_TRY(add(s, item, facts));
        }
    item->dims = NULL;
    return PLB_OK;
}

static plb_status expand_cells(plb_study *s, plb_study_item *item, plb_facts *facts) {
    const plb_study_part *p = item->part;
    if (p->kind == PLB_PART_TRAIN) {
        item->batch = p->batch.value[0];
        return add(s, item, facts);
    }
    if (plb_facts_is_file(item->model)) return expand_file(s, item, facts);
    for (size_t t = 0; t < p->tasks.count; t++)
        for (size_t b = 0; b < p->batch.count; b++)
            for (size_t z = 0; z < p->size.count; z++)
                for (size_t r = 0; r < p->regions.count; r++) {
                    item->task = p->tasks.word[t], item->batch = p->batch.value[b];
                    item->size = p->size.value[z], item->region = p->regions.word[r];
                    PLB_TRY(add(s, item, facts));
                }
    return PLB_OK;
}

// Powers of two up to "all", which comes last, once; a card is used with what is written.
static plb_status expand_threads(plb_study *s, plb_study_item *item, plb_facts *facts) {
    const plb_study_part *p = item->part;
    int64_t all = plb_machine_threads();
    for (size_t i = 0; i < p->stacks.count; i++) {
        int64_t last = 0;
        for (size_t t = 0; t < p->threads.count; t++) {
            int64_t wanted = p->threads.value[t] ? p->threads.value[t] : all;
            if (wanted > all || wanted == last) continue;
            item->threads = last = wanted;
            item->stack = p->stacks.word[i];
            PLB_TRY(expand_cells(s, item, facts));
        }
    }
    return PLB_OK;
}

// A set that is not on this machine refuses its items; a name that is none would end the run there.
static plb_status check_data(plb_study *s, const char *name) {
    const char *folder;
    if (!name || strchr(name, '/')) return PLB_OK;
    plb_status status = plb_dataset_locate(name, NULL, s->arena, &folder);
    return status == PLB_EINVAL || status == PLB_ENOMEM ? status : PLB_OK;
}

static plb_status expand_part(plb_study *s, const plb_study_part *p) {
    plb_facts facts = {0};
    if (p->kind == PLB_PART_TRAIN && !p->epochs) return PLB_OK;
    PLB_TRY(check_data(s, p->data));
    PLB_TRY(check_data(s, p->stand_in));
    size_t seeds = p->kind == PLB_PART_TRAIN ? p->seeds.count : 1;
    for (size_t seed = 0; seed < seeds; seed++)
        for (size_t m = 0; m < p->models.count; m++)
            for (size_t d = 0; d < p->devices.count; d++) {
                plb_study_item item = {.part = p,
                                       .seed = p->seeds.value[seed],
                                       .model = p->models.word[m],
                                       .device = p->devices.word[d],
                                       .task = "train",
                                       .region = "latency"};
                PLB_TRY(expand_threads(s, &item, &facts));
            }
    return PLB_OK;
}

plb_status plb_study_expand(plb_study *s) {
    for (size_t i = 0; i < s->spec->part_count; i++) PLB_TRY(expand_part(s, &s->spec->parts[i]));
    if (s->count) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: expected at least one item, found none", s->spec->name);
}
