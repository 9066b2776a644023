// SPDX-License-Identifier: Apache-2.0
#include "base/core/status.h"
#include "bench/summary.h"
#include "bench/transfer.h"
#include "store/study.h"

static void known(plb_json *json, const char *key, int64_t value) {
    if (value < 0)
        plb_json_null(json, key);
    else
        plb_json_int(json, key, value);
}

static void write_run(const plb_run_row *run, plb_json *json) {
    plb_json_begin_object(json, "run");
    plb_json_int(json, "id", run->id);
    plb_json_string(json, "uuid", run->uuid);
    plb_json_string(json, "label", run->label);
    plb_json_string(json, "command", run->command);
    plb_json_string(json, "git", run->git);
    plb_json_string(json, "state", run->state);
    plb_json_int(json, "began_ms", run->began_ms);
    known(json, "ended_ms", run->ended_ms);
    plb_json_raw(json, "machine", run->machine);
    plb_json_raw(json, "fingerprint", run->fingerprint);
    plb_json_raw(json, "fingerprint_end", run->fingerprint_end);
    plb_json_end(json);
}

static plb_status write_blocks(plb_store *store, int64_t start_id, plb_json *json) {
    plb_arena *arena = plb_arena_new(); // of one start: a run may be large
    plb_store_block *blocks;
    size_t count;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_status status = plb_store_blocks(store, start_id, arena, &blocks, &count);
    plb_json_begin_array(json, "blocks");
    for (size_t i = 0; !status && i < count; i++) {
        const plb_store_block *block = &blocks[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "kind", block->kind == PLB_BLOCK_TIMED ? "timed" : "warmup");
        known(json, "sweep", block->sweep);
        plb_json_int(json, "began_ns", block->began_ns);
        plb_json_int(json, "iterations_per_sample", block->iterations_per_sample);
        plb_json_int(json, "marks", block->marks);
        plb_json_begin_array(json, "samples_ns");
        for (size_t k = 0; k < block->count; k++) plb_json_int(json, NULL, block->samples_ns[k]);
        plb_json_end(json);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_arena_free(arena);
    return status;
}

static plb_status write_start(plb_store *store, const plb_start_row *s, bool samples,
                              plb_json *json) {
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "number", s->number);
    known(json, "group", s->group);
    plb_json_string(json, "outcome", s->outcome);
    if (s->steady < 0)
        plb_json_null(json, "steady");
    else
        plb_json_bool(json, "steady", s->steady);
    known(json, "warmup_iterations", s->warmup_iterations);
    plb_json_string(json, "stop", s->stop);
    known(json, "load_ns", s->load_ns);
    known(json, "first_call_ns", s->first_call_ns);
    known(json, "compile_ns", s->compile_ns);
    known(json, "peak_rss_bytes", s->peak_rss_bytes);
    known(json, "device_peak_bytes", s->device_peak_bytes);
    plb_json_raw(json, "ran", s->ran);
    plb_json_raw(json, "memory", s->memory);
    plb_status status = samples ? write_blocks(store, s->id, json) : PLB_OK;
    plb_json_end(json);
    return status;
}

static plb_status write_summary(plb_store *store, const plb_measurement_row *m, plb_arena *arena,
                                plb_json *json) {
    plb_summary s;
    PLB_TRY(plb_summary_of_row(store, m, arena, &s));
    plb_json_int(json, "samples", s.samples);
    plb_json_double(json, "median_ms", s.median_ns * 1e-6);
    plb_json_double(json, "low_ms", s.low_ns * 1e-6);
    plb_json_double(json, "high_ms", s.high_ns * 1e-6);
    plb_json_double(json, "min_ms", s.min_ns * 1e-6);
    plb_json_double(json, "p05_ms", s.p05_ns * 1e-6);
    plb_json_double(json, "p95_ms", s.p95_ns * 1e-6);
    plb_json_bool(json, "drift", s.drift);
    return PLB_OK;
}

static plb_status write_measurement(plb_store *store, const plb_measurement_row *m, bool samples,
                                    plb_arena *arena, plb_json *json) {
    plb_start_row *starts;
    size_t count;
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "id", m->id);
    plb_json_string(json, "hash", m->case_hash);
    plb_json_raw(json, "case", m->keys);
    plb_json_string(json, "outcome", m->outcome);
    plb_json_string(json, "reason", m->reason);
    plb_json_string(json, "log", m->log);
    plb_json_raw(json, "proof", m->proof);
    plb_json_raw(json, "versions", m->versions);
    plb_json_raw(json, "results", m->results);
    plb_status status = write_summary(store, m, arena, json);
    if (!status) status = plb_store_starts(store, m->id, arena, &starts, &count);
    plb_json_begin_array(json, "starts");
    for (size_t i = 0; !status && i < count; i++)
        status = write_start(store, &starts[i], samples, json);
    plb_json_end(json);
    plb_json_end(json);
    return status;
}

static void write_item(const plb_study_item_row *item, plb_json *json) {
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "part", item->part);
    plb_json_raw(json, "keys", item->keys);
    plb_json_string(json, "outcome", item->outcome);
    plb_json_string(json, "reason", item->reason);
    plb_json_raw(json, "results", item->results);
    plb_json_end(json);
}

// Nothing of a run that is no study.
static plb_status write_study(plb_store *store, int64_t run_id, plb_arena *arena, plb_json *json) {
    plb_study_row study;
    plb_study_item_row *items;
    size_t count;
    const plb_status found = plb_store_find_study(store, run_id, NULL, arena, &study);
    if (found) return found == PLB_EMISSING ? PLB_OK : found;
    PLB_TRY(plb_store_items(store, run_id, arena, &items, &count));
    plb_json_begin_object(json, "study");
    plb_json_string(json, "name", study.name);
    plb_json_string(json, "spec", study.spec);
    plb_json_raw(json, "options", study.options);
    plb_json_begin_array(json, "items");
    for (size_t i = 0; i < count; i++) write_item(&items[i], json);
    plb_json_end(json);
    plb_json_end(json);
    return PLB_OK;
}

plb_status plb_transfer_write(plb_store *store, const plb_run_row *run, bool samples,
                              plb_json *json) {
    plb_arena *arena = plb_arena_new();
    plb_measurement_row *rows;
    size_t count = 0;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    const plb_measurement_filter filter = {.run = run->id, .algorithm = PLB_SUMMARY_ALGORITHM};
    write_run(run, json);
    plb_status status = plb_store_measurements(store, &filter, arena, &rows, &count);
    plb_json_begin_array(json, "cases");
    for (size_t i = 0; !status && i < count; i++)
        status = write_measurement(store, &rows[i], samples, arena, json);
    plb_json_end(json);
    if (!status) status = write_study(store, run->id, arena, json);
    plb_arena_free(arena);
    return status;
}
