// SPDX-License-Identifier: Apache-2.0
#include "bench/probed.h"

#include <math.h>
#include <stdlib.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "bench/matrix.h"
#include "bench/usage.h"

enum { WARM_UPS = 3, MOST_ITERATIONS = 500, OPERATOR_ITERATIONS = 4 };

typedef struct probed {
    plb_bench *b;
    plb_bench_case *c;
    plb_client client;
    plb_load load;
} probed;

static plb_status take_iterations(probed *p, int64_t n, plb_block *out) {
    const plb_block_request request = {.n = n,
                                       .check = -1,
                                       .region = p->load.c->region,
                                       .n_slots = 2,
                                       .restart = p->load.facts->training,
                                       .limit_s = p->b->options.timeout_s};
    return plb_block_take(&p->client, &request, out);
}

static plb_status bring_up(probed *p, const char *const *environment) {
    plb_client_options options = plb_bench_client_options(p->b, p->c);
    options.environment = environment;
    plb_loaded loaded;
    PLB_TRY(plb_client_start(&p->client, p->c->stack, &options));
    return plb_load_send(&p->client, &p->load, &loaded);
}

// About a second of iterations, at least three.
static int64_t window_iterations(const plb_block *last) {
    const double iteration_ns =
        last->count ? (double)last->samples_ns[last->count - 1] /
                          (double)(last->iterations_per_sample ? last->iterations_per_sample : 1)
                    : 1e9;
    return (int64_t)fmax(3, fmin(MOST_ITERATIONS, 1e9 / fmax(iteration_ns, 1)));
}

static plb_status look(probed *p, plb_probed_window *out) {
    const plb_bench_probe *probe = p->b->options.probe;
    plb_block block = {0};
    for (int64_t n = 1; n <= WARM_UPS; n++) PLB_TRY(take_iterations(p, n, &block));
    out->iterations = window_iterations(&block);
    PLB_TRY(probe->record(probe->context, true));
    const int64_t began_ns = plb_now_ns();
    const int64_t cpu_ns = plb_usage_cpu_ns(p->client.process.worker);
    plb_status status = take_iterations(p, out->iterations, &block);
    out->wall_ns = plb_now_ns() - began_ns;
    const int64_t cpu_end_ns = plb_usage_cpu_ns(p->client.process.worker);
    out->cpu_ns = cpu_ns < 0 || cpu_end_ns < 0 ? -1 : cpu_end_ns - cpu_ns;
    plb_status stopped = probe->record(probe->context, false);
    return status ? status : stopped;
}

// After the probe's window: recording operators costs time, and is the stack's own doing.
static plb_status take_operators(probed *p, json_t **answer, plb_probed_window *out) {
    const json_t *can =
        json_object_get(json_object_get(p->client.hello, "capabilities"), "operators");
    if (!json_is_true(can)) return PLB_OK;
    json_t *request = json_pack("{s:s,s:i,s:s,s:[i,i],s:i,s:b,s:b}", "type", "sample", "n",
                                OPERATOR_ITERATIONS, "region", p->load.c->region, "batches", 0, 1,
                                "check", -1, "restart", p->load.facts->training, "profile", 1);
    PLB_TRY(plb_client_ask(&p->client, request, p->b->options.timeout_s, "samples", answer));
    out->operators = json_object_get(*answer, "operators");
    out->operator_iterations = OPERATOR_ITERATIONS;
    return PLB_OK;
}

static plb_status note_failure(probed *p) {
    json_t *object = json_pack("{s:s}", "failure", p->client.failure.reason);
    p->c->profile = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return p->c->profile ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a profile");
}

plb_status plb_probed_run(plb_bench *b, plb_group *g, plb_bench_case *c) {
    const plb_bench_probe *probe = b->options.probe;
    const char *const *environment = NULL;
    plb_probed_window window = {.device = c->c.device};
    probed p = {.b = b, .c = c};
    json_t *answer = NULL; // that has the operators
    if (!probe || c->failure.outcome != PLB_OUTCOME_OK || c->profile) return PLB_OK;
    p.load = (plb_load){.c = &c->c,
                        .facts = &g->facts,
                        .batches = &g->batches,
                        .weights = g->weights,
                        .dropout = true,
                        .limit_s = b->options.timeout_s};
    plb_bench_tell(b, PLB_BENCH_PROGRESS, c, "profile");
    PLB_TRY(probe->begin(probe->context, &environment));
    plb_status status = bring_up(&p, environment);
    if (!status) status = look(&p, &window);
    if (!status) status = take_operators(&p, &answer, &window);
    const bool broke = status == PLB_EBROKEN && p.client.failure.outcome != PLB_OUTCOME_OK;
    if (broke) status = note_failure(&p);
    plb_client_stop(&p.client);
    if (status || broke)
        probe->drop(probe->context);
    else
        status = probe->take(probe->context, &window, &c->profile);
    json_decref(answer);
    return status;
}
