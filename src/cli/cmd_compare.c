// SPDX-License-Identifier: Apache-2.0
// Which of two is slower, from what the store has: a verdict for each pair of cases, with its
// interval, and what is needed where none can be given.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "bench/compare.h"
#include "cli/cli.h"
#include "cli/plots.h"
#include "cli/profile_compare.h"
#include "cli/stored.h"
#include "probe/kept.h"

typedef struct compare_flags {
    const char *db, *by;
    double margin;
    bool anyway, fail_unsure, fail_missing, plot;
} compare_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(compare_flags, db)),
    {.name = "by",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(compare_flags, by),
     .value = "KEY",
     .help = "compare the cases of one run along KEY: see below"},
    {.name = "margin",
     .kind = PLB_FLAG_DOUBLE,
     .offset = offsetof(compare_flags, margin),
     .value = "PCT",
     .low = 0.01,
     .high = 50,
     .fallback = "1",
     .help = "differences up to this many per cent count as none"},
    {.name = "anyway",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(compare_flags, anyway),
     .help = "compare also what differs in more than was asked for, and mark it"},
    {.name = "plot",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(compare_flags, plot),
     .help = "print ratios with their intervals as a plot, before the verdicts"},
    {.name = "fail-unsure",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(compare_flags, fail_unsure),
     .help = "exit with 4 if a verdict is UNSURE"},
    {.name = "fail-missing",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(compare_flags, fail_missing),
     .help = "exit with 1 if B has no time of a case of which A has one"},
};

typedef struct tally {
    int verdict[4];
    int refused, failed; // failed: a is ok and b is not
    int missing;         // a is ok, and B has no time of it, but did not fail
} tally;

static bool is_outcome(const plb_measurement_row *row, const char *outcome) {
    return row->outcome && strcmp(row->outcome, outcome) == 0;
}

// a is ok and b, the same work on the same machine, is not; one that was interrupted did not fail.
static bool has_failed(const plb_pair *p) {
    return p->difference_count == 1 && strcmp(p->differences[0].key, "outcome") == 0 &&
           is_outcome(p->a, "ok") && p->b->outcome && !is_outcome(p->b, "refused");
}

// Whether A has a time of a case that B lacks: its own was refused or never ended, or what stands
// for it is another case.
static bool is_missing(const plb_pair *p) {
    return p->refused && is_outcome(p->a, "ok") && !has_failed(p) &&
           (p->a->case_id != p->b->case_id || !is_outcome(p->b, "ok"));
}

static tally count_all(const plb_compare_result *r, bool along) {
    tally t = {0};
    for (size_t i = 0; i < r->count && !along; i++) t.missing += is_missing(&r->pairs[i]);
    for (size_t i = 0; i < r->only_a_count && !along; i++)
        t.missing += is_outcome(r->only_a[i], "ok");
    for (size_t i = 0; i < r->count; i++) {
        const plb_pair *p = &r->pairs[i];
        if (!p->refused) {
            t.verdict[p->comparison.verdict]++;
        } else if (has_failed(p)) {
            t.failed++;
        } else {
            t.refused++;
        }
    }
    return t;
}

static int exit_code_of(const tally *t, const compare_flags *f) {
    int judged = 0;
    for (int i = 0; i < 4; i++) judged += t->verdict[i];
    if (t->verdict[PLB_VERDICT_SLOWER] || t->failed) return PLB_EXIT_NEGATIVE;
    if (t->missing && f->fail_missing) return PLB_EXIT_NEGATIVE;
    if (t->verdict[PLB_VERDICT_UNSURE] && f->fail_unsure) return PLB_EXIT_UNSURE;
    if (judged) return PLB_EXIT_FINE;
    return t->refused ? PLB_EXIT_INPUT : PLB_EXIT_NOTHING;
}

// ---------------------------------------------------------------------------- text
static const char *name_of(const plb_pair *p, plb_arena *arena) {
    const char *a = plb_stored_title(p->a->keys, arena);
    if (p->a->case_id == p->b->case_id) return a;
    const char *both = plb_arena_printf(arena, "%s -> %s", a, plb_stored_title(p->b->keys, arena));
    return both ? both : a;
}

static void print_note(const plb_pair *p) {
    const plb_comparison *c = &p->comparison;
    char need[200];
    plb_comparison_need(c, need, sizeof need);
    plb_print("    %s, %" PRId64 " and %" PRId64 " starts, %" PRId64 " and %" PRId64 " samples",
              plb_design_name(c->design), c->starts_a, c->starts_b, p->summary_a.samples,
              p->summary_b.samples);
    if (!isnan(c->detectable)) plb_print("; would see %.1f %%", 100 * c->detectable);
    if (p->per_sample) plb_print("; ratio of times per sample");
    if (*need) plb_print("; %s", need);
    if (p->anyway) plb_print("; NOT COMPARABLE: differs in %s", p->differences[0].key);
    if (p->summary_a.drift || p->summary_b.drift) plb_print("; drifts");
    plb_print("\n");
}

static void print_pair(const plb_pair *p, plb_arena *arena) {
    const plb_comparison *c = &p->comparison;
    plb_cell low = plb_show_ratio(c->low), high = plb_show_ratio(c->high);
    plb_print("%s\n", name_of(p, arena));
    plb_print("    %-7s%10s ms ->%10s ms  ratio %s (%s to %s)\n", plb_verdict_name(c->verdict),
              plb_show_ms(p->summary_a.median_ns).text, plb_show_ms(p->summary_b.median_ns).text,
              plb_show_ratio(c->ratio).text, low.text, high.text);
    print_note(p);
}

static void print_refused(const plb_compare_result *r, plb_arena *arena) {
    enum { MOST = 20 };
    size_t shown = 0;
    if (!r->refused) return;
    plb_print(
        "\nNot compared, since these differ in more than was asked for (--anyway does it):\n");
    for (size_t i = 0; i < r->count; i++) {
        const plb_pair *p = &r->pairs[i];
        if (!p->refused) continue;
        if (shown++ == MOST) {
            plb_print("  and %zu more\n", r->refused - MOST);
            return;
        }
        plb_print("  %s\n", name_of(p, arena));
        for (int k = 0; k < p->difference_count; k++) {
            const plb_case_difference *d = &p->differences[k];
            plb_print("    %s: %s -> %s\n", d->key, *d->a ? d->a : "not set",
                      *d->b ? d->b : "not set");
        }
    }
}

static void print_alone(const char *side, const plb_measurement_row *const *rows, size_t count,
                        plb_arena *arena) {
    enum { MOST = 10 };
    if (!count) return;
    plb_print("\nOnly in %s:\n", side);
    for (size_t i = 0; i < count && i < MOST; i++)
        plb_print("  %s\n", plb_stored_title(rows[i]->keys, arena));
    if (count > MOST) plb_print("  and %zu more\n", count - MOST);
}

static void print_all(const plb_compare_result *r, const tally *t, const compare_flags *f,
                      plb_arena *arena) {
    for (size_t i = 0; i < r->count; i++)
        if (!r->pairs[i].refused) print_pair(&r->pairs[i], arena);
    print_refused(r, arena);
    if (!f->by) {
        print_alone("A", r->only_a, r->only_a_count, arena);
        print_alone("B", r->only_b, r->only_b_count, arena);
    }
    plb_print("\n%d SLOWER, %d FASTER, %d SAME within %.3g %%, %d UNSURE",
              t->verdict[PLB_VERDICT_SLOWER], t->verdict[PLB_VERDICT_FASTER],
              t->verdict[PLB_VERDICT_SAME], f->margin, t->verdict[PLB_VERDICT_UNSURE]);
    if (t->failed) plb_print(", %d FAILED where A did not", t->failed);
    if (t->missing) plb_print(", %d of A MISSING in B", t->missing);
    if (t->refused) plb_print(", %d not compared", t->refused);
    plb_print("\n");
}

// ---------------------------------------------------------------------------- plot
enum { MOST_BARS = 48 };

// The words of two titles in which they differ as "B / A"; then those that they share.
static const char *difference_of(const plb_pair *p, plb_arena *arena) {
    const char *fallback = name_of(p, arena);
    char *a = plb_arena_strdup(arena, plb_stored_title(p->a->keys, arena));
    char *b = plb_arena_strdup(arena, plb_stored_title(p->b->keys, arena));
    char *rest_a = NULL, *rest_b = NULL;
    plb_strbuf apart = {0}, shared = {0};
    if (p->a->case_id == p->b->case_id || !a || !b) return fallback;
    char *x = strtok_r(a, " ", &rest_a), *y = strtok_r(b, " ", &rest_b);
    for (; x && y; x = strtok_r(NULL, " ", &rest_a), y = strtok_r(NULL, " ", &rest_b)) {
        if (!strcmp(x, y))
            plb_strbuf_printf(&shared, "%s%s", shared.length ? " " : "", x);
        else
            plb_strbuf_printf(&apart, "%s%s / %s", apart.length ? ", " : "", y, x);
    }
    const char *name = NULL;
    if (!x && !y && apart.length && shared.length && !apart.failed && !shared.failed)
        name = plb_arena_printf(arena, "%s, %s", apart.text, shared.text);
    plb_strbuf_free(&apart);
    plb_strbuf_free(&shared);
    return name ? name : fallback;
}

// Ratios of the pairs that were judged; at most `MOST_BARS`. Returns how many there are in all.
static size_t draw_ratios(const plb_compare_result *r, plb_document *d, plb_section *section) {
    plb_arena *arena = plb_document_arena(d);
    double y[MOST_BARS], low[MOST_BARS], high[MOST_BARS];
    const char *name[MOST_BARS];
    size_t drawn = 0, all = 0;
    for (size_t i = 0; i < r->count; i++) {
        const plb_pair *p = &r->pairs[i];
        if (p->refused || isnan(p->comparison.ratio) || all++ >= MOST_BARS) continue;
        y[drawn] = p->comparison.ratio;
        low[drawn] = p->comparison.low, high[drawn] = p->comparison.high;
        name[drawn++] = difference_of(p, arena);
    }
    const plb_figure_series series = {.name = "", .count = drawn, .y = y, .low = low, .high = high};
    if (drawn)
        plb_section_figure(
            section, &(plb_figure){.kind = PLB_FIGURE_BARS,
                                   .name = "ratios",
                                   .title = "Time of B over time of A",
                                   .y = {.title = "ratio", .unit = PLB_UNIT_RATIO, .zero = true},
                                   .category = name,
                                   .categories = drawn,
                                   .series = &series,
                                   .series_count = 1});
    return all;
}

static plb_status print_plot(const plb_compare_result *r) {
    plb_document *d = plb_document_new("Comparison");
    if (!d) return plb_fail(PLB_ENOMEM, "out of memory for a plot");
    plb_section *section = plb_document_section(d, "Ratios");
    size_t all = draw_ratios(r, d, section);
    if (!all) plb_section_say(section, "No pair has a ratio.");
    if (all > MOST_BARS)
        plb_section_say(section, "%d of %zu pairs are drawn; all stand below.", MOST_BARS, all);
    plb_status status = plb_document_status(d);
    if (!status) status = plb_plot_document(d);
    plb_document_free(d);
    return status;
}

// ---------------------------------------------------------------------------- JSON
static void json_side(plb_json *json, const char *key, const plb_measurement_row *row,
                      const plb_summary *s) {
    plb_json_begin_object(json, key);
    plb_json_int(json, "id", row->id);
    plb_json_int(json, "run", row->run);
    plb_json_string(json, "hash", row->case_hash);
    plb_json_raw(json, "case", row->keys);
    plb_json_string(json, "outcome", row->outcome);
    plb_json_double(json, "median_ms", s->median_ns * 1e-6);
    plb_json_double(json, "low_ms", s->low_ns * 1e-6);
    plb_json_double(json, "high_ms", s->high_ns * 1e-6);
    plb_json_int(json, "starts", s->starts);
    plb_json_int(json, "samples", s->samples);
    plb_json_bool(json, "drift", s->drift);
    plb_json_end(json);
}

static void json_comparison(plb_json *json, const plb_pair *p) {
    const plb_comparison *c = &p->comparison;
    char need[200];
    plb_comparison_need(c, need, sizeof need);
    plb_json_string(json, "verdict", plb_verdict_name(c->verdict));
    plb_json_double(json, "ratio", c->ratio);
    plb_json_double(json, "low", c->low);
    plb_json_double(json, "high", c->high);
    plb_json_string(json, "design", plb_design_name(c->design));
    plb_json_int(json, "starts_a", c->starts_a);
    plb_json_int(json, "starts_b", c->starts_b);
    plb_json_double(json, "p_differ", c->p_differ_adjusted);
    plb_json_double(json, "p_same", c->p_same_adjusted);
    plb_json_double(json, "start_spread", sqrt(c->start_variance / 2));
    plb_json_double(json, "start_dof", c->start_dof);
    plb_json_double(json, "detectable", c->detectable);
    if (c->starts_more < 0)
        plb_json_null(json, "starts_more");
    else
        plb_json_int(json, "starts_more", c->starts_more);
    plb_json_string(json, "needs", *need ? need : NULL);
    plb_json_bool(json, "per_sample", p->per_sample);
    plb_json_bool(json, "anyway", p->anyway);
}

static void json_pair(plb_json *json, const plb_pair *p) {
    plb_json_begin_object(json, NULL);
    json_side(json, "a", p->a, &p->summary_a);
    json_side(json, "b", p->b, &p->summary_b);
    if (p->refused) {
        plb_json_string(json, "verdict", "REFUSED");
    } else {
        json_comparison(json, p);
    }
    plb_json_begin_array(json, "differs");
    for (int i = 0; i < p->difference_count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "key", p->differences[i].key);
        plb_json_string(json, "a", p->differences[i].a);
        plb_json_string(json, "b", p->differences[i].b);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_end(json);
}

static void json_alone(plb_json *json, const char *key, const plb_measurement_row *const *rows,
                       size_t count) {
    plb_json_begin_array(json, key);
    for (size_t i = 0; i < count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_int(json, "id", rows[i]->id);
        plb_json_int(json, "run", rows[i]->run);
        plb_json_string(json, "hash", rows[i]->case_hash);
        plb_json_raw(json, "case", rows[i]->keys);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_tally(plb_json *json, const tally *t) {
    plb_json_begin_object(json, "counts");
    plb_json_int(json, "slower", t->verdict[PLB_VERDICT_SLOWER]);
    plb_json_int(json, "faster", t->verdict[PLB_VERDICT_FASTER]);
    plb_json_int(json, "same", t->verdict[PLB_VERDICT_SAME]);
    plb_json_int(json, "unsure", t->verdict[PLB_VERDICT_UNSURE]);
    plb_json_int(json, "failed", t->failed);
    plb_json_int(json, "missing", t->missing);
    plb_json_int(json, "refused", t->refused);
    plb_json_end(json);
}

static plb_status print_json(const plb_compare_result *r, const tally *t, const compare_flags *f) {
    plb_json json;
    plb_cli_json_begin(&json, "compare", 1);
    plb_json_double(&json, "margin", f->margin / 100);
    json_tally(&json, t);
    plb_json_begin_array(&json, "pairs");
    for (size_t i = 0; i < r->count; i++) json_pair(&json, &r->pairs[i]);
    plb_json_end(&json);
    json_alone(&json, "only_a", r->only_a, r->only_a_count);
    json_alone(&json, "only_b", r->only_b, r->only_b_count);
    return plb_cli_json_print(&json);
}

static plb_status run_compare(plb_call *call) {
    const compare_flags *f = call->options;
    // One that is a profile can only be compared with another, so that a wrong path is told as one.
    if (call->operand_count == 2 &&
        (plb_kept_is(call->operands[0]) || plb_kept_is(call->operands[1])))
        return f->plot ? plb_fail(PLB_EINVAL, "--plot draws runs, not profiles")
                       : plb_profile_compare(call, f->margin / 100);
    if (f->plot && call->json) return plb_fail(PLB_EINVAL, "--plot prints no JSON");
    if (f->by && f->fail_missing)
        return plb_fail(PLB_EINVAL, "--fail-missing looks for A's cases in B: --by has no B");
    const plb_compare_request request = {.a = call->operand_count > 0 ? call->operands[0] : NULL,
                                         .b = call->operand_count > 1 ? call->operands[1] : NULL,
                                         .by = f->by,
                                         .anyway = f->anyway,
                                         .options = {.margin = f->margin / 100}};
    plb_store *store;
    plb_arena *arena;
    plb_compare_result result;
    plb_status status;
    PLB_TRY_OUT(plb_stored_open(f->db, &store, &arena));
    PLB_TRY_OUT(plb_compare_run(store, &request, arena, &result));
    tally t = count_all(&result, f->by != NULL);
    call->exit_code = exit_code_of(&t, f);
    if (f->plot) PLB_TRY_OUT(print_plot(&result));
    if (call->json)
        PLB_TRY_OUT(print_json(&result, &t, f));
    else if (result.count || result.only_a_count || result.only_b_count)
        print_all(&result, &t, f, arena);
    if (call->exit_code == PLB_EXIT_NOTHING) plb_note("there was nothing to compare");
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_compare = {
    .name = "compare",
    .summary = "say which of two measurements is slower, and how sure that is",
    .operands = "[A [B]]",
    .description =
        "A and B are runs (their numbers), labels, git revisions, stacks or hashes of cases,\n"
        "as `plumb runs` and `plumb show` list them; run:, label:, git:, stack: or case:\n"
        "before a name says which is meant. Of two runs, labels or revisions, equal cases are\n"
        "compared; of two stacks, cases that are equal but for the stack, in the newest run\n"
        "that has both. With --by, the cases of one run (the newest, or A) are compared with\n"
        "each other along KEY: stack, settings, batch (by time per sample), size, device,\n"
        "threads, dtype or region.\n\n"
        "The verdict is SAME where the 90 % interval of the ratio of their times lies within\n"
        "the margin, SLOWER or FASTER where B differs from A by more than the margin with at\n"
        "most 0.5 % of such verdicts wrong, and UNSURE otherwise, with what is needed to be\n"
        "sure. docs/measuring.md explains it.\n\n"
        "Two files that `plumb profile --save` kept are compared kernel by kernel, without a\n"
        "verdict: what appeared, vanished, changed in count, mean time, launch shape or class.\n\n"
        "Exits with 1 if anything is SLOWER, or failed where A did not, and with --fail-missing\n"
        "if B has no time of a case of which A has one, because it is not there, was refused or\n"
        "never ended; 2 if what is asked for cannot be compared; 5 if there was nothing to\n"
        "compare.",
    .max_operands = 2,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(compare_flags),
    .run = run_compare,
};
