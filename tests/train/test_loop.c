// SPDX-License-Identifier: Apache-2.0
// The loop on a model small enough to be followed by hand: a linear classifier on points.
#include "base/core/alloc.h"
#include "base/core/log.h"
#include "check.h"
#include "faults.h"
#include "plumb/plumb.h"
#include "train/loop.h"

enum { COUNT = 22, BATCH = 8, FEATURES = 4, CLASSES = 3 }; // 2 whole batches and one of 6

// Class k is far out along axis k, so that a linear classifier finds it.
static plb_dataset *points(int64_t count, float scale) {
    float *samples = plb_alloc_array((size_t)count, FEATURES * sizeof *samples);
    int64_t *labels = plb_alloc_array((size_t)count, sizeof *labels);
    for (int64_t i = 0; i < count; i++) {
        labels[i] = i * i % CLASSES; // 0, 1, 1, 0, 1, 1, …
        for (int64_t f = 0; f < FEATURES; f++) {
            samples[i * FEATURES + f] =
                scale * ((f == labels[i] ? 2.0f : 0.0f) + (float)((i * 7 + f * 3) % 5) / 10);
        }
    }
    const plb_dataset_info info = {.name = "points",
                                   .kind = "test",
                                   .count = count,
                                   .classes = CLASSES,
                                   .channels = 1,
                                   .height = 1,
                                   .width = FEATURES,
                                   .dtype = PLB_F32};
    plb_dataset *set = NULL;
    CHECK_OK(plb_memory_dataset_new(&info, samples, labels, &set));
    return set;
}

static plb_value classifier(plb_graph *g, int64_t batch, plb_reduction how, bool dropout) {
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(batch, 1, 1, FEATURES));
    plb_value y = plb_input(g, "y", PLB_I64, &plb_shape_of(batch));
    plb_value w = plb_param(g, "w", PLB_F32, &plb_shape_of(CLASSES, FEATURES), PLB_ROLE_PARAMETER,
                            (plb_init){PLB_INIT_NORMAL, 0, 0.1});
    x = plb_flatten(g, x, 1);
    if (dropout) x = plb_dropout(g, x, 0.25);
    plb_value logits = plb_linear(g, x, w, PLB_NONE);
    plb_loss_attrs attrs = plb_loss_default();
    attrs.reduction = how;
    plb_value loss = plb_cross_entropy(g, logits, y, PLB_NONE, &attrs);
    plb_value hit = plb_eq(g, plb_arg_max(g, logits, 1, false), y);
    plb_output(g, "loss", loss);
    plb_output(g, "correct", plb_sum(g, plb_cast(g, hit, PLB_F32), 0, false));
    return loss;
}

static plb_status build_train(void *context, plb_model *model, const char *program, int64_t batch,
                              plb_graph **out_graph, plb_value *out_loss) {
    (void)context;
    plb_status status = plb_model_program(model, program, out_graph);
    if (status) return status;
    plb_graph_set_training(*out_graph, true);
    *out_loss = classifier(*out_graph, batch, PLB_REDUCE_MEAN, true);
    return plb_graph_status(*out_graph);
}

static plb_status build_eval(void *context, plb_model *model, const char *program, int64_t batch) {
    (void)context;
    plb_graph *graph;
    plb_status status = plb_model_program(model, program, &graph);
    if (status) return status;
    classifier(graph, batch, PLB_REDUCE_SUM, false);
    return plb_graph_status(graph);
}

static plb_train_options options_for(void) {
    return (plb_train_options){.model = "classifier",
                               .data = "points",
                               .epochs = 3,
                               .batch = BATCH,
                               .optimizer = "sgd",
                               .schedule = "cosine",
                               .lr = 0.1,
                               .momentum = 0.9,
                               .seed = 4,
                               .threads = 1,
                               .profile = true};
}

typedef struct watch {
    int64_t stop_after, batches, steady_allocations;
    uint64_t allocations;
} watch;

static bool stop(void *context) {
    watch *w = context;
    return w->stop_after && w->batches >= w->stop_after;
}

static void on_batch(void *context, const plb_train_event *event) {
    watch *w = context;
    uint64_t now = plb_alloc_count();
    // From the second batch of a pass on; the first one comes after an epoch's end.
    if (event->done > BATCH) w->steady_allocations += (int64_t)(now - w->allocations);
    w->allocations = now;
    w->batches += !event->evaluating;
}

// Trains and keeps the weights; `resume` is a path or NULL.
static plb_status train(const plb_train_options *options, const char *resume, watch *w,
                        float weights[CLASSES * FEATURES], plb_train_result *result) {
    plb_dataset *train_set = points(COUNT, 1), *test_set = points(11, 1);
    plb_model *model = plb_model_new();
    plb_checkpoint *c = NULL;
    const plb_train_task task = {.build_train = build_train,
                                 .build_eval = build_eval,
                                 .train_set = train_set,
                                 .test_set = test_set};
    const plb_train_callbacks callbacks = {.context = w, .stop = stop, .batch = on_batch};
    plb_status status = resume ? plb_checkpoint_open(resume, &c) : PLB_OK;
    if (!status) status = plb_train_run(model, &task, options, c, &callbacks, result);
    if (!status) {
        int index = plb_model_find_variable(model, "w");
        memcpy(weights, plb_variable_data(model, index), CLASSES * FEATURES * sizeof(float));
    }
    plb_checkpoint_free(c);
    plb_model_free(model);
    plb_dataset_free(train_set);
    plb_dataset_free(test_set);
    return status;
}

static void every_sample_counts_and_the_classes_are_found(void) {
    for (int level = 0; level < 3; level++) {
        plb_train_options options = options_for();
        options.level = (plb_level)level;
        options.epochs = 12;
        plb_train_result r;
        watch w = {0};
        float weights[CLASSES * FEATURES];
        CHECK_OK(train(&options, NULL, &w, weights, &r));
        CHECK(r.n_epochs == 12 && r.steps == 36 && w.batches == 36 && !r.stopped);
        for (int e = 0; e < r.n_epochs; e++) {
            CHECK(r.epochs[e].samples == COUNT && r.epochs[e].test_count == 11);
            CHECK_NEAR(r.epochs[e].majority_baseline, 7.0 / 11, 1e-12);
        }
        CHECK(r.epochs[11].test_accuracy == 1 && r.epochs[11].test_loss < r.epochs[0].test_loss);
        CHECK(r.parameters == CLASSES * FEATURES);
        int64_t calls = 0;
        for (int i = 0; i < r.n_ops; i++) {
            if (!strcmp(r.ops[i].name, "optimizer sgd")) calls = r.ops[i].calls;
        }
        int64_t expected = level == PLB_LEVEL_REPLAY ? 0 : 36; // a replay tells no times
        CHECK_SAY(calls == expected, "level %d: %lld", level, (long long)calls); // both batch sizes
        plb_train_result_free(&r);
    }
}

static void the_steady_state_allocates_nothing(void) {
    plb_train_options options = options_for();
    plb_train_result r;
    watch w = {0};
    float weights[CLASSES * FEATURES];
    CHECK_OK(train(&options, NULL, &w, weights, &r));
    CHECK_SAY(w.steady_allocations == 0, "%lld", (long long)w.steady_allocations);
    plb_train_result_free(&r);
}

static void a_run_stopped_anywhere_ends_the_same(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/c", folder);
    plb_train_options options = options_for();
    plb_train_result whole, first, rest;
    float expected[CLASSES * FEATURES], found[CLASSES * FEATURES];
    CHECK_OK(train(&options, NULL, &(watch){0}, expected, &whole));
    options.checkpoint = path;
    for (int64_t steps = 1; steps < whole.steps; steps++) {
        CHECK_OK(train(&options, NULL, &(watch){.stop_after = steps}, found, &first));
        CHECK(first.stopped && first.steps == steps);
        CHECK_OK(train(&options, path, &(watch){0}, found, &rest));
        CHECK_SAY(!memcmp(expected, found, sizeof found), "stopped after %lld", (long long)steps);
        CHECK(rest.n_epochs == 3 && rest.steps == whole.steps);
        for (int e = 0; e < 3 && rest.n_epochs == 3; e++) {
            CHECK(rest.epochs[e].loss == whole.epochs[e].loss);
            CHECK(rest.epochs[e].test_loss == whole.epochs[e].test_loss);
        }
        plb_train_result_free(&first);
        plb_train_result_free(&rest);
    }
    plb_train_result_free(&whole);
    fault_folder_remove(folder);
}

static void a_limit_of_steps_cuts_an_epoch(void) {
    plb_train_options options = options_for();
    plb_train_result r;
    float weights[CLASSES * FEATURES];
    options.max_steps = 5;
    CHECK_OK(train(&options, NULL, &(watch){0}, weights, &r));
    CHECK(r.n_epochs == 2 && r.steps == 5 && r.epochs[1].samples == 2 * BATCH);
    CHECK(r.epochs[1].epoch == 2 && r.epochs[1].test_count == 11);
    plb_train_result_free(&r);
    options = options_for(), options.limit = 5; // no batch is whole
    CHECK_OK(train(&options, NULL, &(watch){0}, weights, &r));
    CHECK(r.steps == 3 && r.epochs[2].samples == 5 && r.epochs[2].test_count == 5);
    plb_train_result_free(&r);
}

static int warnings; // with the words that a test gives as context
static void count_warnings(void *context, plb_log_level level, const char *line) {
    (void)context;
    warnings += level == PLB_LOG_WARN && strstr(line, context);
}

static void a_loss_that_is_no_number_is_warned_of_once(void) {
    plb_train_options options = options_for();
    plb_train_result r;
    float weights[CLASSES * FEATURES];
    options.lr = 1e38;
    warnings = 0;
    plb_log_set_sink(count_warnings, "not a number");
    CHECK_OK(train(&options, NULL, &(watch){0}, weights, &r));
    plb_log_set_sink(NULL, NULL);
    CHECK(warnings == 1 && isnan(r.epochs[2].loss) && r.steps == 9);
    plb_train_result_free(&r);
}

static void seeds_differ_and_repeat(void) {
    plb_train_options options = options_for();
    plb_train_result r;
    float a[CLASSES * FEATURES], b[CLASSES * FEATURES], c[CLASSES * FEATURES];
    CHECK_OK(train(&options, NULL, &(watch){0}, a, &r));
    plb_train_result_free(&r);
    CHECK_OK(train(&options, NULL, &(watch){0}, b, &r));
    plb_train_result_free(&r);
    options.seed = 5;
    CHECK_OK(train(&options, NULL, &(watch){0}, c, &r));
    plb_train_result_free(&r);
    CHECK(!memcmp(a, b, sizeof a) && memcmp(a, c, sizeof a));
}

static void bad_options_are_refused(void) {
    plb_train_result r;
    float weights[CLASSES * FEATURES];
    plb_train_options options = options_for();
    options.epochs = 0;
    CHECK_FAILS(PLB_EINVAL, "at least 1", train(&options, NULL, &(watch){0}, weights, &r));
    options = options_for(), options.momentum = 1;
    CHECK_FAILS(PLB_EINVAL, "momentum", train(&options, NULL, &(watch){0}, weights, &r));
    options = options_for(), options.optimizer = "sdg";
    CHECK_FAILS(PLB_EINVAL, "did you mean sgd?", train(&options, NULL, &(watch){0}, weights, &r));
}

static void a_checkpoint_that_is_not_written_ends_nothing(void) {
    plb_train_result r;
    float weights[CLASSES * FEATURES], expected[CLASSES * FEATURES];
    plb_train_options options = options_for();
    CHECK_OK(train(&options, NULL, &(watch){0}, expected, &r));
    CHECK(r.unwritten == PLB_OK);
    plb_train_result_free(&r);
    options.checkpoint = "/nowhere/x", options.checkpoint_every = 1;
    warnings = 0;
    plb_log_set_sink(count_warnings, "training goes on");
    CHECK_OK(train(&options, NULL, &(watch){0}, weights, &r));
    plb_log_set_sink(NULL, NULL);
    CHECK(warnings == 1 && memcmp(weights, expected, sizeof weights) == 0);
    CHECK(r.unwritten == PLB_EIO && strstr(r.why, "/nowhere/x"));
    plb_train_result_free(&r);
}

static const check_test tests[] = {
    {"every sample counts and the classes are found",
     every_sample_counts_and_the_classes_are_found},
    {"the steady state allocates nothing", the_steady_state_allocates_nothing},
    {"a run stopped anywhere ends the same", a_run_stopped_anywhere_ends_the_same},
    {"a limit of steps cuts an epoch", a_limit_of_steps_cuts_an_epoch},
    {"a loss that is no number is warned of once", a_loss_that_is_no_number_is_warned_of_once},
    {"seeds differ and repeat", seeds_differ_and_repeat},
    {"bad options are refused", bad_options_are_refused},
    {"a checkpoint that is not written ends nothing",
     a_checkpoint_that_is_not_written_ends_nothing},
};
CHECK_MAIN(tests)
