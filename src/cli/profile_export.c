// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/arena.h"
#include "cli/cli.h"
#include "cli/profile_numbers.h"
#include "probe/shares.h"
#include "report/escape.h"

typedef enum column {
    CALLS,
    BYTES,
    TOTAL_MS,
    SELF_MS,
    MIN_MS,
    MAX_MS,
    DEVICE_MS,
    SELF_DEVICE_MS,
    SHARE,
    COLUMNS
} column;

static const char *const titles[COLUMNS] = {"calls",     "bytes",          "total_ms",
                                            "self_ms",   "min_ms",         "max_ms",
                                            "device_ms", "self_device_ms", "share"};

// A row of any table; numbers that it does not have are NaN.
typedef struct row {
    int device; // -1: of none
    const char *name, *detail;
    double number[COLUMNS];
} row;

typedef struct writer {
    bool markdown;
    const char *table, *detail; // of the rows to come; what their details are
    unsigned columns;           // bit i: the table has column i
    int rows, limit;            // written of it, and at most; 0: all
} writer;

#define HAS(column) (1u << (column))

static row new_row(int device, const char *name, const char *detail) {
    row r = {.device = device, .name = name, .detail = detail};
    for (int i = 0; i < COLUMNS; i++) r.number[i] = (double)NAN;
    return r;
}

static void begin(writer *w, const char *table, const char *detail, unsigned columns) {
    w->table = table, w->detail = detail, w->columns = columns, w->rows = 0;
}

static void print_as(void (*escape)(plb_strbuf *, const char *), const char *text) {
    plb_strbuf escaped = {0};
    if (text) escape(&escaped, text);
    plb_print_text(&escaped);
    plb_strbuf_free(&escaped);
}

static void print_number(column k, double value, bool markdown) {
    if (isnan(value)) return;
    if (k == CALLS || k == BYTES)
        plb_print("%.0f", value);
    else if (markdown && k == SHARE)
        plb_print("%.1f %%", 100 * value);
    else
        plb_print(markdown ? "%.3f" : "%.9g", value);
}

static void write_head(const writer *w) {
    plb_print("\n| %s |%s%s", w->table, w->detail ? " " : "", w->detail ? w->detail : "");
    if (w->detail) plb_print(" |");
    for (int k = 0; k < COLUMNS; k++)
        if (w->columns & HAS(k)) plb_print(" %s |", titles[k]);
    plb_print("\n|---|%s", w->detail ? "---|" : "");
    for (int k = 0; k < COLUMNS; k++)
        if (w->columns & HAS(k)) plb_print("---:|");
    plb_print("\n");
}

static void write_markdown(const writer *w, const row *r) {
    if (!w->rows) write_head(w);
    plb_print("| ");
    if (r->device >= 0) plb_print("device %d: ", r->device);
    print_as(plb_escape_markdown, r->name);
    if (w->detail) plb_print(" | "), print_as(plb_escape_markdown, r->detail);
    for (int k = 0; k < COLUMNS; k++) {
        if (!(w->columns & HAS(k))) continue;
        plb_print(" | ");
        print_number((column)k, r->number[k], true);
    }
    plb_print(" |\n");
}

static void write_csv(const writer *w, const row *r) {
    plb_print("%s,", w->table);
    if (r->device >= 0) plb_print("%d", r->device);
    plb_print(",");
    print_as(plb_escape_csv, r->name);
    plb_print(",");
    print_as(plb_escape_csv, r->detail);
    for (int k = 0; k < COLUMNS; k++) {
        plb_print(",");
        print_number((column)k, r->number[k], false);
    }
    plb_print("\r\n");
}

static void put(writer *w, const row *r) {
    if (w->markdown && w->limit && w->rows >= w->limit) return;
    (w->markdown ? write_markdown : write_csv)(w, r);
    w->rows++;
}

// ---------------------------------------------------------------------------- tables
static void put_time(writer *w, const plb_spool *s, int device, const char *name, double share,
                     int64_t span_ns) {
    char detail[128];
    snprintf(detail, sizeof detail, "%.40s in %.60s (%d)", s->names + s->device[device].name,
             s->program, s->pid);
    row r = new_row(device, name, detail);
    r.number[TOTAL_MS] = share * plb_profile_ms(span_ns);
    r.number[SHARE] = share;
    put(w, &r);
}

static void put_devices(writer *w, const plb_profile *p) {
    begin(w, p->in_part ? "time of the device (estimated)" : "time of the device", "of",
          HAS(TOTAL_MS) | HAS(SHARE));
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++) {
            const plb_spool *s = p->process[i];
            plb_breakdown b;
            plb_shares t;
            if (!s->device[d].records) continue;
            plb_breakdown_of(&s->device[d].sums, &b);
            plb_shares_of(s, d, &b, &t);
            put_time(w, s, d, "active", t.active, t.span_ns);
            put_time(w, s, d, "copying", t.copying, t.span_ns);
            put_time(w, s, d, "idle", t.idle, t.span_ns);
        }
}

// How often, and how long: in all, at least, at most, and of all rows.
static void put_spans(writer *w, row r, const plb_estimated *whole, int64_t min_ns, int64_t max_ns,
                      double all_ns) {
    r.number[CALLS] = whole->calls;
    r.number[TOTAL_MS] = whole->ns / 1e6;
    r.number[MIN_MS] = plb_profile_ms(min_ns);
    r.number[MAX_MS] = plb_profile_ms(max_ns);
    r.number[SHARE] = all_ns > 0 ? whole->ns / all_ns : 0;
    put(w, &r);
}

enum { SPANS = HAS(CALLS) | HAS(TOTAL_MS) | HAS(MIN_MS) | HAS(MAX_MS) | HAS(SHARE) };

static void put_kernels(writer *w, const plb_profile *p) {
    double all_ns = 0;
    begin(w, p->in_part ? "kernel (estimated)" : "kernel", "class", SPANS);
    for (int i = 0; i < p->kernels; i++) all_ns += p->kernel[i].whole.ns;
    for (int i = 0; i < p->kernels; i++) {
        const plb_profile_kernel *k = &p->kernel[i];
        put_spans(w, new_row(k->device, k->name, k->class), &k->whole, k->min_ns, k->max_ns,
                  all_ns);
    }
}

static void put_named(writer *w, const char *table, const plb_profile_named *named, int count) {
    double all_ns = 0;
    begin(w, table, NULL, SPANS);
    for (int i = 0; i < count; i++) all_ns += named[i].whole.ns;
    for (int i = 0; i < count; i++) {
        const plb_profile_named *one = &named[i];
        put_spans(w, new_row(-1, one->name, NULL), &one->whole, one->min_ns, one->max_ns, all_ns);
    }
}

static void put_copies(writer *w, const plb_profile *p) {
    plb_profile_copies at = {0};
    char detail[64];
    begin(w, "copies", "sizes", HAS(CALLS) | HAS(BYTES) | HAS(TOTAL_MS));
    while (plb_profile_next_copies(p, &at)) {
        const char *memory = plb_profile_host_memory(&at);
        snprintf(detail, sizeof detail, "%s%sfrom %" PRId64 " B", memory, *memory ? ", " : "",
                 INT64_C(1) << at.size);
        row r = new_row(at.device, plb_profile_direction(at.direction), detail);
        r.number[CALLS] = (double)at.sums->calls;
        r.number[BYTES] = (double)at.sums->bytes;
        r.number[TOTAL_MS] = plb_profile_ms(at.sums->total_ns);
        put(w, &r);
    }
}

// By name, with what they have inside and without.
static void put_operators(writer *w, const plb_profile_report *report) {
    plb_arena *arena = plb_arena_new();
    plb_operator *o = NULL;
    int count = 0;
    if (!arena || plb_operators_of(report->profile, report->operators_by, arena, &o, &count))
        count = 0;
    begin(w, "range", NULL,
          HAS(CALLS) | HAS(TOTAL_MS) | HAS(SELF_MS) | HAS(DEVICE_MS) | HAS(SELF_DEVICE_MS));
    for (int i = 0; i < count; i++) {
        row r = new_row(-1, o[i].name, NULL);
        r.number[CALLS] = (double)o[i].calls;
        r.number[TOTAL_MS] = plb_profile_ms(o[i].cpu_ns);
        r.number[SELF_MS] = plb_profile_ms(o[i].self_cpu_ns);
        r.number[DEVICE_MS] = plb_profile_ms(o[i].device_ns);
        r.number[SELF_DEVICE_MS] = plb_profile_ms(o[i].self_device_ns);
        put(w, &r);
    }
    plb_arena_free(arena);
}

static void put_threads(writer *w, const plb_command_result *c) {
    char detail[32];
    begin(w, "thread", "number", HAS(TOTAL_MS));
    for (int i = 0; c && i < c->threads; i++) {
        snprintf(detail, sizeof detail, "%d", c->thread[i].tid);
        row r = new_row(-1, c->thread[i].name, detail);
        r.number[TOTAL_MS] = plb_profile_ms(c->thread[i].on_cpu_ns);
        put(w, &r);
    }
}

static void put_functions(writer *w, const plb_sampled *s) {
    begin(w, "function", "of", HAS(CALLS) | HAS(SELF_MS) | HAS(SHARE));
    for (int i = 0; s && i < s->functions; i++) {
        const plb_sampled_function *f = &s->function[i];
        row r = new_row(-1, f->name, f->module);
        r.number[CALLS] = (double)f->samples;
        r.number[SELF_MS] = plb_profile_ms(f->samples * s->period_ns);
        r.number[SHARE] = plb_profile_share(f->samples, s->samples);
        put(w, &r);
    }
}

static void put_all(writer *w, const plb_profile_report *r) {
    const plb_profile *p = r->profile;
    put_devices(w, p);
    put_kernels(w, p);
    put_named(w, p->in_part ? "class (estimated)" : "class", p->class, p->classes);
    put_copies(w, p);
    put_named(w, "call", p->call, p->calls);
    put_operators(w, r);
    put_threads(w, r->run);
    put_functions(w, r->sampled);
}

void plb_profile_print_csv(const plb_profile_report *r) {
    writer w = {0};
    plb_print("table,device,name,detail");
    for (int k = 0; k < COLUMNS; k++) plb_print(",%s", titles[k]);
    plb_print("\r\n");
    put_all(&w, r);
}

void plb_profile_print_markdown(const plb_profile_report *r) {
    writer w = {.markdown = true, .limit = r->top};
    char why[320];
    plb_print("Profile of");
    for (char *const *word = r->command; word && *word; word++)
        plb_print(" "), print_as(plb_escape_markdown, *word);
    if (r->run)
        plb_print("; %.3f s, ended with %d", (double)r->run->wall_ns / 1e9, r->run->exit_code);
    plb_print("\n");
    put_all(&w, r);
    if (!plb_profile_incomplete(r, why, sizeof why) && !plb_profile_empty(r, why, sizeof why))
        return;
    plb_print("\nIncomplete: "), print_as(plb_escape_markdown, why), plb_print("\n");
}
