// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "cli/profile_show.h"
#include "probe/kept.h"
#include "probe/profile.h"
#include "probe/shares.h"

enum { SHOWN = 40, UNEQUAL = 12 };

typedef struct side {
    const char *path;
    plb_kept_about about;
    plb_profile *profile;
    plb_breakdown busy; // of all devices of all processes
    const char *device; // the first one's name, or ""
} side;

typedef struct pair {
    const plb_profile_kernel *a, *b; // NULL: not there
    double change_ms;
} pair;

typedef struct comparison {
    plb_arena *arena;
    side side[2];
    pair *row;
    int rows;
    const char *unequal[UNEQUAL];
    int unequal_count;
    double margin;
} comparison;

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "no memory to compare profiles");
}

static void add_busy(side *s) {
    s->device = "";
    for (int i = 0; i < s->profile->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++) {
            const plb_spool *spool = s->profile->process[i];
            plb_breakdown b;
            plb_shares t;
            if (!spool->device[d].records) continue;
            plb_breakdown_of(&spool->device[d].sums, &b);
            plb_shares_of(spool, d, &b, &t);
            const double span_ns = (double)t.span_ns;
            s->busy.span_ns += t.span_ns, s->busy.active_ns += (int64_t)(t.active * span_ns + .5);
            s->busy.copying_ns += (int64_t)(t.copying * span_ns + .5);
            s->busy.idle_ns += (int64_t)(t.idle * span_ns + .5);
            if (!s->device[0]) s->device = spool->names + spool->device[d].name;
        }
}

static plb_status read_side(comparison *c, side *s, const char *path) {
    char folder[PATH_MAX];
    plb_kernel_classes *classes = NULL;
    s->path = path;
    PLB_TRY(plb_profile_folder(folder));
    plb_status status = plb_kept_extract(path, folder, c->arena, &s->about);
    if (!status) status = plb_kernel_classes_new(NULL, &classes);
    if (!status) status = plb_profile_read(folder, classes, &s->profile);
    plb_profile_remove_folder(folder);
    if (!status) {
        // Classes are borrowed from the table, which goes.
        for (int i = 0; i < s->profile->kernels && !status; i++) {
            s->profile->kernel[i].class = plb_arena_strdup(c->arena, s->profile->kernel[i].class);
            if (!s->profile->kernel[i].class) status = no_memory();
        }
        add_busy(s);
    }
    plb_kernel_classes_free(classes);
    return status;
}

static void differ(comparison *c, const char *text) {
    if (text && c->unequal_count < UNEQUAL) c->unequal[c->unequal_count++] = text;
}

static bool same_words(char *const *a, char *const *b) {
    for (; a && b && *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0) return false;
    return (!a || !*a) && (!b || !*b);
}

static int64_t lost_of(const plb_profile *p) {
    int64_t lost = 0;
    for (int i = 0; i < p->processes; i++)
        for (int k = 0; k < PLB_LOST_COUNT; k++) lost += p->process[i]->lost[k];
    return lost;
}

// Whether one was recorded with a word that the other lacks; sizes of traces do not matter.
static bool words_differ(const char *a, const char *b) {
    static const char *const compared[] = {
        "host",     "sources,", "calls,", "ranges,", "graphs,",
        "program,", "cost=",    "delay=", "limit=",  "counters="};
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
        const char *in_a = strstr(a, compared[i]), *in_b = strstr(b, compared[i]);
        if (!in_a != !in_b) return true;
        if (in_a && strchr(compared[i], '=') && strcspn(in_a, ",") != strcspn(in_b, ","))
            return true;
        if (in_a && strncmp(in_a, in_b, strcspn(in_a, ",")) != 0) return true;
    }
    return false;
}

static uint32_t cupti_version(const plb_profile *p) {
    return p->processes ? p->process[0]->cupti_version : 0;
}

static const char *end_of(const plb_profile *p) {
    for (int i = 0; i < p->processes; i++) {
        if (p->process[i]->state == PLB_PROBE_ASIDE) return "the probe stepped aside";
        if (p->process[i]->state != PLB_PROBE_ENDED) return "the program ended without leaving";
    }
    return "whole";
}

static void compare_runs(comparison *c, const side *a, const side *b) {
    const plb_command_result *run_a = a->about.run, *run_b = b->about.run;
    if (a->about.words && b->about.words && words_differ(a->about.words, b->about.words))
        differ(c, plb_arena_printf(c->arena, "recorded in different ways: %s against %s",
                                   a->about.words, b->about.words));
    if (run_a && run_b && run_a->exit_code != run_b->exit_code)
        differ(c, plb_arena_printf(c->arena, "exit code %d against %d", run_a->exit_code,
                                   run_b->exit_code));
    const unsigned long long held_a = run_a && run_a->cards ? run_a->card[0].throttle & ~1ULL : 0;
    const unsigned long long held_b = run_b && run_b->cards ? run_b->card[0].throttle & ~1ULL : 0;
    if (!held_a != !held_b)
        differ(c, plb_arena_printf(c->arena, "only in %s the card's clocks were held back",
                                   held_a ? "A" : "B"));
}

// What makes the two no comparison of one thing: told before anything else.
static void find_unequal(comparison *c) {
    const side *a = &c->side[0], *b = &c->side[1];
    const plb_profile *p = a->profile, *q = b->profile;
    if (!same_words(a->about.command, b->about.command)) differ(c, "the commands differ");
    if (strcmp(a->device, b->device) != 0)
        differ(c, plb_arena_printf(c->arena, "the devices differ: %s, %s", a->device, b->device));
    if (p->processes != q->processes)
        differ(c,
               plb_arena_printf(c->arena, "%d processes against %d", p->processes, q->processes));
    if (cupti_version(p) != cupti_version(q))
        differ(c, plb_arena_printf(c->arena, "CUPTI %" PRIu32 " against %" PRIu32, cupti_version(p),
                                   cupti_version(q)));
    compare_runs(c, a, b);
    if (p->in_part || q->in_part)
        differ(c,
               plb_arena_printf(c->arena, "%s recorded in part: its counts and times are estimates",
                                p->in_part && q->in_part ? "both were"
                                : p->in_part             ? "A was"
                                                         : "B was"));
    if (strcmp(end_of(p), end_of(q)) != 0)
        differ(c, plb_arena_printf(c->arena, "A: %s; B: %s", end_of(p), end_of(q)));
    if (lost_of(p) || lost_of(q))
        differ(c, plb_arena_printf(c->arena, "records were lost: %" PRId64 " against %" PRId64,
                                   lost_of(p), lost_of(q)));
}

static int by_change(const void *left, const void *right) {
    const double a = fabs(((const pair *)left)->change_ms);
    const double b = fabs(((const pair *)right)->change_ms);
    return (a < b) - (a > b);
}

static double total_ms(const plb_profile_kernel *k) {
    return k ? k->whole.ns / 1e6 : 0;
}

static plb_status join(comparison *c) {
    const plb_profile *a = c->side[0].profile, *b = c->side[1].profile;
    char key[8224];
    plb_status status = PLB_OK;
    c->row = plb_arena_alloc(c->arena, (size_t)(a->kernels + b->kernels + 1) * sizeof *c->row);
    plb_map *index = plb_map_new();
    if (!c->row || !index) PLB_TRY_OUT(no_memory());
    for (int i = 0; i < a->kernels; i++) {
        snprintf(key, sizeof key, "%d %s", a->kernel[i].device, a->kernel[i].name);
        PLB_TRY_OUT(plb_map_set(index, key, c->rows));
        c->row[c->rows++].a = &a->kernel[i];
    }
    for (int i = 0; i < b->kernels; i++) {
        snprintf(key, sizeof key, "%d %s", b->kernel[i].device, b->kernel[i].name);
        int64_t at = plb_map_get(index, key, -1);
        if (at < 0) at = c->rows++;
        c->row[at].b = &b->kernel[i];
    }
    for (int i = 0; i < c->rows; i++)
        c->row[i].change_ms = total_ms(c->row[i].b) - total_ms(c->row[i].a);
    qsort(c->row, (size_t)c->rows, sizeof *c->row, by_change);
out:
    plb_map_free(index);
    return status;
}

// By more than estimates may be off.
static bool counts_differ(const plb_estimated *a, const plb_estimated *b) {
    const double off = hypot(a->calls_half, b->calls_half);
    return fabs(a->calls - b->calls) > off + .5;
}

// "vanished", or what changed, separated by blanks; "" for nothing.
static void name_change(const pair *p, double margin, char text[64]) {
    if (!p->a || !p->b) {
        snprintf(text, 64, "%s", p->a ? "vanished" : "appeared");
        return;
    }
    const plb_profile_kernel *a = p->a, *b = p->b;
    const double mean_a = (double)a->total_ns / (double)(a->calls ? a->calls : 1);
    const double mean_b = (double)b->total_ns / (double)(b->calls ? b->calls : 1);
    const bool shape = memcmp(a->grid, b->grid, sizeof a->grid) != 0 ||
                       memcmp(a->block, b->block, sizeof a->block) != 0;
    snprintf(text, 64, "%s%s%s%s", counts_differ(&a->whole, &b->whole) ? "count " : "",
             fabs(mean_b - mean_a) > margin * mean_a ? "time " : "", shape ? "grid " : "",
             strcmp(a->class, b->class) != 0 ? "class " : "");
    if (text[0]) text[strlen(text) - 1] = '\0';
}

static double share(int64_t part_ns, int64_t whole_ns) {
    return whole_ns ? (double)part_ns / (double)whole_ns : 0;
}

static void print_side(const side *s, char letter) {
    plb_print("%c  %s\n   devices: span %.1f ms, active %.1f %%, copying %.1f %%, idle %.1f %%; "
              "active %.3f ms\n",
              letter, s->path, (double)s->busy.span_ns / 1e6,
              100 * share(s->busy.active_ns, s->busy.span_ns),
              100 * share(s->busy.copying_ns, s->busy.span_ns),
              100 * share(s->busy.idle_ns, s->busy.span_ns), (double)s->busy.active_ns / 1e6);
}

static void print_rows(const comparison *c) {
    int equal = 0, shown = 0;
    plb_print("\n%12s%10s%10s%11s%11s  %-16s%s\n", "change ms", "A calls", "B calls", "A ms",
              "B ms", "changed", "kernel");
    for (int i = 0; i < c->rows; i++) {
        const pair *p = &c->row[i];
        char change[64], name[80];
        name_change(p, c->margin, change);
        equal += !change[0];
        if (!change[0] || shown == SHOWN) continue;
        shown++;
        plb_kernel_shorten((p->a ? p->a : p->b)->name, 64, name, sizeof name);
        plb_print("%+12.3f%10.0f%10.0f%11.3f%11.3f  %-16s%s\n", p->change_ms,
                  p->a ? p->a->whole.calls : 0, p->b ? p->b->whole.calls : 0, total_ms(p->a),
                  total_ms(p->b), change, name);
    }
    if (equal + shown < c->rows)
        plb_print("%12s %d more kernels changed: --json shows all\n", "", c->rows - equal - shown);
    plb_print("%12s %d kernels are as they were, within %.1f %% of their mean time\n", "", equal,
              100 * c->margin);
}

static void json_kernel(plb_json *json, const char *key, const plb_profile_kernel *k) {
    if (!k) {
        plb_json_null(json, key);
        return;
    }
    plb_json_begin_object(json, key);
    plb_json_double(json, "calls", k->whole.calls);
    plb_json_double(json, "total_ms", total_ms(k));
    plb_json_string(json, "class", k->class);
    plb_json_begin_array(json, "grid");
    for (int i = 0; i < 3; i++) plb_json_int(json, NULL, k->grid[i]);
    plb_json_end(json);
    plb_json_begin_array(json, "block");
    for (int i = 0; i < 3; i++) plb_json_int(json, NULL, k->block[i]);
    plb_json_end(json);
    plb_json_end(json);
}

static void json_side(plb_json *json, const char *key, const side *s) {
    plb_json_begin_object(json, key);
    plb_json_string(json, "profile", s->path);
    plb_json_begin_array(json, "command");
    for (char *const *word = s->about.command; word && *word; word++)
        plb_json_string(json, NULL, *word);
    plb_json_end(json);
    plb_json_string(json, "device", s->device);
    plb_json_double(json, "span_ms", (double)s->busy.span_ns / 1e6);
    plb_json_double(json, "active", share(s->busy.active_ns, s->busy.span_ns));
    plb_json_double(json, "move", share(s->busy.copying_ns, s->busy.span_ns));
    plb_json_double(json, "idle", share(s->busy.idle_ns, s->busy.span_ns));
    plb_json_end(json);
}

static plb_status tell_json(const comparison *c) {
    plb_json json;
    plb_cli_json_begin(&json, "compare-profiles", 1);
    json_side(&json, "a", &c->side[0]);
    json_side(&json, "b", &c->side[1]);
    plb_json_begin_array(&json, "unequal");
    for (int i = 0; i < c->unequal_count; i++) plb_json_string(&json, NULL, c->unequal[i]);
    plb_json_end(&json);
    plb_json_begin_array(&json, "kernels");
    for (int i = 0; i < c->rows; i++) {
        const pair *p = &c->row[i];
        char change[64];
        name_change(p, c->margin, change);
        plb_json_begin_object(&json, NULL);
        plb_json_string(&json, "name", (p->a ? p->a : p->b)->name);
        plb_json_string(&json, "changed", change);
        plb_json_double(&json, "change_ms", p->change_ms);
        json_kernel(&json, "a", p->a);
        json_kernel(&json, "b", p->b);
        plb_json_end(&json);
    }
    plb_json_end(&json);
    return plb_cli_json_print(&json);
}

static plb_status compare(comparison *c, const plb_call *call) {
    for (int i = 0; i < 2; i++) PLB_TRY(read_side(c, &c->side[i], call->operands[i]));
    find_unequal(c);
    PLB_TRY(join(c));
    if (call->json) return tell_json(c);
    for (int i = 0; i < c->unequal_count; i++) plb_print("Not the same: %s\n", c->unequal[i]);
    print_side(&c->side[0], 'A');
    print_side(&c->side[1], 'B');
    print_rows(c);
    return PLB_OK;
}

plb_status plb_profile_compare(const plb_call *call, double margin) {
    comparison c = {.arena = plb_arena_new(), .margin = margin};
    plb_status status = c.arena ? compare(&c, call) : no_memory();
    for (int i = 0; i < 2; i++) plb_profile_free(c.side[i].profile);
    plb_arena_free(c.arena);
    return status;
}
