// SPDX-License-Identifier: Apache-2.0
// A profile as text for a terminal.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/arena.h"
#include "cli/cli.h"
#include "cli/profile_numbers.h"
#include "cli/profile_tallies.h"
#include "cli/stack_operators.h"
#include "cli/units.h"
#include "probe/advice.h"
#include "probe/breakdown.h"
#include "probe/cost.h"
#include "probe/energy.h"
#include "probe/gaps.h"
#include "probe/shares.h"

// Of a run of which only stretches were recorded.
static void print_part(const plb_spool *s, const plb_shares *t) {
    const plb_estimate *e = &t->estimate;
    plb_print("  ESTIMATED from %.1f %% of that time, which was recorded in %" PRId64 " blocks",
              100 * t->recorded, s->blocks);
    if (s->budget_ppm)
        plb_print(" so that recording costs the program about %.3g %% (--budget; --record all "
                  "records everything)",
                  (double)s->budget_ppm / 1e4);
    plb_print("; %s\n", e->known ? "ranges and what follows +- hold the truth with 95 %"
                                 : "the blocks are too few to say how far off it may be");
    const int64_t unseen_ns = plb_profile_unseen_ns(s);
    if (unseen_ns > 100000000)
        plb_print("  (nothing is known of the %.1f s after the last block)\n",
                  (double)unseen_ns / 1e9);
}

static void print_shares(const plb_spool *s, const plb_breakdown *b, const plb_shares *t) {
    char range[48] = "";
    if (!b->span_ns) {
        plb_print("  what it did when is unknown: the program ended before that was added up\n");
        return;
    }
    if (t->in_part) print_part(s, t);
    if (t->estimate.known)
        snprintf(range, sizeof range, " (%.1f to %.1f %%)", 100 * t->estimate.active_low,
                 100 * t->estimate.active_high);
    plb_print("  active %.1f %%%s   copying to or from the host %.1f %%   idle %.1f %%\n",
              100 * t->active, range, 100 * t->copying, 100 * t->idle);
    plb_print("  (active: something ran, on however small a part of the device; of it, alone: "
              "memsets %.1f %%, copies inside %.1f %%, communication %.1f %%)\n",
              100 * plb_profile_share(b->memset_ns, b->span_ns),
              100 * plb_profile_share(b->copy_inside_ns, b->span_ns),
              100 * plb_profile_share(b->communication_ns, b->span_ns));
    plb_print("  at once: kernels %.1f %%, kernel and copy %.1f %%, copies %.1f %%\n",
              100 * plb_profile_share(b->kernels_overlap_ns, b->span_ns),
              100 * plb_profile_share(b->kernel_copy_ns, b->span_ns),
              100 * plb_profile_share(b->copies_overlap_ns, b->span_ns));
}

static void print_kernel_count(const plb_spool_device *d, const plb_shares *t) {
    const plb_estimate *e = &t->estimate;
    if (!e->known)
        plb_print("  %" PRId64 " kernels%s", d->kernels, t->in_part ? " recorded" : "");
    else if (e->by_launches)
        plb_print("  %.0f kernels, as the driver counts them, %.0f of them recorded", e->kernels,
                  e->recorded);
    else
        plb_print("  about %.0f kernels (+- %.0f), %.0f of them recorded", e->kernels,
                  e->kernels_half, e->recorded);
}

// In which functions the host was busy while the device idled the longest.
static void print_gap_work(const plb_spool *s, int device, const plb_sampled *sampled) {
    plb_gap_work w;
    char name[80];
    if (!plb_gap_work_of(s, device, sampled, &w)) return;
    plb_print("  in its longest gaps (%" PRId64
              "), %.1f ms, the program was on processors %.1f ms, in",
              w.gaps, plb_profile_ms(w.total_ns), plb_profile_ms(w.samples * sampled->period_ns));
    for (int i = 0; i < w.functions; i++) {
        const plb_sampled_function *f = &sampled->function[w.function[i].function];
        plb_kernel_shorten(f->name[0] ? f->name : "(no symbol)", 60, name, sizeof name);
        plb_print("\n    %5.1f %%  %s, %s",
                  100 * plb_profile_share(w.function[i].samples, w.samples), name, f->module);
    }
    plb_print("%s\n", w.functions ? "" : " functions without a row");
}

static void print_device(const plb_spool *s, int i, const plb_sampled *sampled) {
    const plb_spool_device *d = &s->device[i];
    plb_breakdown b;
    plb_shares t;
    plb_breakdown_of(&d->sums, &b);
    plb_shares_of(s, i, &b, &t);
    plb_print("\nDevice %d%s%s in %s (%d): %.1f ms from its first work to its last\n", i,
              d->name ? ", " : "", s->names + d->name, s->program, s->pid,
              plb_profile_ms(t.span_ns));
    print_shares(s, &b, &t);
    print_kernel_count(d, &t);
    plb_print(", %" PRId64 " memsets", d->memsets);
    if (d->graph_launches) plb_print(", %" PRId64 " graphs, seen as wholes", d->graph_launches);
    if (d->allocations && s->alternates == 2)
        plb_print(", device memory taken %" PRId64 " times meanwhile", d->allocations);
    else if (d->allocations)
        plb_print(", device memory taken %" PRId64 " times, at most %s", d->allocations,
                  plb_show_bytes((double)d->peak_bytes).text);
    plb_print("\n");
    if (s->alternates != 2) plb_profile_print_memory(&s->memory[i]);
    plb_profile_print_takers(s, i);
    if (!b.idle_ns) return;
    plb_print("  idle%s while the host was", t.in_part ? ", of what was recorded," : "");
    for (int k = 0; k < PLB_BUSY_COUNT; k++)
        if (b.idle_by[k])
            plb_print(" %s %.1f ms,", plb_busy_name((plb_busy)k), plb_profile_ms(b.idle_by[k]));
    plb_print(" in its own code %.1f ms\n", plb_profile_ms(b.idle_unknown_ns));
    print_gap_work(s, i, sampled);
}

// "+- 2 %": half of an interval, of its middle; "?" where it is unknown.
static const char *print_half(double half, double of, char text[16]) {
    if (isnan(half))
        snprintf(text, 16, "?");
    else
        snprintf(text, 16, "%.1f", of > 0 ? 100 * half / of : 0);
    return text;
}

static void print_kernel_row(const plb_profile *p, const plb_profile_kernel *k, double sum_ns) {
    char name[80], filled[8] = "-", half[16];
    plb_kernel_shorten(k->name, 64, name, sizeof name);
    if (k->occupancy.blocks) snprintf(filled, sizeof filled, "%.0f", 100 * k->occupancy.share);
    plb_print("%9.0f%10.3f", k->whole.calls, k->whole.ns / 1e6);
    if (p->in_part) plb_print("%6s", print_half(k->whole.ns_half, k->whole.ns, half));
    plb_print("%7.1f%9.2f%9.2f%9.2f%6d%14d%6s  %-18s%s (%dx%dx%d x %dx%dx%d)\n",
              sum_ns > 0 ? 100 * k->whole.ns / sum_ns : 0,
              (double)k->total_ns / (double)k->calls / 1e3, (double)k->min_ns / 1e3,
              (double)k->max_ns / 1e3, k->registers, k->shared_bytes, filled, k->class, name,
              k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2]);
}

// Of a run that was recorded in part: the kernels of the whole, with half of the interval in which
// their time is, in percent of it.
static void print_kernels(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    double sum_ns = 0;
    for (int i = 0; i < p->kernels; i++) sum_ns += p->kernel[i].whole.ns;
    if (!p->kernels) return;
    plb_print("\n%9s%10s", "calls", "total ms");
    if (p->in_part) plb_print("%6s", "+- %");
    plb_print("%7s%9s%9s%9s%6s%14s%6s  %-18s%s\n", "%", "avg us", "min us", "max us", "regs",
              "shared bytes", "occ %", "class",
              p->in_part ? "kernel (grid x block of its largest part); calls, total: estimated"
                         : "kernel (grid x block of its largest part)");
    for (int i = 0; i < plb_profile_rows(r, p->kernels); i++)
        print_kernel_row(p, &p->kernel[i], sum_ns);
    if (plb_profile_rows(r, p->kernels) < p->kernels)
        plb_print("%9s %d more kernels: --top 0 shows all\n", "",
                  p->kernels - plb_profile_rows(r, p->kernels));
}

static void print_named(const plb_profile_report *r, const plb_profile_named *row, int count,
                        const char *title) {
    double sum_ns = 0;
    for (int i = 0; i < count; i++) sum_ns += row[i].whole.ns;
    if (!count) return;
    plb_print("\n%9s%10s%7s%9s%9s  %s\n", "calls", "total ms", "%", "avg us", "max us", title);
    for (int i = 0; i < plb_profile_rows(r, count); i++)
        plb_print("%9.0f%10.3f%7.1f%9.2f%9.2f  %s\n", row[i].whole.calls, row[i].whole.ns / 1e6,
                  sum_ns > 0 ? 100 * row[i].whole.ns / sum_ns : 0,
                  row[i].calls ? (double)row[i].total_ns / (double)row[i].calls / 1e3 : 0,
                  (double)row[i].max_ns / 1e3, row[i].name);
}

static void print_ranges(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    int64_t outside_ns = 0;
    for (int i = 0; i < p->processes; i++) outside_ns += p->process[i]->outside_ranges_ns;
    if (!p->ranges) return;
    plb_print("\n%9s%12s%12s%12s%10s  %s\n", "calls", "host ms", "device ms", "self dev ms", "work",
              "ranges that the program marked, and what they launched");
    for (int i = 0; i < plb_profile_rows(r, p->ranges); i++) {
        const plb_profile_range *a = &p->range[i];
        plb_print("%9" PRId64 "%12.3f%12.3f%12.3f%10" PRId64 "  %*s%s\n", a->calls,
                  plb_profile_ms(a->total_ns), plb_profile_ms(a->device_ns),
                  plb_profile_ms(a->self_device_ns), a->device_work, 2 * a->depth, "", a->name);
    }
    if (plb_profile_rows(r, p->ranges) < p->ranges)
        plb_print("%9s %d more ranges: --top 0 shows all\n", "",
                  p->ranges - plb_profile_rows(r, p->ranges));
    if (outside_ns)
        plb_print("%9s%12s%12.3f%12s%10s  (launched in no range)\n", "", "",
                  plb_profile_ms(outside_ns), "", "");
}

static double us_each(int64_t ns, int64_t calls) {
    return calls ? (double)ns / 1e3 / (double)calls : 0;
}

static void print_operators(const plb_profile_report *r) {
    plb_arena *arena = plb_arena_new();
    plb_operator *o = NULL;
    int count = 0;
    int64_t cpu_ns = 0, device_ns = 0;
    if (!arena || plb_operators_of(r->profile, r->operators_by, arena, &o, &count)) count = 0;
    for (int i = 0; i < count; i++) cpu_ns += o[i].self_cpu_ns, device_ns += o[i].self_device_ns;
    if (count)
        plb_print("\n%7s%12s%12s%10s%7s%12s%12s%10s%9s%9s  %s\n", "self %", "self CPU ms", "CPU ms",
                  "avg us", "dev %", "self dev ms", "device ms", "avg us", "calls", "launches",
                  "ranges, by name");
    for (int i = 0; i < plb_profile_rows(r, count); i++)
        plb_print("%7.1f%12.3f%12.3f%10.2f%7.1f%12.3f%12.3f%10.2f%9" PRId64 "%9" PRId64 "  %s\n",
                  100 * plb_profile_share(o[i].self_cpu_ns, cpu_ns),
                  plb_profile_ms(o[i].self_cpu_ns), plb_profile_ms(o[i].cpu_ns),
                  us_each(o[i].cpu_ns, o[i].calls),
                  100 * plb_profile_share(o[i].self_device_ns, device_ns),
                  plb_profile_ms(o[i].self_device_ns), plb_profile_ms(o[i].device_ns),
                  us_each(o[i].device_ns, o[i].calls), o[i].calls, o[i].work, o[i].name);
    if (plb_profile_rows(r, count) < count)
        plb_print("%7s %d more names: --top 0 shows all\n", "", count - plb_profile_rows(r, count));
    plb_arena_free(arena);
}

// Beside what copies of that kind can reach, where that was measured.
static void print_reach(const plb_profile_report *r, const plb_profile_copies *at, double speed) {
    const double most = plb_bandwidth_of(&r->bandwidth[at->device], at->direction, at->pinned);
    if (most > 0)
        plb_print("%9.2f%8.1f", most, 100 * speed / most);
    else
        plb_print("%9s%8s", "-", "-");
}

static void print_copies(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    plb_profile_copies at = {0};
    for (bool begun = false; plb_profile_next_copies(p, &at); begun = true) {
        const plb_spool_size *s = at.sums;
        const char *memory = plb_profile_host_memory(&at);
        const double speed = s->total_ns ? (double)s->bytes / (double)s->total_ns : 0;
        if (!begun)
            plb_print("\n%9s%10s%12s%9s%s  %s\n", "calls", "total ms", "bytes", "GB/s",
                      r->bandwidth ? "   can be    of %" : "",
                      p->calls_in_part ? "copies, by size, in the blocks that were recorded"
                                       : "copies, by size");
        plb_print("%9" PRId64 "%10.3f%12s%9.2f", s->calls, plb_profile_ms(s->total_ns),
                  plb_show_bytes((double)s->bytes).text, speed);
        if (r->bandwidth) print_reach(r, &at, speed);
        plb_print("  device %d, %s%s%s, from %s\n", at.device, plb_profile_direction(at.direction),
                  *memory ? ", " : "", memory,
                  plb_show_bytes((double)(INT64_C(1) << at.size)).text);
    }
    for (int i = 0; r->bandwidth && i < PLB_SPOOL_DEVICES; i++)
        if (r->bandwidth[i].reason[0])
            plb_print("  what copies of device %d can reach is unknown: %s\n", i,
                      r->bandwidth[i].reason);
}

static void print_advice(const plb_profile *p) {
    plb_advice advice[PLB_ADVICE_MAX];
    int count = plb_advice_of(p, advice);
    if (count)
        plb_print("\nWhat could be saved at most%s\n",
                  p->in_part ? ", as far as what was recorded stands for the rest" : "");
    for (int i = 0; i < count; i++) plb_print("  %8.3f s  %s\n", advice[i].seconds, advice[i].text);
}

static void print_threads(const plb_command_result *c, int top) {
    if (c->threads < 2) return;
    plb_print("  %10s%12s  %s\n", "on CPU s", "waiting s", "thread (waiting: for a processor)");
    int64_t shown = INT64_MAX;
    for (int n = 0; n < c->threads && (!top || n < top); n++) { // the longest not yet shown
        const plb_command_thread *most = NULL;
        for (int i = 0; i < c->threads; i++) {
            const plb_command_thread *t = &c->thread[i];
            int64_t key = t->on_cpu_ns * PLB_COMMAND_THREADS + i;
            if (key < shown && (!most || t->on_cpu_ns >= most->on_cpu_ns)) most = t;
        }
        if (!most) break;
        shown = most->on_cpu_ns * PLB_COMMAND_THREADS + (most - c->thread);
        plb_print("  %10.3f%12.3f  %s (%d)\n", (double)most->on_cpu_ns / 1e9,
                  (double)most->waiting_ns / 1e9, most->name, most->tid);
    }
    if (c->threads_unseen)
        plb_print("  %22s  %d more threads, for which there was no room\n", "", c->threads_unseen);
}

static void print_host(const plb_command_result *c, int top) {
    double user = plb_profile_seconds(c->use.ru_utime),
           system = plb_profile_seconds(c->use.ru_stime);
    double wall = (double)c->wall_ns / 1e9;
    plb_print("\nHost: %.3f s, of it on processors %.3f s (%.2f at once): user %.3f s, system %.3f "
              "s; peak memory %s; %ld page faults from disk, %ld without; %ld times gave way, %ld "
              "times was sent away\n",
              wall, user + system, wall > 0 ? (user + system) / wall : 0, user, system,
              plb_show_bytes(1024.0 * (double)c->use.ru_maxrss).text, c->use.ru_majflt,
              c->use.ru_minflt, c->use.ru_nvcsw, c->use.ru_nivcsw);
    for (int i = 0; i < PLB_COMMAND_COUNTERS; i++)
        if (c->counter[i].known)
            plb_print("  %-18s%s\n", c->counter[i].name,
                      plb_show_count((double)c->counter[i].value).text);
    if (c->counter_reason[0]) plb_print("  not all counters: %s\n", c->counter_reason);
    for (int i = 0; i < c->zones; i++)
        plb_print("  %s%-18s%.1f J (%.1f W)%s\n", c->zone[i].part == 1 ? "  " : "", c->zone[i].name,
                  c->zone[i].joules, wall > 0 ? c->zone[i].joules / wall : 0,
                  i ? "" : ", as the processors count it, with whatever else ran");
    if (c->zone_reason[0]) plb_print("  energy unknown: %s\n", c->zone_reason);
    print_threads(c, top);
}

// Of the time that processors worked for the program, by where they were in it.
static void print_functions(const plb_sampled *s, const plb_command_result *c, int top) {
    char name[80];
    const double told_s = (double)(s->samples * s->period_ns) / 1e9;
    const double used_s = plb_profile_seconds(c->use.ru_utime) +
                          (s->kernel_too ? plb_profile_seconds(c->use.ru_stime) : 0);
    if (s->reason[0]) plb_print("  functions are unknown: %s\n", s->reason);
    if (!s->reason[0] && told_s < .8 * used_s - .05)
        plb_print("  %.3f s on processors are in no sample: threads that end before the first, of "
                  "%.0f ms\n",
                  used_s - told_s, (double)s->period_ns / 1e6);
    if (!s->samples) return;
    plb_print(
        "  in functions, from %" PRId64 " samples, one after every %.0f ms on a processor%s\n"
        "  %8s%11s  %s\n",
        s->samples, (double)s->period_ns / 1e6,
        s->kernel_too
            ? ""
            : "; of the program's own code alone: the kernel's needs kernel.perf_event_paranoid=1",
        "self %", "self s", "function");
    const int rows = top && top < s->functions ? top : s->functions;
    for (int i = 0; i < rows; i++) {
        const plb_sampled_function *f = &s->function[i];
        plb_kernel_shorten(f->name, 60, name, sizeof name);
        const char *none = f->module[0] == '[' ? "" : "(no symbol)";
        plb_print("  %8.1f%11.3f  %s%s%s\n", 100 * plb_profile_share(f->samples, s->samples),
                  (double)(f->samples * s->period_ns) / 1e9, name[0] ? name : none,
                  name[0] || none[0] ? ", " : "", f->module);
    }
    if (rows < s->functions || s->others)
        plb_print("  %8s %d more functions: --top 0 shows %s\n", "", s->functions - rows,
                  s->others ? "those with most" : "all");
    if (s->in_other_chains)
        plb_print("  %" PRId64 " samples are in chains of calls for which there was no room\n",
                  s->in_other_chains);
    if (s->lost) plb_print("  %" PRId64 " samples were lost\n", s->lost);
}

static void print_cards(const plb_command_result *c) {
    for (int i = 0; i < c->cards; i++) {
        const plb_command_card *k = &c->card[i];
        plb_print("\nCard %d, %s, as NVML saw it, with whatever else ran there: %.1f J in %.2f s "
                  "(%.1f W on average, at most %.1f), some kernel ran in %.0f %% of the looks, at "
                  "most %s in use, SM clock %d to %d MHz, at most %d C%s\n",
                  i, k->name, k->joules, k->seconds, k->seconds > 0 ? k->joules / k->seconds : 0,
                  k->watts_max, 100 * k->utilisation,
                  plb_show_bytes((double)k->memory_max_bytes).text, k->sm_mhz_min, k->sm_mhz_max,
                  k->celsius_max, k->throttle & ~1ULL ? ", clocks were held back" : "");
    }
}

// Only of a run that was recorded in blocks.
static void print_cost(const plb_spool *s) {
    plb_cost cost;
    if (!s->alternates) return;
    const double on = plb_profile_recorded(s);
    if (plb_cost_of(s, &cost))
        plb_print("  recording made the program slower by %.1f %% (between %.1f and %.1f %%, from "
                  "%d blocks without it and those around them) while it was on, %.1f %% of the "
                  "time: by %.1f %% (%.1f to %.1f) in all\n",
                  100 * cost.share, 100 * cost.low, 100 * cost.high, cost.blocks, 100 * on,
                  100 * on * cost.share, 100 * on * cost.low, 100 * on * cost.high);
    else
        plb_print("  what recording costs is unknown: %d blocks with launches are too few; let the "
                  "program run longer\n",
                  cost.blocks);
}

static void print_probe(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    for (int i = 0; i < p->processes; i++) {
        const plb_spool *s = p->process[i];
        plb_print(
            "\nProbe in %s (%d), CUPTI %" PRIu32 ": %" PRId64 " records in %" PRId64
            " buffers; it took %.3f ms of the program's threads and %.3f ms of its own, CUPTI "
            "%.3f ms; clocks agree within %.1f us\n",
            s->program, s->pid, s->cupti_version, s->records, s->buffers,
            plb_profile_ms(s->probe_app_ns), plb_profile_ms(s->probe_ns),
            plb_profile_ms(s->cupti_ns), (double)s->clock_error_ns / 1e3);
        print_cost(s);
        if (s->unbudgeted && !s->reason[0])
            plb_print("  everything was recorded, whatever it cost: only CUPTI 13.0 and later, and "
                      "without another profiler, can leave a program and come back\n");
        if (s->reason[0]) plb_print("  it stepped aside: %s\n", s->reason);
        for (int k = 0; k < PLB_LOST_COUNT; k++)
            if (s->lost[k])
                plb_print("  lost: %" PRId64 ", %s\n", s->lost[k], plb_profile_lost_name(k));
        if (s->state == PLB_PROBE_ARMED)
            plb_print("  the program ended without leaving: what it did last is missing\n");
    }
    for (int i = 0; i < p->problems; i++) plb_print("\nNot read: %s\n", p->problem[i]);
}

static const char *const counted_titles[PLB_COUNTED_TOTALS] = {
    "on ordinary cores (f32, f64)", "  on tensor cores", "  DRAM", "  L2"};
static const char *const counted_units[PLB_COUNTED_TOTALS] = {"flop", "flop", "B", "B"};

static void print_empty(const plb_profile_report *r) {
    char why[320] = "";
    const bool known = plb_profile_empty(r, why, sizeof why);
    plb_print("\nNo work on a CUDA device was seen%s%s\n", known ? ": " : "", known ? why : "");
}

static void print_steps(const plb_profile_report *r) {
    plb_step_cost c;
    if (!plb_step_cost_of(r->profile, r->run, r->steps, &c)) return;
    plb_print("\nA step, of %" PRId64 ": %.3f ms", c.steps, c.ms);
    if (c.known)
        plb_print(", %.3f J of all cards together (%.1f W)\n", c.joules, 1e3 * c.joules / c.ms);
    else if (!r->run)
        plb_print("\n");
    else
        plb_print("; its energy is unknown: the cards were looked at too seldom (--sample)\n");
}

// What counters say; times are not known then.
static void print_counted(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    for (int i = 0; i < p->counteds; i++) {
        const plb_counted *c = &p->counted[i];
        plb_print("\nCounters of the device (%s) in process %d: %" PRId64 " launches, each run "
                  "%" PRId64 " times to count all\n ",
                  c->chip, c->pid, c->launches, c->passes);
        for (int t = 0; t < PLB_COUNTED_TOTALS; t++)
            if (c->asked & 1u << t)
                plb_print(" %s %s%s", counted_titles[t], plb_show_count(c->total[t]).text,
                          counted_units[t]);
        plb_print("\n");
        if (c->uncounted)
            plb_print("  %" PRId64 " launches could not be counted: of graphs, or in a further "
                      "context\n",
                      c->uncounted);
        if (c->unnamed)
            plb_print("  %" PRId64 " launches are in the totals, but not in the rows\n",
                      c->unnamed);
        if (c->reason[0]) plb_print("  counting ended early: %s\n", c->reason);
    }
    if (!p->counted_kernels) return;
    plb_print("\n%9s%13s%13s%13s%13s  %s\n", "launches", "cores flop", "tensor flop", "DRAM bytes",
              "L2 bytes", "kernel");
    for (int i = 0; i < plb_profile_rows(r, p->counted_kernels); i++) {
        const plb_profile_counted *k = &p->counted_kernel[i];
        char name[80];
        plb_kernel_shorten(k->name, 64, name, sizeof name);
        plb_print("%9" PRId64, k->launches);
        for (int t = 0; t < PLB_COUNTED_TOTALS; t++)
            plb_print("%13s", plb_profile_was_asked(p, t) ? plb_show_count(k->total[t]).text : "-");
        plb_print("  %s\n", name);
    }
    if (plb_profile_rows(r, p->counted_kernels) < p->counted_kernels)
        plb_print("%9s %d more kernels: --top 0 shows all\n", "",
                  p->counted_kernels - plb_profile_rows(r, p->counted_kernels));
}

void plb_profile_print(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    bool any = p->counteds > 0;
    char why[320];
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records)
                print_device(p->process[i], d, r->sampled), any = true;
    if (!any) print_empty(r);
    print_counted(r);
    if (p->counteds && plb_profile_empty(r, why, sizeof why)) print_empty(r);
    if (strcmp(r->group, "stream") == 0) plb_profile_print_streams(r);
    if (strcmp(r->group, "class") != 0) print_kernels(r);
    print_named(r, p->class, p->classes,
                p->in_part ? "class of kernels; estimated" : "class of kernels");
    print_copies(r);
    print_named(r, p->call, p->calls,
                p->calls_in_part ? "calls of CUDA (time of the host) in the recorded blocks"
                                 : "calls of CUDA (time of the host)");
    if (strcmp(r->group, "thread") == 0) plb_profile_print_threads(r);
    if (strcmp(r->group, "range") == 0)
        print_operators(r);
    else
        print_ranges(r);
    plb_stack_operators_print(r->operators, r->operator_iterations, r->top);
    print_advice(p);
    if (r->run) print_host(r->run, r->top);
    if (r->sampled && r->run) print_functions(r->sampled, r->run, r->top);
    print_steps(r);
    if (r->run) print_cards(r->run);
    if (!p->counteds) print_probe(r);
    if (plb_profile_incomplete(r, why, sizeof why)) plb_print("\nIncomplete: %s\n", why);
}
