// SPDX-License-Identifier: Apache-2.0
// Times whole models, one JSON line a case:
//   bench [--ops] [--debug] [--seconds S] [--device D] [--math f32|tf32] [--autocast bf16|f16]
//         [--recompute] [--tune-time S] [--set NAME=N]...
//         [MODEL:TASK:LEVEL:BATCH:THREADS[:SIZE] ...]
// MODEL may be an ONNX file: BATCH is then the extent of axes that are called batch, n or
// batch_size, --set gives other axes' and whole integer inputs' numbers, 1 and 0 without it.
// TASK is infer or train, LEVEL plan, interp or replay; without cases, the ones that the project
// states figures for. Inputs are normal, targets spread over the classes. --ops adds one line an op
// that took at least 0.5 %, with its rate, to stderr (at level replay its kernel alone), --debug
// the library's own log. On a device
// "median_ms" is the latency of one launch with the device idle before, as its events tell,
// "queued_ms" many launches divided, "host_ms" the processor's part of a launch behind others, and
// "host_alone_ms" of one that finds the device idle; inputs lie on the device. "load_s": from
// nothing to the first result. Flags count for all cases, wherever they stand. Exit: 0 all were
// timed; 2 some were not, or, and none was then, a flag or a case makes no sense.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "base/spin_wait.h"
#include "plumb/onnx.h"
#include "plumb/plumb.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

enum { MAX_SAMPLES = 10000 };

typedef struct bench_case {
    char model[512], task[16], level[16];
    int batch, threads, size;
} bench_case;

static const char *const usual[] = {
    "mnist_cnn:train:plan:64:2",  "mnist_cnn:train:plan:64:1", "mnist_cnn:train:interp:64:2",
    "resnet50:infer:plan:1:2",    "resnet50:infer:plan:8:2",   "resnet50:infer:plan:32:2",
    "resnet50:infer:interp:1:2",  "vgg16:infer:plan:1:2",      "mobilenet_v2:infer:plan:1:2",
    "densenet121:infer:plan:1:2", "resnet18:train:plan:16:2",  "resnet50:train:plan:16:2",
    "alexnet:train:plan:64:2",
};

static double seconds_a_case = 3;
static int show_ops;
static plb_plan_options common; // of all cases

enum { MAX_SET = 16 };
static plb_onnx_dim numbers[MAX_SET + 3] = {{"batch", 1}, {"n", 1}, {"batch_size", 1}};
static int n_numbers = 3;
static plb_onnx *file; // of the case that runs, which outlives its model

static int fail(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, plb_error_text());
    return 2;
}

static const char *const tasks[] = {"infer", "train", NULL};
static const char *const levels[] = {"plan", "interp", "replay", NULL}; // as level_of() has them
static const char *const maths[] = {"f32", "tf32", NULL};
static const char *const casts[] = {"bf16", "f16", NULL};

// Where a word is in a list, or -1.
static int place_of(const char *word, const char *const *list) {
    for (int i = 0; list[i]; i++) {
        if (strcmp(word, list[i]) == 0) return i;
    }
    return -1;
}

static int parse_case(const char *text, bench_case *c) {
    *c = (bench_case){0};
    int end = 0;
    int n = sscanf(text, "%511[^:]:%15[^:]:%15[^:]:%d:%d%n:%d%n", c->model, c->task, c->level,
                   &c->batch, &c->threads, &end, &c->size, &end);
    if (n >= 5 && !text[end] && c->batch > 0 && c->threads > 0 && place_of(c->task, tasks) >= 0 &&
        place_of(c->level, levels) >= 0) {
        return 0;
    }
    fprintf(stderr,
            "bench: %s: expected MODEL:TASK:LEVEL:BATCH:THREADS[:SIZE], with TASK infer or train, "
            "LEVEL plan, interp or replay\n",
            text);
    return 2;
}

static plb_level level_of(const char *name) {
    static const plb_level found[] = {PLB_LEVEL_PLAN, PLB_LEVEL_INTERP, PLB_LEVEL_REPLAY};
    return found[place_of(name, levels)];
}

static int is_onnx(const char *model) {
    const size_t length = strlen(model);
    return length > 5 && strcmp(model + length - 5, ".onnx") == 0;
}

static const plb_onnx_dim *number_of(const char *name) {
    for (int i = 0; i < n_numbers; i++) {
        if (strcmp(numbers[i].name, name) == 0) return &numbers[i];
    }
    return NULL;
}

// Scalars that are given are known when the program is built.
static plb_status build_onnx(plb_model *model, const bench_case *c, plb_graph **out) {
    plb_onnx_given given[MAX_SET];
    plb_onnx_options options = {.dims = numbers, .n_dims = n_numbers, .open_extent = 1};
    for (int i = 0; i < 3; i++) numbers[i].extent = c->batch;
    plb_status status = plb_onnx_open(c->model, &file);
    if (!status) status = plb_model_program(model, "infer", out);
    for (int i = 0; !status && i < plb_onnx_input_count(file) && i < MAX_SET; i++) {
        plb_onnx_input_info info;
        status = plb_onnx_input(file, i, &info);
        const plb_onnx_dim *number = status ? NULL : number_of(info.name);
        if (!number || info.shape.rank || info.dtype != PLB_I64) continue;
        plb_tensor value = plb_tensor_dense((void *)(uintptr_t)&number->extent, PLB_I64,
                                            &plb_scalar_shape, (plb_layout){0});
        given[options.n_given++] = (plb_onnx_given){.name = info.name, .tensor = value};
    }
    options.given = given;
    return status ? status : plb_onnx_build(file, &options, *out, NULL);
}

static plb_status build(plb_model *model, const bench_case *c, plb_graph **out) {
    if (is_onnx(c->model)) return build_onnx(model, c, out);
    plb_zoo_options options = {.batch = c->batch, .size = c->size};
    plb_value loss;
    if (strcmp(c->task, "train") != 0) {
        plb_status status = plb_zoo_build_infer(model, c->model, &options);
        *out = plb_model_find_program(model, "infer");
        return status;
    }
    plb_step_options step;
    plb_status status = plb_step_options_for("sgd", &step);
    step.sgd.momentum = 0.9;
    if (!status) status = plb_zoo_build_train(model, c->model, &options, out, &loss);
    return status ? status : plb_train_step(*out, loss, &step);
}

static float normal_at(int64_t i) {
    plb_philox_block b = plb_philox(7, (uint64_t)i, 0);
    float sum = -2;
    for (int k = 0; k < 4; k++) sum += plb_uniform_f32(b.word[k]);
    return sum * 1.7f; // near enough to normal
}

static plb_status fill_onnx(plb_plan *plan) {
    for (int k = 0; k < plb_onnx_input_count(file); k++) {
        plb_onnx_input_info info;
        plb_tensor x;
        plb_status status = plb_onnx_input(file, k, &info);
        if (!status) status = plb_plan_input(plan, info.name, &x);
        if (status) return status;
        const plb_onnx_dim *number = number_of(info.name);
        for (int64_t i = 0; i < plb_shape_count(&x.shape); i++) {
            plb_store_f64(x.data, x.dtype, i,
                          number                        ? (double)number->extent
                          : plb_dtype_is_float(x.dtype) ? (double)normal_at(i)
                                                        : 0);
        }
    }
    return PLB_OK;
}

static plb_status fill_inputs(plb_plan *plan, const bench_case *c) {
    plb_tensor x, y;
    if (is_onnx(c->model)) return fill_onnx(plan);
    plb_status status = plb_plan_input(plan, "x", &x);
    if (status) return status;
    for (int64_t i = 0; i < plb_shape_count(&x.shape); i++) {
        ((float *)x.data)[i] = normal_at(i);
    }
    if (strcmp(c->task, "train") != 0) return PLB_OK;
    status = plb_plan_input(plan, "y", &y);
    for (int i = 0; i < c->batch && !status; i++) ((int64_t *)y.data)[i] = i * 7 % 10;
    return status;
}

// Processor time of all threads: what a run costs, whoever else disturbs it.
static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int by_time(const void *a, const void *b) {
    const plb_plan_op *x = a, *y = b;
    return x->time_ns < y->time_ns ? 1 : x->time_ns > y->time_ns ? -1 : 0;
}

// One line a kind of op.
static void print_kinds(const plb_plan_op *ops, int n, double total) {
    for (int i = 0; i < n; i++) {
        double ns = 0;
        int count = 0, before = 0;
        for (int k = 0; k < n; k++) {
            bool same = !strcmp(ops[k].op, ops[i].op) && !strcmp(ops[k].kernel, ops[i].kernel);
            before += same && k < i;
            if (!same || !ops[k].calls) continue;
            ns += (double)ops[k].time_ns;
            count++;
        }
        if (before || !count) continue;
        fprintf(stderr, "%5.1f %%  %4d x %s by %s\n", 100 * ns / total, count, ops[i].op,
                ops[i].kernel);
    }
}

static void print_ops(const plb_plan *plan) {
    int n = plb_plan_op_count(plan);
    plb_plan_op *ops = calloc((size_t)n + 1, sizeof *ops);
    double total = 0;
    for (int i = 0; i < n && ops; i++) {
        ops[i] = plb_plan_op_info(plan, i);
        total += (double)ops[i].time_ns;
    }
    if (ops) qsort(ops, (size_t)n, sizeof *ops, by_time);
    if (ops && total > 0) print_kinds(ops, n, total);
    for (int i = 0; i < n && ops; i++) {
        if (total == 0) { // a graph's launches have no times of their own
            fprintf(stderr, "%-17s %-24s %s %s\n", ops[i].op, ops[i].scope, ops[i].kernel,
                    ops[i].choice);
            continue;
        }
        double ns = (double)ops[i].time_ns / (double)(ops[i].calls ? ops[i].calls : 1);
        if ((double)ops[i].time_ns < 0.005 * total) break;
        char shape[160];
        fprintf(stderr, "%5.1f %%  %9.3f ms  %7.1f GF/s %6.1f GB/s  %-17s %-24s %s %s  %s\n",
                100 * (double)ops[i].time_ns / total, ns / 1e6, ops[i].flops / ns,
                ops[i].bytes / ns, ops[i].op, ops[i].scope, ops[i].kernel, ops[i].choice,
                plb_shape_format(&ops[i].type.shape, shape, sizeof shape));
    }
    free(ops);
}

static const char *math_name(void) {
    if (common.autocast) return common.autocast == PLB_AUTOCAST_F16 ? "f16" : "bf16";
    return common.math == PLB_MATH_TF32 ? "tf32" : "f32";
}

// The processor's part of a launch: of one that finds the device idle, after a wait that left the
// processor's caches cold; and of each of those that are queued behind it, as training queues them.
static plb_status time_launches(plb_plan *plan, double *out_alone_ms, double *out_behind_ms) {
    enum { BEHIND = 4 };
    PLB_TRY(plb_plan_wait(plan));
    int64_t begin = plb_now_ns();
    PLB_TRY(plb_plan_launch(plan));
    int64_t end = plb_now_ns();
    *out_alone_ms = (double)(end - begin) / 1e6;
    for (int i = 0; i < BEHIND; i++) PLB_TRY(plb_plan_launch(plan));
    *out_behind_ms = (double)(plb_now_ns() - end) / 1e6 / BEHIND;
    return plb_plan_wait(plan);
}

// Launches one by one for the latency, then many at once.
static int time_on_device(plb_plan *plan, const bench_case *c, double load_s) {
    static double samples[MAX_SAMPLES];
    int64_t ns = 0;
    int n = 0;
    const int queued = 100;
    if (plb_plan_settle(plan)) return fail(c->model);
    int64_t begin = plb_now_ns();
    for (int i = 0; i < 10; i++) {
        if (plb_plan_time(plan, 1, &ns)) return fail(c->model);
    }
    plb_plan_reset_times(plan);
    while (n < MAX_SAMPLES && (n < 100 || (double)(plb_now_ns() - begin) < seconds_a_case * 5e8)) {
        if (plb_plan_time(plan, 1, &ns)) return fail(c->model);
        samples[n++] = (double)ns / 1e6;
        if (n >= 20 && (double)(plb_now_ns() - begin) > 4e9 * seconds_a_case) break;
    }
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    if (plb_plan_time(plan, queued, &ns)) return fail(c->model);
    double queued_ms = (double)ns / 1e6 / queued;
    double host_ms = INFINITY, alone_ms = INFINITY;
    for (int i = 0; i < 20; i++) {
        double first_ms = 0, behind_ms = 0;
        if (time_launches(plan, &first_ms, &behind_ms)) return fail(c->model);
        alone_ms = fmin(alone_ms, first_ms);
        host_ms = fmin(host_ms, behind_ms);
    }
    printf("{\"model\":\"%s\",\"task\":\"%s\",\"level\":\"%s\",\"batch\":%d,\"dtype\":\"%s\","
           "\"median_ms\":%.4f,\"min_ms\":%.4f,\"queued_ms\":%.4f,\"host_ms\":%.4f,"
           "\"host_alone_ms\":%.4f,\"n\":%d,\"planned_bytes\":%zu,\"load_s\":%.2f}\n",
           c->model, c->task, c->level, c->batch, math_name(), samples[n / 2], samples[0],
           queued_ms, host_ms, alone_ms, n, plb_plan_memory(plan).total, load_s);
    fflush(stdout);
    if (show_ops) print_ops(plan);
    return 0;
}

static int time_plan(plb_plan *plan, const bench_case *c) {
    static double samples[MAX_SAMPLES];
    int n = 0;
    if (plb_plan_run(plan) || plb_plan_run(plan)) return fail(c->model);
    plb_plan_reset_times(plan);
    int64_t begin = plb_now_ns();
    double cpu_begin = cpu_ms();
    while (n < MAX_SAMPLES && (n < 5 || (double)(plb_now_ns() - begin) < seconds_a_case * 1e9)) {
        int64_t start = plb_now_ns();
        if (plb_plan_run(plan)) return fail(c->model);
        samples[n++] = (double)(plb_now_ns() - start) / 1e6;
    }
    double cpu = (cpu_ms() - cpu_begin) / n;
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    printf("{\"model\":\"%s\",\"task\":\"%s\",\"level\":\"%s\",\"batch\":%d,\"threads\":%d,"
           "\"median_ms\":%.4f,\"min_ms\":%.4f,\"cpu_ms\":%.4f,\"n\":%d,"
           "\"planned_bytes\":%zu}\n",
           c->model, c->task, c->level, c->batch, c->threads, samples[n / 2], samples[0], cpu, n,
           plb_plan_memory(plan).total);
    fflush(stdout);
    if (show_ops) print_ops(plan);
    return 0;
}

static int run_case(const char *text) {
    bench_case c;
    if (parse_case(text, &c)) return 2;
    plb_model *model = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_plan_options options = common;
    options.level = level_of(c.level), options.threads = c.threads, options.profile = show_ops;
    int64_t begin = plb_now_ns();
    plb_status status = model ? build(model, &c, &graph) : PLB_ENOMEM;
    if (!status) status = plb_plan_new(graph, &options, &plan);
    if (!status) status = fill_inputs(plan, &c);
    if (!status && common.device) status = plb_plan_run(plan); // brings the inputs there
    double load_s = (double)(plb_now_ns() - begin) / 1e9;
    int result = status          ? fail(text)
                 : common.device ? time_on_device(plan, &c, load_s)
                                 : time_plan(plan, &c);
    if (!status && show_ops) fprintf(stderr, "%s", plb_plan_report(plan));
    plb_plan_free(plan);
    plb_model_free(model);
    plb_onnx_free(file);
    file = NULL;
    return result;
}

static int refuse(const char *flag, const char *value, const char *expected) {
    fprintf(stderr, "bench: %s %s: expected %s\n", flag, value, expected);
    return 2;
}

static int set_number(char *text) {
    char *equals = strchr(text, '='), *end = NULL;
    int64_t number = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || end == equals + 1 || *end || n_numbers == MAX_SET + 3) {
        return refuse("--set", text, "NAME=N");
    }
    *equals = '\0';
    numbers[n_numbers++] = (plb_onnx_dim){text, number};
    return 0;
}

static int take_seconds(const char *flag, const char *value, double *out) {
    char *end = NULL;
    *out = strtod(value, &end);
    if (end != value && !*end && *out >= 0 && *out < 1e6) return 0;
    return refuse(flag, value, "a number of seconds");
}

static void show_line(void *context, plb_log_level level, const char *line) {
    (void)context, (void)level;
    fprintf(stderr, "%8.1f ms  %s\n", (double)plb_now_ns() / 1e6, line);
}

// A flag that has a value.
static int take_flag(const char *flag, char *value) {
    if (strcmp(flag, "--seconds") == 0) return take_seconds(flag, value, &seconds_a_case);
    if (strcmp(flag, "--set") == 0) return set_number(value);
    if (strcmp(flag, "--tune-time") == 0) {
        double seconds = 0;
        if (take_seconds(flag, value, &seconds)) return 2;
        common.tune_ms = (int64_t)(1000 * seconds);
    } else if (strcmp(flag, "--device") == 0) {
        common.device = value;
    } else if (strcmp(flag, "--math") == 0) {
        if (place_of(value, maths) < 0) return refuse(flag, value, "f32 or tf32");
        common.math = place_of(value, maths) ? PLB_MATH_TF32 : PLB_MATH_F32;
    } else if (strcmp(flag, "--autocast") == 0) {
        if (place_of(value, casts) < 0) return refuse(flag, value, "bf16 or f16");
        common.autocast = place_of(value, casts) ? PLB_AUTOCAST_F16 : PLB_AUTOCAST_BF16;
    } else {
        return refuse(flag, value, "a flag of plumb_bench");
    }
    return 0;
}

// Flags are taken, cases are checked and moved to the front of argv; their number, or -1.
static int take_arguments(int argc, char **argv) {
    int result = 0, cases = 0;
    for (int i = 1; i < argc; i++) {
        bench_case c;
        if (strcmp(argv[i], "--ops") == 0) {
            show_ops = 1;
        } else if (strcmp(argv[i], "--recompute") == 0) {
            common.recompute = true;
        } else if (strcmp(argv[i], "--debug") == 0) {
            plb_log_set_sink(show_line, NULL);
        } else if (strncmp(argv[i], "--", 2) == 0) {
            if (i + 1 == argc) {
                fprintf(stderr, "bench: %s: expected a flag, with its value behind it\n", argv[i]);
                return -1;
            }
            result |= take_flag(argv[i], argv[i + 1]);
            i++;
        } else {
            result |= parse_case(argv[i], &c);
            argv[cases++] = argv[i];
        }
    }
    return result ? -1 : cases;
}

int main(int argc, char **argv) {
    plb_bound_spin_wait(argv);
    int result = 0, cases = take_arguments(argc, argv);
    if (cases < 0) return 2;
    for (int i = 0; i < cases; i++) result |= run_case(argv[i]);
    const size_t n_usual = cases ? 0 : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < n_usual; i++) result |= run_case(usual[i]);
    return result;
}
