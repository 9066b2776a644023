// SPDX-License-Identifier: Apache-2.0
// A run keeps its threads. OpenMP's runtime of GCC ends the threads that a smaller team has no use
// for, and starts others for the next larger one, which costs more than most ops of a small
// network: so work that is worth fewer threads than the plan has must not make a smaller team.
#include <dirent.h>

#include "levels.h"

enum { THREADS = 8, MOST = 64 };

static int by_number(const void *a, const void *b) {
    return atoi(a) - atoi(b);
}

// The kernel's numbers of this process's threads, in order; a new thread has a new one.
static int list_threads(char names[MOST][16]) {
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return 0;
    for (const struct dirent *entry; (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.' || n == MOST) continue;
        snprintf(names[n++], 16, "%.15s", entry->d_name);
    }
    closedir(tasks);
    qsort(names, (size_t)n, sizeof *names, by_number);
    return n;
}

static void add_output(plb_graph *graph, const char *name, int64_t rows, plb_value value) {
    char full[32];
    snprintf(full, sizeof full, "%s%d", name, (int)rows);
    plb_output(graph, full, value);
}

// Ops of kernels that share work by its size, over sizes that are worth 2, 3, ... threads.
static void build(plb_graph *graph) {
    const int64_t inner = plb_axes(4, 3, (int[]){1, 2, 3});
    for (int64_t rows = 2; rows < THREADS; rows++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)rows);
        plb_value x = plb_input(graph, name, PLB_F32, &plb_shape_of(rows, 8, 64, 64));
        add_output(graph, "softmax", rows, plb_softmax(graph, x, 3));
        add_output(graph, "cumsum", rows, plb_cumsum(graph, x, 3, false, false));
        add_output(graph, "sum", rows, plb_sum(graph, plb_tanh(graph, x), inner, false));
        add_output(graph, "copy", rows, plb_transpose(graph, plb_exp(graph, x), 1, 3));
        add_output(graph, "drop", rows, plb_dropout(graph, x, 0.5));
    }
}

static void runs_keep_their_threads(void) {
    // Replay before this thread has a team of its own, which would hide that the stream's is small.
    static const plb_level levels[] = {PLB_LEVEL_REPLAY, PLB_LEVEL_PLAN, PLB_LEVEL_INTERP};
    for (int l = 0; l < 3; l++) {
        plb_model *model = plb_model_new();
        plb_graph *graph;
        plb_plan *plan = NULL;
        char before[MOST][16] = {{0}}, after[MOST][16] = {{0}};
        CHECK_OK(plb_model_program(model, "p", &graph));
        build(graph);
        plb_plan_options options = {.level = levels[l], .threads = THREADS, .no_tuning = true};
        CHECK_OK(plb_plan_new(graph, &options, &plan));
        CHECK_OK(plb_plan_run(plan)); // starts them
        int n = list_threads(before);
        CHECK_OK(plb_plan_run(plan));
        CHECK_OK(plb_plan_run(plan));
        CHECK(list_threads(after) == n && n >= THREADS);
        int others = 0;
        for (int i = 0; i < n; i++) others += strcmp(before[i], after[i]) != 0;
        CHECK_SAY(!others, "%d of %d threads are not those of the run before", others, n);
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

// ---------------------------------------------------------------------------- what they compute
// Values of which some have more parts to share than threads, and some fewer.
static void build_wide(plb_graph *graph, const void *context) {
    (void)context;
    plb_value x = plb_input(graph, "x", PLB_F32, &plb_shape_of(6, 96, 28, 28));
    plb_value gamma = plb_input(graph, "gamma", PLB_F32, &plb_shape_of(96));
    plb_value beta = plb_input(graph, "beta", PLB_F32, &plb_shape_of(96));
    plb_value rows = plb_input(graph, "rows", PLB_I64, &plb_shape_of(200));
    plb_value table = plb_input(graph, "table", PLB_F32, &plb_shape_of(1000, 776));
    plb_value norm = plb_batch_norm(graph, x, gamma, beta, 1e-3);
    plb_value taken = plb_embedding(graph, table, rows), wrt[] = {x, gamma, table}, d[3];
    const int64_t all = plb_axes(4, 4, (int[]){0, 1, 2, 3});
    plb_value loss =
        plb_add(graph, plb_mean(graph, plb_mul(graph, norm, plb_tanh(graph, x)), all, false),
                plb_mean(graph, plb_mul(graph, taken, taken), 3, false));
    plb_gradients(graph, loss, wrt, 3, d);
    plb_output(graph, "dx", d[0]);
    plb_output(graph, "dgamma", d[1]);
    plb_output(graph, "dtable", d[2]);
    plb_output(graph, "norm", norm);
    plb_output(graph, "of channels", plb_sum(graph, x, plb_axes(4, 3, (int[]){0, 2, 3}), false));
    plb_output(graph, "of samples", plb_sum(graph, x, plb_axes(4, 3, (int[]){1, 2, 3}), false));
    plb_output(graph, "of columns", plb_sum(graph, table, 1, false));
    plb_output(graph, "of all", plb_sum(graph, x, all, false));
    plb_output(graph, "turned", plb_transpose(graph, plb_exp(graph, x), 1, 3));
    plb_output(graph, "turned table", plb_transpose(graph, plb_exp(graph, table), 0, 1));
}

static void threads_change_nothing_but_rounding(void) {
    levels_program p = {.build = build_wide, .runs = 1, .below = 1000, .tolerance = 2e-5};
    const plb_plan_options one = {.level = PLB_LEVEL_INTERP, .threads = 1};
    levels_trace expected = levels_run(&p, &one);
    static const int counts[] = {2, 7, 61};
    for (int i = 0; i < 6; i++) {
        plb_plan_options many = {.level = i < 3 ? PLB_LEVEL_INTERP : PLB_LEVEL_PLAN,
                                 .threads = counts[i % 3],
                                 .no_tuning = true};
        char text[700];
        levels_trace found = levels_run(&p, &many);
        bool differ = levels_differ(&p, &expected, &found, NULL, text, sizeof text);
        CHECK_SAY(!differ, "level %d, %d threads: %s", (int)many.level, many.threads, text);
        levels_trace_free(&found);
    }
    levels_trace_free(&expected);
}

static const check_test tests[] = {
    {"a run has the threads of the one before", runs_keep_their_threads},
    {"more threads than parts give what one does", threads_change_nothing_but_rounding},
};
CHECK_MAIN(tests)
