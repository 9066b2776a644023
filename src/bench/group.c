// SPDX-License-Identifier: Apache-2.0
// A group of cases that differ in their stack. A start: one worker a stack comes up, is loaded,
// makes its first call, is proven and audited (in the first start), warms up, and is stopped
// (SIGSTOP); when all are warm, blocks are taken in palindromes, A B C C B A, until every series
// has enough. What breaks ends its own case and nobody else's.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "bench/member.h"
#include "bench/rounding.h"
#include "bench/trace.h"
#include "bench/usage.h"

static uint64_t draw(plb_bench *b) { // xorshift64 (Marsaglia 2003)
    b->chance ^= b->chance << 13, b->chance ^= b->chance >> 7, b->chance ^= b->chance << 17;
    return b->chance;
}

void plb_member_charge(const plb_runner *r, plb_member *m, int64_t began_ns) {
    m->c->spent_ns += plb_now_ns() - began_ns;
    if (r->start == 0) m->c->first_spent_ns = m->c->spent_ns;
}

// ---------------------------------------------------------------------------- ends
static plb_status end_start(const plb_runner *r, plb_member *m) {
    if (!m->open) return PLB_OK;
    m->open = false;
    m->end.outcome = plb_outcome_name(m->c->failure.outcome);
    m->end.memory = m->memory, m->end.ran = m->c->ran;
    m->end.stop = plb_stop_name(m->stop);
    return plb_store_end_start(r->b->store, m->start_id, &m->end);
}

static void clear(plb_member *m) {
    plb_client_stop(&m->client);
    plb_series_free(m->series);
    free(m->memory);
    m->series = NULL, m->memory = NULL;
}

// A case's own failure ends the case and is no failure here; anything else is passed on.
static plb_status settle(const plb_runner *r, plb_member *m, plb_status status) {
    if (status == PLB_OK) return PLB_OK;
    if (status != PLB_EBROKEN || m->client.failure.outcome == PLB_OUTCOME_OK) {
        plb_status unused = end_start(r, m);
        (void)unused; // the store may be what failed
        return status;
    }
    m->c->failure = m->client.failure;
    plb_client_log_tail(&m->client, m->c->log, sizeof m->c->log);
    PLB_TRY(end_start(r, m));
    clear(m);
    return plb_bench_end_case(r->b, m->c);
}

static plb_status not_equal(plb_member *m) {
    return plb_failure_set(&m->client.failure, PLB_OUTCOME_INVALID, "%s", m->c->proof.reason);
}

// ---------------------------------------------------------------------------- proof
static double block_limit_s(const plb_runner *r, const plb_member *m, double n) {
    double expected = n * m->c->iteration_ns / 1e9, least = r->b->options.timeout_s;
    double limit = 30 + 50 * expected;
    return fmin(limit, fmax(least, 5 * expected));
}

plb_load plb_member_load(const plb_runner *r, const plb_member *m, bool proof) {
    plb_group *g = r->g;
    bool small = proof && g->small_proof;
    return (plb_load){.c = &m->c->c,
                      .facts = small ? &g->proof_facts : &g->facts,
                      .batches = small ? &g->proof_batches : &g->batches,
                      .weights = g->weights,
                      .dropout = !(proof && g->facts.training),
                      .rate = g->has_reference ? g->reference.rate : 0,
                      .limit_s = r->b->options.timeout_s};
}

// The case as the reference runs it.
static plb_case reference_case(const plb_group *g) {
    plb_case c;
    plb_case_init(&c);
    snprintf(c.model, sizeof c.model, "%s", g->c.model);
    snprintf(c.task, sizeof c.task, "%s", g->c.task);
    c.batch = g->c.batch, c.size = g->c.size, c.classes = g->c.classes;
    c.threads = g->c.threads;
    return c;
}

plb_status plb_member_need_reference(const plb_runner *r, plb_member *m) {
    plb_group *g = r->g;
    if (g->has_reference) return PLB_OK;
    plb_case c = reference_case(g);
    plb_load load = plb_member_load(r, m, true);
    load.c = &c;
    plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "reference");
    int64_t began = plb_now_ns();
    const double budget_s = r->b->options.proof_budget_s;
    plb_status status = plb_bench_start_reference(r->b);
    if (!status)
        status = plb_reference_get(&r->b->reference, &load, r->b->cache, budget_s, &g->reference);
    if (!status && plb_rounding_shows(&g->c, &g->facts)) {
        snprintf(c.math, sizeof c.math, "%s", g->c.math);
        snprintf(c.autocast, sizeof c.autocast, "%s", g->c.autocast);
        status = plb_reference_round(&r->b->reference, &load, r->b->cache, budget_s, &g->reference);
    }
    // A reference that broke is these cases' outcome; others need not fall with it.
    const plb_failure *broke = &r->b->reference.failure;
    if (status == PLB_EBROKEN && broke->outcome != PLB_OUTCOME_OK)
        return plb_failure_set(&m->client.failure, broke->outcome, "the reference: %s",
                               broke->reason);
    PLB_TRY(status);
    g->has_reference = true;
    m->c->spent_ns -= plb_now_ns() - began; // it is the group's
    return PLB_OK;
}

// Of a training step that is too dear in f64: the largest batch that is not.
static plb_status choose_proof_batch(const plb_runner *r) {
    plb_group *g = r->g;
    int64_t batch = g->facts.batch;
    g->proof_facts = g->facts;
    while (g->facts.training && batch > 2 &&
           !plb_reference_affords(&g->proof_facts, r->b->options.proof_budget_s)) {
        batch = (batch + 1) / 2;
        g->proof_facts.flops = g->facts.flops * (double)batch / (double)g->facts.batch;
    }
    if (batch == g->facts.batch) return PLB_OK;
    PLB_TRY(plb_bench_start_reference(r->b));
    const plb_facts_request request = {.model = g->facts.file[0] ? g->facts.file : g->c.model,
                                       .task = g->c.task,
                                       .batch = batch,
                                       .size = g->c.size};
    PLB_TRY(plb_facts_ask(&r->b->reference, &request, &g->proof_facts));
    g->small_proof = true;
    return plb_batches_new(&g->proof_facts, &g->proof_batches);
}

static plb_status load_again(plb_member *m, const plb_load *load) {
    plb_loaded ignored;
    return plb_load_send(&m->client, load, &ignored);
}

// Says where it begins to differ. The outcome stands already: what goes wrong here changes nothing.
static plb_status trace(const plb_runner *r, plb_member *m, const plb_load *load) {
    const plb_case c = reference_case(r->g);
    const plb_failure before = m->client.failure;
    plb_load own = *load;
    plb_loaded ignored;
    own.c = &c;
    if (!plb_reference_affords(load->facts, r->b->options.proof_budget_s)) return PLB_OK;
    plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "trace");
    plb_status status = plb_bench_start_reference(r->b);
    if (!status) status = plb_load_send(&r->b->reference, &own, &ignored);
    if (!status) status = plb_trace_run(&m->client, &r->b->reference, load, &m->c->proof);
    m->client.failure = before;
    return status == PLB_EBROKEN ? PLB_OK : status;
}

// Any way it ends, the worker is loaded as `m->load` says afterwards.
static plb_status prove(const plb_runner *r, plb_member *m) {
    const plb_load proof_load = plb_member_load(r, m, true);
    plb_proof *proof = &m->c->proof;
    bool again =
        proof_load.batches != m->load.batches || (r->g->facts.training && r->g->facts.dropout);
    PLB_TRY(plb_member_need_reference(r, m));
    plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "proof");
    if (r->g->facts.training && r->g->facts.dropout) {
        PLB_TRY(plb_proof_randomness(&m->client, &m->load, proof));
    }
    if (again) PLB_TRY(load_again(m, &proof_load));
    PLB_TRY(plb_proof_run(&m->client, &proof_load, &r->g->reference, proof));
    if (proof->reason[0]) proof->equal = false;
    if (r->g->small_proof) proof->rows = r->g->proof_facts.batch;
    if (!proof->equal) {
        PLB_TRY(trace(r, m, &proof_load));
        return not_equal(m);
    }
    return again ? load_again(m, &m->load) : PLB_OK;
}

// ---------------------------------------------------------------------------- blocks
// What disturbs now, noted with the case for its table.
static uint32_t marks_of(const plb_runner *r, plb_member *m, const plb_block *block, bool timed) {
    uint32_t marks = plb_disturbance_look(&r->b->disturbance);
    plb_bench_case *c = m->c;
    if (timed) {
        c->blocks++;
        c->busy_blocks += (marks & PLB_MARK_BUSY) != 0;
        c->throttled_blocks += (marks & PLB_MARK_THROTTLED) != 0;
        c->slow_blocks += (marks & PLB_MARK_SLOW) != 0;
        c->others_cpus = fmax(c->others_cpus, r->b->disturbance.others_cpus);
        c->slowdown = fmax(c->slowdown, r->b->disturbance.slowdown);
    }
    return marks | (block->recompiled > 0 ? PLB_MARK_RECOMPILED : 0);
}

static plb_status store_block(const plb_runner *r, plb_member *m, const plb_block *block,
                              plb_series_phase phase, int64_t sweep) {
    const uint32_t marks = marks_of(r, m, block, phase == PLB_PHASE_TIMED);
    const plb_store_block row = {.kind =
                                     phase == PLB_PHASE_WARMUP ? PLB_BLOCK_WARMUP : PLB_BLOCK_TIMED,
                                 .sweep = phase == PLB_PHASE_WARMUP ? -1 : sweep,
                                 .began_ns = m->client.asked_ns,
                                 .iterations_per_sample = block->iterations_per_sample,
                                 .marks = marks,
                                 .samples_ns = block->samples_ns,
                                 .count = (size_t)block->count};
    return plb_store_add_block(r->b->store, m->start_id, &row);
}

// One block of the series' choosing, of which one iteration is checked.
static plb_status take_block(const plb_runner *r, plb_member *m, int64_t sweep) {
    const plb_load *load = &m->load;
    int64_t n = plb_series_next(m->series);
    bool training = load->facts->training;
    int64_t choices = training && n > PLB_REFERENCE_STEPS ? PLB_REFERENCE_STEPS : n;
    plb_block_request request = {.n = n,
                                 .region = load->c->region,
                                 .n_slots = 2,
                                 .check = (int64_t)(draw(r->b) % (uint64_t)choices),
                                 .restart = training,
                                 .limit_s = block_limit_s(r, m, (double)n)};
    plb_block block;
    plb_series_phase phase = plb_series_phase_of(m->series);
    if (strcmp(load->c->region, "queued") == 0) request.check = n - 1;
    PLB_TRY(plb_block_take(&m->client, &request, &block));
    PLB_TRY(store_block(r, m, &block, phase, sweep));
    PLB_TRY(plb_series_append(m->series, block.samples_ns, (size_t)block.count,
                              block.iterations_per_sample));
    plb_proof_check_block(load, &r->g->reference, &block, 0, request.check, !r->g->small_proof,
                          &m->c->proof);
    return m->c->proof.reason[0] ? not_equal(m) : PLB_OK;
}

static plb_status warm_up(const plb_runner *r, plb_member *m) {
    const plb_bench_options *o = &r->b->options;
    const plb_series_options options = {.precision = o->precision,
                                        .time_ns = (int64_t)(o->time_s / o->starts * 1e9),
                                        .queued = strcmp(m->c->c.region, "queued") == 0};
    plb_series_summary summary;
    char title[256];
    m->series = plb_series_new(&options);
    if (!m->series) return plb_fail(PLB_ENOMEM, "out of memory for samples");
    plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "warm-up");
    while (plb_series_phase_of(m->series) == PLB_PHASE_WARMUP) PLB_TRY(take_block(r, m, -1));
    plb_series_summarize(m->series, &summary);
    m->end.warmup_iterations = summary.warmup_iterations;
    m->c->warmup_iterations = summary.warmup_iterations;
    m->c->steady = m->end.steady = summary.steady;
    if (options.queued) return PLB_OK;
    plb_case_title(&m->c->c, title, sizeof title);
    if (plb_clock_check(&r->b->clock, m->c->iteration_ns, o->precision, title) == PLB_OK) {
        return PLB_OK;
    }
    snprintf(m->client.failure.kind, sizeof m->client.failure.kind, "clock");
    return plb_failure_set(&m->client.failure, PLB_OUTCOME_REFUSED, "%s", plb_error_text());
}

static plb_status bring_up(const plb_runner *r, plb_member *m, int64_t group) {
    plb_bench *b = r->b;
    PLB_TRY(plb_member_open_start(r, m, group));
    PLB_TRY(plb_member_start_worker(r, m));
    PLB_TRY(plb_member_first_call(r, m));
    PLB_TRY(plb_member_second_look(r, m));
    if (r->start == 0) {
        PLB_TRY(plb_member_ask_memory(r, m));
        PLB_TRY(prove(r, m));
        if (b->options.verify) return PLB_OK;
        if (!b->options.no_audit) {
            plb_bench_tell(b, PLB_BENCH_PROGRESS, m->c, "audit");
            PLB_TRY(plb_audit_run(&m->client, &m->load, &r->g->reference, !r->g->small_proof,
                                  m->c->iteration_ns, &m->c->proof, &m->c->audit));
            m->c->audited = true;
            if (m->c->proof.reason[0]) return not_equal(m);
        }
    }
    PLB_TRY(warm_up(r, m));
    plb_process_pause(&m->client.process, true);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- timing
static bool is_alive(const plb_member *m) {
    return !m->c->ended && m->series;
}

static plb_status turn(const plb_runner *r, plb_member *m, int64_t sweep) {
    if (!is_alive(m)) return PLB_OK;
    int64_t began = plb_now_ns();
    plb_process_pause(&m->client.process, false);
    plb_status status = take_block(r, m, sweep);
    if (!status) plb_process_pause(&m->client.process, true);
    plb_member_charge(r, m, began);
    return settle(r, m, status);
}

static bool all_stopped(plb_member *members, int n) {
    bool stopped = true;
    for (int i = 0; i < n; i++) {
        if (!is_alive(&members[i])) continue;
        members[i].stop = plb_series_stop_of(members[i].series);
        stopped &= members[i].stop != PLB_STOP_NOT_YET;
    }
    return stopped;
}

static plb_status take_sweeps(const plb_runner *r, plb_member *members, int n) {
    for (int64_t sweep = 0; !all_stopped(members, n); sweep++) {
        for (int i = 0; i < n; i++) {
            if (is_alive(&members[i])) {
                plb_bench_tell(r->b, PLB_BENCH_PROGRESS, members[i].c, "samples");
            }
            PLB_TRY(turn(r, &members[i], sweep));
        }
        for (int i = n - 1; i >= 0; i--) PLB_TRY(turn(r, &members[i], sweep));
    }
    return PLB_OK;
}

// Samples that are shorter than the machine can be for the least work are no times of that work.
static plb_status check_limits(const plb_runner *r, plb_member *m) {
    enum { TRIES = 3 };
    const double slack = 0.8; // clocks go up and down
    const plb_facts *facts = &r->g->facts;
    plb_limits *limits = &r->b->limits;
    int threads = (int)m->c->c.threads;
    plb_series_summary summary;
    plb_series_summarize(m->series, &summary);
    if (!plb_limits_apply(&m->c->c, facts) || !(summary.median_ns > 0)) return PLB_OK;
    if (limits->threads != threads) *limits = (plb_limits){0};
    for (int i = 0; i < TRIES; i++) { // a neighbour can only lower what is measured
        if (i || !limits->threads) {
            plb_status status = plb_bench_start_reference(r->b);
            if (!status) status = plb_limits_measure(&r->b->reference, threads, limits);
            if (status) return status == PLB_EBROKEN ? PLB_OK : status; // then nothing is known
        }
        m->c->least_ns = plb_limits_least_ns(limits, facts);
        if (summary.median_ns >= slack * m->c->least_ns) return PLB_OK;
    }
    return plb_failure_set(&m->client.failure, PLB_OUTCOME_INVALID,
                           "an iteration cannot take less than %.4g ms here (%.3g GFLOP at least, "
                           "%.4g GFLOP/s and %.3g GB/s at most), but its samples say %.4g ms, "
                           "%.3g times less",
                           m->c->least_ns / 1e6, facts->least_flops / 1e9,
                           limits->flops_per_s / 1e9, limits->cache_bytes_per_s / 1e9,
                           summary.median_ns / 1e6, m->c->least_ns / summary.median_ns);
}

// What is asked once all samples are there.
static plb_status close_member(const plb_runner *r, plb_member *m) {
    json_t *ran = NULL;
    plb_process_pause(&m->client.process, false);
    if (!r->b->options.verify) PLB_TRY(check_limits(r, m));
    // Before it is asked what ran: a worker may run something more to tell that.
    if (r->start > 0) PLB_TRY(plb_member_ask_memory(r, m));
    if (r->g->facts.training && !r->b->options.verify) {
        PLB_TRY(plb_proof_moved(&m->client, &m->load, &r->g->reference, &m->c->proof));
        if (m->c->proof.reason[0]) {
            m->c->proof.equal = false;
            return not_equal(m);
        }
    }
    plb_status status = plb_audit_ran(&m->client, &m->c->c, &ran);
    free(m->c->ran);
    m->c->ran = ran ? json_dumps(ran, JSON_COMPACT) : NULL;
    json_decref(ran);
    PLB_TRY(status);
    snprintf(m->c->stop, sizeof m->c->stop, "%s", plb_stop_name(m->stop));
    m->c->starts = r->start + 1;
    PLB_TRY(end_start(r, m));
    clear(m);
    return PLB_OK;
}

static plb_status run_members(const plb_runner *r, plb_member *members, int n) {
    if (!r->b->options.verify) PLB_TRY(take_sweeps(r, members, n));
    for (int i = 0; i < n; i++) {
        if (members[i].c->ended || !members[i].client.stack) continue;
        int64_t began = plb_now_ns();
        plb_status status = close_member(r, &members[i]);
        plb_member_charge(r, &members[i], began);
        PLB_TRY(settle(r, &members[i], status));
    }
    return PLB_OK;
}

// As many workers live together as fit into two thirds of the memory.
static plb_status run_start(const plb_runner *r, plb_member *members, int n) {
    const int64_t budget = r->b->options.memory_limit_bytes / 3 * 2;
    PLB_TRY(plb_members_come_up(r, members, n));
    for (int first = 0, last; first < n; first = last) {
        int64_t used = 0, most = 0, group = -1;
        if (r->b->store) PLB_TRY(plb_store_new_group(r->b->store, r->b->run_id, &group));
        for (last = first; last < n && (last == first || used + most <= budget); last++) {
            plb_member *m = &members[last];
            if (m->c->ended) continue;
            int64_t began = plb_now_ns();
            plb_status status = bring_up(r, m, group);
            plb_member_charge(r, m, began);
            PLB_TRY(settle(r, m, status));
            int64_t rss = m->client.stack ? plb_usage_tree_rss(m->client.process.worker) : 0;
            used += rss;
            if (rss > most) most = rss;
        }
        PLB_TRY(run_members(r, members + first, last - first));
    }
    return PLB_OK;
}

plb_status plb_group_run(plb_bench *b, plb_group *g) {
    plb_member *members = plb_alloc_array((size_t)g->count, sizeof *members);
    plb_runner r = {.b = b, .g = g};
    plb_status status;
    if (!members) return plb_fail(PLB_ENOMEM, "out of memory for workers");
    for (int i = 0; i < g->count; i++) members[i].c = &b->cases[g->first + i];
    PLB_TRY_OUT(choose_proof_batch(&r));
    int starts = b->options.verify ? 1 : b->options.starts;
    for (r.start = 0; r.start < starts; r.start++) PLB_TRY_OUT(run_start(&r, members, g->count));
    plb_status probed = PLB_OK; // times are whole without a profile, too
    for (int i = 0; i < g->count; i++) {
        if (!probed && !members[i].c->ended) probed = plb_probed_run(b, g, members[i].c);
        PLB_TRY_OUT(plb_bench_end_case(b, members[i].c));
    }
    PLB_TRY_OUT(probed);
out:
    for (int i = 0; i < g->count; i++) clear(&members[i]);
    plb_free(members);
    return status;
}
