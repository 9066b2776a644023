// SPDX-License-Identifier: Apache-2.0
// `--batch auto`: one worker is loaded with larger and larger batches. What our own stacks plan is
// known before anything runs; of the others memory is watched while they run, as always. Proof,
// audit and timing then go on with the batch found as if it had been given.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "bench/matrix.h"
#include "bench/usage.h"

static const double stretch_ns = 20e6, enough_ns = 120e6; // of a trial's blocks, of all of them
enum { MOST_BLOCKS = 5, FEWEST_BLOCKS = 2 };

typedef struct finder {
    plb_bench *b;
    plb_group *g;
    plb_bench_case *c;
    plb_client client;
    char weights[4096];
} finder;

// ---------------------------------------------------------------------------- one trial
static plb_status start_worker(finder *f) {
    const plb_client_options options = plb_bench_client_options(f->b, f->c);
    return f->client.stack ? PLB_OK : plb_client_start(&f->client, f->c->stack, &options);
}

static plb_status too_large(finder *f, const char *what, int64_t bytes) {
    return plb_failure_set(&f->client.failure, PLB_OUTCOME_OOM,
                           "%s %" PRId64 " MiB, allowed are %" PRId64 " MiB (--memory-limit)", what,
                           bytes >> 20, f->b->options.memory_limit_bytes >> 20);
}

// Ours say what they will take once they are loaded; only what is used is resident.
static plb_status check_planned(finder *f, plb_batch_trial *trial) {
    json_t *answer = NULL;
    if (f->c->stack->folder) return PLB_OK;
    PLB_TRY(plb_client_ask(&f->client, json_pack("{s:s}", "type", "memory"),
                           f->b->options.timeout_s, "memory", &answer));
    const json_t *planned = json_object_get(answer, "planned_bytes");
    if (json_is_integer(planned)) trial->bytes = json_integer_value(planned);
    json_decref(answer);
    bool on_host = strcmp(f->c->c.device, "cpu") == 0;
    if (!on_host || trial->bytes <= f->b->options.memory_limit_bytes) return PLB_OK;
    return too_large(f, "its plan takes", trial->bytes);
}

static plb_status take_block(finder *f, int64_t n, double *least) {
    plb_block block;
    const plb_block_request request = {.n = n,
                                       .check = -1,
                                       .region = f->c->c.region,
                                       .n_slots = 2,
                                       .restart = f->g->facts.training,
                                       .limit_s = f->b->options.timeout_s};
    PLB_TRY(plb_block_take(&f->client, &request, &block));
    double sum = 0;
    for (int64_t i = 0; i < block.count; i++) sum += (double)block.samples_ns[i];
    *least = fmin(*least, sum / (double)n);
    return PLB_OK;
}

// The first call does what happens only once; then the quickest of a few blocks counts.
static plb_status time_iterations(finder *f, double *out) {
    double ignored = HUGE_VAL, spent = 0;
    *out = HUGE_VAL;
    PLB_TRY(take_block(f, 1, &ignored));
    PLB_TRY(take_block(f, 1, out));
    for (int i = 0; i < MOST_BLOCKS && (i < FEWEST_BLOCKS || spent < enough_ns); i++) {
        int64_t n = (int64_t)fmin(fmax(stretch_ns / *out, 1), 1000);
        PLB_TRY(take_block(f, n, out));
        spent += (double)n * *out;
        if (*out > f->c->search->longest_ns) break;
    }
    return PLB_OK;
}

static plb_status run_trial(finder *f, const plb_facts *facts, plb_batches *batches,
                            plb_batch_trial *trial) {
    const plb_load load = {.c = &f->c->c,
                           .facts = facts,
                           .batches = batches,
                           .weights = f->weights,
                           .dropout = true,
                           .limit_s = f->b->options.timeout_s};
    plb_loaded ignored;
    PLB_TRY(start_worker(f));
    PLB_TRY(plb_load_send(&f->client, &load, &ignored));
    PLB_TRY(check_planned(f, trial));
    PLB_TRY(time_iterations(f, &trial->iteration_ns));
    PLB_TRY(plb_client_look(&f->client)); // it may be over before anybody did
    if (f->c->stack->folder) trial->bytes = plb_usage_tree_rss(f->client.process.worker);
    return PLB_OK;
}

// Batches of two slots, in the pool and in shared memory.
static plb_status make_batches(finder *f, const plb_facts *facts, plb_batches *batches) {
    int64_t bytes = 0;
    for (int i = 0; i < facts->n_inputs; i++) {
        bytes += plb_shape_count(&facts->input[i].shape) *
                 (int64_t)plb_dtype_size(facts->input[i].dtype);
    }
    if (bytes > f->b->options.memory_limit_bytes / 4)
        return too_large(f, "four batches take", 4 * bytes);
    plb_status status = plb_batches_new(facts, batches);
    return status == PLB_ENOMEM ? too_large(f, "batches take", bytes) : status;
}

// A failure that is the case's own becomes the trial's outcome; the worker is then done with.
static plb_status settle(finder *f, plb_batch_trial *trial, plb_status status) {
    if (status == PLB_OK) return PLB_OK;
    if (status != PLB_EBROKEN || f->client.failure.outcome == PLB_OUTCOME_OK) return status;
    trial->outcome = f->client.failure.outcome;
    snprintf(trial->reason, sizeof trial->reason, "%.199s", f->client.failure.reason);
    f->c->failure = f->client.failure;
    if (f->client.stack) plb_client_log_tail(&f->client, f->c->log, sizeof f->c->log);
    plb_client_stop(&f->client);
    f->client = (plb_client){0};
    return PLB_OK;
}

static plb_status try_batch(finder *f, int64_t batch, plb_batch_trial *trial) {
    const plb_facts_request request = {
        .model = f->c->c.model, .task = f->c->c.task, .batch = batch, .size = f->c->c.size};
    plb_facts facts;
    plb_batches batches = {0};
    char text[48];
    *trial = (plb_batch_trial){.batch = batch, .bytes = -1};
    snprintf(text, sizeof text, "batch %" PRId64, batch);
    plb_bench_tell(f->b, PLB_BENCH_PROGRESS, f->c, text);
    PLB_TRY(plb_bench_start_reference(f->b));
    PLB_TRY(plb_facts_ask(&f->b->reference, &request, &facts));
    plb_status status = make_batches(f, &facts, &batches);
    if (!status) status = run_trial(f, &facts, &batches, trial);
    plb_batches_free(&batches);
    return settle(f, trial, status);
}

// ---------------------------------------------------------------------------- one case
static plb_status search(finder *f) {
    const plb_bench_options *o = &f->b->options;
    plb_batch_search *s = f->c->search;
    int64_t batch;
    PLB_TRY(plb_bench_start_reference(f->b));
    PLB_TRY(plb_facts_weights(&f->b->reference, &f->g->facts, f->b->cache, f->weights,
                              sizeof f->weights));
    // Normalisation cannot train on a single sample of 1x1.
    plb_batch_search_begin(s, f->g->facts.training ? 2 : 1, fmax(1, o->time_s / o->starts) * 1e9);
    while ((batch = plb_batch_search_next(s)) > 0) {
        plb_batch_trial trial;
        PLB_TRY(try_batch(f, batch, &trial));
        plb_batch_search_add(s, &trial);
    }
    if (!s->found) return PLB_OK; // the case ends with what became of the first trial
    f->c->failure = (plb_failure){0};
    f->c->log[0] = '\0';
    return PLB_OK;
}

// What an interrupted run found, so that it goes on with the same.
static plb_status find_earlier(plb_bench *b, const plb_case *c, int64_t *out) {
    const plb_measurement_filter filter = {.run = b->run_id, .brief = true};
    plb_measurement_row *rows = NULL;
    size_t count = 0;
    *out = 0;
    if (!b->options.resume) return PLB_OK;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a run");
    plb_status status = plb_store_measurements(b->store, &filter, arena, &rows, &count);
    for (size_t i = 0; i < count && !status && !*out; i++) {
        plb_case_difference difference[PLB_CASE_MAX_DIFFERENCES];
        plb_case found;
        bool same = plb_case_parse(rows[i].keys, &found) == PLB_OK;
        int n = same ? plb_case_differences(&found, c, difference) : 0;
        for (int k = 0; k < n; k++) {
            same &= strcmp(difference[k].key, "batch") == 0 ||
                    strcmp(difference[k].key, "input_digest") == 0;
        }
        if (same) *out = found.batch;
    }
    plb_arena_free(arena);
    return status;
}

static plb_status set_batch(plb_bench *b, plb_group *g, int64_t batch) {
    const plb_facts_request request = {
        .model = g->c.model, .task = g->c.task, .batch = batch, .size = g->c.size};
    PLB_TRY(plb_bench_start_reference(b));
    PLB_TRY(plb_facts_ask(&b->reference, &request, &g->facts));
    g->c.batch = b->cases[g->first].c.batch = batch;
    return PLB_OK;
}

static plb_status find_batch(plb_bench *b, plb_group *g) {
    plb_bench_case *c = &b->cases[g->first];
    finder f = {.b = b, .g = g, .c = c};
    int64_t earlier = 0;
    PLB_TRY(find_earlier(b, &c->c, &earlier));
    if (earlier) return set_batch(b, g, earlier);
    c->search = plb_alloc(sizeof *c->search);
    if (!c->search) return plb_fail(PLB_ENOMEM, "out of memory for batches");
    plb_status status = search(&f);
    if (f.client.stack) plb_client_stop(&f.client);
    if (status || !c->search->found) return status;
    return set_batch(b, g, c->search->found);
}

// ---------------------------------------------------------------------------- groups
// Groups [first, last) of one table by batch, each with its one case.
static void sort_groups(plb_bench *b, int first, int last) {
    for (int i = first + 1; i < last; i++) {
        for (int k = i; k > first && b->groups[k].c.batch < b->groups[k - 1].c.batch; k--) {
            plb_group *g = &b->groups[k - 1], group = g[0];
            plb_bench_case *c = &b->cases[g->first], one = c[0];
            g[0] = g[1], g[1] = group;
            c[0] = c[1], c[1] = one;
            g[0].first--, g[1].first++;
        }
    }
}

static bool same_group(const plb_bench *b, const plb_group *x, const plb_group *y) {
    return x->find_batch && b->cases[x->first].table == b->cases[y->first].table &&
           x->c.batch == y->c.batch;
}

static void join_groups(plb_bench *b) {
    int n = 0;
    for (int i = 0; i < b->group_count; i++) {
        plb_group *g = &b->groups[i];
        if (n && same_group(b, &b->groups[n - 1], g)) {
            b->groups[n - 1].count += g->count;
        } else {
            b->groups[n++] = *g;
        }
    }
    b->group_count = n;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < b->groups[i].count; k++) b->cases[b->groups[i].first + k].group = i;
    }
}

plb_status plb_bench_find_batches(plb_bench *b) {
    bool any = false;
    for (int i = 0; i < b->group_count; i++) {
        if (!b->groups[i].find_batch) continue;
        PLB_TRY(find_batch(b, &b->groups[i]));
        any = true;
    }
    if (!any) return PLB_OK;
    for (int first = 0, last; first < b->group_count; first = last) {
        int table = b->cases[b->groups[first].first].table;
        for (last = first + 1; last < b->group_count; last++) {
            if (b->cases[b->groups[last].first].table != table) break;
        }
        if (b->groups[first].find_batch) sort_groups(b, first, last);
    }
    join_groups(b);
    return PLB_OK;
}
