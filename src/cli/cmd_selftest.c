// SPDX-License-Identifier: Apache-2.0
// Whether this machine can be measured on, and how finely: Plumb measures itself. Three stacks that
// all run our own worker, two of them equal and one slowed down by a known share, go through bench
// and compare as any others would. What is called different among the equal ones is a false alarm;
// what is found of the slow-down is a hit.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "bench/bench.h"
#include "bench/compare.h"
#include "bench/spin.h"
#include "bench/stats.h"
#include "cli/bench_flags.h"
#include "cli/cli.h"
#include "cli/stored.h"

enum { LEARNING = 2, MOST_ROUNDS = 100, PATH_BYTES = 4096 };

static const char twin_a[] = "twin-a", twin_b[] = "twin-b", slowed[] = "slowed";

typedef struct selftest_flags {
    int64_t rounds, starts;
    double time, planted;
    const char *model;
    bool no_lock;
} selftest_flags;

static const plb_flag flags[] = {
    {.name = "rounds",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(selftest_flags, rounds),
     .value = "N",
     .min = 0,
     .max = MOST_ROUNDS,
     .fallback = "10",
     .help = "comparisons of either kind; 0: the clock alone"},
    {.name = "starts",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(selftest_flags, starts),
     .value = "N",
     .min = 3,
     .max = 1000,
     .fallback = "16", // of starts that differ by 2 %, so many tell 3 % in 95 of 100 cases
     .help = "processes of each side in a comparison"},
    {.name = "time",
     .kind = PLB_FLAG_DOUBLE,
     .offset = offsetof(selftest_flags, time),
     .value = "S",
     .low = 0.01,
     .high = 1000,
     .fallback = "1.6",
     .help = "seconds of samples of each side in a comparison"},
    {.name = "planted",
     .kind = PLB_FLAG_DOUBLE,
     .offset = offsetof(selftest_flags, planted),
     .value = "PCT",
     .low = 0.1,
     .high = 100,
     .fallback = "3",
     .help = "the slow-down that is to be found"},
    {.name = "model",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(selftest_flags, model),
     .value = "NAME",
     .fallback = "mnist_cnn",
     .help = "what is measured"},
    {.name = "no-lock",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(selftest_flags, no_lock),
     .help = "measure though another plumb measures"},
};

// ---------------------------------------------------------------------------- a folder of its own
typedef struct scene {
    char folder[64], store[128], plumb[PATH_BYTES];
} scene;

static plb_status write_stack(const scene *s, const char *name) {
    char path[256];
    plb_json json = {0};
    snprintf(path, sizeof path, "%s/stacks/%s", s->folder, name);
    PLB_TRY(plb_folder_make(path));
    snprintf(path, sizeof path, "%s/stacks/%s/stack.json", s->folder, name);
    plb_json_begin_object(&json, NULL);
    plb_json_int(&json, "protocol", 1);
    plb_json_string(&json, "name", name);
    plb_json_begin_array(&json, "command");
    plb_json_string(&json, NULL, s->plumb);
    plb_json_string(&json, NULL, "worker");
    plb_json_string(&json, NULL, "plumb-plan");
    plb_json_end(&json);
    plb_json_end(&json);
    plb_status status = plb_json_status(&json);
    FILE *file = status ? NULL : fopen(path, "we");
    if (!status && (!file || fputs(json.text.text, file) < 0))
        status = plb_fail_errno("%s: cannot write", path);
    if (file && fclose(file) != 0 && !status) status = plb_fail_errno("%s: cannot write", path);
    plb_json_free(&json);
    return status;
}

static plb_status make_scene(scene *s) {
    ssize_t n = readlink("/proc/self/exe", s->plumb, sizeof s->plumb - 1);
    char stacks[96];
    if (n < 0) return plb_fail_errno("/proc/self/exe");
    s->plumb[n] = '\0';
    snprintf(s->folder, sizeof s->folder, "/tmp/plumb-selftest-XXXXXX");
    if (!mkdtemp(s->folder)) {
        s->folder[0] = '\0';
        return plb_fail_errno("cannot make a folder in /tmp");
    }
    snprintf(s->store, sizeof s->store, "%s/plumb.db", s->folder);
    snprintf(stacks, sizeof stacks, "%s/stacks", s->folder);
    PLB_TRY(write_stack(s, twin_a));
    PLB_TRY(write_stack(s, twin_b));
    PLB_TRY(write_stack(s, slowed));
    if (setenv("PLUMB_STACKS", stacks, 1) != 0) return plb_fail(PLB_ENOMEM, "out of memory");
    return PLB_OK;
}

// ---------------------------------------------------------------------------- rounds
typedef struct tally {
    int verdict[4];
    int rounds;
    double ratio[MOST_ROUNDS], detectable[MOST_ROUNDS];
} tally;

static plb_status measure(const scene *s, const selftest_flags *f, const char **warning,
                          plb_arena *arena) {
    char setting[64];
    snprintf(setting, sizeof setting, "%s.planted_slowdown_percent=%.9g", slowed, f->planted);
    const plb_bench_options options = {
        .plumb = s->plumb,
        .models = &f->model,
        .model_count = 1,
        .stacks = {.word = {twin_a, twin_b, slowed}, .count = 3},
        .threads = {.word = {"1"}, .count = 1},
        .batches = {.word = {"16"}, .count = 1},
        .settings = {.word = {setting}, .count = 1},
        .starts = (int)f->starts,
        .time_s = f->time,
        .no_audit = true, // our own worker, whose honesty is not in question here
        .store = s->store,
        .command = "plumb selftest",
        .interrupted = plb_cli_stop,
    };
    plb_bench *bench = NULL;
    plb_status status = plb_bench_new(&options, &bench);
    if (!status) status = plb_bench_plan(bench);
    if (!status) status = plb_bench_run(bench);
    for (int i = 0; !status && i < plb_bench_case_count(bench); i++) {
        const plb_bench_case *c = plb_bench_case_at(bench, i);
        if (c->failure.outcome != PLB_OUTCOME_OK) {
            status = plb_fail(PLB_EBROKEN, "%s ended as %s: %s", c->c.stack,
                              plb_outcome_name(c->failure.outcome), c->failure.reason);
        }
    }
    const char *text = status ? NULL : plb_bench_warning(bench);
    if (text) *warning = plb_arena_strdup(arena, text);
    plb_bench_free(bench);
    return status;
}

static plb_status judge(const scene *s, const char *other, tally *t) {
    const plb_compare_request request = {.a = twin_a, .b = other};
    plb_store *store;
    plb_arena *arena;
    plb_compare_result result;
    plb_status status;
    PLB_TRY_OUT(plb_stored_open(s->store, &store, &arena));
    PLB_TRY_OUT(plb_compare_run(store, &request, arena, &result));
    if (result.count != 1 || result.refused) {
        status = plb_fail(PLB_EBROKEN, "%s and %s: expected one pair to compare, found %zu", twin_a,
                          other, result.count - result.refused);
        goto out;
    }
    const plb_comparison *c = &result.pairs[0].comparison;
    t->verdict[c->verdict]++;
    t->ratio[t->rounds] = c->ratio, t->detectable[t->rounds++] = c->detectable;
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}

typedef struct findings {
    plb_spin_check spin[PLB_SPIN_LENGTHS];
    bool clock_fine;
    plb_clock_facts clock;
    tally equal, planted;
    const char *warning;
} findings;

static plb_status run_rounds(const selftest_flags *f, plb_arena *arena, findings *out) {
    scene s = {.folder = ""};
    plb_status status = PLB_OK;
    PLB_TRY_OUT(make_scene(&s));
    for (int64_t round = -LEARNING; round < f->rounds; round++) {
        PLB_TRY_OUT(plb_cli_go_on());
        PLB_TRY_OUT(measure(&s, f, &out->warning, arena));
        if (round < 0) continue; // the history that verdicts stand on
        PLB_TRY_OUT(judge(&s, twin_b, &out->equal));
        PLB_TRY_OUT(judge(&s, slowed, &out->planted));
        plb_note("round %d of %d: equals %.3f, slowed %.3f", (int)round + 1, (int)f->rounds,
                 out->equal.ratio[round], out->planted.ratio[round]);
    }
out:
    if (s.folder[0]) {
        plb_status removed = plb_folder_remove(s.folder);
        if (!status) status = removed;
    }
    return status;
}

// ---------------------------------------------------------------------------- results
static int wrong_among_equals(const findings *f) {
    return f->equal.verdict[PLB_VERDICT_SLOWER] + f->equal.verdict[PLB_VERDICT_FASTER];
}

static int wrong_of_planted(const findings *f, double planted) {
    int same = planted > 1 ? f->planted.verdict[PLB_VERDICT_SAME] : 0;
    return f->planted.verdict[PLB_VERDICT_FASTER] + same;
}

static double median_of(const tally *t, const double *values) {
    double copy[MOST_ROUNDS];
    memcpy(copy, values, (size_t)t->rounds * sizeof *copy);
    return plb_median(copy, (size_t)t->rounds);
}

static void print_tally(const char *name, const tally *t) {
    plb_print("  %-22s%6d%8d%8d%8d   median ratio %.4f\n", name, t->verdict[PLB_VERDICT_SAME],
              t->verdict[PLB_VERDICT_SLOWER], t->verdict[PLB_VERDICT_FASTER],
              t->verdict[PLB_VERDICT_UNSURE], median_of(t, t->ratio));
}

static void print_findings(const findings *f, const selftest_flags *o) {
    char name[64];
    plb_print("Clock: steps of %.0f ns, a reading takes %.0f ns\n", f->clock.resolution_ns,
              f->clock.overhead_ns);
    for (int i = 0; i < PLB_SPIN_LENGTHS; i++) {
        const plb_spin_check *c = &f->spin[i];
        plb_print("  %5.1f us of work are measured as %6.2f us (%+.1f %%)%s\n", c->known_ns * 1e-3,
                  c->measured_ns * 1e-3, 100 * (c->measured_ns / c->known_ns - 1),
                  c->fine ? "" : "  TOO FAR OFF");
    }
    if (!o->rounds) return;
    plb_print("\nVerdicts of %d rounds:   SAME  SLOWER  FASTER  UNSURE\n", f->equal.rounds);
    print_tally("equals", &f->equal);
    snprintf(name, sizeof name, "slower by %.3g %%", o->planted);
    print_tally(name, &f->planted);
    plb_print("\n%d false alarms; %d of %d slow-downs found. A comparison of %d starts on this "
              "machine sees\ndifferences of %.1f %% and more.\n",
              wrong_among_equals(f), f->planted.verdict[PLB_VERDICT_SLOWER], f->planted.rounds,
              (int)o->starts, 100 * median_of(&f->planted, f->planted.detectable));
    if (f->warning) plb_print("Warning: %s\n", f->warning);
}

static void json_tally(plb_json *json, const char *key, const tally *t) {
    plb_json_begin_object(json, key);
    for (int v = 0; v < 4; v++) plb_json_int(json, plb_verdict_name((plb_verdict)v), t->verdict[v]);
    plb_json_begin_array(json, "ratios");
    for (int i = 0; i < t->rounds; i++) plb_json_double(json, NULL, t->ratio[i]);
    plb_json_end(json);
    plb_json_begin_array(json, "detectable");
    for (int i = 0; i < t->rounds; i++) plb_json_double(json, NULL, t->detectable[i]);
    plb_json_end(json);
    plb_json_end(json);
}

static plb_status print_json(const findings *f, const selftest_flags *o) {
    plb_json json;
    plb_cli_json_begin(&json, "selftest", 1);
    plb_json_double(&json, "clock_step_ns", f->clock.resolution_ns);
    plb_json_double(&json, "clock_reading_ns", f->clock.overhead_ns);
    plb_json_bool(&json, "clock_fine", f->clock_fine);
    plb_json_begin_array(&json, "spins");
    for (int i = 0; i < PLB_SPIN_LENGTHS; i++) {
        plb_json_begin_object(&json, NULL);
        plb_json_double(&json, "known_ns", f->spin[i].known_ns);
        plb_json_double(&json, "measured_ns", f->spin[i].measured_ns);
        plb_json_bool(&json, "fine", f->spin[i].fine);
        plb_json_end(&json);
    }
    plb_json_end(&json);
    plb_json_double(&json, "planted", o->planted / 100);
    plb_json_int(&json, "rounds", f->equal.rounds);
    json_tally(&json, "equal", &f->equal);
    json_tally(&json, "slowed", &f->planted);
    plb_json_int(&json, "false_alarms", wrong_among_equals(f));
    plb_json_int(&json, "hits", f->planted.verdict[PLB_VERDICT_SLOWER]);
    plb_json_string(&json, "warning", f->warning);
    return plb_cli_json_print(&json);
}

static plb_status run_selftest(plb_call *call) {
    const selftest_flags *o = call->options;
    findings f = {0};
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    if (!o->no_lock) PLB_TRY_OUT(plb_measure_lock());
    plb_clock_measure(&f.clock);
    f.clock_fine = plb_spin_check_clock(f.spin);
    PLB_TRY_OUT(plb_cli_go_on());
    if (o->rounds) PLB_TRY_OUT(run_rounds(o, arena, &f));
    if (!f.clock_fine || wrong_among_equals(&f) || wrong_of_planted(&f, o->planted))
        call->exit_code = PLB_EXIT_NEGATIVE;
    status = PLB_OK;
    if (call->json)
        status = print_json(&f, o);
    else
        print_findings(&f, o);
out:
    plb_arena_free(arena);
    return status;
}

const plb_command plb_cmd_selftest = {
    .name = "selftest",
    .summary = "measure something known, and see whether the answers are right",
    .description =
        "Checks the clock against work of known length (2 to 50 us, within 5 % or 1 us). Then\n"
        "measures two equal workers and one that is slowed down by a known share, as `plumb\n"
        "bench` would, round after round, and judges them as `plumb compare` would, with the\n"
        "rounds before as history. Two rounds more come first, as the history of the first one.\n\n"
        "What is called different among equals is a false alarm; what is UNSURE of the slow-down\n"
        "tells how fine a difference this machine lets one see. Nothing is kept in the store.\n\n"
        "Exits with 1 if a verdict was wrong or the clock is too far off; UNSURE is not wrong.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(selftest_flags),
    .run = run_selftest,
};
