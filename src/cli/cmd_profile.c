// SPDX-License-Identifier: Apache-2.0
// Runs any program under the probe and says where its time went.
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "bench/fingerprint.h"
#include "cli/bench_command.h"
#include "cli/bench_flags.h"
#include "cli/cli.h"
#include "cli/probe_library.h"
#include "cli/profile_show.h"
#include "cli/typed.h"
#include "probe/counted.h"
#include "probe/kept.h"
#include "probe/kernel_name.h"
#include "store/profile.h"

typedef struct profile_flags {
    plb_profile_flags show;
    const char *graph_nodes, *trace, *save, *output, *window, *counters, *db, *label, *folded;
    const char *record;
    int64_t trace_mib, sample_ms, function_ms, block_ms, pid;
    double delay_s, limit_s, budget_percent;
    // Of a case.
    const char *stack, *task, *device, *batch, *size, *dtype, *math, *autocast, *threads, *dim;
    bool api, ranges, cost, strict, host_only, bandwidth, takers;
} profile_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(profile_flags, field)
static const plb_flag flags[] = {
    PLB_PROFILE_FLAGS,
    {FLAG("api", SWITCH, api), .help = "record every call of CUDA; this can halve the speed"},
    {FLAG("ranges", SWITCH, ranges), .help = "record the NVTX ranges that the program marks"},
    {FLAG("graph-nodes", CHOICE, graph_nodes), .value = "on|off", .fallback = "on",
     .help = "off: a launch of a graph is one piece of work: cheaper"},
    {FLAG("delay", DOUBLE, delay_s), .value = "S", .low = 0, .high = 1e6, .fallback = "0",
     .help = "begin S seconds after CUDA's first use"},
    {FLAG("time-limit", DOUBLE, limit_s), .value = "S", .low = 0, .high = 1e6, .fallback = "0",
     .help = "record for S seconds; 0: to the end"},
    {FLAG("range", CHOICE, window), .value = "all|profiler-api", .fallback = "all",
     .help = "or only from cudaProfilerStart to Stop"},
    {FLAG("cost", SWITCH, cost), .help = "record every other block of time: what does it cost?"},
    {FLAG("cost-block", INT, block_ms), .value = "MS", .min = 10, .max = 60000, .fallback = "400",
     .help = "length of such a block"},
    {FLAG("record", STRING, record), .value = "all|PERCENT",
     .help = "all: every kernel, whatever it costs; or those of part of the time"},
    {FLAG("budget", DOUBLE, budget_percent), .value = "PERCENT", .low = .01, .high = 100,
     .help = "of the time, for recording; default 1, with --trace 3"},
    {FLAG("takers", SWITCH, takers),
     .help = "which libraries take device memory, and what is left; CUPTI 13 and later"},
    {FLAG("bandwidth", SWITCH, bandwidth),
     .help = "measure afterwards what copies can reach, and hold those made against it"},
    {FLAG("counters", STRING, counters), .value = "LIST",
     .help = "flops, cores, tensor, dram, l2: count in hardware; slow"},
    {FLAG("trace", FILE, trace), .value = "FILE",
     .help = "write what is recorded for ui.perfetto.dev, as Chrome's trace format"},
    {FLAG("trace-limit", INT, trace_mib), .value = "MIB", .min = 1, .max = 1 << 20,
     .fallback = "256", .help = "of a process; what comes later is counted"},
    {FLAG("save", FILE, save), .value = "FILE",
     .help = "keep the whole profile, for `plumb trace` and `plumb compare`"},
    {FLAG("db", FILE, db), .value = "FILE", .help = "keep it as a run of this store, too"},
    {FLAG("label", STRING, label), .value = "TEXT", .help = "with --db: a name for that run"},
    {FLAG("sample", INT, sample_ms), .value = "MS", .min = 1, .max = 60000, .fallback = "100",
     .help = "between two looks at threads and cards"},
    {FLAG("output", FILE, output), .value = "FILE",
     .help = "write the report there, away from what the program prints"},
    {FLAG("functions", INT, function_ms), .value = "MS", .max = 1000, .fallback = "10",
     .help = "of processor time between samples; 0: none"},
    {FLAG("folded", FILE, folded), .value = "FILE",
     .help = "write which functions called which, folded, as flame graphs take it"},
    {FLAG("host-only", SWITCH, host_only), .help = "do not put the probe into the program"},
    {FLAG("strict", SWITCH, strict),
     .help = "exit with 6 when the profile is incomplete, or of no device"},
    {FLAG("stack", STRING, stack), .value = "S",
     .help = "profile a case of our own instead: plumb profile MODEL --stack S"},
    {FLAG("task", CHOICE, task), .value = "infer|train", .help = "with --stack; default: infer"},
    {FLAG("device", STRING, device), .value = "D",
     .help = "with --stack: cpu, cuda, cuda:N; default: cpu"},
    {FLAG("batch", STRING, batch), .value = "N", .help = "with --stack; default: the model's"},
    {FLAG("size", STRING, size), .value = "N", .help = "with --stack; default: the model's"},
    {FLAG("dtype", STRING, dtype), .value = "T",
     .help = "with --stack: f32, bf16, f16; default: f32"},
    {FLAG("math", STRING, math), .value = "M", .help = "with --stack: f32, tf32; default: f32"},
    {FLAG("autocast", STRING, autocast), .value = "T",
     .help = "with --stack: none, bf16, f16; default: none"},
    {FLAG("threads", STRING, threads), .value = "N", .help = "with --stack"},
    {FLAG("dim", STRING, dim), .value = "NAME=N,...",
     .help = "with --stack, of an ONNX file: numbers for extents that it names"},
    {FLAG("pid", INT, pid), .value = "N", .min = 0, .max = INT32_MAX, .fallback = "0",
     .help = "refused: profiles begin at the start"},
};

// All that one run needs, from the folder for the probe's files to what came of it.
typedef struct job {
    const profile_flags *flags;
    plb_call *call;
    char **command; // its words, NULL at the end
    char folder[PATH_MAX], library[PATH_MAX], words[192];
    int output; // where the report goes, or -1
    plb_command_result run;
    plb_sampled sampled;
    plb_strbuf folded;
} job;

static int64_t record_percent(const profile_flags *f) {
    return !f->record || strcmp(f->record, "all") == 0 ? 100 : atoi(f->record);
}

static plb_status check_record(const profile_flags *f) {
    char *end = NULL;
    if (!f->record || strcmp(f->record, "all") == 0) return PLB_OK;
    const long percent = strtol(f->record, &end, 10);
    if (end == f->record || *end || percent < 1 || percent > 100)
        return plb_fail(PLB_EINVAL,
                        "--record: expected all, or a percentage from 1 to 100, "
                        "found '%s'",
                        f->record);
    return PLB_OK;
}

static bool is_windowed(const profile_flags *f) {
    return f->delay_s > 0 || f->limit_s > 0 || strcmp(f->window, "all") != 0;
}

static bool alternates(const profile_flags *f) {
    return f->cost || record_percent(f) < 100;
}

// Who asks for each call, each range or a stretch of the time has it whole.
static bool wants_the_whole(const profile_flags *f) {
    return f->record || f->cost || f->api || f->ranges || f->takers || f->counters ||
           f->host_only || strcmp(f->graph_nodes, "off") == 0 || is_windowed(f);
}

// Per cent of the time that recording may cost; 0: whatever it takes.
static double budget_of(const profile_flags *f) {
    if (f->budget_percent > 0) return f->budget_percent;
    if (wants_the_whole(f)) return 0;
    return f->trace ? 3 : 1;
}

static plb_status check_budget(const profile_flags *f) {
    if (f->budget_percent > 0 && wants_the_whole(f))
        return plb_fail(PLB_EINVAL, "--budget leaves parts of the time out: without --record, "
                                    "--cost, --api, --ranges, --takers, --counters, --host-only, "
                                    "--graph-nodes off, --delay, --time-limit and --range");
    return PLB_OK;
}

// Between two blocks; as long as one where cost alone is asked for.
static int64_t rest_ms(const profile_flags *f) {
    const int64_t percent = record_percent(f);
    if (percent == 100) return f->block_ms;
    return (f->block_ms * (100 - percent) + percent - 1) / percent;
}

// Counters run kernels again and again, so that nothing else can be told of such a run.
static plb_status check_counters(const profile_flags *f, uint32_t *asked) {
    *asked = 0;
    if (!f->counters) return PLB_OK;
    if (f->api || f->ranges || alternates(f) || f->trace || f->host_only || f->delay_s > 0 ||
        f->limit_s > 0)
        return plb_fail(PLB_EINVAL, "--counters tells no times: without --api, --ranges, --cost, "
                                    "--record, --trace, --delay, --time-limit and --host-only");
    return plb_counted_parse(f->counters, asked);
}

static plb_status check_store(const profile_flags *f) {
    plb_store *store = NULL;
    if (!f->db) return PLB_OK;
    plb_status status = plb_store_open(f->db, &store);
    plb_store_close(store);
    return status ? plb_fail_context(status, "--db") : PLB_OK;
}

// What can fail without having run anything, first.
static plb_status prepare(job *j) {
    const profile_flags *f = j->flags;
    uint32_t asked;
    PLB_TRY(check_budget(f));
    PLB_TRY(check_counters(f, &asked));
    if (f->folded && !f->function_ms)
        return plb_fail(PLB_EINVAL, "--folded tells of samples: without --functions 0");
    j->command = plb_alloc_array((size_t)j->call->operand_count + 1, sizeof *j->command);
    if (!j->command) return plb_fail(PLB_ENOMEM, "out of memory for a command");
    memcpy(j->command, j->call->operands, (size_t)j->call->operand_count * sizeof *j->command);
    if (alternates(f) && is_windowed(f))
        return plb_fail(PLB_EINVAL, "--cost and --record are about the whole run: without --delay, "
                                    "--time-limit and --range");
    plb_kernel_classes *classes; // whether the file is right, before anything runs
    PLB_TRY(plb_kernel_classes_new(f->show.classes, &classes));
    plb_kernel_classes_free(classes);
    if (!f->host_only) PLB_TRY(plb_probe_library(j->library, sizeof j->library));
    PLB_TRY(plb_cli_check_writable("save", f->save));
    PLB_TRY(plb_cli_check_writable("trace", f->trace));
    PLB_TRY(plb_cli_check_writable("folded", f->folded));
    PLB_TRY(check_store(f));
    if (f->output) {
        j->output = open(f->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (j->output < 0) return plb_fail_errno("%s", f->output);
    }
    snprintf(j->words, sizeof j->words, "%s%s%s%s%strace=%lld,delay=%lld,limit=%lld",
             f->api ? "calls," : "", f->ranges ? "ranges," : "", f->takers ? "sources," : "",
             strcmp(f->graph_nodes, "off") == 0 ? "graphs," : "",
             strcmp(f->window, "all") == 0 ? "" : "program,",
             f->trace ? (long long)f->trace_mib << 20 : 0LL, (long long)(1e3 * f->delay_s),
             (long long)(1e3 * f->limit_s));
    if (asked)
        snprintf(j->words + strlen(j->words), sizeof j->words - strlen(j->words), ",counters=%u",
                 (unsigned)asked);
    if (alternates(f))
        snprintf(j->words + strlen(j->words), sizeof j->words - strlen(j->words),
                 ",cost=%lld,rest=%lld", (long long)f->block_ms, (long long)rest_ms(f));
    if (budget_of(f) > 0)
        snprintf(j->words + strlen(j->words), sizeof j->words - strlen(j->words), ",budget=%lld",
                 llround(1e4 * budget_of(f)));
    return PLB_OK;
}

static plb_status run_command(job *j) {
    const profile_flags *f = j->flags;
    const plb_command_options options = {.library = f->host_only ? NULL : j->library,
                                         .folder = j->folder,
                                         .words = j->words,
                                         .cupti = getenv("PLUMB_PROBE_CUPTI"),
                                         .powercap = getenv("PLUMB_POWERCAP"),
                                         .ranges = f->ranges,
                                         .preload = true,
                                         .sample_ms = f->sample_ms,
                                         .function_ms = (int)f->function_ms,
                                         .sampled = f->function_ms ? &j->sampled : NULL,
                                         .folded = f->folded ? &j->folded : NULL,
                                         .interrupted = plb_cli_interrupted};
    PLB_TRY(plb_command_run(&options, j->command, &j->run));
    return j->run.started ? PLB_OK : plb_fail(PLB_EINVAL, "%s", j->run.error_text);
}

// Under a run of its own, with what is fixed about the machine.
static plb_status store_run(plb_store *store, const profile_flags *f, const char *document,
                            const void *kept, size_t kept_bytes, int64_t *run_id) {
    plb_fingerprint fingerprint;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a run");
    plb_status status = plb_fingerprint_take("", 0, &fingerprint);
    if (!status) {
        const plb_store_new_run run = {.label = f->label,
                                       .command = plb_typed_command(arena),
                                       .machine = fingerprint.machine,
                                       .fingerprint = fingerprint.all};
        status = plb_store_begin_run(store, &run, run_id);
        if (!status) {
            status = plb_store_put_profile(store, *run_id, document, kept, kept_bytes);
            const char *state = status ? "failed" : "done";
            const plb_status ended = plb_store_end_run(store, *run_id, state, NULL);
            if (!status) status = ended;
        }
        plb_fingerprint_free(&fingerprint);
    }
    plb_arena_free(arena);
    return status;
}

static plb_status store(const job *j, const plb_profile_view *view) {
    char path[PATH_MAX + 16];
    plb_store *store = NULL;
    plb_json json = {0};
    plb_file_map map = {0};
    int64_t run_id = 0;
    plb_status status;
    snprintf(path, sizeof path, "%s/kept", j->folder);
    PLB_TRY_OUT(plb_profile_document_text(view, &json));
    PLB_TRY_OUT(plb_kept_write(path, &view->about, j->folder));
    PLB_TRY_OUT(plb_file_map_open(path, &map));
    PLB_TRY_OUT(plb_store_open(j->flags->db, &store));
    PLB_TRY_OUT(store_run(store, j->flags, json.text.text, map.bytes, map.size_bytes, &run_id));
    plb_note("kept as run %lld", (long long)run_id);
out:
    plb_file_map_close(&map);
    plb_store_close(store);
    plb_json_free(&json);
    return status;
}

static plb_status write_folded(const job *j) {
    const char *path = j->flags->folded;
    if (j->folded.failed) return plb_fail(PLB_ENOMEM, "%s: no memory for chains of calls", path);
    if (j->sampled.reason[0]) plb_note("%s: no samples: %s", path, j->sampled.reason);
    return plb_atomic_write_all(path, j->folded.text, j->folded.length);
}

typedef struct failure {
    plb_status status;
    char text[512];
} failure;

// The first is what the command ends with; of others a note tells.
static void fail_with(failure *first, plb_status status) {
    if (!status) return;
    if (first->status) {
        plb_note("%s", plb_error_text());
        return;
    }
    first->status = status;
    snprintf(first->text, sizeof first->text, "%s", plb_error_text());
}

// The program's own exit code, unless the profile is incomplete and must not be. What cannot be
// written, on a disk that is full, does not keep the rest from being told and written.
static plb_status report(job *j) {
    const profile_flags *f = j->flags;
    char why[320] = "";
    const plb_kept_about about = {.command = j->command,
                                  .words = f->host_only ? "host" : j->words,
                                  .run = &j->run,
                                  .sampled = f->function_ms ? &j->sampled : NULL};
    const plb_profile_view view = {.flags = &f->show,
                                   .trace = f->trace,
                                   .folder = j->folder,
                                   .about = about,
                                   .output = j->output,
                                   .bandwidth = f->bandwidth};
    failure first = {PLB_OK, ""};
    fail_with(&first, plb_profile_show(&view, j->call, why, sizeof why));
    if (f->save) fail_with(&first, plb_kept_write(f->save, &about, j->folder));
    if (f->folded) fail_with(&first, write_folded(j));
    if (f->db) fail_with(&first, store(j, &view));
    if (first.status) return plb_fail(first.status, "%s", first.text);
    j->call->exit_code = j->run.exit_code;
    if (!f->strict || !why[0]) return PLB_OK;
    plb_note("incomplete: %s", why);
    j->call->exit_code = PLB_EXIT_BROKEN;
    return PLB_OK;
}

static plb_status run_in_folder(job *j) {
    PLB_TRY(prepare(j));
    PLB_TRY(run_command(j));
    return report(j);
}

static void free_job(job *j) {
    if (j->output >= 0) close(j->output);
    plb_strbuf_free(&j->folded);
    plb_free(j->command);
    plb_free(j);
}

// A case of our own: proven as by `plumb verify`, warmed up, then looked at for about a second.
static plb_status run_case(plb_call *call) {
    const profile_flags *f = call->options;
    const plb_bench_flags case_flags = {.task = f->task ? f->task : "infer",
                                        .stack = f->stack,
                                        .device = f->device ? f->device : "cpu",
                                        .batch = f->batch,
                                        .size = f->size,
                                        .dtype = f->dtype ? f->dtype : "f32",
                                        .math = f->math ? f->math : "f32",
                                        .autocast = f->autocast ? f->autocast : "none",
                                        .threads = f->threads,
                                        .dim = f->dim,
                                        .timeout = 900,
                                        .proof_time = 60};
    if (f->api || f->ranges || f->cost || f->record || f->budget_percent > 0 || f->trace ||
        f->save || f->folded || f->counters || f->output || f->db || f->label || f->host_only ||
        f->bandwidth || f->takers || is_windowed(f))
        return plb_fail(PLB_EINVAL, "--stack: a case of our own is looked at while it is steady; "
                                    "flags of a command's window and files do not apply");
    if (call->operand_count != 1)
        return plb_fail(PLB_EINVAL, "--stack: expected one model, found %d", call->operand_count);
    return plb_bench_profile_case(call, &case_flags, &f->show, f->strict);
}

// CUDA looks for the probe once, when a process first uses it; later there is no door, and to
// force one would put the program at risk.
static plb_status refuse_running(int64_t pid) {
    return plb_fail(PLB_EINVAL,
                    "--pid %lld: a program that runs already cannot be profiled: CUDA "
                    "loads the probe when the program starts to use it. Start it "
                    "under `plumb profile -- COMMAND`; --delay and --time-limit "
                    "record a window of a long run",
                    (long long)pid);
}

// What says which case is refused where there is none.
static plb_status refuse_case_flags(const profile_flags *f) {
    const struct {
        const char *name, *value;
    } given[] = {{"task", f->task},         {"device", f->device},   {"batch", f->batch},
                 {"size", f->size},         {"dtype", f->dtype},     {"math", f->math},
                 {"autocast", f->autocast}, {"threads", f->threads}, {"dim", f->dim}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].value)
            return plb_fail(PLB_EINVAL,
                            "--%s: says which case of our own to profile: expected --stack too",
                            given[i].name);
    return PLB_OK;
}

static plb_status run_profile(plb_call *call) {
    const profile_flags *flags_given = call->options;
    if (flags_given->pid) return refuse_running(flags_given->pid);
    if (flags_given->stack) return run_case(call);
    uint32_t asked;
    PLB_TRY(refuse_case_flags(flags_given));
    PLB_TRY(check_record(flags_given));
    PLB_TRY(check_counters(flags_given, &asked));
    if (flags_given->label && !flags_given->db)
        return plb_fail(PLB_EINVAL, "--label: names a run of a store: expected --db too");
    if (!call->operand_count)
        return plb_fail(PLB_EINVAL, "expected a command to run: plumb "
                                    "profile [FLAGS] -- COMMAND ARGS...");
    job *j = plb_alloc(sizeof *j);
    if (!j) return plb_fail(PLB_ENOMEM, "out of memory for a profile");
    j->flags = call->options, j->call = call, j->output = -1;
    plb_status status = plb_profile_folder(j->folder);
    if (!status) {
        status = run_in_folder(j);
        plb_profile_remove_folder(j->folder);
    }
    free_job(j);
    return status;
}

const plb_command plb_cmd_profile = {
    .name = "profile",
    .summary = "run any program and show where its time went",
    .operands = "-- COMMAND ARGS... | MODEL|F.onnx --stack S",
    .description =
        "Runs COMMAND with a probe that CUDA loads into it and into what it starts, and shows for\n"
        "each device the share of time in which it was active, only copied, or idle, and what\n"
        "the host did while it was idle; kernels, copies and calls; what could be saved; and for\n"
        "the host, with or without a device, time on processors, memory and threads.\n\n"
        "Recording may cost the program 1 % of its time (--budget). One that launches more than\n"
        "can be recorded for that is recorded in blocks; what the rest did is then estimated, and\n"
        "said to be. --record all records everything, whatever it costs.\n\n"
        "With --stack a case of our own is profiled, after proof of what it computes, in its\n"
        "steady state.\n\n"
        "The program keeps its terminal, streams, signals and exit code. Its speed under the\n"
        "probe is not what it is without: times of the whole belong to unprobed runs.",
    .min_operands = 0,
    .max_operands = -1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(profile_flags),
    .completes = "",
    .run = run_profile,
};
