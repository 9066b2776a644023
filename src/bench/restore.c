// SPDX-License-Identifier: Apache-2.0
#include "bench/restore.h"

#include <stdio.h>

#include <jansson.h>

#include "base/core/status.h"

// A JSON text of the case's own, which `free` frees like those that came from a worker.
static char *copy_json(const char *text) {
    json_t *value = text ? json_loads(text, 0, NULL) : NULL;
    char *copy = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return copy;
}

static void restore_results(const plb_measurement_row *row, plb_bench_case *c) {
    json_t *results = row->results ? json_loads(row->results, 0, NULL) : NULL;
    const json_t *planned = json_object_get(results, "planned_bytes");
    const json_t *iteration = json_object_get(results, "iteration_ns");
    const char *kind = json_string_value(json_object_get(results, "kind"));
    if (json_is_integer(planned)) c->planned_bytes = json_integer_value(planned);
    const json_t *least = json_object_get(results, "least_ns");
    if (json_is_number(least)) c->least_ns = json_number_value(least);
    if (json_is_number(iteration)) c->iteration_ns = json_number_value(iteration);
    const json_t *search = json_object_get(results, "batch_search");
    if (search) c->search_text = json_dumps(search, JSON_COMPACT);
    if (kind) snprintf(c->failure.kind, sizeof c->failure.kind, "%s", kind);
    const json_t *profile = json_object_get(results, "profile");
    if (profile) c->profile = json_dumps(profile, JSON_COMPACT);
    json_decref(results);
}

static void restore_proof(const plb_measurement_row *row, plb_bench_case *c) {
    json_t *proof = row->proof ? json_loads(row->proof, 0, NULL) : NULL;
    if (!proof) return;
    c->proof.done = true;
    c->proof.equal = json_is_true(json_object_get(proof, "equal"));
    c->proof.max_rel_error = json_number_value(json_object_get(proof, "max_rel_error"));
    c->proof_text = copy_json(row->proof);
    json_decref(proof);
}

static plb_status restore_row(const plb_measurement_row *row, plb_bench_case *c) {
    c->failure.outcome = plb_outcome_from_name(row->outcome);
    snprintf(c->failure.reason, sizeof c->failure.reason, "%s", row->reason ? row->reason : "");
    snprintf(c->log, sizeof c->log, "%s", row->log ? row->log : "");
    c->versions = copy_json(row->versions);
    restore_results(row, c);
    restore_proof(row, c);
    if (row->versions && !c->versions) return plb_fail(PLB_ENOMEM, "out of memory for a case");
    return PLB_OK;
}

static plb_status restore_marks(plb_store *store, int64_t start, plb_arena *arena,
                                plb_bench_case *c) {
    plb_store_block *blocks = NULL;
    size_t count = 0;
    PLB_TRY(plb_store_blocks(store, start, arena, &blocks, &count));
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].kind != PLB_BLOCK_TIMED) continue;
        c->blocks++;
        c->busy_blocks += (blocks[i].marks & PLB_MARK_BUSY) != 0;
        c->throttled_blocks += (blocks[i].marks & PLB_MARK_THROTTLED) != 0;
        c->slow_blocks += (blocks[i].marks & PLB_MARK_SLOW) != 0;
    }
    return PLB_OK;
}

static plb_status restore_starts(plb_store *store, plb_arena *arena, plb_bench_case *c) {
    plb_start_row *starts = NULL;
    size_t count = 0;
    PLB_TRY(plb_store_starts(store, c->measurement, arena, &starts, &count));
    c->starts = (int)count;
    if (!count) return PLB_OK;
    const plb_start_row *first = &starts[0], *last = &starts[count - 1];
    c->load_ns = first->load_ns, c->first_call_ns = first->first_call_ns;
    c->compile_ns = first->compile_ns;
    c->peak_rss_bytes = first->peak_rss_bytes, c->device_peak_bytes = first->device_peak_bytes;
    c->warmup_iterations = last->warmup_iterations, c->steady = last->steady == 1;
    snprintf(c->stop, sizeof c->stop, "%s", last->stop ? last->stop : "");
    c->ran = copy_json(last->ran);
    for (size_t i = 0; i < count; i++) PLB_TRY(restore_marks(store, starts[i].id, arena, c));
    return PLB_OK;
}

static plb_status restore_times(plb_store *store, plb_arena *arena, plb_bench_case *c) {
    plb_summary summary;
    if (c->failure.outcome != PLB_OUTCOME_OK) return PLB_OK;
    PLB_TRY(plb_summary_load(store, c->measurement, arena, &summary));
    c->median_ns = summary.median_ns, c->low_ns = summary.low_ns, c->high_ns = summary.high_ns;
    c->samples = summary.samples;
    return PLB_OK;
}

plb_status plb_bench_restore(plb_store *store, plb_bench_case *c) {
    const plb_measurement_filter filter = {.measurement = c->measurement};
    plb_measurement_row *rows = NULL;
    size_t count = 0;
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a case");
    PLB_TRY_OUT(plb_store_measurements(store, &filter, arena, &rows, &count));
    if (!count) {
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: there is no measurement %lld", plb_store_path(store),
                             (long long)c->measurement));
    }
    PLB_TRY_OUT(restore_row(&rows[0], c));
    PLB_TRY_OUT(restore_starts(store, arena, c));
    PLB_TRY_OUT(restore_times(store, arena, c));
out:
    plb_arena_free(arena);
    return status;
}
