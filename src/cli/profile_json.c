// SPDX-License-Identifier: Apache-2.0
// A profile as JSON.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/arena.h"
#include "cli/profile_numbers.h"
#include "cli/profile_tallies.h"
#include "cli/stack_operators.h"
#include "probe/advice.h"
#include "probe/breakdown.h"
#include "probe/cost.h"
#include "probe/energy.h"
#include "probe/gaps.h"
#include "probe/shares.h"

static void json_totals(const plb_profile *p, const double *total, plb_json *json) {
    static const char *const names[PLB_COUNTED_TOTALS] = {"cores_flops", "tensor_flops",
                                                          "dram_bytes", "l2_bytes"};
    for (int t = 0; t < PLB_COUNTED_TOTALS; t++) {
        if (plb_profile_was_asked(p, t))
            plb_json_double(json, names[t], total[t]);
        else
            plb_json_null(json, names[t]);
    }
}

// null where none were asked for.
static void json_counted(const plb_profile *p, plb_json *json) {
    double total[PLB_COUNTED_TOTALS] = {0};
    int64_t launches = 0, passes = 0, uncounted = 0, unnamed = 0;
    const char *reason = NULL;
    if (!p->counteds) {
        plb_json_null(json, "counters");
        return;
    }
    for (int i = 0; i < p->counteds; i++) {
        const plb_counted *c = &p->counted[i];
        launches += c->launches, uncounted += c->uncounted, unnamed += c->unnamed;
        if (c->passes > passes) passes = c->passes;
        if (c->reason[0]) reason = c->reason;
        for (int t = 0; t < PLB_COUNTED_TOTALS; t++) total[t] += c->total[t];
    }
    plb_json_begin_object(json, "counters");
    plb_json_string(json, "replay", "kernel");
    plb_json_int(json, "passes", passes);
    plb_json_int(json, "launches", launches);
    plb_json_int(json, "uncounted", uncounted);
    plb_json_int(json, "unnamed", unnamed);
    plb_json_string(json, "reason", reason);
    json_totals(p, total, json);
    plb_json_begin_array(json, "kernels");
    for (int i = 0; i < p->counted_kernels; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", p->counted_kernel[i].name);
        plb_json_int(json, "launches", p->counted_kernel[i].launches);
        json_totals(p, p->counted_kernel[i].total, json);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_end(json);
}

static void json_steps(const plb_profile_report *r, plb_json *json) {
    plb_step_cost c;
    if (!plb_step_cost_of(r->profile, r->run, r->steps, &c)) {
        plb_json_null(json, "step");
        return;
    }
    plb_json_begin_object(json, "step");
    plb_json_int(json, "count", c.steps);
    plb_json_double(json, "ms", c.ms);
    if (c.known)
        plb_json_double(json, "joules", c.joules);
    else
        plb_json_null(json, "joules");
    plb_json_end(json);
}

static void json_sizes(const plb_spool_device *d, plb_json *json) {
    static const char *const names[PLB_COPY_COUNT] = {"in",   "out",  "inside",
                                                      "peer", "host", "unknown"};
    plb_json_begin_array(json, "copies");
    for (int kind = 0; kind < PLB_COPY_COUNT; kind++)
        for (int pinned = 0; pinned < 2; pinned++)
            for (int k = 0; k < PLB_SPOOL_SIZES; k++) {
                const plb_spool_size *s = &d->copies[kind][pinned][k];
                if (!s->calls) continue;
                plb_json_begin_object(json, NULL);
                plb_json_string(json, "kind", names[kind]);
                plb_json_bool(json, "pinned", pinned);
                plb_json_int(json, "from_bytes", INT64_C(1) << k);
                plb_json_int(json, "calls", s->calls);
                plb_json_int(json, "bytes", s->bytes);
                plb_json_double(json, "total_ms", plb_profile_ms(s->total_ns));
                plb_json_end(json);
            }
    plb_json_end(json);
}

// What copies of the device can reach, GB/s; null where it was not measured.
static void json_bandwidth(const plb_bandwidth *b, plb_json *json) {
    static const char *const names[2][2] = {{"in_pageable", "in_pinned"},
                                            {"out_pageable", "out_pinned"}};
    if (!b) {
        plb_json_null(json, "bandwidth");
        return;
    }
    plb_json_begin_object(json, "bandwidth");
    plb_json_string(json, "reason", b->reason[0] ? b->reason : NULL);
    for (int kind = PLB_COPY_IN; kind <= PLB_COPY_OUT; kind++)
        for (int pinned = 0; pinned < 2; pinned++)
            plb_json_double(json, names[kind][pinned], b->host[kind][pinned]);
    plb_json_double(json, "inside", b->inside);
    plb_json_end(json);
}

static void json_idle(const plb_breakdown *b, plb_json *json) {
    plb_json_begin_object(json, "idle_ms");
    for (int k = 0; k < PLB_BUSY_COUNT; k++)
        if (b->idle_by[k])
            plb_json_double(json, plb_busy_name((plb_busy)k), plb_profile_ms(b->idle_by[k]));
    plb_json_double(json, "unknown", plb_profile_ms(b->idle_unknown_ns));
    plb_json_end(json);
}

static void json_gaps(const plb_busy_sums *sums, plb_json *json) {
    plb_json_begin_array(json, "gaps");
    for (int k = 0; k < PLB_GAP_CLASSES; k++) {
        if (!sums->gap_count[k]) continue;
        plb_json_begin_object(json, NULL);
        plb_json_int(json, "from_ns", INT64_C(1) << k);
        plb_json_int(json, "count", sums->gap_count[k]);
        plb_json_double(json, "total_ms", plb_profile_ms(sums->gap_ns[k]));
        plb_json_end(json);
    }
    plb_json_end(json);
}

// What the whole run had of a kernel, where only a part of it was recorded; else null. Halves that
// are unknown are null.
static void json_whole(const plb_profile *p, const plb_estimated *e, plb_json *json) {
    if (!p->in_part) {
        plb_json_null(json, "estimate");
        return;
    }
    plb_json_begin_object(json, "estimate");
    plb_json_double(json, "calls", e->calls);
    plb_json_double(json, "calls_low", e->calls - e->calls_half);
    plb_json_double(json, "calls_high", e->calls + e->calls_half);
    plb_json_double(json, "total_ms", e->ns / 1e6);
    plb_json_double(json, "total_ms_low", (e->ns - e->ns_half) / 1e6);
    plb_json_double(json, "total_ms_high", (e->ns + e->ns_half) / 1e6);
    plb_json_end(json);
}

// null where no sample of the host is in the longest gaps.
static void json_gap_work(const plb_spool *s, int device, const plb_sampled *sampled,
                          plb_json *json) {
    plb_gap_work w;
    if (!plb_gap_work_of(s, device, sampled, &w)) {
        plb_json_null(json, "longest_gaps");
        return;
    }
    plb_json_begin_object(json, "longest_gaps");
    plb_json_int(json, "gaps", w.gaps);
    plb_json_double(json, "total_ms", plb_profile_ms(w.total_ns));
    plb_json_int(json, "samples", w.samples);
    plb_json_begin_array(json, "functions");
    for (int i = 0; i < w.functions; i++) {
        const plb_sampled_function *f = &sampled->function[w.function[i].function];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", f->name[0] ? f->name : NULL);
        plb_json_string(json, "module", f->module);
        plb_json_int(json, "samples", w.function[i].samples);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_end(json);
}

static void json_kernels(const plb_profile_report *r, int device, plb_json *json) {
    plb_json_begin_array(json, "kernels");
    for (int i = 0; i < r->profile->kernels; i++) {
        const plb_profile_kernel *k = &r->profile->kernel[i];
        if (k->device != device) continue;
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", k->name);
        plb_json_string(json, "class", k->class);
        plb_json_int(json, "calls", k->calls);
        plb_json_int(json, "graph_calls", k->graph_calls);
        plb_json_double(json, "total_ms", plb_profile_ms(k->total_ns));
        plb_json_double(json, "min_ms", plb_profile_ms(k->min_ns));
        plb_json_double(json, "max_ms", plb_profile_ms(k->max_ns));
        plb_json_begin_array(json, "grid");
        for (int n = 0; n < 3; n++) plb_json_int(json, NULL, k->grid[n]);
        plb_json_end(json);
        plb_json_begin_array(json, "block");
        for (int n = 0; n < 3; n++) plb_json_int(json, NULL, k->block[n]);
        plb_json_end(json);
        plb_json_int(json, "registers", k->registers);
        plb_json_int(json, "shared_bytes", k->shared_bytes);
        if (k->occupancy.blocks)
            plb_json_double(json, "occupancy", k->occupancy.share);
        else
            plb_json_null(json, "occupancy");
        json_whole(r->profile, &k->whole, json);
        plb_json_end(json);
    }
    plb_json_end(json);
}

// null but for a run that was recorded in blocks of which enough are there.
static void json_estimate(const plb_estimate *e, plb_json *json) {
    if (!e->known) {
        plb_json_null(json, "estimate");
        return;
    }
    plb_json_begin_object(json, "estimate");
    plb_json_string(json, "from", e->by_launches ? "launches" : "time");
    plb_json_int(json, "blocks", e->blocks);
    plb_json_double(json, "launches", e->kernels);
    plb_json_double(json, "launches_low", e->kernels - e->kernels_half);
    plb_json_double(json, "launches_high", e->kernels + e->kernels_half);
    plb_json_double(json, "recorded_launches", e->recorded);
    plb_json_double(json, "span_ms", plb_profile_ms(e->span_ns));
    plb_json_double(json, "recorded_ms", plb_profile_ms(e->recorded_ns));
    plb_json_double(json, "active", e->active);
    plb_json_double(json, "active_low", e->active_low);
    plb_json_double(json, "active_high", e->active_high);
    plb_json_double(json, "move", e->copying);
    plb_json_double(json, "idle", e->idle);
    plb_json_end(json);
}

static void json_device(const plb_profile_report *r, const plb_spool *s, int i, plb_json *json) {
    const plb_spool_device *d = &s->device[i];
    plb_breakdown b;
    plb_shares t;
    plb_breakdown_of(&d->sums, &b);
    plb_shares_of(s, i, &b, &t);
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "device", i);
    plb_json_string(json, "name", s->names + d->name);
    plb_json_int(json, "pid", s->pid);
    plb_json_string(json, "program", s->program);
    plb_json_double(json, "span_ms", plb_profile_ms(t.span_ns));
    plb_json_double(json, "active", t.active);
    plb_json_double(json, "move", t.copying);
    plb_json_double(json, "idle", t.idle);
    plb_json_double(json, "recorded", t.recorded);
    plb_json_bool(json, "estimated", t.in_part);
    json_estimate(&t.estimate, json);
    plb_json_begin_object(json, "overlap");
    plb_json_double(json, "kernels", plb_profile_share(b.kernels_overlap_ns, b.span_ns));
    plb_json_double(json, "kernel_copy", plb_profile_share(b.kernel_copy_ns, b.span_ns));
    plb_json_double(json, "copies", plb_profile_share(b.copies_overlap_ns, b.span_ns));
    plb_json_end(json);
    plb_json_begin_object(json, "part_of_active");
    plb_json_double(json, "memset", plb_profile_share(b.memset_ns, b.span_ns));
    plb_json_double(json, "copy_inside", plb_profile_share(b.copy_inside_ns, b.span_ns));
    plb_json_double(json, "communication", plb_profile_share(b.communication_ns, b.span_ns));
    plb_json_end(json);
    plb_json_int(json, "launches", d->kernels);
    plb_json_int(json, "memsets", d->memsets);
    plb_json_int(json, "graph_launches", d->graph_launches);
    json_idle(&b, json);
    json_gaps(&d->sums, json);
    json_gap_work(s, i, r->sampled, json);
    json_kernels(r, i, json); // of all processes on this device
    json_sizes(d, json);
    json_bandwidth(r->bandwidth ? &r->bandwidth[i] : NULL, json);
    plb_json_begin_object(json, "memory");
    plb_json_bool(json, "in_part", s->alternates == 2);
    plb_json_int(json, "peak_bytes", d->peak_bytes);
    plb_json_int(json, "left_bytes", d->allocated_bytes);
    plb_json_int(json, "allocations", d->allocations);
    plb_profile_json_takers(s, i, json);
    plb_profile_json_memory(&s->memory[i], json);
    plb_json_end(json);
    plb_json_end(json);
}

// `p`: of kernels, which may be estimated; NULL: of calls, which are not.
static void json_named(const plb_profile *p, const char *key, const plb_profile_named *row,
                       int count, plb_json *json) {
    plb_json_begin_array(json, key);
    for (int i = 0; i < count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", row[i].name);
        plb_json_int(json, "calls", row[i].calls);
        plb_json_double(json, "total_ms", plb_profile_ms(row[i].total_ns));
        plb_json_double(json, "min_ms", plb_profile_ms(row[i].min_ns));
        plb_json_double(json, "max_ms", plb_profile_ms(row[i].max_ns));
        if (p) json_whole(p, &row[i].whole, json);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_ranges(const plb_profile *p, plb_json *json) {
    int64_t outside_ns = 0;
    for (int i = 0; i < p->processes; i++) outside_ns += p->process[i]->outside_ranges_ns;
    plb_json_double(json, "outside_ranges_ms", plb_profile_ms(outside_ns));
    plb_json_begin_array(json, "ranges");
    for (int i = 0; i < p->ranges; i++) {
        const plb_profile_range *a = &p->range[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", a->name);
        plb_json_int(json, "depth", a->depth);
        plb_json_int(json, "calls", a->calls);
        plb_json_double(json, "total_ms", plb_profile_ms(a->total_ns));
        plb_json_double(json, "min_ms", plb_profile_ms(a->min_ns));
        plb_json_double(json, "max_ms", plb_profile_ms(a->max_ns));
        plb_json_double(json, "device_ms", plb_profile_ms(a->device_ns));
        plb_json_double(json, "self_device_ms", plb_profile_ms(a->self_device_ns));
        plb_json_int(json, "device_work", a->device_work);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_operators(const plb_profile_report *r, plb_json *json) {
    plb_arena *arena = plb_arena_new();
    plb_operator *o = NULL;
    int count = 0;
    if (!arena || plb_operators_of(r->profile, r->operators_by, arena, &o, &count)) count = 0;
    plb_json_begin_array(json, "operators");
    for (int i = 0; i < count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", o[i].name);
        plb_json_int(json, "calls", o[i].calls);
        plb_json_double(json, "self_cpu_ms", plb_profile_ms(o[i].self_cpu_ns));
        plb_json_double(json, "cpu_ms", plb_profile_ms(o[i].cpu_ns));
        plb_json_double(json, "self_device_ms", plb_profile_ms(o[i].self_device_ns));
        plb_json_double(json, "device_ms", plb_profile_ms(o[i].device_ns));
        plb_json_int(json, "launches", o[i].work);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_arena_free(arena);
}

// null where they were not looked for.
static void json_functions(const plb_sampled *s, plb_json *json) {
    if (!s) {
        plb_json_null(json, "sampled");
        return;
    }
    plb_json_begin_object(json, "sampled");
    plb_json_int(json, "samples", s->samples);
    plb_json_double(json, "period_ms", plb_profile_ms(s->period_ns));
    plb_json_int(json, "lost", s->lost);
    plb_json_int(json, "in_no_row", s->others);
    plb_json_int(json, "in_other_chains", s->in_other_chains);
    plb_json_bool(json, "kernel_too", s->kernel_too);
    plb_json_string(json, "reason", s->reason[0] ? s->reason : NULL);
    plb_json_begin_array(json, "functions");
    for (int i = 0; i < s->functions; i++) {
        const plb_sampled_function *f = &s->function[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", f->name[0] ? f->name : NULL);
        plb_json_string(json, "module", f->module);
        plb_json_int(json, "samples", f->samples);
        plb_json_double(json, "share", plb_profile_share(f->samples, s->samples));
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_end(json);
}

static void json_host(const plb_command_result *c, const plb_sampled *sampled, plb_json *json) {
    plb_json_begin_object(json, "cpu");
    plb_json_double(json, "user_seconds", plb_profile_seconds(c->use.ru_utime));
    plb_json_double(json, "system_seconds", plb_profile_seconds(c->use.ru_stime));
    plb_json_int(json, "peak_rss_bytes", 1024 * (int64_t)c->use.ru_maxrss);
    plb_json_int(json, "major_faults", c->use.ru_majflt);
    plb_json_int(json, "minor_faults", c->use.ru_minflt);
    plb_json_int(json, "voluntary_switches", c->use.ru_nvcsw);
    plb_json_int(json, "involuntary_switches", c->use.ru_nivcsw);
    plb_json_begin_object(json, "counters");
    for (int i = 0; i < PLB_COMMAND_COUNTERS; i++) {
        if (c->counter[i].known)
            plb_json_int(json, c->counter[i].name, c->counter[i].value);
        else
            plb_json_null(json, c->counter[i].name);
    }
    plb_json_end(json);
    plb_json_string(json, "counters_reason", c->counter_reason[0] ? c->counter_reason : NULL);
    plb_json_begin_array(json, "threads");
    for (int i = 0; i < c->threads; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", c->thread[i].name);
        plb_json_int(json, "tid", c->thread[i].tid);
        plb_json_double(json, "on_cpu_seconds", (double)c->thread[i].on_cpu_ns / 1e9);
        plb_json_double(json, "waiting_seconds", (double)c->thread[i].waiting_ns / 1e9);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_int(json, "threads_unseen", c->threads_unseen);
    json_functions(sampled, json);
    plb_json_begin_array(json, "energy");
    for (int i = 0; i < c->zones; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", c->zone[i].name);
        plb_json_bool(json, "part_of_the_one_before", c->zone[i].part == 1);
        plb_json_double(json, "joules", c->zone[i].joules);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_string(json, "energy_reason", c->zone_reason[0] ? c->zone_reason : NULL);
    plb_json_end(json);
}

static void json_cards(const plb_command_result *c, plb_json *json) {
    plb_json_begin_array(json, "cards");
    for (int i = 0; i < c->cards; i++) {
        const plb_command_card *k = &c->card[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", k->name);
        plb_json_double(json, "joules", k->joules);
        plb_json_double(json, "seconds", k->seconds);
        plb_json_double(json, "watts_max", k->watts_max);
        plb_json_double(json, "utilisation", k->utilisation);
        plb_json_int(json, "memory_max_bytes", k->memory_max_bytes);
        plb_json_int(json, "sm_mhz_min", k->sm_mhz_min);
        plb_json_int(json, "sm_mhz_max", k->sm_mhz_max);
        plb_json_int(json, "celsius_max", k->celsius_max);
        plb_json_int(json, "throttle_reasons", (int64_t)k->throttle);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_advice(const plb_profile *p, plb_json *json) {
    plb_advice advice[PLB_ADVICE_MAX];
    int count = plb_advice_of(p, advice);
    plb_json_begin_array(json, "advice");
    for (int i = 0; i < count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "text", advice[i].text);
        plb_json_double(json, "seconds", advice[i].seconds);
        plb_json_end(json);
    }
    plb_json_end(json);
}

// Of the process with the most blocks; null without --cost.
static void json_cost(const plb_profile *p, plb_json *json) {
    plb_cost best = {0}, cost;
    double on = 0; // of its time
    for (int i = 0; i < p->processes; i++)
        if (plb_cost_of(p->process[i], &cost) && cost.blocks > best.blocks)
            best = cost, on = plb_profile_recorded(p->process[i]);
    if (!best.blocks) {
        plb_json_null(json, "overhead");
        return;
    }
    plb_json_begin_object(json, "overhead");
    plb_json_double(json, "share", best.share);
    plb_json_double(json, "low", best.low);
    plb_json_double(json, "high", best.high);
    plb_json_int(json, "blocks", best.blocks);
    plb_json_double(json, "recorded", on);
    plb_json_double(json, "in_all", on * best.share);
    plb_json_double(json, "in_all_low", on * best.low);
    plb_json_double(json, "in_all_high", on * best.high);
    plb_json_end(json);
}

static void json_probe(const plb_profile *p, plb_json *json) {
    int64_t lost[PLB_LOST_COUNT] = {0}, all = 0;
    plb_json_begin_array(json, "probes");
    for (int i = 0; i < p->processes; i++) {
        const plb_spool *s = p->process[i];
        static const char *const states[] = {"starting", "cut off", "aside", "ended"};
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "program", s->program);
        plb_json_int(json, "pid", s->pid);
        plb_json_string(json, "state", states[s->state]);
        plb_json_string(json, "reason", s->reason[0] ? s->reason : NULL);
        plb_json_int(json, "cupti_version", s->cupti_version);
        plb_json_int(json, "records", s->records);
        plb_json_double(json, "recorded_ms", plb_profile_ms(s->recorded_ns));
        if (s->budget_ppm)
            plb_json_double(json, "budget", (double)s->budget_ppm / 1e6);
        else
            plb_json_null(json, "budget");
        plb_json_bool(json, "in_part", s->alternates);
        plb_json_bool(json, "calls_in_part", s->alternates == 2);
        plb_json_bool(json, "budget_kept", s->budget_ppm && !s->unbudgeted);
        plb_json_double(json, "unseen_end_ms", plb_profile_ms(plb_profile_unseen_ns(s)));
        plb_json_double(json, "program_threads_ms", plb_profile_ms(s->probe_app_ns));
        plb_json_double(json, "own_ms", plb_profile_ms(s->probe_ns));
        plb_json_double(json, "cupti_ms", plb_profile_ms(s->cupti_ns));
        plb_json_double(json, "clock_error_us", (double)s->clock_error_ns / 1e3);
        plb_json_end(json);
        for (int k = 0; k < PLB_LOST_COUNT; k++) lost[k] += s->lost[k], all += s->lost[k];
    }
    plb_json_end(json);
    plb_json_int(json, "probes_unread", p->processes_unread);
    plb_json_begin_object(json, "lost");
    plb_json_int(json, "records", all);
    plb_json_begin_object(json, "reasons");
    for (int k = 0; k < PLB_LOST_COUNT; k++)
        if (lost[k]) plb_json_int(json, plb_profile_lost_name(k), lost[k]);
    plb_json_end(json);
    plb_json_end(json);
}

void plb_profile_json(const plb_profile_report *r, plb_json *json) {
    const plb_profile *p = r->profile;
    char why[320];
    plb_json_begin_array(json, "command");
    for (char *const *word = r->command; word && *word; word++) plb_json_string(json, NULL, *word);
    plb_json_end(json);
    if (r->run) plb_json_int(json, "exit_code", r->run->exit_code);
    if (r->run) plb_json_double(json, "span_ms", plb_profile_ms(r->run->wall_ns));
    plb_json_begin_array(json, "devices");
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records) json_device(r, p->process[i], d, json);
    plb_json_end(json);
    json_named(p, "classes", p->class, p->classes, json);
    json_named(NULL, "api", p->call, p->calls, json);
    json_ranges(p, json);
    json_operators(r, json);
    plb_profile_json_tallies(r->profile, json);
    if (r->operators) plb_stack_operators_json(r->operators, r->operator_iterations, 0, json);
    json_counted(p, json);
    json_steps(r, json);
    json_cost(p, json);
    json_advice(p, json);
    if (r->run) json_host(r->run, r->sampled, json);
    if (r->run) json_cards(r->run, json);
    json_probe(p, json);
    bool incomplete = plb_profile_incomplete(r, why, sizeof why);
    plb_json_bool(json, "complete", !incomplete);
    plb_json_string(json, "incomplete_reason", incomplete ? why : NULL);
    plb_json_string(json, "empty_reason", plb_profile_empty(r, why, sizeof why) ? why : NULL);
}
