// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/arena.h"
#include "cli/cli.h"
#include "cli/units.h"
#include "probe/advice.h"
#include "probe/breakdown.h"
#include "probe/cost.h"
#include "probe/energy.h"

static double share(int64_t part_ns, int64_t whole_ns) {
    return whole_ns ? (double)part_ns / (double)whole_ns : 0;
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

static int rows(const plb_profile_report *r, int count) {
    return r->top && r->top < count ? r->top : count;
}

// ---------------------------------------------------------------------------- text
static void print_device(const plb_spool *s, int i) {
    const plb_spool_device *d = &s->device[i];
    plb_breakdown b;
    plb_breakdown_of(&d->sums, &b);
    plb_print("\nDevice %d%s%s in %s (%d): %.1f ms from its first work to its last\n", i,
              d->name ? ", " : "", s->names + d->name, s->program, s->pid, ms(b.span_ns));
    plb_print("  active %.1f %%   copying to or from the host %.1f %%   idle %.1f %%\n",
              100 * share(b.active_ns, b.span_ns), 100 * share(b.copying_ns, b.span_ns),
              100 * share(b.idle_ns, b.span_ns));
    plb_print("  (active: something ran, on however small a part of the device; of it, alone: "
              "memsets %.1f %%, copies inside %.1f %%, communication %.1f %%)\n",
              100 * share(b.memset_ns, b.span_ns), 100 * share(b.copy_inside_ns, b.span_ns),
              100 * share(b.communication_ns, b.span_ns));
    plb_print("  at once: kernels %.1f %%, kernel and copy %.1f %%, copies %.1f %%\n",
              100 * share(b.kernels_overlap_ns, b.span_ns),
              100 * share(b.kernel_copy_ns, b.span_ns),
              100 * share(b.copies_overlap_ns, b.span_ns));
    plb_print("  %" PRId64 " kernels, %" PRId64 " memsets", d->kernels, d->memsets);
    if (d->graph_launches) plb_print(", %" PRId64 " graphs, seen as wholes", d->graph_launches);
    if (d->allocations)
        plb_print(", device memory taken %" PRId64 " times, at most %s", d->allocations,
                  plb_show_bytes((double)d->peak_bytes).text);
    plb_print("\n");
    if (!b.idle_ns) return;
    plb_print("  idle while the host was");
    for (int k = 0; k < PLB_BUSY_COUNT; k++)
        if (b.idle_by[k]) plb_print(" %s %.1f ms,", plb_busy_name((plb_busy)k), ms(b.idle_by[k]));
    plb_print(" in its own code %.1f ms\n", ms(b.idle_unknown_ns));
}

static void print_kernels(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    int64_t sum_ns = 0;
    for (int i = 0; i < p->kernels; i++) sum_ns += p->kernel[i].total_ns;
    if (!p->kernels) return;
    plb_print("\n%9s%10s%7s%9s%9s%9s%9s%14s  %-18s%s\n", "calls", "total ms", "%", "avg us",
              "min us", "max us", "regs", "shared bytes", "class",
              "kernel (grid x block of its largest part)");
    for (int i = 0; i < rows(r, p->kernels); i++) {
        const plb_profile_kernel *k = &p->kernel[i];
        char name[80];
        plb_kernel_shorten(k->name, 64, name, sizeof name);
        plb_print("%9" PRId64 "%10.3f%7.1f%9.2f%9.2f%9.2f%9d%14d  %-18s%s (%dx%dx%d x %dx%dx%d)\n",
                  k->calls, ms(k->total_ns), 100 * share(k->total_ns, sum_ns),
                  (double)k->total_ns / (double)k->calls / 1e3, (double)k->min_ns / 1e3,
                  (double)k->max_ns / 1e3, k->registers, k->shared_bytes, k->class, name,
                  k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2]);
    }
    if (rows(r, p->kernels) < p->kernels)
        plb_print("%9s %d more kernels: --top 0 shows all\n", "", p->kernels - rows(r, p->kernels));
}

static void print_named(const plb_profile_report *r, const plb_profile_named *row, int count,
                        const char *title) {
    int64_t sum_ns = 0;
    for (int i = 0; i < count; i++) sum_ns += row[i].total_ns;
    if (!count) return;
    plb_print("\n%9s%10s%7s%9s%9s  %s\n", "calls", "total ms", "%", "avg us", "max us", title);
    for (int i = 0; i < rows(r, count); i++)
        plb_print("%9" PRId64 "%10.3f%7.1f%9.2f%9.2f  %s\n", row[i].calls, ms(row[i].total_ns),
                  100 * share(row[i].total_ns, sum_ns),
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
    for (int i = 0; i < rows(r, p->ranges); i++) {
        const plb_profile_range *a = &p->range[i];
        plb_print("%9" PRId64 "%12.3f%12.3f%12.3f%10" PRId64 "  %*s%s\n", a->calls, ms(a->total_ns),
                  ms(a->device_ns), ms(a->self_device_ns), a->device_work, 2 * a->depth, "",
                  a->name);
    }
    if (rows(r, p->ranges) < p->ranges)
        plb_print("%9s %d more ranges: --top 0 shows all\n", "", p->ranges - rows(r, p->ranges));
    if (outside_ns)
        plb_print("%9s%12s%12.3f%12s%10s  (launched in no range)\n", "", "", ms(outside_ns), "",
                  "");
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
    for (int i = 0; i < rows(r, count); i++)
        plb_print("%7.1f%12.3f%12.3f%10.2f%7.1f%12.3f%12.3f%10.2f%9" PRId64 "%9" PRId64 "  %s\n",
                  100 * share(o[i].self_cpu_ns, cpu_ns), ms(o[i].self_cpu_ns), ms(o[i].cpu_ns),
                  us_each(o[i].cpu_ns, o[i].calls), 100 * share(o[i].self_device_ns, device_ns),
                  ms(o[i].self_device_ns), ms(o[i].device_ns), us_each(o[i].device_ns, o[i].calls),
                  o[i].calls, o[i].work, o[i].name);
    if (rows(r, count) < count)
        plb_print("%7s %d more names: --top 0 shows all\n", "", count - rows(r, count));
    plb_arena_free(arena);
}

static const char *const copy_names[PLB_COPY_COUNT] = {
    "to the device", "to the host", "inside a device", "between devices", "on the host", "other"};

static void print_copies(const plb_profile *p) {
    bool begun = false;
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            for (int kind = 0; kind < PLB_COPY_COUNT; kind++)
                for (int pinned = 0; pinned < 2; pinned++)
                    for (int k = 0; k < PLB_SPOOL_SIZES; k++) {
                        const plb_spool_size *s = &p->process[i]->device[d].copies[kind][pinned][k];
                        if (!s->calls) continue;
                        if (!begun)
                            plb_print("\n%9s%10s%12s%9s  %s\n", "calls", "total ms", "bytes",
                                      "GB/s", "copies, by size");
                        begun = true;
                        plb_print("%9" PRId64 "%10.3f%12s%9.2f  device %d, %s%s, from %s\n",
                                  s->calls, ms(s->total_ns), plb_show_bytes((double)s->bytes).text,
                                  s->total_ns ? (double)s->bytes / (double)s->total_ns : 0, d,
                                  copy_names[kind],
                                  kind > PLB_COPY_OUT ? ""
                                  : pinned            ? ", pinned"
                                                      : ", pageable",
                                  plb_show_bytes((double)(INT64_C(1) << k)).text);
                    }
}

static void print_advice(const plb_profile *p) {
    plb_advice advice[PLB_ADVICE_MAX];
    int count = plb_advice_of(p, advice);
    if (count) plb_print("\nWhat could be saved at most\n");
    for (int i = 0; i < count; i++) plb_print("  %8.3f s  %s\n", advice[i].seconds, advice[i].text);
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
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
}

static void print_host(const plb_command_result *c, int top) {
    double user = seconds_of(c->use.ru_utime), system = seconds_of(c->use.ru_stime);
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
    print_threads(c, top);
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

static const char *const lost_names[PLB_LOST_COUNT] = {
    "dropped by CUPTI",           "no row for the name", "end before begin",
    "device beyond the last row", "no memory",           "beyond the trace's limit"};

// Only of a run that was recorded in blocks.
static void print_cost(const plb_spool *s) {
    plb_cost cost;
    if (!s->blocks) return;
    if (plb_cost_of(s, &cost))
        plb_print("  recording made the program slower by %.1f %% (between %.1f and %.1f %%, from "
                  "%d blocks without it and those around them)\n",
                  100 * cost.share, 100 * cost.low, 100 * cost.high, cost.blocks);
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
            s->program, s->pid, s->cupti_version, s->records, s->buffers, ms(s->probe_app_ns),
            ms(s->probe_ns), ms(s->cupti_ns), (double)s->clock_error_ns / 1e3);
        print_cost(s);
        if (s->reason[0]) plb_print("  it stepped aside: %s\n", s->reason);
        for (int k = 0; k < PLB_LOST_COUNT; k++)
            if (s->lost[k]) plb_print("  lost: %" PRId64 ", %s\n", s->lost[k], lost_names[k]);
        if (s->state == PLB_PROBE_ARMED)
            plb_print("  the program ended without leaving: what it did last is missing\n");
    }
    for (int i = 0; i < p->problems; i++) plb_print("\nNot read: %s\n", p->problem[i]);
}

static const char *const counted_titles[PLB_COUNTED_TOTALS] = {
    "on ordinary cores (f32, f64)", "  on tensor cores", "  DRAM", "  L2"};
static const char *const counted_units[PLB_COUNTED_TOTALS] = {"flop", "flop", "B", "B"};

static bool was_asked(const plb_profile *p, int total) {
    for (int i = 0; i < p->counteds; i++)
        if (p->counted[i].asked & 1u << total) return true;
    return false;
}

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
    for (int i = 0; i < rows(r, p->counted_kernels); i++) {
        const plb_profile_counted *k = &p->counted_kernel[i];
        char name[80];
        plb_kernel_shorten(k->name, 64, name, sizeof name);
        plb_print("%9" PRId64, k->launches);
        for (int t = 0; t < PLB_COUNTED_TOTALS; t++)
            plb_print("%13s", was_asked(p, t) ? plb_show_count(k->total[t]).text : "-");
        plb_print("  %s\n", name);
    }
    if (rows(r, p->counted_kernels) < p->counted_kernels)
        plb_print("%9s %d more kernels: --top 0 shows all\n", "",
                  p->counted_kernels - rows(r, p->counted_kernels));
}

void plb_profile_print(const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    bool any = p->counteds > 0;
    char why[320];
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records) print_device(p->process[i], d), any = true;
    if (!any) print_empty(r);
    print_counted(r);
    if (p->counteds && plb_profile_empty(r, why, sizeof why)) print_empty(r);
    if (strcmp(r->group, "class") != 0) print_kernels(r);
    print_named(r, p->class, p->classes, "class of kernels");
    print_copies(p);
    print_named(r, p->call, p->calls, "calls of CUDA (time of the host)");
    if (strcmp(r->group, "range") == 0)
        print_operators(r);
    else
        print_ranges(r);
    print_advice(p);
    if (r->run) print_host(r->run, r->top);
    print_steps(r);
    if (r->run) print_cards(r->run);
    if (!p->counteds) print_probe(r);
    if (plb_profile_incomplete(r, why, sizeof why)) plb_print("\nIncomplete: %s\n", why);
}

bool plb_profile_incomplete(const plb_profile_report *r, char *why, size_t why_bytes) {
    const plb_profile *p = r->profile;
    if (p->problems) {
        snprintf(why, why_bytes, "%s", p->problem[0]);
        return true;
    }
    for (int i = 0; i < p->counteds; i++) {
        const plb_counted *c = &p->counted[i];
        if (!c->uncounted && !c->reason[0]) continue;
        if (c->reason[0])
            snprintf(why, why_bytes, "counters: %s", c->reason);
        else
            snprintf(why, why_bytes, "%" PRId64 " launches could not be counted", c->uncounted);
        return true;
    }
    for (int i = 0; i < p->processes; i++) {
        const plb_spool *s = p->process[i];
        int64_t lost = 0;
        for (int k = 0; k < PLB_LOST_COUNT; k++) lost += s->lost[k];
        // A worker that became another program before it was looked at: nothing is missing.
        if (r->words && strcmp(r->words, "file") == 0 && s->state == PLB_PROBE_ARMED &&
            !s->recorded_ns)
            continue;
        if (s->state == PLB_PROBE_ASIDE)
            snprintf(why, why_bytes, "the probe stepped aside in %s: %s", s->program, s->reason);
        else if (lost)
            snprintf(why, why_bytes, "%" PRId64 " records of %s were lost", lost, s->program);
        else if (s->state != PLB_PROBE_ENDED)
            snprintf(why, why_bytes, "%s ended without leaving: what it did last is missing",
                     s->program);
        else
            continue;
        return true;
    }
    return false;
}

static bool worked(const plb_profile *p) {
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records) return true;
    return false;
}

static bool counted(const plb_profile *p) {
    for (int i = 0; i < p->counteds; i++)
        if (p->counted[i].launches) return true;
    return false;
}

bool plb_profile_empty(const plb_profile_report *r, char *why, size_t why_bytes) {
    const plb_profile *p = r->profile;
    int64_t recorded_ns = 0;
    if (worked(p) || counted(p) || (r->words && strcmp(r->words, "host") == 0)) return false;
    for (int i = 0; i < p->processes; i++) recorded_ns += p->process[i]->recorded_ns;
    for (int i = 0; i < p->counteds; i++)
        if (p->counted[i].reason[0]) {
            snprintf(why, why_bytes, "no counters: %s", p->counted[i].reason);
            return true;
        }
    const bool windowed = r->words && strstr(r->words, "program,");
    if (!p->processes)
        snprintf(why, why_bytes,
                 "the program loaded no CUDA driver: if it should have, see what "
                 "`plumb doctor` says of the device; if not, --host-only");
    else if (p->counteds && !windowed)
        snprintf(why, why_bytes,
                 "the program launched no kernel by itself, and those of graphs "
                 "are not counted");
    else if (!recorded_ns && windowed)
        snprintf(why, why_bytes,
                 "the program never called cudaProfilerStart, for which --range "
                 "profiler-api waits");
    else if (!recorded_ns)
        snprintf(why, why_bytes,
                 "nothing was recorded: the program had ended before --delay had "
                 "passed, or the probe could not work in it");
    else
        snprintf(why, why_bytes,
                 "the program loaded CUDA's driver and started nothing while it "
                 "was recorded: does it fall back to the processor?");
    return true;
}

// ---------------------------------------------------------------------------- JSON
static void json_totals(const plb_profile *p, const double *total, plb_json *json) {
    static const char *const names[PLB_COUNTED_TOTALS] = {"cores_flops", "tensor_flops",
                                                          "dram_bytes", "l2_bytes"};
    for (int t = 0; t < PLB_COUNTED_TOTALS; t++) {
        if (was_asked(p, t))
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
                plb_json_double(json, "total_ms", ms(s->total_ns));
                plb_json_end(json);
            }
    plb_json_end(json);
}

static void json_idle(const plb_breakdown *b, plb_json *json) {
    plb_json_begin_object(json, "idle_ms");
    for (int k = 0; k < PLB_BUSY_COUNT; k++)
        if (b->idle_by[k]) plb_json_double(json, plb_busy_name((plb_busy)k), ms(b->idle_by[k]));
    plb_json_double(json, "unknown", ms(b->idle_unknown_ns));
    plb_json_end(json);
}

static void json_gaps(const plb_busy_sums *sums, plb_json *json) {
    plb_json_begin_array(json, "gaps");
    for (int k = 0; k < PLB_GAP_CLASSES; k++) {
        if (!sums->gap_count[k]) continue;
        plb_json_begin_object(json, NULL);
        plb_json_int(json, "from_ns", INT64_C(1) << k);
        plb_json_int(json, "count", sums->gap_count[k]);
        plb_json_double(json, "total_ms", ms(sums->gap_ns[k]));
        plb_json_end(json);
    }
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
        plb_json_double(json, "total_ms", ms(k->total_ns));
        plb_json_double(json, "min_ms", ms(k->min_ns));
        plb_json_double(json, "max_ms", ms(k->max_ns));
        plb_json_begin_array(json, "grid");
        for (int n = 0; n < 3; n++) plb_json_int(json, NULL, k->grid[n]);
        plb_json_end(json);
        plb_json_begin_array(json, "block");
        for (int n = 0; n < 3; n++) plb_json_int(json, NULL, k->block[n]);
        plb_json_end(json);
        plb_json_int(json, "registers", k->registers);
        plb_json_int(json, "shared_bytes", k->shared_bytes);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_device(const plb_profile_report *r, const plb_spool *s, int i, plb_json *json) {
    const plb_spool_device *d = &s->device[i];
    plb_breakdown b;
    plb_breakdown_of(&d->sums, &b);
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "device", i);
    plb_json_string(json, "name", s->names + d->name);
    plb_json_int(json, "pid", s->pid);
    plb_json_string(json, "program", s->program);
    plb_json_double(json, "span_ms", ms(b.span_ns));
    plb_json_double(json, "active", share(b.active_ns, b.span_ns));
    plb_json_double(json, "move", share(b.copying_ns, b.span_ns));
    plb_json_double(json, "idle", share(b.idle_ns, b.span_ns));
    plb_json_begin_object(json, "overlap");
    plb_json_double(json, "kernels", share(b.kernels_overlap_ns, b.span_ns));
    plb_json_double(json, "kernel_copy", share(b.kernel_copy_ns, b.span_ns));
    plb_json_double(json, "copies", share(b.copies_overlap_ns, b.span_ns));
    plb_json_end(json);
    plb_json_begin_object(json, "part_of_active");
    plb_json_double(json, "memset", share(b.memset_ns, b.span_ns));
    plb_json_double(json, "copy_inside", share(b.copy_inside_ns, b.span_ns));
    plb_json_double(json, "communication", share(b.communication_ns, b.span_ns));
    plb_json_end(json);
    plb_json_int(json, "launches", d->kernels);
    plb_json_int(json, "memsets", d->memsets);
    plb_json_int(json, "graph_launches", d->graph_launches);
    json_idle(&b, json);
    json_gaps(&d->sums, json);
    json_kernels(r, i, json); // of all processes on this device
    json_sizes(d, json);
    plb_json_begin_object(json, "memory");
    plb_json_int(json, "peak_bytes", d->peak_bytes);
    plb_json_int(json, "left_bytes", d->allocated_bytes);
    plb_json_int(json, "allocations", d->allocations);
    plb_json_end(json);
    plb_json_end(json);
}

static void json_named(const char *key, const plb_profile_named *row, int count, plb_json *json) {
    plb_json_begin_array(json, key);
    for (int i = 0; i < count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", row[i].name);
        plb_json_int(json, "calls", row[i].calls);
        plb_json_double(json, "total_ms", ms(row[i].total_ns));
        plb_json_double(json, "min_ms", ms(row[i].min_ns));
        plb_json_double(json, "max_ms", ms(row[i].max_ns));
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_ranges(const plb_profile *p, plb_json *json) {
    int64_t outside_ns = 0;
    for (int i = 0; i < p->processes; i++) outside_ns += p->process[i]->outside_ranges_ns;
    plb_json_double(json, "outside_ranges_ms", ms(outside_ns));
    plb_json_begin_array(json, "ranges");
    for (int i = 0; i < p->ranges; i++) {
        const plb_profile_range *a = &p->range[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", a->name);
        plb_json_int(json, "depth", a->depth);
        plb_json_int(json, "calls", a->calls);
        plb_json_double(json, "total_ms", ms(a->total_ns));
        plb_json_double(json, "min_ms", ms(a->min_ns));
        plb_json_double(json, "max_ms", ms(a->max_ns));
        plb_json_double(json, "device_ms", ms(a->device_ns));
        plb_json_double(json, "self_device_ms", ms(a->self_device_ns));
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
        plb_json_double(json, "self_cpu_ms", ms(o[i].self_cpu_ns));
        plb_json_double(json, "cpu_ms", ms(o[i].cpu_ns));
        plb_json_double(json, "self_device_ms", ms(o[i].self_device_ns));
        plb_json_double(json, "device_ms", ms(o[i].device_ns));
        plb_json_int(json, "launches", o[i].work);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_arena_free(arena);
}

static void json_host(const plb_command_result *c, plb_json *json) {
    plb_json_begin_object(json, "cpu");
    plb_json_double(json, "user_seconds", seconds_of(c->use.ru_utime));
    plb_json_double(json, "system_seconds", seconds_of(c->use.ru_stime));
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
    bool known = false;
    for (int i = 0; i < p->processes; i++)
        if (plb_cost_of(p->process[i], &cost) && cost.blocks > best.blocks)
            best = cost, known = true;
    if (!known) {
        plb_json_null(json, "overhead");
        return;
    }
    plb_json_begin_object(json, "overhead");
    plb_json_double(json, "share", best.share);
    plb_json_double(json, "low", best.low);
    plb_json_double(json, "high", best.high);
    plb_json_int(json, "blocks", best.blocks);
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
        plb_json_double(json, "recorded_ms", ms(s->recorded_ns));
        plb_json_double(json, "program_threads_ms", ms(s->probe_app_ns));
        plb_json_double(json, "own_ms", ms(s->probe_ns));
        plb_json_double(json, "cupti_ms", ms(s->cupti_ns));
        plb_json_double(json, "clock_error_us", (double)s->clock_error_ns / 1e3);
        plb_json_end(json);
        for (int k = 0; k < PLB_LOST_COUNT; k++) lost[k] += s->lost[k], all += s->lost[k];
    }
    plb_json_end(json);
    plb_json_begin_object(json, "lost");
    plb_json_int(json, "records", all);
    plb_json_begin_object(json, "reasons");
    for (int k = 0; k < PLB_LOST_COUNT; k++)
        if (lost[k]) plb_json_int(json, lost_names[k], lost[k]);
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
    if (r->run) plb_json_double(json, "span_ms", ms(r->run->wall_ns));
    plb_json_begin_array(json, "devices");
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records) json_device(r, p->process[i], d, json);
    plb_json_end(json);
    json_named("classes", p->class, p->classes, json);
    json_named("api", p->call, p->calls, json);
    json_ranges(p, json);
    json_operators(r, json);
    json_counted(p, json);
    json_steps(r, json);
    json_cost(p, json);
    json_advice(p, json);
    if (r->run) json_host(r->run, json);
    if (r->run) json_cards(r->run, json);
    json_probe(p, json);
    bool incomplete = plb_profile_incomplete(r, why, sizeof why);
    plb_json_bool(json, "complete", !incomplete);
    plb_json_string(json, "incomplete_reason", incomplete ? why : NULL);
    plb_json_string(json, "empty_reason", plb_profile_empty(r, why, sizeof why) ? why : NULL);
}
