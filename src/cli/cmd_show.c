// SPDX-License-Identifier: Apache-2.0
// One run with its cases, or one case with its starts: medians, the curve of the warm-up, proof,
// fingerprint, raw samples.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "bench/select.h"
#include "bench/stats.h"
#include "bench/summary.h"
#include "bench/transfer.h"
#include "cli/cli.h"
#include "cli/plots.h"
#include "cli/stored.h"
#include "store/profile.h"
#include "store/study.h"

typedef struct show_flags {
    const char *db;
    bool plot, samples;
} show_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(show_flags, db)),
    {.name = "plot",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(show_flags, plot),
     .help = "of a run: its figures, as plots"},
    {.name = "samples",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(show_flags, samples),
     .help = "of a case: every raw sample, in nanoseconds"},
};

// ---------------------------------------------------------------------------- a run
static void print_run_head(const plb_run_row *r, plb_arena *arena) {
    plb_print("run %" PRId64 "  %s  %s%s%s\n", r->id, r->state, plb_show_moment(r->began_ms).text,
              r->label ? "  label " : "", r->label ? plb_stored_plain(r->label, arena) : "");
    if (r->ended_ms >= 0) plb_print("took %s\n", plb_show_duration(r->ended_ms - r->began_ms).text);
    plb_print("command      %s\n", *r->command ? plb_stored_plain(r->command, arena) : "-");
    plb_print("git          %s\n", r->git ? r->git : "-");
    plb_print("machine      %s  %s\n", r->machine_hash, r->machine);
    plb_print("fingerprint  %s\n", r->fingerprint);
    if (r->fingerprint_end) plb_print("at the end   %s\n", r->fingerprint_end);
}

static plb_status print_case_line(plb_store *store, const plb_measurement_row *m,
                                  plb_arena *arena) {
    plb_summary s;
    PLB_TRY(plb_summary_to_show(store, m, arena, &s));
    plb_print("%-12.12s  %-9s%10s%10s%10s%8" PRId64 "%9" PRId64 "  %s\n", m->case_hash,
              m->outcome ? m->outcome : "unfinished", plb_show_ms(s.median_ns).text,
              plb_show_ms(s.low_ns).text, plb_show_ms(s.high_ns).text, s.starts, s.samples,
              plb_stored_title(m->keys, arena));
    if (m->reason && *m->reason)
        plb_print("              %s\n", plb_stored_plain(m->reason, arena));
    return PLB_OK;
}

// What a run is that has no cases of its own.
static plb_status print_where_else(plb_store *store, int64_t run_id, plb_arena *arena) {
    plb_store_profile profile;
    plb_study_row study;
    plb_status found = plb_store_find_study(store, run_id, NULL, arena, &study);
    if (!found)
        plb_print("the study %s: `plumb report %" PRId64 " --db %s` shows its items\n",
                  plb_stored_plain(study.name, arena), run_id, plb_store_path(store));
    if (found != PLB_EMISSING) return found;
    found = plb_store_get_profile(store, run_id, arena, &profile);
    if (!found)
        plb_print("a profile: `plumb trace %" PRId64 " --db %s` shows it\n", run_id,
                  plb_store_path(store));
    return found == PLB_EMISSING ? PLB_OK : found;
}

static plb_status show_run(plb_store *store, const plb_run_row *run, plb_arena *arena) {
    plb_measurement_row *rows;
    size_t count;
    const plb_measurement_filter filter = {.run = run->id, .algorithm = PLB_SUMMARY_ALGORITHM};
    PLB_TRY(plb_store_measurements(store, &filter, arena, &rows, &count));
    print_run_head(run, arena);
    plb_print("\n%-12s  %-9s%10s%10s%10s%8s%9s  %s\n", "case", "outcome", "median ms", "low",
              "high", "starts", "samples", "");
    for (size_t i = 0; i < count; i++) PLB_TRY(print_case_line(store, &rows[i], arena));
    return print_where_else(store, run->id, arena);
}

// ---------------------------------------------------------------------------- a case
// A median of each of at most 60 stretches, as bars between the smallest and the largest.
static plb_status print_curve(const double *values, size_t count, size_t warmup) {
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    enum { WIDTH = 60 };
    double medians[WIDTH], least = HUGE_VAL, most = 0;
    size_t width = count < WIDTH ? count : WIDTH;
    if (!count) return PLB_OK;
    double *scratch = plb_alloc_array(count, sizeof *scratch);
    if (!scratch) return plb_fail(PLB_ENOMEM, "out of memory");
    for (size_t i = 0; i < width; i++) {
        size_t from = i * count / width, to = (i + 1) * count / width;
        memcpy(scratch, values + from, (to - from) * sizeof *scratch);
        medians[i] = plb_median(scratch, to - from);
        least = fmin(least, medians[i]), most = fmax(most, medians[i]);
    }
    plb_free(scratch);
    plb_print("      ");
    for (size_t i = 0; i < width; i++) {
        if (warmup && i == warmup * width / count) plb_print("|");
        double height = most > least ? (medians[i] - least) / (most - least) : 0;
        plb_print("%s", bars[(int)(height * 7.999)]);
    }
    plb_print("  %s to %s ms%s\n", plb_show_ms(least).text, plb_show_ms(most).text,
              warmup ? ", | ends the warm-up" : "");
    return PLB_OK;
}

static void print_samples(const plb_store_block *blocks, size_t count) {
    for (size_t b = 0; b < count; b++) {
        plb_print("      %s block %zu, sweep %" PRId64 ", marks %u, %" PRId64
                  " iterations a sample:",
                  blocks[b].kind == PLB_BLOCK_TIMED ? "timed" : "warm-up", b, blocks[b].sweep,
                  blocks[b].marks, blocks[b].iterations_per_sample);
        for (size_t i = 0; i < blocks[b].count; i++)
            plb_print(" %" PRId64, blocks[b].samples_ns[i]);
        plb_print("\n");
    }
}

// Times of one iteration in order, and how many of them were warm-up.
static plb_status flatten(const plb_store_block *blocks, size_t count, plb_arena *arena,
                          double **values, size_t *total, size_t *warmup) {
    *total = *warmup = 0;
    for (size_t b = 0; b < count; b++) *total += blocks[b].count;
    *values = plb_arena_alloc(arena, (*total + 1) * sizeof **values);
    if (!*values) return plb_fail(PLB_ENOMEM, "out of memory");
    size_t n = 0;
    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < blocks[b].count; i++)
            (*values)[n++] =
                (double)blocks[b].samples_ns[i] / (double)blocks[b].iterations_per_sample;
        if (blocks[b].kind == PLB_BLOCK_WARMUP) *warmup = n;
    }
    return PLB_OK;
}

static plb_status show_start(plb_store *store, const plb_start_row *row, bool samples,
                             plb_arena *arena) {
    plb_store_block *blocks;
    plb_start_summary s;
    size_t count, time_count, total, warmup;
    double *times, *values;
    PLB_TRY(plb_store_blocks(store, row->id, arena, &blocks, &count));
    PLB_TRY(plb_start_summarize(blocks, count, arena, &s, &times, &time_count));
    PLB_TRY(flatten(blocks, count, arena, &values, &total, &warmup));
    plb_print("  start %" PRId64 "  %s  median %s ms of %" PRId64 " samples  warm-up %" PRId64
              " iterations%s",
              row->number, row->outcome ? row->outcome : "unfinished",
              plb_show_ms(s.median_ns).text, s.samples, row->warmup_iterations,
              row->steady == 0 ? ", never steady" : "");
    if (row->stop) plb_print("  stopped by %s", row->stop);
    if (row->group >= 0) plb_print("  interleaved in group %" PRId64, row->group);
    plb_print("\n      load %s ms, first call %s ms, compile %s ms%s\n",
              plb_show_ms(row->load_ns < 0 ? NAN : (double)row->load_ns).text,
              plb_show_ms(row->first_call_ns < 0 ? NAN : (double)row->first_call_ns).text,
              plb_show_ms(row->compile_ns < 0 ? NAN : (double)row->compile_ns).text,
              s.drift ? "; drifts" : "");
    if (row->ran) plb_print("      ran %s\n", row->ran);
    if (row->memory) plb_print("      memory %s\n", row->memory);
    PLB_TRY(print_curve(values, total, warmup));
    if (samples) print_samples(blocks, count);
    return PLB_OK;
}

static void print_json_text(const char *name, const char *text) {
    if (text) plb_print("%-9s %s\n", name, text);
}

static plb_status show_measurement(plb_store *store, const plb_measurement_row *m, bool samples,
                                   plb_arena *arena) {
    plb_summary s;
    plb_start_row *starts;
    size_t count;
    PLB_TRY(plb_summary_to_show(store, m, arena, &s));
    PLB_TRY(plb_store_starts(store, m->id, arena, &starts, &count));
    plb_print("%s\ncase      %s  in run %" PRId64 "\nkeys      %s\n",
              plb_stored_title(m->keys, arena), m->case_hash, m->run, m->keys);
    plb_print("outcome   %s%s%s\n", m->outcome ? m->outcome : "unfinished", m->reason ? ": " : "",
              m->reason ? plb_stored_plain(m->reason, arena) : "");
    plb_print("median    %s ms, 95 %% interval %s to %s ms over %" PRId64
              " starts; 5 %% below %s, 95 %% below %s ms\n",
              plb_show_ms(s.median_ns).text, plb_show_ms(s.low_ns).text,
              plb_show_ms(s.high_ns).text, s.starts, plb_show_ms(s.p05_ns).text,
              plb_show_ms(s.p95_ns).text);
    print_json_text("proof", m->proof);
    print_json_text("versions", m->versions);
    print_json_text("results", m->results);
    for (size_t i = 0; i < count; i++) PLB_TRY(show_start(store, &starts[i], samples, arena));
    if (m->log && *m->log) plb_print("log\n%s\n", m->log);
    return PLB_OK;
}

static plb_status show_case(plb_store *store, const char *hash, bool samples, plb_arena *arena) {
    plb_measurement_row *rows;
    size_t count;
    const plb_measurement_filter filter = {.case_hash = hash, .algorithm = PLB_SUMMARY_ALGORITHM};
    PLB_TRY(plb_store_measurements(store, &filter, arena, &rows, &count));
    for (size_t i = 1; i < count; i++) {
        if (rows[i].case_id != rows[0].case_id) {
            return plb_fail(PLB_EINVAL, "%s: the beginning of several hashes, %s and %s", hash,
                            rows[0].case_hash, rows[i].case_hash);
        }
    }
    if (count > 1) {
        plb_print("measured in runs");
        for (size_t i = 0; i < count; i++) plb_print(" %" PRId64, rows[i].run);
        plb_print("; the newest:\n");
    }
    return show_measurement(store, &rows[count - 1], samples, arena);
}

// ---------------------------------------------------------------------------- command
// Of a run that has one; it is no part of what `plumb export` writes.
static plb_status add_profile(plb_store *store, int64_t run_id, plb_arena *arena, plb_json *json) {
    plb_store_profile profile;
    plb_status status = plb_store_get_profile(store, run_id, arena, &profile);
    if (!status) plb_json_raw(json, "profile", profile.document);
    return status == PLB_EMISSING ? PLB_OK : status;
}

static plb_status json_run(plb_store *store, const char *word, const plb_selector *selector,
                           plb_arena *arena) {
    plb_run_row run, *rows;
    plb_measurement_row *cases;
    size_t count;
    plb_json json;
    if (selector->kind == PLB_SELECT_CASE) { // the document of the newest run that has it
        const plb_measurement_filter filter = {.case_hash = selector->word, .brief = true};
        PLB_TRY(plb_store_measurements(store, &filter, arena, &cases, &count));
        const plb_run_filter newest = {.id = cases[count - 1].run};
        PLB_TRY(plb_store_runs(store, &newest, arena, &rows, &count));
        run = rows[0];
    } else {
        PLB_TRY(plb_stored_run(store, word, arena, &run));
    }
    plb_cli_json_begin(&json, "run", 1);
    plb_status status = plb_transfer_write(store, &run, true, &json);
    if (!status) status = add_profile(store, run.id, arena, &json);
    if (!status) return plb_cli_json_print(&json);
    plb_json_free(&json);
    return status;
}

static plb_status run_show(plb_call *call) {
    const show_flags *f = call->options;
    const char *word = call->operands[0];
    plb_store *store;
    plb_arena *arena;
    plb_selector selector;
    plb_run_row run;
    plb_status status;
    PLB_TRY_OUT(plb_stored_open(f->db, &store, &arena));
    PLB_TRY_OUT(plb_select_parse(store, word, &selector));
    if (f->plot && (call->json || f->samples || selector.kind == PLB_SELECT_CASE)) {
        status = plb_fail(PLB_EINVAL, "--plot draws a run, without --json and --samples");
    } else if (selector.kind == PLB_SELECT_STACK) {
        status = plb_fail(PLB_EINVAL, "%s: expected a run or a case, found a stack", word);
    } else if (call->json) {
        status = json_run(store, word, &selector, arena);
    } else if (selector.kind == PLB_SELECT_CASE) {
        status = show_case(store, selector.word, f->samples, arena);
    } else {
        status = plb_stored_run(store, word, arena, &run);
        if (!status) status = f->plot ? plb_plot_run(store, &run) : show_run(store, &run, arena);
    }
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_show = {
    .name = "show",
    .summary = "show a run or a case, down to its samples",
    .operands = "RUN|CASE",
    .description =
        "RUN is a number, label or git revision of `plumb runs`; CASE the hash that `plumb\n"
        "show RUN` lists, or its beginning. Of a case the newest measurement is shown, with\n"
        "the curve of each start from its first call on.\n\n"
        "With --json: the document that `plumb export` writes, of the run that has it.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(show_flags),
    .run = run_show,
};
