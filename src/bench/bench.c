// SPDX-License-Identifier: Apache-2.0
// An invocation from its options to its last row in the store.
#include "bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "base/machine.h"
#include "bench/end_run.h"
#include "bench/matrix.h"
#include "bench/restore.h"
#include "bench/same_machine.h"
#include "bench/usage.h"
#include "store/write.h"

// ---------------------------------------------------------------------------- defaults
static void fill_defaults(plb_bench_options *o) {
    if (o->starts < 1) o->starts = 3;
    if (o->time_s <= 0) o->time_s = 3;
    if (o->precision <= 0) o->precision = 0.01;
    if (o->timeout_s <= 0) o->timeout_s = 900;
    if (o->proof_budget_s <= 0) o->proof_budget_s = 60;
    if (o->memory_limit_bytes <= 0) {
        o->memory_limit_bytes = plb_usage_memory_available() / 10 * 9;
    }
}

plb_status plb_bench_start_reference(plb_bench *b) {
    if (b->reference.stack) {
        if (b->reference.failure.outcome == PLB_OUTCOME_OK) return PLB_OK;
        plb_client_stop(&b->reference);
    }
    const plb_client_options options = {.threads = plb_machine_threads(),
                                        .interrupted = b->options.interrupted,
                                        .context = b->options.context};
    return plb_client_start(&b->reference, b->stacks.reference, &options);
}

plb_client_options plb_bench_client_options(const plb_bench *b, const plb_bench_case *c) {
    const plb_bench_options *o = &b->options;
    return (plb_client_options){.threads = (int)c->c.threads,
                                .memory_limit_bytes = o->memory_limit_bytes,
                                .cache = b->cache,
                                .hello_s = fmin(o->timeout_s, 120),
                                .interrupted = o->interrupted,
                                .context = o->context};
}

plb_status plb_bench_new(const plb_bench_options *options, plb_bench **out) {
    plb_bench *b = plb_alloc(sizeof *b);
    plb_status status;
    if (!b) return plb_fail(PLB_ENOMEM, "out of memory for a bench");
    b->options = *options;
    fill_defaults(&b->options);
    b->arena = plb_arena_new();
    b->began_ns = plb_now_ns();
    if (!b->arena) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a bench"));
    if (getrandom(&b->chance, sizeof b->chance, 0) < 0) b->chance = (uint64_t)b->began_ns;
    b->chance |= 1;
    PLB_TRY_OUT(plb_folder_of_cache(b->arena, &b->cache));
    PLB_TRY_OUT(plb_folder_make(b->cache));
    PLB_TRY_OUT(plb_stacks_find(b->arena, options->plumb, &b->stacks));
    b->hello = plb_alloc_array(b->stacks.count + 1, sizeof *b->hello);
    if (!b->hello) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a bench"));
    PLB_TRY_OUT(plb_matrix_check(b));
out:
    if (status) {
        plb_bench_free(b);
    } else {
        *out = b;
    }
    return status;
}

plb_status plb_bench_plan(plb_bench *b) {
    PLB_TRY(plb_matrix_expand(b));
    PLB_TRY(plb_bench_learn(b));
    plb_clock_measure(&b->clock);
    return PLB_OK;
}

static void free_group(plb_group *g) {
    plb_batches_free(&g->batches);
    plb_batches_free(&g->proof_batches);
    plb_reference_free(&g->reference);
    g->has_reference = false;
}

void plb_bench_free(plb_bench *b) {
    if (!b) return;
    plb_client_stop(&b->reference);
    for (int i = 0; i < b->group_count; i++) free_group(&b->groups[i]);
    for (int i = 0; i < b->case_count; i++) {
        free(b->cases[i].versions);
        free(b->cases[i].ran);
        free(b->cases[i].profile);
        free(b->cases[i].proof_text);
        free(b->cases[i].search_text);
        plb_free(b->cases[i].search);
    }
    for (size_t i = 0; b->hello && i <= b->stacks.count; i++) json_decref(b->hello[i]);
    plb_free(b->hello);
    plb_free(b->groups);
    plb_free(b->cases);
    plb_estimator_free(&b->estimator);
    plb_disturbance_free(&b->disturbance);
    if (b->has_fingerprint) plb_fingerprint_free(&b->fingerprint);
    plb_store_close(b->store);
    plb_arena_free(b->arena);
    plb_free(b);
}

// ---------------------------------------------------------------------------- telling
void plb_bench_tell(plb_bench *b, plb_bench_event_kind kind, const plb_bench_case *c,
                    const char *text) {
    const int64_t fresh_ns = 2000000000, now = plb_now_ns();
    if (!b->options.tell) return;
    if (kind != PLB_BENCH_PROGRESS || now - b->countdown.at_ns > fresh_ns) {
        plb_countdown_tell(&b->countdown, now, plb_bench_estimate_s(b));
    }
    const plb_bench_event event = {kind, c, text, b->ended, b->case_count, b->countdown.left_s};
    b->options.tell(b->options.context, &event);
}

int plb_bench_case_count(const plb_bench *b) {
    return b->case_count;
}
const plb_bench_case *plb_bench_case_at(const plb_bench *b, int i) {
    return i >= 0 && i < b->case_count ? &b->cases[i] : NULL;
}
int64_t plb_bench_run_id(const plb_bench *b) {
    return b->run_id;
}
bool plb_bench_was_done(const plb_bench *b) {
    return b->was_done;
}
double plb_bench_seconds(const plb_bench *b) {
    return (double)(plb_now_ns() - b->began_ns) / 1e9;
}
const char *plb_bench_warning(const plb_bench *b) {
    return b->has_fingerprint ? b->fingerprint.warning : NULL;
}
const char *plb_bench_fingerprint(const plb_bench *b) {
    return b->has_fingerprint ? b->fingerprint.all : NULL;
}

// ---------------------------------------------------------------------------- the store
static plb_status find_done(plb_bench *b) {
    const plb_run_filter filter = {.id = b->run_id};
    plb_run_row *row;
    size_t count;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a run");
    plb_status status = plb_store_runs(b->store, &filter, arena, &row, &count);
    b->was_done = !status && count && strcmp(row->state, "done") == 0;
    plb_arena_free(arena);
    return status;
}

static plb_status open_store(plb_bench *b) {
    const plb_bench_options *o = &b->options;
    PLB_TRY(plb_fingerprint_take("", 200, &b->fingerprint));
    b->has_fingerprint = true;
    PLB_TRY(plb_store_open(o->store, &b->store));
    const plb_store_new_run run = {.label = o->label,
                                   .command = o->command ? o->command : "",
                                   .git = o->git,
                                   .machine = b->fingerprint.machine,
                                   .fingerprint = b->fingerprint.all};
    if (!o->resume) return plb_store_begin_run(b->store, &run, &b->run_id);
    b->run_id = o->resume;
    PLB_TRY(plb_check_same_machine(b->store, o->resume, b->fingerprint.machine));
    PLB_TRY(find_done(b));
    return b->was_done ? PLB_OK : plb_store_resume_run(b->store, o->resume, &run);
}

// A run that is done gets no more cases: what would be one leaves the store as it was.
static plb_status add_measurement(plb_bench *b, plb_bench_case *c) {
    char text[PLB_CASE_TEXT_BYTES], title[256];
    PLB_TRY(plb_case_text(&c->c, text));
    PLB_TRY(plb_case_hash_of(&c->c, &c->hash));
    if (!b->store) return PLB_OK;
    PLB_TRY(plb_store_batch_begin(b->store));
    plb_status status = plb_store_add_measurement(b->store, b->run_id, c->hash.text, text,
                                                  &c->measurement, &c->resumed);
    if (!status && b->was_done && !c->resumed) {
        plb_case_title(&c->c, title, sizeof title);
        status = plb_fail(PLB_EINVAL, "run %" PRId64 " is done: expected its cases, found %s",
                          b->run_id, title);
    }
    return plb_store_batch_end(b->store, status);
}

// Wall time of the first start, and of another one.
static json_t *spent_json(const plb_bench_case *c) {
    json_t *out = json_pack("{s:f}", "first", (double)c->first_spent_ns / 1e9);
    if (out && c->starts > 1) {
        double later = (double)(c->spent_ns - c->first_spent_ns) / 1e9 / (c->starts - 1);
        json_object_set_new(out, "later", json_real(later));
    }
    return out;
}

static json_t *results_json(const plb_bench *b, const plb_bench_case *c) {
    json_t *out = json_object();
    if (c->audited) {
        json_object_set_new(out, "audit",
                            json_pack("{s:f,s:f,s:f,s:f,s:f}", "unaccounted", c->audit.unaccounted,
                                      "after_ns", c->audit.after_ns, "threads_at_once",
                                      c->audit.at_once, "processors", c->audit.processors,
                                      "seen_over_new", c->audit.seen_over_new));
    }
    if (c->planned_bytes >= 0) {
        json_object_set_new(out, "planned_bytes", json_integer(c->planned_bytes));
    }
    if (c->failure.kind[0]) json_object_set_new(out, "kind", json_string(c->failure.kind));
    json_object_set_new(out, "flops", json_real(b->groups[c->group].facts.flops));
    if (c->iteration_ns > 0) json_object_set_new(out, "iteration_ns", json_real(c->iteration_ns));
    if (c->least_ns > 0) json_object_set_new(out, "least_ns", json_real(c->least_ns));
    if (c->first_spent_ns) json_object_set_new(out, "spent_s", spent_json(c));
    if (c->search) json_object_set_new(out, "batch_search", plb_batch_search_json(c->search));
    if (c->profile) json_object_set_new(out, "profile", json_loads(c->profile, 0, NULL));
    return out;
}

static plb_status store_outcome(plb_bench *b, const plb_bench_case *c) {
    json_t *proof = c->proof.done ? plb_proof_json(&c->proof) : NULL, *results = results_json(b, c);
    char *proof_text = proof ? json_dumps(proof, JSON_COMPACT) : NULL;
    char *results_text = results ? json_dumps(results, JSON_COMPACT) : NULL;
    const plb_store_outcome outcome = {.outcome = plb_outcome_name(c->failure.outcome),
                                       .reason = c->failure.reason[0] ? c->failure.reason : NULL,
                                       .log = c->log[0] ? c->log : NULL,
                                       .proof = proof_text,
                                       .versions = c->versions,
                                       .results = results_text};
    plb_status status = plb_store_end_measurement(b->store, c->measurement, &outcome);
    free(proof_text);
    free(results_text);
    json_decref(proof);
    json_decref(results);
    return status;
}

static plb_status summarize(plb_bench *b, plb_bench_case *c) {
    plb_summary summary;
    if (c->failure.outcome != PLB_OUTCOME_OK) return PLB_OK;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a summary");
    plb_status status = plb_summary_load(b->store, c->measurement, arena, &summary);
    if (!status) {
        c->median_ns = summary.median_ns, c->low_ns = summary.low_ns;
        c->high_ns = summary.high_ns, c->samples = summary.samples;
    }
    plb_arena_free(arena);
    return status;
}

plb_status plb_bench_end_case(plb_bench *b, plb_bench_case *c) {
    if (c->ended) return PLB_OK;
    c->ended = true;
    b->ended++;
    PLB_TRY(plb_bench_observe(b, c));
    if (b->store) {
        PLB_TRY(store_outcome(b, c));
        PLB_TRY(summarize(b, c));
    }
    plb_bench_tell(b, PLB_BENCH_DONE, c, NULL);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- running
// Batches first: their digest belongs to the cases.
static plb_status prepare_group(plb_bench *b, plb_group *g) {
    bool any = false;
    PLB_TRY(plb_batches_new(&g->facts, &g->batches));
    for (int i = 0; i < g->count; i++) {
        plb_bench_case *c = &b->cases[g->first + i];
        snprintf(c->c.input_digest, sizeof c->c.input_digest, "%s", g->batches.digest);
        PLB_TRY(add_measurement(b, c));
        if (c->resumed) {
            c->ended = true, b->ended++;
            PLB_TRY(plb_bench_restore(b->store, c));
        } else if (c->failure.outcome != PLB_OUTCOME_OK) { // no batch was found that it can run
            PLB_TRY(plb_bench_end_case(b, c));
        } else {
            any = true;
        }
    }
    if (!any) return PLB_OK;
    PLB_TRY(plb_bench_start_reference(b));
    return plb_facts_weights(&b->reference, &g->facts, b->cache, g->weights, sizeof g->weights);
}

static plb_status run_groups(plb_bench *b) {
    for (int i = 0; i < b->group_count; i++) {
        plb_group *g = &b->groups[i];
        bool any = false;
        PLB_TRY(prepare_group(b, g));
        for (int k = 0; k < g->count; k++) any |= !b->cases[g->first + k].ended;
        if (any) PLB_TRY(plb_group_run(b, g));
        free_group(g);
    }
    return PLB_OK;
}

plb_status plb_bench_run(plb_bench *b) {
    plb_bench_tell(b, PLB_BENCH_PLANNED, NULL, NULL);
    if (!b->options.verify) PLB_TRY(open_store(b));
    plb_status status = plb_bench_find_batches(b);
    if (!status) status = run_groups(b);
    // A worker that broke is in its case; of the reference it is our own trouble.
    return b->store && !b->was_done ? plb_end_run(b->store, b->run_id, status) : status;
}
