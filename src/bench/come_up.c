// SPDX-License-Identifier: Apache-2.0
// How a member of a group comes up: its process starts, says what it can do, is loaded, and makes
// its first calls.
#include <math.h>
#include <stdlib.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "bench/member.h"
#include "bench/usage.h"

static int64_t known(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : -1;
}

static int64_t device_peak(const json_t *answer) {
    const json_t *devices = json_object_get(answer, "devices");
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        int64_t peak = known(json_array_get(devices, i), "allocated_peak_bytes");
        if (peak < 0 || __builtin_add_overflow(sum, peak, &sum)) return -1;
    }
    return json_array_size(devices) ? sum : -1;
}

plb_status plb_member_ask_memory(const plb_runner *r, plb_member *m) {
    json_t *answer = NULL;
    PLB_TRY(plb_client_ask(&m->client, json_pack("{s:s}", "type", "memory"),
                           r->b->options.timeout_s, "memory", &answer));
    m->end.peak_rss_bytes = known(answer, "peak_rss_bytes");
    m->end.device_peak_bytes = device_peak(answer);
    if (r->start == 0) {
        m->c->peak_rss_bytes = m->end.peak_rss_bytes;
        m->c->device_peak_bytes = m->end.device_peak_bytes;
        m->c->planned_bytes = known(answer, "planned_bytes");
    }
    free(m->memory);
    m->memory = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    return PLB_OK;
}

static plb_status look_at(const plb_runner *r, plb_member *m, int64_t n, plb_block *out) {
    const plb_load *load = &m->load;
    const plb_block_request request = {.n = n,
                                       .check = -1,
                                       .region = load->c->region,
                                       .n_slots = 2,
                                       .restart = load->facts->training,
                                       .limit_s = r->b->options.timeout_s};
    return plb_block_take(&m->client, &request, out);
}

plb_status plb_member_first_call(const plb_runner *r, plb_member *m) {
    plb_block block;
    PLB_TRY(look_at(r, m, 1, &block));
    m->end.first_call_ns = block.samples_ns[0];
    if (block.compile_ns >= 0) m->end.compile_ns = block.compile_ns;
    if (r->start == 0) {
        m->c->first_call_ns = m->end.first_call_ns, m->c->compile_ns = m->end.compile_ns;
    }
    return PLB_OK;
}

plb_status plb_member_second_look(const plb_runner *r, plb_member *m) {
    const double long_ns = 200e6;
    plb_block block;
    if (r->start > 0) return PLB_OK;
    m->c->iteration_ns = HUGE_VAL;
    for (int64_t n = 1; n < 3 && (n == 1 || m->c->iteration_ns < long_ns); n++) {
        PLB_TRY(look_at(r, m, n, &block));
        for (int64_t i = 0; i < block.count; i++) {
            double ns = (double)block.samples_ns[i] / (double)block.iterations_per_sample;
            m->c->iteration_ns = fmin(m->c->iteration_ns, ns);
        }
    }
    return PLB_OK;
}

plb_status plb_member_open_start(const plb_runner *r, plb_member *m, int64_t group) {
    m->end = (plb_store_start_end){.warmup_iterations = -1,
                                   .load_ns = -1,
                                   .first_call_ns = -1,
                                   .compile_ns = -1,
                                   .peak_rss_bytes = -1,
                                   .device_peak_bytes = -1};
    m->stop = PLB_STOP_NOT_YET;
    if (!r->b->store) return PLB_OK;
    PLB_TRY(plb_store_begin_start(r->b->store, m->c->measurement, r->start, group, &m->start_id));
    m->open = true;
    return PLB_OK;
}

// Starts the worker, unless that was done ahead.
static plb_status launch(const plb_runner *r, plb_member *m) {
    const plb_client_options options = plb_bench_client_options(r->b, m->c);
    return m->client.stack ? PLB_OK : plb_client_launch(&m->client, m->c->stack, &options);
}

static json_t **known_hello(const plb_bench *b, const plb_member *m) {
    bool reference = m->c->stack == b->stacks.reference; // not in the list
    return &b->hello[reference ? (ptrdiff_t)b->stacks.count : m->c->stack - b->stacks.list];
}

// What a stack said once of what it can do holds for all its cases: no process is started for one
// that it refuses.
static plb_status check_known(const plb_runner *r, plb_member *m) {
    json_t *hello = *known_hello(r->b, m);
    if (!hello || m->client.stack) return PLB_OK;
    m->client = plb_client_absent(m->c->stack, hello);
    PLB_TRY(plb_load_check(&m->client, &m->load));
    plb_client_stop(&m->client);
    return PLB_OK;
}

static void note_hello(const plb_runner *r, plb_member *m, json_t *hello) {
    json_t **known = known_hello(r->b, m);
    if (!*known) *known = json_incref(hello);
    if (m->c->versions) return;
    m->c->versions = json_dumps(json_object_get(hello, "versions"), JSON_COMPACT);
}

static plb_status greet(const plb_runner *r, plb_member *m) {
    if (m->client.failure.outcome != PLB_OUTCOME_OK) return PLB_EBROKEN; // as it came up, ahead
    PLB_TRY(launch(r, m));
    if (!m->client.hello) PLB_TRY(plb_client_greet(&m->client));
    plb_process_pause(&m->client.process, false);
    note_hello(r, m, m->client.hello);
    return PLB_OK;
}

plb_status plb_member_start_worker(const plb_runner *r, plb_member *m) {
    plb_loaded loaded;
    plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "load");
    m->load = plb_member_load(r, m, false);
    if (*known_hello(r->b, m)) note_hello(r, m, *known_hello(r->b, m));
    PLB_TRY(check_known(r, m));
    PLB_TRY(greet(r, m));
    if (m->load.facts->training) { // the reference sets the rate of its optimizer
        PLB_TRY(plb_load_check(&m->client, &m->load));
        PLB_TRY(plb_member_need_reference(r, m));
        m->load = plb_member_load(r, m, false);
        plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "load");
    }
    PLB_TRY(plb_load_send(&m->client, &m->load, &loaded));
    m->end.load_ns = loaded.load_ns, m->end.compile_ns = loaded.compile_ns;
    if (r->start == 0) m->c->load_ns = loaded.load_ns;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- together
// Interpreters that import a framework need one processor each, for seconds: as many workers as
// there are processors come up side by side, and wait, stopped, until it is their turn to load.
// Nothing is timed meanwhile. What goes wrong is the member's own trouble, told at its turn.
static plb_status pass_own_failure(const plb_member *m, plb_status status) {
    bool own = status == PLB_EBROKEN && m->client.failure.outcome != PLB_OUTCOME_OK;
    return own ? PLB_OK : status;
}

static plb_status launch_ahead(const plb_runner *r, plb_member *m) {
    const json_t *hello = *known_hello(r->b, m);
    if (m->c->ended || m->client.stack) return PLB_OK;
    if (hello) { // would it refuse?
        m->load = plb_member_load(r, m, false);
        plb_status status = check_known(r, m);
        plb_client_stop(&m->client);
        m->client = (plb_client){0};
        if (status) return status == PLB_EBROKEN ? PLB_OK : status;
    }
    return pass_own_failure(m, launch(r, m));
}

static plb_status greet_ahead(const plb_runner *r, plb_member *m, int64_t *used) {
    int64_t began = plb_now_ns();
    if (!m->client.stack || m->client.failure.outcome != PLB_OUTCOME_OK) return PLB_OK;
    plb_bench_tell(r->b, PLB_BENCH_PROGRESS, m->c, "start");
    plb_status status = plb_client_greet(&m->client);
    plb_member_charge(r, m, began);
    if (status) return pass_own_failure(m, status);
    plb_process_pause(&m->client.process, true);
    *used += plb_usage_tree_rss(m->client.process.worker);
    return PLB_OK;
}

// No more than fit into a third of the memory: the others start when it is their turn.
plb_status plb_members_come_up(const plb_runner *r, plb_member *members, int n) {
    const int64_t budget = r->b->options.memory_limit_bytes / 3;
    int at_once = plb_machine_threads(), greeted = 0, i = 0;
    int64_t used = 0;
    for (; i < n && used < budget; i++) {
        PLB_TRY(launch_ahead(r, &members[i]));
        if (i + 1 >= at_once) PLB_TRY(greet_ahead(r, &members[greeted++], &used));
    }
    while (greeted < i) PLB_TRY(greet_ahead(r, &members[greeted++], &used));
    return PLB_OK;
}
