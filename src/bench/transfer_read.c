// SPDX-License-Identifier: Apache-2.0
// Everything is checked before it is written: the kind of each value here, its sense by the store's
// own constraints, and the case by its canonical text, from which the hash is computed anew.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "bench/case.h"
#include "bench/json_text.h"
#include "bench/summary.h"
#include "bench/transfer.h"
#include "store/study.h"
#include "store/write.h"

static const size_t limit_bytes = (size_t)4 << 30;

// Where in the document something is being read, for messages.
typedef struct place {
    const char *path;
    size_t number_of_case, start, block; // from 0
    int depth; // 0: the run; 1: a case; 2: a start; 3: a block; 4: an item of the study
} place;

// A value for a message: short, and of what holds others only the kind.
static void show_value(const json_t *value, char *text, size_t size) {
    char *whole = NULL;
    if (!value || json_is_object(value) || json_is_array(value)) {
        snprintf(text, size, "%s",
                 !value                 ? "nothing"
                 : json_is_array(value) ? "a list"
                                        : "an object");
        return;
    }
    whole = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    snprintf(text, size, "%.60s%s", whole ? whole : "?", whole && strlen(whole) > 60 ? "..." : "");
    free(whole);
}

static void say_where(const place *at, char *where, size_t size) {
    snprintf(where, size, "run");
    if (at->depth == 1) snprintf(where, size, "case %zu", at->number_of_case);
    if (at->depth == 2) snprintf(where, size, "case %zu, start %zu", at->number_of_case, at->start);
    if (at->depth == 3) {
        snprintf(where, size, "case %zu, start %zu, block %zu", at->number_of_case, at->start,
                 at->block);
    }
    if (at->depth == 4) snprintf(where, size, "study, item %zu", at->number_of_case);
}

static plb_status fail_at(const place *at, const char *key, const char *expected,
                          const json_t *found) {
    char where[120], text[80];
    say_where(at, where, sizeof where);
    show_value(found, text, sizeof text);
    return plb_fail(PLB_EINVAL, "%s: %s: \"%s\": expected %s, found %s", at->path, where, key,
                    expected, text);
}

// A failure of what knows no file.
static plb_status place_of(plb_status status, const place *at) {
    char where[120];
    say_where(at, where, sizeof where);
    return status ? plb_fail_context(status, "%s: %s", at->path, where) : PLB_OK;
}

// A text, or NULL where it is null or missing and may be.
static plb_status text_of(const place *at, const json_t *object, const char *key, bool optional,
                          const char **out) {
    const json_t *value = json_object_get(object, key);
    *out = json_string_value(value);
    if (*out || (optional && (!value || json_is_null(value)))) return PLB_OK;
    return fail_at(at, key, optional ? "a text or null" : "a text", value);
}

// The same, but one of `words`, which end with NULL; `all` names them.
static plb_status word_of(const place *at, const json_t *object, const char *key, bool optional,
                          const char *const *words, const char *all, const char **out) {
    PLB_TRY(text_of(at, object, key, optional, out));
    for (; *out && *words; words++)
        if (strcmp(*out, *words) == 0) return PLB_OK;
    return *out ? fail_at(at, key, all, json_object_get(object, key)) : PLB_OK;
}

static plb_status outcome_of(const place *at, const json_t *object, const char **out) {
    static const char *const words[] = {"ok",      "invalid", "refused",  "oom",
                                        "timeout", "crash",   "protocol", NULL};
    return word_of(at, object, "outcome", true, words,
                   "ok, invalid, refused, oom, timeout, crash, protocol or null", out);
}

// A number from 0 on, or −1 where it is null or missing and may be.
static plb_status number_of(const place *at, const json_t *object, const char *key, bool optional,
                            int64_t *out) {
    const json_t *value = json_object_get(object, key);
    *out = json_is_integer(value) ? json_integer_value(value) : -1;
    if (json_is_integer(value) ? *out >= 0 : optional && (!value || json_is_null(value)))
        return PLB_OK;
    return fail_at(at, key, optional ? "a whole number from 0 on, or null" : "a whole number",
                   value);
}

// An object as text, freed with plb_free. NULL where it is null or missing and may be.
static plb_status object_of(const place *at, const json_t *object, const char *key, bool optional,
                            char **out) {
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    if (optional && (!value || json_is_null(value))) return PLB_OK;
    if (!json_is_object(value)) return fail_at(at, key, "an object", value);
    return place_of(plb_json_text(value, out), at);
}

// ---------------------------------------------------------------------------- blocks
static const int64_t MOST_ITERATIONS = INT64_C(1) << 40, MOST_NS = INT64_C(1) << 53;

// A time of a hundred days is none, and one of nothing has no logarithm.
static plb_status read_sample(const place *at, const json_t *value, int64_t *out) {
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out > 0 && *out <= MOST_NS) return PLB_OK;
    return fail_at(at, "samples_ns", "times as whole numbers from 1 to 2^53", value);
}

static plb_status read_samples(const place *at, const json_t *list, int64_t **out, size_t *count) {
    *count = json_array_size(list);
    *out = NULL;
    if (!json_is_array(list) || !*count) return fail_at(at, "samples_ns", "a list of times", list);
    *out = plb_alloc_array(*count, sizeof **out);
    if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for %zu samples", *count);
    for (size_t i = 0; i < *count; i++)
        PLB_TRY(read_sample(at, json_array_get(list, i), &(*out)[i]));
    return PLB_OK;
}

static plb_status read_block(const place *at, const json_t *object, plb_store *store,
                             int64_t start_id) {
    plb_store_block block = {0};
    int64_t marks, *samples = NULL;
    static const char *const kinds[] = {"timed", "warmup", NULL};
    const char *kind;
    plb_status status = PLB_OK;
    PLB_TRY(word_of(at, object, "kind", false, kinds, "timed or warmup", &kind));
    block.kind = kind[0] == 't' ? PLB_BLOCK_TIMED : PLB_BLOCK_WARMUP;
    PLB_TRY(number_of(at, object, "sweep", true, &block.sweep));
    PLB_TRY(number_of(at, object, "began_ns", false, &block.began_ns));
    PLB_TRY(number_of(at, object, "iterations_per_sample", false, &block.iterations_per_sample));
    PLB_TRY(number_of(at, object, "marks", false, &marks));
    if (block.sweep >= PLB_MOST_SWEEPS)
        return fail_at(at, "sweep", "a number below 2^20", json_object_get(object, "sweep"));
    if (block.iterations_per_sample < 1 || block.iterations_per_sample > MOST_ITERATIONS)
        return fail_at(at, "iterations_per_sample", "a number from 1 to 2^40",
                       json_object_get(object, "iterations_per_sample"));
    if (marks > UINT32_MAX)
        return fail_at(at, "marks", "a number below 2^32", json_object_get(object, "marks"));
    block.marks = (uint32_t)marks;
    PLB_TRY_OUT(read_samples(at, json_object_get(object, "samples_ns"), &samples, &block.count));
    block.samples_ns = samples;
    PLB_TRY_OUT(plb_store_add_block(store, start_id, &block));
out:
    plb_free(samples);
    return status;
}

static plb_status read_blocks(place *at, const json_t *list, plb_store *store, int64_t start_id) {
    if (!json_is_array(list))
        return fail_at(at, "blocks", "a list; was it exported without?", list);
    at->depth = 3;
    for (at->block = 0; at->block < json_array_size(list); at->block++)
        PLB_TRY(read_block(at, json_array_get(list, at->block), store, start_id));
    at->depth = 2;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- starts
static plb_status read_start_end(const place *at, const json_t *object, plb_store_start_end *end) {
    PLB_TRY(outcome_of(at, object, &end->outcome));
    PLB_TRY(text_of(at, object, "stop", true, &end->stop));
    PLB_TRY(number_of(at, object, "warmup_iterations", true, &end->warmup_iterations));
    PLB_TRY(number_of(at, object, "load_ns", true, &end->load_ns));
    PLB_TRY(number_of(at, object, "first_call_ns", true, &end->first_call_ns));
    PLB_TRY(number_of(at, object, "compile_ns", true, &end->compile_ns));
    PLB_TRY(number_of(at, object, "peak_rss_bytes", true, &end->peak_rss_bytes));
    PLB_TRY(number_of(at, object, "device_peak_bytes", true, &end->device_peak_bytes));
    end->steady = json_is_true(json_object_get(object, "steady"));
    return PLB_OK;
}

static plb_status read_start(place *at, const json_t *object, plb_store *store,
                             int64_t measurement_id) {
    int64_t number, group, start_id;
    plb_store_start_end end = {0};
    char *ran = NULL, *memory = NULL;
    plb_status status;
    PLB_TRY(number_of(at, object, "number", false, &number));
    PLB_TRY(number_of(at, object, "group", true, &group));
    PLB_TRY(place_of(plb_store_begin_start(store, measurement_id, number, group, &start_id), at));
    PLB_TRY(read_blocks(at, json_object_get(object, "blocks"), store, start_id));
    PLB_TRY(read_start_end(at, object, &end));
    if (!end.outcome) return PLB_OK; // cut off where it was measured
    PLB_TRY_OUT(object_of(at, object, "ran", true, &ran));
    PLB_TRY_OUT(object_of(at, object, "memory", true, &memory));
    end.ran = ran, end.memory = memory;
    PLB_TRY_OUT(plb_store_end_start(store, start_id, &end));
out:
    plb_free(ran);
    plb_free(memory);
    return status;
}

// ---------------------------------------------------------------------------- cases
static plb_status add_case(const place *at, const json_t *object, plb_store *store, int64_t run_id,
                           int64_t *measurement_id) {
    plb_case c;
    plb_case_hash hash;
    char *keys = NULL, text[PLB_CASE_TEXT_BYTES], title[256];
    bool done = false;
    plb_status status;
    PLB_TRY(object_of(at, object, "case", false, &keys));
    status = plb_case_parse(keys, &c);
    plb_free(keys);
    if (!status) status = plb_case_text(&c, text);
    if (!status) status = plb_case_hash_of(&c, &hash);
    if (status) return place_of(status, at);
    PLB_TRY(plb_store_add_measurement(store, run_id, hash.text, text, measurement_id, &done));
    if (!done) return PLB_OK;
    plb_case_title(&c, title, sizeof title);
    return plb_fail(PLB_EINVAL, "%s: case %zu: \"case\": expected each case once, found %s again",
                    at->path, at->number_of_case, title);
}

static plb_status read_outcome(const place *at, const json_t *object, plb_store *store,
                               int64_t measurement_id) {
    plb_store_outcome outcome = {0};
    char *proof = NULL, *versions = NULL, *results = NULL;
    plb_status status;
    PLB_TRY(outcome_of(at, object, &outcome.outcome));
    if (!outcome.outcome) return PLB_OK;
    PLB_TRY(text_of(at, object, "reason", true, &outcome.reason));
    PLB_TRY(text_of(at, object, "log", true, &outcome.log));
    PLB_TRY_OUT(object_of(at, object, "proof", true, &proof));
    PLB_TRY_OUT(object_of(at, object, "versions", true, &versions));
    PLB_TRY_OUT(object_of(at, object, "results", true, &results));
    outcome.proof = proof, outcome.versions = versions, outcome.results = results;
    PLB_TRY_OUT(plb_store_end_measurement(store, measurement_id, &outcome));
out:
    plb_free(proof);
    plb_free(versions);
    plb_free(results);
    return status;
}

static plb_status read_case(place *at, const json_t *object, plb_store *store, int64_t run_id) {
    int64_t measurement_id;
    PLB_TRY(add_case(at, object, store, run_id, &measurement_id));
    const json_t *starts = json_object_get(object, "starts");
    if (!json_is_array(starts)) return fail_at(at, "starts", "a list", starts);
    at->depth = 2;
    for (at->start = 0; at->start < json_array_size(starts); at->start++)
        PLB_TRY(read_start(at, json_array_get(starts, at->start), store, measurement_id));
    at->depth = 1;
    return read_outcome(at, object, store, measurement_id);
}

// ---------------------------------------------------------------------------- the run
static plb_status add_run(const place *at, const json_t *object, plb_store *store,
                          int64_t *run_id) {
    static const char *const states[] = {"running", "done", "interrupted", "failed", NULL};
    plb_store_new_run run = {0};
    plb_store_past_run past = {0};
    char *machine = NULL, *fingerprint = NULL, *fingerprint_end = NULL;
    plb_status status;
    if (!json_is_object(object)) return fail_at(at, "run", "an object", object);
    PLB_TRY(text_of(at, object, "label", true, &run.label));
    PLB_TRY(text_of(at, object, "command", false, &run.command));
    PLB_TRY(text_of(at, object, "git", true, &run.git));
    PLB_TRY(text_of(at, object, "uuid", false, &past.uuid));
    PLB_TRY(word_of(at, object, "state", false, states, "running, done, interrupted or failed",
                    &past.state));
    if (strcmp(past.state, "running") == 0) past.state = "interrupted";
    PLB_TRY(number_of(at, object, "began_ms", false, &past.began_ms));
    PLB_TRY(number_of(at, object, "ended_ms", true, &past.ended_ms));
    PLB_TRY_OUT(object_of(at, object, "machine", false, &machine));
    PLB_TRY_OUT(object_of(at, object, "fingerprint", false, &fingerprint));
    PLB_TRY_OUT(object_of(at, object, "fingerprint_end", true, &fingerprint_end));
    run.machine = machine, run.fingerprint = fingerprint, past.fingerprint_end = fingerprint_end;
    PLB_TRY_OUT(place_of(plb_store_add_past_run(store, &run, &past, run_id), at));
out:
    plb_free(machine);
    plb_free(fingerprint);
    plb_free(fingerprint_end);
    return status;
}

// ---------------------------------------------------------------------------- a study
// An item that was under way has not ended, wherever it is now.
static plb_status read_item(const place *at, const json_t *object, plb_store *store,
                            int64_t run_id) {
    static const char *const words[] = {"ok",    "invalid",  "refused",  "oom",     "timeout",
                                        "crash", "protocol", "left-out", "running", NULL};
    plb_study_item_row item = {0};
    char *keys = NULL, *results = NULL;
    plb_status status;
    PLB_TRY(text_of(at, object, "part", false, &item.part));
    PLB_TRY(word_of(at, object, "outcome", false, words, "an outcome, left-out or running",
                    &item.outcome));
    PLB_TRY(text_of(at, object, "reason", true, &item.reason));
    if (strcmp(item.outcome, "running") == 0)
        item.outcome = "left-out", item.reason = "it was under way when the run was exported";
    PLB_TRY_OUT(object_of(at, object, "keys", false, &keys));
    PLB_TRY_OUT(object_of(at, object, "results", true, &results));
    item.keys = keys, item.results = results;
    PLB_TRY_OUT(place_of(plb_store_put_item(store, run_id, &item), at));
out:
    plb_free(keys);
    plb_free(results);
    return status;
}

static plb_status read_study(place *at, const json_t *root, plb_store *store, int64_t run_id) {
    const json_t *study = json_object_get(root, "study");
    const json_t *items = json_object_get(study, "items");
    const char *name, *spec;
    char *options = NULL;
    at->depth = 0;
    if (!study || json_is_null(study)) return PLB_OK;
    if (!json_is_object(study)) return fail_at(at, "study", "an object or null", study);
    if (!json_is_array(items)) return fail_at(at, "items", "a list", items);
    PLB_TRY(text_of(at, study, "name", false, &name));
    PLB_TRY(text_of(at, study, "spec", false, &spec));
    PLB_TRY(object_of(at, study, "options", false, &options));
    plb_status status = place_of(plb_store_begin_study(store, run_id, name, spec, options), at);
    plb_free(options);
    at->depth = 4;
    for (at->number_of_case = 0; !status && at->number_of_case < json_array_size(items);
         at->number_of_case++)
        status = read_item(at, json_array_get(items, at->number_of_case), store, run_id);
    return status;
}

static plb_status read_document(const char *path, const json_t *root, plb_store *store,
                                int64_t *run_id) {
    place at = {.path = path};
    const json_t *cases = json_object_get(root, "cases");
    const char *document = json_string_value(json_object_get(root, "document"));
    if (!document || strcmp(document, "run") != 0 ||
        json_integer_value(json_object_get(root, "document_version")) != 1) {
        return plb_fail(PLB_EINVAL,
                        "%s: expected what `plumb export RUN --format json` writes, version 1",
                        path);
    }
    if (!json_is_array(cases)) return fail_at(&at, "cases", "a list", cases);
    PLB_TRY(add_run(&at, json_object_get(root, "run"), store, run_id));
    at.depth = 1;
    for (; at.number_of_case < json_array_size(cases); at.number_of_case++)
        PLB_TRY(read_case(&at, json_array_get(cases, at.number_of_case), store, *run_id));
    return read_study(&at, root, store, *run_id);
}

plb_status plb_transfer_read(plb_store *store, const char *path, int64_t *run_id) {
    uint8_t *bytes;
    size_t size;
    json_error_t error;
    PLB_TRY(plb_file_read(path, limit_bytes, &bytes, &size));
    json_t *root = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &error);
    plb_free(bytes);
    if (!root) {
        return plb_fail(PLB_EINVAL, "%s: line %d, column %d: %s", path, error.line, error.column,
                        error.text);
    }
    plb_status status = plb_store_batch_begin(store);
    if (!status) {
        status = read_document(path, root, store, run_id);
        status = plb_store_batch_end(store, status);
    }
    json_decref(root);
    return status;
}
