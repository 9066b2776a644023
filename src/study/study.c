// SPDX-License-Identifier: Apache-2.0
#include "study/study.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "bench/end_run.h"
#include "bench/same_machine.h"
#include "store/study.h"
#include "study/work.h"

enum { WAIT_US = 100000 }; // between looks at what other processes do

// A stack's share of estimates that came true, for what is still to come.
typedef struct pace {
    double estimated_s, spent_s;
} pace;

plb_status plb_study_new(const plb_study_spec *spec, const plb_study_options *options,
                         plb_study **out) {
    plb_status status;
    plb_study *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    s->spec = spec, s->options = *options;
    s->began_ns = plb_now_ns();
    s->arena = plb_arena_new();
    if (!s->arena) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a study"));
    PLB_TRY_OUT(plb_folder_of_cache(s->arena, &s->cache));
    PLB_TRY_OUT(plb_folder_make(s->cache));
    PLB_TRY_OUT(plb_stacks_find(s->arena, options->plumb, &s->stacks));
    PLB_TRY_OUT(plb_study_expand(s));
    *out = s, s = NULL;
out:
    plb_study_free(s);
    return status;
}

void plb_study_free(plb_study *s) {
    if (!s) return;
    plb_study_stop_clients(s);
    plb_client_stop(&s->reference);
    for (int split = 0; split < 2; split++) plb_dataset_free(s->sets[split]);
    if (s->has_fingerprint) plb_fingerprint_free(&s->fingerprint);
    plb_store_close(s->store);
    plb_free(s->items);
    plb_arena_free(s->arena);
    plb_free(s);
}

size_t plb_study_item_count(const plb_study *s) {
    return s->count;
}
const plb_study_item *plb_study_item_at(const plb_study *s, size_t i) {
    return i < s->count ? &s->items[i] : NULL;
}
int64_t plb_study_run_id(const plb_study *s) {
    return s->run_id;
}
double plb_study_estimate_s(const plb_study *s) {
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) sum += s->items[i].estimate_s;
    return sum;
}

// ---------------------------------------------------------------------------- time
static double spent_s(const plb_study *s) {
    return (double)(plb_now_ns() - s->began_ns) / 1e9;
}

static pace pace_of(const plb_study *s, const plb_study_item *like) {
    pace p = {0};
    for (size_t i = 0; i < s->count; i++) {
        const plb_study_item *at = &s->items[i];
        bool same = !strcmp(at->stack, like->stack) && !strcmp(at->device, like->device) &&
                    at->part->kind == like->part->kind;
        if (!same || at->resumed || !at->outcome || strcmp(at->outcome, "ok") != 0) continue;
        p.estimated_s += at->estimate_s, p.spent_s += at->spent_s;
    }
    return p;
}

static double expected_s(const plb_study *s, const plb_study_item *item) {
    pace p = pace_of(s, item);
    return p.estimated_s > 0 ? item->estimate_s * p.spent_s / p.estimated_s : item->estimate_s;
}

void plb_study_tell(plb_study *s, const plb_study_item *item, const char *text) {
    if (!s->options.tell) return;
    plb_study_event event = {
        .item = item, .text = text, .done = s->done, .total = s->count, .spent_s = spent_s(s)};
    for (size_t i = 0; i < s->count; i++) {
        bool shared = s->items[i].part->kind == PLB_PART_TRAIN && s->options.jobs > 1;
        if (!s->items[i].outcome)
            event.left_s += expected_s(s, &s->items[i]) / (shared ? s->options.jobs : 1);
    }
    s->options.tell(s->options.context, &event);
}

// ---------------------------------------------------------------------------- the store
static plb_store_new_run this_run(const plb_study *s, const char *label) {
    return (plb_store_new_run){.label = label,
                               .command = s->options.command ? s->options.command : "",
                               .git = s->options.git,
                               .machine = s->fingerprint.machine,
                               .fingerprint = s->fingerprint.all};
}

static plb_status begin_run(plb_study *s) {
    char label[128];
    snprintf(label, sizeof label, "study %s", s->spec->name);
    const plb_store_new_run run = this_run(s, label);
    PLB_TRY(plb_store_begin_run(s->store, &run, &s->run_id));
    const char *options = s->options.options_json ? s->options.options_json : "{}";
    return plb_store_begin_study(s->store, s->run_id, s->spec->name, s->spec->text, options);
}

// A run holds one study: its report reads file and options back. Only the budget may be another.
static plb_status check_resumed(const plb_study *s, const plb_study_row *study) {
    json_error_t error;
    const char *now = s->options.options_json ? s->options.options_json : "{}";
    json_t *began = json_loads(study->options, 0, &error), *goes_on = json_loads(now, 0, &error);
    json_object_del(began, "time");
    json_object_del(goes_on, "time");
    bool same = began && goes_on && json_equal(began, goes_on);
    json_decref(began);
    json_decref(goes_on);
    if (strcmp(study->name, s->spec->name) != 0)
        return plb_fail(PLB_EINVAL, "run %" PRId64 " is the study %s, not %s", study->run,
                        study->name, s->spec->name);
    if (strcmp(study->spec, s->spec->text) != 0)
        return plb_fail(PLB_EINVAL, "run %" PRId64 ": the file of %s has changed since it began",
                        study->run, study->name);
    if (same) return PLB_OK;
    return plb_fail(PLB_EINVAL, "run %" PRId64 " goes on with the options it began with: %s",
                    study->run, study->options);
}

// Items that were left out are tried again, and those that a process had taken and lost.
static bool has_ended(const plb_study_item_row *row) {
    return strcmp(row->outcome, "left-out") != 0 && strcmp(row->outcome, "running") != 0;
}

// Takes over what the run has already.
static plb_status take_over_rows(plb_study *s, const plb_study_item_row *rows, size_t count) {
    for (size_t i = 0; i < s->count; i++) {
        plb_study_item *item = &s->items[i];
        for (size_t k = 0; k < count && !item->outcome; k++) {
            if (strcmp(rows[k].part, item->part->name) != 0 ||
                strcmp(rows[k].keys, item->keys) != 0 || !has_ended(&rows[k]))
                continue;
            item->outcome = plb_arena_strdup(s->arena, rows[k].outcome), item->resumed = true;
            if (!item->outcome) return plb_fail(PLB_ENOMEM, "out of memory for a study");
            s->done++;
        }
    }
    return PLB_OK;
}

static plb_status take_over(plb_study *s) {
    plb_study_item_row *rows;
    size_t count;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    plb_status status = plb_store_items(s->store, s->run_id, arena, &rows, &count);
    if (!status) status = take_over_rows(s, rows, count);
    plb_arena_free(arena);
    return status;
}

static plb_status find_run(plb_study *s, int64_t id) {
    plb_study_row study;
    s->run_id = id;
    PLB_TRY(plb_store_find_study(s->store, id, NULL, s->arena, &study));
    PLB_TRY(check_resumed(s, &study));
    return take_over(s);
}

static plb_status open_store(plb_study *s) {
    if (s->options.join) {
        PLB_TRY(plb_store_open_existing(s->options.store, &s->store));
        return find_run(s, s->options.join);
    }
    PLB_TRY(plb_fingerprint_take("", 200, &s->fingerprint));
    s->has_fingerprint = true;
    PLB_TRY(plb_store_open(s->options.store, &s->store));
    if (!s->options.resume) return begin_run(s);
    PLB_TRY(find_run(s, s->options.resume));
    PLB_TRY(plb_check_same_machine(s->store, s->run_id, s->fingerprint.machine));
    const plb_store_new_run run = this_run(s, NULL);
    return plb_store_resume_run(s->store, s->run_id, &run);
}

static plb_status end_item(plb_study *s, plb_study_item *item, const char *outcome,
                           const char *results) {
    item->outcome = outcome;
    s->done++;
    const plb_study_item_row row = {.part = item->part->name,
                                    .keys = item->keys,
                                    .outcome = outcome,
                                    .reason = item->reason[0] ? item->reason : NULL,
                                    .results = results};
    PLB_TRY(plb_store_put_item(s->store, s->run_id, &row));
    plb_study_tell(s, item, NULL);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- leaving out
// A cell of the same stack that ran out of memory though it was no larger.
static const plb_study_item *smaller_oom(const plb_study *s, const plb_study_item *item) {
    if (item->dims) return NULL; // which of two cells of a file is the smaller is not known
    for (size_t i = 0; item->part->kind == PLB_PART_SWEEP && i < s->count; i++) {
        const plb_study_item *at = &s->items[i];
        if (at->part->kind != PLB_PART_SWEEP || !at->outcome || strcmp(at->outcome, "oom") != 0)
            continue;
        if (!strcmp(at->stack, item->stack) && !strcmp(at->device, item->device) &&
            !strcmp(at->task, item->task) && !strcmp(at->model, item->model) &&
            at->batch <= item->batch && at->size <= item->size)
            return at;
    }
    return NULL;
}

static bool left_out(plb_study *s, plb_study_item *item) {
    const plb_study_item *smaller = smaller_oom(s, item);
    double needs = expected_s(s, item), has = s->options.time_s - spent_s(s);
    if (smaller) {
        snprintf(item->reason, sizeof item->reason,
                 "batch %" PRId64 ", size %" PRId64 " ran out of memory already", smaller->batch,
                 smaller->size);
        return true;
    }
    if (!(s->options.time_s > 0) || needs <= has) return false;
    snprintf(item->reason, sizeof item->reason,
             "needs about %.0f s, %.0f s of the budget of %.0f s are left", needs,
             has > 0 ? has : 0, s->options.time_s);
    return true;
}

// ---------------------------------------------------------------------------- running
plb_status plb_study_go_on(const plb_study *s) {
    const bool stop = s->options.interrupted && s->options.interrupted(s->options.context);
    return stop ? plb_fail(PLB_ECANCELLED, "interrupted") : PLB_OK;
}

static plb_status close_results(plb_json *results, const char **out) {
    plb_json_end(results);
    *out = results->text.text;
    return plb_json_status(results);
}

// What a training had when it was cut off stays on record; --resume tries it again.
static plb_status keep_cut(plb_study *s, plb_study_item *item, plb_json *results) {
    const char *text;
    snprintf(item->reason, sizeof item->reason,
             "interrupted after %" PRId64 " of %" PRId64 " epochs", item->epochs_done,
             item->part->epochs);
    PLB_TRY(close_results(results, &text));
    PLB_TRY(end_item(s, item, "left-out", text));
    return plb_fail(PLB_ECANCELLED, "interrupted");
}

// How many trainings go on at a time, this one among them: of more than one no time says anything.
static plb_status count_beside(plb_study *s, const plb_study_item *item, int *most) {
    int others;
    if (item->part->kind != PLB_PART_TRAIN) return PLB_OK;
    PLB_TRY(plb_store_count_held(s->store, s->run_id, &others));
    if (others + 1 > *most) *most = others + 1;
    return PLB_OK;
}

static plb_status run_item(plb_study *s, plb_study_item *item) {
    plb_json results = {.compact = true};
    int64_t begin_ns = plb_now_ns();
    const char *outcome = "ok", *text = NULL;
    int beside = s->options.join && s->options.jobs < 2 ? 2 : s->options.jobs;
    plb_study_tell(s, item, "starting");
    PLB_TRY(count_beside(s, item, &beside));
    plb_json_begin_object(&results, NULL);
    plb_status status = item->part->kind == PLB_PART_TRAIN ? plb_study_train(s, item, &results)
                                                           : plb_study_sweep(s, item, &results);
    item->spent_s = (double)(plb_now_ns() - begin_ns) / 1e9;
    if (status == PLB_EBROKEN) {
        outcome = plb_outcome_name(s->client.failure.outcome);
        snprintf(item->reason, sizeof item->reason, "%s", s->client.failure.reason);
        if (s->client.failure.outcome == PLB_OUTCOME_OK) goto out; // ours, not the worker's
        if (item->epochs_done) PLB_TRY_OUT(close_results(&results, &text));
    } else if (status == PLB_ECANCELLED && item->epochs_done) {
        status = keep_cut(s, item, &results);
        goto out;
    } else if (status == PLB_EMISSING || status == PLB_EUNSUPPORTED) {
        outcome = "refused"; // the data
        snprintf(item->reason, sizeof item->reason, "%s", plb_error_text());
    } else if (status) {
        goto out;
    } else {
        plb_json_double(&results, "spent_s", item->spent_s);
        PLB_TRY_OUT(count_beside(s, item, &beside)); // or they came meanwhile
        if (item->part->kind == PLB_PART_TRAIN && beside > 1)
            plb_json_int(&results, "beside", beside);
        PLB_TRY_OUT(close_results(&results, &text));
    }
    status = end_item(s, item, outcome, text);
out:
    plb_json_free(&results);
    return status;
}

// It is given back if it was interrupted with nothing to keep.
static plb_status run_taken_item(plb_study *s, plb_study_item *item) {
    const plb_status status = run_item(s, item);
    if (status != PLB_ECANCELLED || item->outcome) return status;
    snprintf(item->reason, sizeof item->reason, "interrupted in its first epoch");
    PLB_TRY(end_item(s, item, "left-out", NULL));
    return plb_fail(PLB_ECANCELLED, "interrupted");
}

// It is taken first: a process may have joined the run by hand.
static plb_status run_training(plb_study *s, plb_study_item *item) {
    bool taken;
    PLB_TRY(plb_store_take_item(s->store, s->run_id, item->part->name, item->keys, &taken));
    if (!taken) return take_over(s); // it has ended there, or is waited for
    if (left_out(s, item)) return end_item(s, item, "left-out", NULL);
    return run_taken_item(s, item);
}

// Not while another process trains: the cell's times would be those of a busy machine.
static plb_status run_cell(plb_study *s, plb_study_item *item) {
    int others;
    PLB_TRY(plb_store_count_held(s->store, s->run_id, &others));
    if (others) return PLB_OK;
    if (left_out(s, item)) return end_item(s, item, "left-out", NULL);
    return run_item(s, item);
}

static void tell_waiting(plb_study *s) {
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].outcome) continue;
        plb_study_tell(s, &s->items[i], "waiting for a process that trains");
        return;
    }
}

// All of them in their order, again and again while other processes have trainings: one that dies
// leaves its training to be taken.
static plb_status run_items(plb_study *s) {
    for (;;) {
        for (size_t i = 0; i < s->count; i++) {
            plb_study_item *item = &s->items[i];
            if (item->outcome) continue;
            PLB_TRY(plb_study_go_on(s));
            PLB_TRY(item->part->kind == PLB_PART_TRAIN ? run_training(s, item) : run_cell(s, item));
        }
        if (s->done == s->count) return PLB_OK;
        tell_waiting(s);
        usleep(WAIT_US);
    }
}

// Trainings that no other process has.
static plb_status run_taken(plb_study *s) {
    bool taken;
    for (size_t i = 0; i < s->count; i++) {
        plb_study_item *item = &s->items[i];
        if (item->part->kind != PLB_PART_TRAIN) continue;
        PLB_TRY(take_over(s));
        if (item->outcome || left_out(s, item)) continue;
        PLB_TRY(plb_study_go_on(s));
        PLB_TRY(plb_store_take_item(s->store, s->run_id, item->part->name, item->keys, &taken));
        if (taken) PLB_TRY(run_taken_item(s, item));
    }
    return PLB_OK;
}

static plb_status run_side_by_side(plb_study *s) {
    plb_status status = plb_study_start_helpers(s);
    if (!status) status = run_taken(s);
    plb_study_stop_clients(s);
    if (!status) status = plb_study_wait_helpers(s);
    plb_study_stop_helpers(s);
    return status ? status : take_over(s);
}

plb_status plb_study_run(plb_study *s) {
    plb_study_tell(s, NULL, NULL);
    s->began_ns = plb_now_ns();
    PLB_TRY(open_store(s));
    if (s->options.join) return run_taken(s);
    plb_status status = s->options.jobs > 1 ? run_side_by_side(s) : PLB_OK;
    if (!status) status = run_items(s); // with jobs: sweeps, and what a process had and lost
    return plb_end_run(s->store, s->run_id, status);
}
