// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "cli/bench_probe.h"
#include "cli/units.h"
#include "report/escape.h"

// ---------------------------------------------------------------------------- while it runs
static bool line_shown;

void plb_bench_clear_shown(void) {
    if (line_shown) fprintf(stderr, "\r\033[K");
    line_shown = false;
}

typedef struct time_text {
    char text[32];
} time_text;

static time_text show_ns(double ns) {
    time_text out;
    if (!isfinite(ns))
        snprintf(out.text, sizeof out.text, "-");
    else if (ns < 1e3)
        snprintf(out.text, sizeof out.text, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(out.text, sizeof out.text, "%.4g us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(out.text, sizeof out.text, "%.4g ms", ns / 1e6);
    else
        snprintf(out.text, sizeof out.text, "%.4g s", ns / 1e9);
    return out;
}

// For durations that nobody knows exactly: "45 s", "12 min".
static time_text show_about(double s) {
    time_text out;
    if (s < 100)
        snprintf(out.text, sizeof out.text, "%.0f s", s);
    else
        snprintf(out.text, sizeof out.text, "%.0f min", s / 60);
    return out;
}

// In few words what became of a case.
static void tell_outcome(const plb_bench_case *c, char *out, size_t size) {
    if (c->failure.outcome != PLB_OUTCOME_OK) {
        snprintf(out, size, "%s: %s",
                 c->failure.outcome == PLB_OUTCOME_INVALID ? "INVALID"
                                                           : plb_outcome_name(c->failure.outcome),
                 c->failure.reason);
    } else if (isfinite(c->median_ns)) {
        snprintf(out, size, "%s, EQUAL", show_ns(c->median_ns).text);
    } else {
        snprintf(out, size, "%s", c->proof.equal ? "EQUAL" : "done");
    }
}

// In place of the line that was shown last. A title has words of others, too: names, settings.
static PLB_PRINTF(1) void say_over(const char *format, ...) {
    plb_strbuf text = {0}, line = {0};
    va_list args;
    va_start(args, format);
    plb_strbuf_vprintf(&text, format, args);
    va_end(args);
    plb_escape_terminal(&line, text.text ? text.text : "");
    if (!text.failed && !line.failed) fprintf(stderr, "\r\033[K%s", line.text ? line.text : "");
    fflush(stderr);
    plb_strbuf_free(&text);
    plb_strbuf_free(&line);
}

void plb_bench_show(void *context, const plb_bench_event *e) {
    (void)context;
    static int terminal = -1;
    static int64_t shown_ns;
    char title[256], outcome[1200], left[48] = "";
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    if (e->kind == PLB_BENCH_PLANNED) return;
    plb_case_title(&e->c->c, title, sizeof title);
    if (e->left_s >= 1) snprintf(left, sizeof left, ", about %s left", show_about(e->left_s).text);
    if (e->kind == PLB_BENCH_DONE) {
        plb_bench_clear_shown();
        tell_outcome(e->c, outcome, sizeof outcome);
        plb_cli_say("[%d/%d%s] %s  %s", e->done, e->total, left, title, outcome);
        return;
    }
    if (!terminal || plb_now_ns() - shown_ns < 50000000) return;
    shown_ns = plb_now_ns();
    line_shown = true;
    say_over("[%d/%d%s] %.60s  %s ...", e->done, e->total, left, title, e->text);
}

// ---------------------------------------------------------------------------- plan
void plb_bench_print_plan(const plb_bench *b, const plb_bench_options *o) {
    int n = plb_bench_case_count(b);
    const time_text time = show_about(plb_bench_estimate_s(b));
    if (o->verify) {
        plb_note("%d proof%s, about %s", n, n == 1 ? "" : "s", time.text);
    } else {
        plb_note("%d case%s, %d start%s each, %.3g s of samples a case; about %s", n,
                 n == 1 ? "" : "s", o->starts, o->starts == 1 ? "" : "s", o->time_s, time.text);
    }
}

// ---------------------------------------------------------------------------- tables
// What differs between tables: everything but the stack, its settings.
static bool same_table(const plb_bench_case *a, const plb_bench_case *b) {
    return a->table == b->table;
}

static bool is_dim(const plb_setting *setting) {
    return strncmp(setting->key, "dim.", 4) == 0;
}

static void print_head(const plb_bench_case *c, bool verify) {
    const plb_case *k = &c->c;
    plb_print("\n%s %s  ", k->model, k->task);
    if (c->finds_batch) plb_print("batch auto, ");
    if (k->size && !c->finds_batch) plb_print("batch %" PRId64 ", ", k->batch);
    if (k->size) plb_print("%" PRId64 "x%" PRId64 ", ", k->size, k->size);
    for (int i = 0; i < k->setting_count; i++) { // extents of a file
        if (!is_dim(&k->settings[i])) continue;
        plb_print("%s %s, ", k->settings[i].key + strlen("dim."), k->settings[i].value);
    }
    plb_print("%s, %s%s%s%s%s, %s, %" PRId64 " thread%s, caches %s\n", k->device, k->dtype,
              strcmp(k->math, "f32") == 0 ? "" : " ", strcmp(k->math, "f32") == 0 ? "" : k->math,
              strcmp(k->autocast, "none") == 0 ? "" : " autocast ",
              strcmp(k->autocast, "none") == 0 ? "" : k->autocast, k->region, k->threads,
              k->threads == 1 ? "" : "s", k->cache);
    if (verify) {
        plb_print("%-26s %-8s %10s  %-34s %s\n", "stack", "proof", "max error", "checked", "");
    } else {
        plb_print("%-26s %11s %17s %8s %10s %7s %9s %9s %9s %9s  %s\n", "stack", "time",
                  "95 % interval", "/ floor", "samples/s", "warm-up", "load", "1st call", "compile",
                  "memory", "proof");
    }
}

static void show_stack(const plb_case *c, bool batch, char *out, size_t size) {
    int n = snprintf(out, size, "%s", c->stack);
    if (batch) n += snprintf(out + n, size - (size_t)n, " batch %" PRId64, c->batch);
    for (int i = 0; i < c->setting_count && n > 0 && (size_t)n < size; i++) {
        if (is_dim(&c->settings[i])) continue;
        n +=
            snprintf(out + n, size - (size_t)n, " %s=%s", c->settings[i].key, c->settings[i].value);
    }
}

static double compared_ns(const plb_bench_case *c) {
    return c->finds_batch ? c->median_ns / (double)c->c.batch : c->median_ns;
}

static bool measured(const plb_bench_case *c, const plb_bench_case *of, const char *level) {
    return same_table(c, of) && strcmp(c->stack->name, level) == 0 &&
           c->failure.outcome == PLB_OUTCOME_OK && isfinite(c->median_ns);
}

// What every ratio is against: the lowest level of ours that measured. Of batches that were found,
// the best of ours, and a time a sample, as they differ.
static double floor_of(const plb_bench *b, const plb_bench_case *of) {
    double floor = (double)NAN;
    for (const char *const *level = plb_case_levels(); *level; level++) {
        for (int i = 0; i < plb_bench_case_count(b); i++) {
            const plb_bench_case *c = plb_bench_case_at(b, i);
            if (!measured(c, of, *level)) continue;
            floor = fmin(floor, compared_ns(c));
            if (!of->finds_batch) return floor;
        }
    }
    return floor;
}

static time_text show_known(int64_t ns) {
    return show_ns(ns < 0 ? (double)NAN : (double)ns);
}

static void print_disturbance(const plb_bench_case *c) {
    double blocks = c->blocks > 0 ? (double)c->blocks : 1;
    if (c->busy_blocks) {
        plb_print("%-26s busy: other programs had a processor in %.0f %% of its blocks", "",
                  100 * (double)c->busy_blocks / blocks);
        if (c->others_cpus > 0) plb_print(", up to %.1f", c->others_cpus);
        plb_print("\n");
    }
    if (c->throttled_blocks) {
        plb_print("%-26s throttled: the quota stopped it in %.0f %% of its blocks\n", "",
                  100 * (double)c->throttled_blocks / blocks);
    }
    if (c->slow_blocks) {
        plb_print(
            "%-26s slow machine: in %.0f %% of its blocks a copy of memory took longer than at "
            "its best",
            "", 100 * (double)c->slow_blocks / blocks);
        if (c->slowdown > 0) plb_print(", up to %.1f times", c->slowdown);
        plb_print("\n");
    }
}

// Why no larger batch than the one found.
static void print_search(const plb_batch_search *s) {
    const plb_batch_trial *largest = &s->trial[0], *failed = NULL;
    for (int i = 0; i < s->count; i++) {
        const plb_batch_trial *t = &s->trial[i];
        if (t->outcome != PLB_OUTCOME_OK)
            failed = t;
        else if (t->batch > largest->batch)
            largest = t;
    }
    plb_print("%-26s batch %" PRId64, "", s->found);
    if (largest->batch > s->found) {
        plb_print(": larger ones, up to %" PRId64 ", gain less than 2 %%", largest->batch);
    }
    if (failed) {
        plb_print("%s %" PRId64 " is %s: %s", largest->batch > s->found ? ";" : ":", failed->batch,
                  plb_outcome_name(failed->outcome), failed->reason);
    } else if (s->stop == PLB_BATCH_TIME) {
        plb_print("%s larger ones take longer than %.3g s an iteration",
                  largest->batch > s->found ? ";" : ":", s->longest_ns / 1e9);
    }
    plb_print("\n");
}

static void print_profile(const plb_bench_case *c) {
    plb_strbuf line = {0};
    plb_bench_profile_line(c->profile, &line);
    if (!line.failed) plb_print("%-26s %s\n", "", line.text);
    plb_strbuf_free(&line);
}

static void print_time_row(const plb_bench *b, const plb_bench_case *c, const char *stack) {
    char interval[40] = "one start", ratio[16] = "-";
    double floor = floor_of(b, c);
    if (isfinite(c->low_ns)) {
        snprintf(interval, sizeof interval, "%.4g..%.4g%s", c->low_ns / 1e6, c->high_ns / 1e6,
                 " ms");
    }
    if (isfinite(floor)) snprintf(ratio, sizeof ratio, "%.2f", compared_ns(c) / floor);
    plb_print("%-26s %11s %17s %8s %10.4g %7" PRId64 " %9s %9s %9s %9s  %s\n", stack,
              show_ns(c->median_ns).text, interval, ratio, (double)c->c.batch * 1e9 / c->median_ns,
              c->warmup_iterations, show_known(c->load_ns).text, show_known(c->first_call_ns).text,
              show_known(c->compile_ns).text,
              c->peak_rss_bytes < 0 ? "unknown" : plb_show_bytes((double)c->peak_rss_bytes).text,
              c->proof.equal ? "EQUAL" : "-");
    if (c->proof.equal && c->proof.rows)
        plb_print("%-26s proven on %" PRId64 " rows of each batch (--proof-time)\n", "",
                  c->proof.rows);
    if (c->search) print_search(c->search);
    if (!c->steady) plb_print("%-26s never became steady in its warm-up\n", "");
    print_disturbance(c);
    if (c->profile) print_profile(c);
}

static void list_checked(const plb_proof *p, char *out, size_t size) {
    int n = 0;
    out[0] = '\0';
    for (int i = 0; i < PLB_RESULT_KINDS && (size_t)n < size; i++) {
        if (!p->compared[i]) continue;
        n += snprintf(out + n, size - (size_t)n, "%s%d %s", n ? ", " : "", p->compared[i],
                      plb_result_kind_name(i));
    }
}

static void print_row(const plb_bench *b, const plb_bench_case *c, bool verify) {
    char stack[128], checked[128];
    bool found = c->finds_batch && c->failure.outcome == PLB_OUTCOME_OK;
    show_stack(&c->c, found, stack, sizeof stack);
    if (!c->ended) {
        plb_print("%-26s not reached\n", stack);
    } else if (c->failure.outcome != PLB_OUTCOME_OK) {
        plb_print("%-26s %s: %s\n", stack,
                  c->failure.outcome == PLB_OUTCOME_INVALID ? "INVALID"
                                                            : plb_outcome_name(c->failure.outcome),
                  c->failure.reason);
    } else if (verify) {
        list_checked(&c->proof, checked, sizeof checked);
        plb_print("%-26s %-8s %10.2e  %s", stack, "EQUAL", c->proof.max_rel_error, checked);
        if (c->proof.rows) plb_print(", on %" PRId64 " rows", c->proof.rows);
        plb_print("\n");
    } else {
        print_time_row(b, c, stack);
    }
}

void plb_bench_print_tables(const plb_bench *b, bool verify) {
    if (plb_bench_warning(b)) plb_print("Warning: %s\n", plb_bench_warning(b));
    for (int i = 0; i < plb_bench_case_count(b); i++) {
        const plb_bench_case *c = plb_bench_case_at(b, i);
        if (i == 0 || !same_table(c, plb_bench_case_at(b, i - 1))) print_head(c, verify);
        print_row(b, c, verify);
    }
    if (plb_bench_run_id(b)) plb_print("\nrun %" PRId64 "\n", plb_bench_run_id(b));
}

// ---------------------------------------------------------------------------- JSON
static void known_int(plb_json *json, const char *key, int64_t value) {
    if (value < 0)
        plb_json_null(json, key);
    else
        plb_json_int(json, key, value);
}

static void known_ms(plb_json *json, const char *key, int64_t ns) {
    plb_json_double(json, key, ns < 0 ? (double)NAN : (double)ns / 1e6);
}

// Null where the batch was given.
static void write_search(plb_json *json, const plb_bench_case *c) {
    json_t *search = c->search ? plb_batch_search_json(c->search) : NULL;
    char *text = search ? json_dumps(search, JSON_COMPACT) : NULL;
    plb_json_raw(json, "batch_search", text ? text : c->search_text);
    free(text);
    json_decref(search);
}

static void write_identity(plb_json *json, const plb_bench_case *c) {
    const plb_case *k = &c->c;
    plb_json_string(json, "id", c->hash.text);
    plb_json_string(json, "model", k->model);
    plb_json_string(json, "task", k->task);
    plb_json_string(json, "stack", k->stack);
    plb_json_string(json, "device", k->device);
    plb_json_int(json, "batch", k->batch);
    write_search(json, c);
    plb_json_int(json, "size", k->size);
    plb_json_string(json, "dtype", k->dtype);
    plb_json_int(json, "threads", k->threads);
    plb_json_string(json, "region", k->region);
    plb_json_string(json, "math", k->math);
    plb_json_string(json, "autocast", k->autocast);
    plb_json_string(json, "cache", k->cache);
    plb_json_string(json, "layout", k->layout);
    plb_json_int(json, "in_flight", k->in_flight);
    plb_json_string(json, "input", k->input);
    plb_json_string(json, "input_digest", k->input_digest);
    plb_json_begin_object(json, "settings");
    for (int i = 0; i < k->setting_count; i++) {
        plb_json_string(json, k->settings[i].key, k->settings[i].value);
    }
    plb_json_end(json);
}

static void write_proof(plb_json *json, const plb_bench_case *c) {
    json_t *proof = c->proof.done && !c->proof_text ? plb_proof_json(&c->proof) : NULL;
    char *text = proof ? json_dumps(proof, JSON_COMPACT) : NULL;
    plb_json_raw(json, "proof", c->proof_text ? c->proof_text : text);
    free(text);
    json_decref(proof);
}

static void write_case(plb_json *json, const plb_bench_case *c) {
    plb_json_begin_object(json, NULL);
    write_identity(json, c);
    plb_json_int(json, "starts", c->starts);
    plb_json_string(json, "outcome", c->ended ? plb_outcome_name(c->failure.outcome) : NULL);
    plb_json_bool(json, "resumed", c->resumed);
    plb_json_string(json, "reason", c->failure.reason[0] ? c->failure.reason : NULL);
    if (c->failure.kind[0]) plb_json_string(json, "kind", c->failure.kind);
    write_proof(json, c);
    bool timed = c->failure.outcome == PLB_OUTCOME_OK && isfinite(c->median_ns);
    plb_json_double(json, "median_ms", timed ? c->median_ns / 1e6 : (double)NAN);
    plb_json_double(json, "low_ms", timed ? c->low_ns / 1e6 : (double)NAN);
    plb_json_double(json, "high_ms", timed ? c->high_ns / 1e6 : (double)NAN);
    plb_json_double(json, "least_ms", c->least_ns > 0 ? c->least_ns / 1e6 : (double)NAN);
    plb_json_int(json, "samples", timed ? c->samples : 0);
    plb_json_bool(json, "steady", timed && c->steady);
    known_int(json, "warmup_iterations", timed ? c->warmup_iterations : -1);
    known_ms(json, "load_ms", c->load_ns);
    known_ms(json, "first_call_ms", c->first_call_ns);
    known_ms(json, "compile_ms", c->compile_ns);
    known_int(json, "peak_rss_bytes", c->peak_rss_bytes);
    known_int(json, "device_peak_bytes", c->device_peak_bytes);
    known_int(json, "planned_bytes", c->planned_bytes);
    plb_json_double(json, "throughput",
                    timed ? (double)c->c.batch * 1e9 / c->median_ns : (double)NAN);
    plb_json_string(json, "stop", timed ? c->stop : NULL);
    plb_json_int(json, "blocks", c->blocks);
    plb_json_int(json, "busy_blocks", c->busy_blocks);
    plb_json_int(json, "throttled_blocks", c->throttled_blocks);
    plb_json_int(json, "slow_blocks", c->slow_blocks);
    plb_json_raw(json, "versions", c->versions);
    plb_json_raw(json, "ran", c->ran);
    plb_json_raw(json, "profile", c->profile);
    plb_json_string(json, "log", c->log[0] ? c->log : NULL);
    plb_json_end(json);
}

plb_status plb_bench_print_json(const plb_bench *b, const char *document, const char *label) {
    plb_json json;
    plb_cli_json_begin(&json, document, 1);
    plb_json_begin_object(&json, "run");
    known_int(&json, "id", plb_bench_run_id(b) ? plb_bench_run_id(b) : -1);
    plb_json_string(&json, "label", label);
    plb_json_raw(&json, "fingerprint", plb_bench_fingerprint(b));
    plb_json_string(&json, "warning", plb_bench_warning(b));
    plb_json_double(&json, "seconds", plb_bench_seconds(b));
    plb_json_end(&json);
    plb_json_begin_array(&json, "cases");
    for (int i = 0; i < plb_bench_case_count(b); i++) write_case(&json, plb_bench_case_at(b, i));
    plb_json_end(&json);
    return plb_cli_json_print(&json);
}

int plb_bench_exit_code(const plb_bench *b) {
    int broken = 0, invalid = 0, fine = 0;
    for (int i = 0; i < plb_bench_case_count(b); i++) {
        const plb_bench_case *c = plb_bench_case_at(b, i);
        switch (c->failure.outcome) {
        case PLB_OUTCOME_OK: fine += c->ended; break;
        case PLB_OUTCOME_INVALID: invalid++; break;
        case PLB_OUTCOME_REFUSED: break;
        default: broken++; break;
        }
    }
    return broken    ? PLB_EXIT_BROKEN
           : invalid ? PLB_EXIT_NEGATIVE
           : fine    ? PLB_EXIT_FINE
                     : PLB_EXIT_NOTHING;
}
