// SPDX-License-Identifier: Apache-2.0
// Experiments written down as YAML: plan and estimate first, then the runs, then the report.
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/core/arena.h"
#include "base/core/status.h"
#include "bench/git.h"
#include "cli/bench_flags.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "cli/typed.h"
#include "plumb/zoo.h"
#include "store/read.h"
#include "store/study.h"
#include "study/document.h"
#include "study/study.h"

enum { HELPER_WORDS = 24 };

typedef struct study_flags {
    const char *set, *device, *only, *db, *output;
    bool quick, dry_run, resume, no_lock;
    double time;
    int64_t jobs, join;
} study_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(study_flags, field)
static const plb_flag flags[] = {
    {FLAG("quick", SWITCH, quick), .help = "the file's small edition: minutes on two cores"},
    {FLAG("set", STRING, set), .value = "KEY=VALUE;...",
     .help = "change values of the file: parts.epoch.seeds=[1,2]"},
    {FLAG("device", STRING, device), .value = "LIST", .help = "of all parts: cpu, cuda, cuda:N"},
    {FLAG("only", STRING, only), .value = "PART,...",
     .help = "these parts; others may follow, with --resume, in the same run"},
    {FLAG("time", DOUBLE, time), .value = "S", .low = 1, .high = 1e7,
     .help = "budget in seconds; what does not fit is left out, and said"},
    {FLAG("jobs", INT, jobs), .value = "N", .min = 1, .max = PLB_STUDY_JOBS, .fallback = "1",
     .help = "trainings at a time; their times do not count then"},
    {FLAG("join", INT, join), .value = "RUN", .min = 1, .max = INT64_MAX,
     .help = "take trainings of a run; what --jobs starts more of plumb with"},
    {FLAG("dry-run", SWITCH, dry_run), .help = "print the plan and stop"},
    {FLAG("resume", SWITCH, resume),
     .help = "go on with its newest run, which began with the same options"},
    {FLAG("out", FILE, output), .letter = 'o', .value = "F.html",
     .help = "the report; default NAME.html"},
    {FLAG("db", FILE, db), .value = "F",
     .help = "the store; default: $XDG_DATA_HOME/plumb/plumb.db"},
    {FLAG("no-lock", SWITCH, no_lock), .help = "measure though another plumb measures"},
};

// ---------------------------------------------------------------------------- the plan
static void describe(const plb_study_item *item, char *out, size_t size) {
    bool train = item->part->kind == PLB_PART_TRAIN;
    if (train)
        snprintf(out, size, "%s on %s, %s, %s, %lld thread%s, seed %lld", item->model,
                 item->part->data, item->stack, item->device, (long long)item->threads,
                 item->threads == 1 ? "" : "s", (long long)item->seed);
    else if (item->dims)
        snprintf(out, size, "%s%s%s, %s, %s", item->model, *item->dims ? ", " : "", item->dims,
                 item->stack, item->device);
    else
        snprintf(out, size, "%s %s, %s, %s, batch %lld, size %lld", item->model, item->task,
                 item->stack, item->device, (long long)item->batch, (long long)item->size);
}

static void format_seconds(double s, char *out, size_t size) {
    if (s < 90)
        snprintf(out, size, "%.0f s", s);
    else if (s < 5400)
        snprintf(out, size, "%.0f min", s / 60);
    else
        snprintf(out, size, "%.1f h", s / 3600);
}

static void print_plan(const plb_study *study, const plb_study_spec *spec) {
    char time[32];
    size_t count = plb_study_item_count(study);
    format_seconds(plb_study_estimate_s(study), time, sizeof time);
    plb_note("%s: %zu items, about %s", spec->title, count, time);
    for (size_t p = 0; p < spec->part_count; p++) {
        double sum = 0;
        size_t items = 0;
        for (size_t i = 0; i < count; i++) {
            const plb_study_item *item = plb_study_item_at(study, i);
            if (item->part == &spec->parts[p]) items++, sum += item->estimate_s;
        }
        format_seconds(sum, time, sizeof time);
        plb_note("  %-12s %4zu items, about %-7s %s", spec->parts[p].name, items, time,
                 spec->parts[p].title);
    }
}

static void print_items(const plb_study *study) {
    for (size_t i = 0; i < plb_study_item_count(study); i++) {
        const plb_study_item *item = plb_study_item_at(study, i);
        char what[256], time[32];
        describe(item, what, sizeof what);
        format_seconds(item->estimate_s, time, sizeof time);
        plb_print("%-12s %-9s %s\n", item->part->name, time, what);
    }
}

// ---------------------------------------------------------------------------- progress
static void show(void *context, const plb_study_event *e) {
    bool terminal = isatty(STDERR_FILENO);
    char what[256] = "", left[32];
    (void)context;
    if (!e->item && !e->text) return;
    if (e->item) describe(e->item, what, sizeof what);
    format_seconds(e->left_s, left, sizeof left);
    if (terminal) fputs("\r\033[K", stderr);
    if (e->item && !e->text) {
        if (strcmp(e->item->outcome, "ok") != 0)
            plb_note("[%zu/%zu] %s: %s: %s", e->done, e->total, what, e->item->outcome,
                     e->item->reason);
        else
            plb_note("[%zu/%zu] %s: %.1f s; about %s left", e->done, e->total, what,
                     e->item->spent_s, left);
    } else if (terminal) {
        fprintf(stderr, "[%zu/%zu] %s: %s; about %s left", e->done, e->total, what, e->text, left);
        fflush(stderr);
    }
}

// Of a process beside others: what it is at would write over what they are at.
static void show_ended(void *context, const plb_study_event *e) {
    if (e->item && !e->text) show(context, e);
}

// ---------------------------------------------------------------------------- the end
static void told(void *context, const char *path) {
    (void)context;
    plb_print("%s\n", path);
}

static void begin_json(plb_json *json, const plb_study *study, const plb_study_spec *spec) {
    plb_cli_json_begin(json, "study", 1);
    plb_json_string(json, "study", spec->name);
    plb_json_int(json, "run", plb_study_run_id(study));
}

// The plan, of which nothing has run.
static plb_status print_plan_json(const plb_study *study, const plb_study_spec *spec) {
    plb_json json;
    begin_json(&json, study, spec);
    plb_json_begin_array(&json, "items");
    for (size_t i = 0; i < plb_study_item_count(study); i++) {
        const plb_study_item *item = plb_study_item_at(study, i);
        plb_json_begin_object(&json, NULL);
        plb_json_string(&json, "part", item->part->name);
        plb_json_raw(&json, "keys", item->keys);
        plb_json_double(&json, "estimate_s", item->estimate_s);
        plb_json_null(&json, "outcome");
        plb_json_end(&json);
    }
    plb_json_end(&json);
    return plb_cli_json_print(&json);
}

// Where a run was made, and how: its numbers mean nothing without.
static void write_run(plb_json *json, const plb_run_row *run) {
    plb_json_int(json, "began_ms", run->began_ms);
    plb_json_string(json, "command", run->command);
    plb_json_string(json, "git", run->git);
    plb_json_raw(json, "fingerprint", run->fingerprint);
}

// What the store holds of the run, results included.
static plb_status print_json(const plb_study *study, const plb_study_spec *spec, plb_store *store) {
    plb_json json = {0};
    plb_run_row *runs = NULL;
    plb_study_item_row *rows = NULL;
    size_t found = 0, count = 0;
    plb_run_filter filter = {.id = plb_study_run_id(study)};
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    PLB_TRY_OUT(plb_store_runs(store, &filter, arena, &runs, &found));
    PLB_TRY_OUT(plb_store_items(store, filter.id, arena, &rows, &count));
    begin_json(&json, study, spec);
    if (found) write_run(&json, runs);
    plb_json_begin_array(&json, "items");
    for (size_t i = 0; i < count; i++) {
        plb_json_begin_object(&json, NULL);
        plb_json_string(&json, "part", rows[i].part);
        plb_json_raw(&json, "keys", rows[i].keys);
        plb_json_string(&json, "outcome", rows[i].outcome);
        plb_json_string(&json, "reason", rows[i].reason);
        plb_json_raw(&json, "results", rows[i].results);
        plb_json_end(&json);
    }
    plb_json_end(&json);
    status = plb_cli_json_print(&json);
out:
    plb_arena_free(arena);
    return status;
}

static plb_status write_report(const plb_study *study, const plb_study_spec *spec,
                               const study_flags *f, const char *path, bool as_json) {
    plb_store *store = NULL;
    plb_document *document = NULL;
    plb_status status;
    PLB_TRY(plb_store_open_existing(f->db, &store));
    PLB_TRY_OUT(plb_study_document(store, plb_study_run_id(study), &document));
    PLB_TRY_OUT(
        plb_document_write(document, PLB_FORMAT_HTML, NULL, path, as_json ? NULL : told, NULL));
    if (as_json) status = print_json(study, spec, store);
out:
    plb_document_free(document);
    plb_store_close(store);
    return status;
}

static int exit_code_of(const plb_study *study) {
    bool ok = false, broken = false;
    for (size_t i = 0; i < plb_study_item_count(study); i++) {
        const char *outcome = plb_study_item_at(study, i)->outcome;
        if (!outcome) continue;
        ok |= !strcmp(outcome, "ok");
        broken |= !strcmp(outcome, "crash") || !strcmp(outcome, "protocol");
    }
    return broken ? PLB_EXIT_BROKEN : ok ? PLB_EXIT_FINE : PLB_EXIT_NOTHING;
}

static plb_status find_run(const study_flags *f, const char *name, plb_arena *arena, int64_t *out) {
    plb_store *store = NULL;
    plb_study_row row = {0};
    PLB_TRY(plb_store_open_existing(f->db, &store));
    plb_status status = plb_store_find_study(store, 0, name, arena, &row);
    plb_store_close(store);
    *out = row.run;
    return status;
}

static plb_status options_json(const study_flags *f, plb_arena *arena, const char **out) {
    plb_json json = {.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_json_bool(&json, "quick", f->quick);
    plb_json_string(&json, "set", f->set);
    plb_json_string(&json, "device", f->device);
    plb_json_double(&json, "time", f->time);
    plb_json_end(&json);
    plb_status status = plb_json_status(&json);
    if (!status && !(*out = plb_arena_strdup(arena, json.text.text)))
        status = plb_fail(PLB_ENOMEM, "out of memory");
    plb_json_free(&json);
    return status;
}

// The command that starts another process of this study, to which the run is added.
static void write_helper(const study_flags *f, const char *plumb, const char *name, char jobs[24],
                         char time[32], const char *words[HELPER_WORDS]) {
    const char *const pairs[][2] = {{"--set", f->set},
                                    {"--device", f->device},
                                    {"--only", f->only},
                                    {"--db", f->db},
                                    {"--time", f->time > 0 ? time : NULL}};
    int n = 0;
    snprintf(jobs, 24, "%" PRId64, f->jobs);
    snprintf(time, 32, "%.17g", f->time);
    words[n++] = plumb, words[n++] = "study", words[n++] = name;
    words[n++] = "--no-lock", words[n++] = "--jobs", words[n++] = jobs;
    if (f->quick) words[n++] = "--quick";
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1]) words[n++] = pairs[i][0], words[n++] = pairs[i][1];
    words[n] = NULL;
}

// Trainings of a run that another process runs, which writes the report.
static plb_status join_run(plb_study *study) {
    prctl(PR_SET_PDEATHSIG, SIGINT); // nobody waits for what is done without it
    return plb_study_run(study);
}

static plb_status run_all(plb_call *call, const plb_study_spec *spec, plb_study *study) {
    const study_flags *f = call->options;
    if (f->join) return join_run(study);
    if (f->dry_run && call->json) return print_plan_json(study, spec);
    if (f->dry_run) {
        print_plan(study, spec);
        print_items(study);
        return PLB_OK;
    }
    char path[PATH_MAX];
    const char *output = f->output ? f->output : path;
    if (snprintf(path, sizeof path, "%s.html", spec->name) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%.40s...: the study's name is too long", spec->name);
    PLB_TRY(plb_cli_check_writable("out", output));
    if (!f->no_lock) PLB_TRY(plb_measure_lock());
    print_plan(study, spec);
    plb_status status = plb_study_run(study);
    if (status && status != PLB_ECANCELLED) return status;
    call->exit_code = exit_code_of(study);
    plb_status written = write_report(study, spec, f, output, call->json);
    return status ? status : written;
}

static plb_status check_model(const char *name) {
    const plb_zoo_info *info;
    return plb_zoo_find(name, &info);
}

// Extents that none of a part's files has would be passed over.
static plb_status check_dims(const plb_study_spec *spec) {
    for (size_t i = 0; i < spec->part_count; i++) {
        const plb_study_part *p = &spec->parts[i];
        for (size_t k = 0; k < p->dims.count; k++) {
            if (!*p->dims.word[k]) continue;
            plb_status status = plb_cli_onnx_check_dims((char *const *)p->models.word,
                                                        (int)p->models.count, p->dims.word[k]);
            if (status)
                return plb_fail_context(status, "%s, line %d: %s: dims", spec->name, p->line,
                                        p->name);
        }
    }
    return PLB_OK;
}

static plb_status run_study(plb_call *call) {
    const study_flags *f = call->options;
    char revision[PLB_GIT_BYTES];
    plb_spec_options spec_options = {.quick = f->quick,
                                     .set = f->set,
                                     .devices = f->device,
                                     .only = f->only,
                                     .check_model = check_model};
    char jobs[24], time[32];
    const char *helper[HELPER_WORDS];
    plb_study_options options = {.store = f->db,
                                 .quick = f->quick,
                                 .time_s = f->time,
                                 .jobs = (int)f->jobs,
                                 .join = f->join,
                                 .helper = helper,
                                 .interrupted = plb_cli_stop};
    plb_study_spec spec;
    plb_study *study = NULL;
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    if (f->join && (f->resume || f->dry_run))
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "--join goes with neither --resume nor --dry-run"));
    PLB_TRY_OUT(plb_own_path(arena, &options.plumb));
    write_helper(f, options.plumb, call->operands[0], jobs, time, helper);
    PLB_TRY_OUT(plb_study_spec_open(call->operands[0], options.plumb, &spec_options, arena, &spec));
    PLB_TRY_OUT(check_dims(&spec));
    PLB_TRY_OUT(options_json(f, arena, &options.options_json));
    if (f->resume) PLB_TRY_OUT(find_run(f, spec.name, arena, &options.resume));
    options.command = plb_typed_command(arena);
    plb_git_revision(".", revision);
    options.git = revision[0] ? revision : NULL;
    options.tell = f->join ? show_ended : show;
    PLB_TRY_OUT(plb_study_new(&spec, &options, &study));
    PLB_TRY_OUT(run_all(call, &spec, study));
out:
    plb_study_free(study);
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_study = {
    .name = "study",
    .summary = "run an experiment that is written down as a file",
    .operands = "NAME|FILE.yaml",
    .description =
        "Runs every item that a study's parts span: trainings of one model by every stack, on\n"
        "the same batches from the same weights, and sweeps over batches and sizes. Plan and\n"
        "estimate come first; results go to the store as they are found; the report is written\n"
        "at the end. docs/studies.md says how a study is written. Two are here, both of them\n"
        "works that are reproduced: levels and threads.\n\n"
        "A card that one training leaves idle can have several: --jobs N lets N go on at a\n"
        "time, each in a process of its own. Their accuracies count, their times do not, and\n"
        "the report leaves them out. Sweeps come after, alone.\n\n"
        "A long study can be had in pieces: --only runs some of its parts, --resume with other\n"
        "parts, or without --only, goes on with the same run, and the report holds all of it.\n\n"
        "Exit status: 6 if a worker broke, 5 if nothing was measured.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(study_flags),
    .completes = "levels threads",
    .run = run_study,
};
