// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "data/inspect.h"
#include "engine/graph/graph.h"
#include "plumb/step.h"
#include "train/phase.h"
#include "train/schedule.h"
#include "train/tally.h"

enum { PLANS = 4 };
static const char *const programs[PLANS] = {"train", "train.last", "eval", "eval.last"};

typedef struct run {
    plb_model *model;
    const plb_train_task *task;
    const plb_train_options *options;
    const plb_train_callbacks *callbacks;
    plb_phase train, test;
    plb_schedule schedule;
    plb_train_progress progress;
    double baseline;
    int lr; // index of the variable
    bool stopped, warned;
    plb_status unwritten; // why the last checkpoint was not
    char why[1024];
} run;

// ---------------------------------------------------------------------------- setting up
static plb_status check_options(const plb_train_options *o, const plb_dataset_info *a,
                                const plb_dataset_info *b) {
    if (o->epochs < 1 || o->batch < 1 || o->limit < 0 || o->max_steps < 0 ||
        o->checkpoint_every < 0 || o->threads < 1) {
        return plb_fail(PLB_EINVAL, "expected epochs, batch and threads of at least 1, and no "
                                    "negative limits");
    }
    if (!(o->lr >= 0) || !(o->momentum >= 0) || !(o->weight_decay >= 0) || isinf(o->lr) ||
        o->momentum >= 1 || isinf(o->weight_decay)) {
        return plb_fail(PLB_EINVAL,
                        "expected a learning rate and weight decay of at least 0 and a momentum "
                        "from 0 to below 1, found %g, %g, %g",
                        o->lr, o->weight_decay, o->momentum);
    }
    if (a->channels != b->channels || a->height != b->height || a->width != b->width)
        return plb_fail(PLB_EINVAL, "%s: its two parts differ in shape", a->name);
    return PLB_OK;
}

static plb_status open_data(run *r) {
    const plb_train_options *o = r->options;
    plb_loader_options loader = {
        .batch = o->batch, .limit = o->limit, .shuffle = true, .seed = o->seed};
    loader.raw = r->task->pixels;
    loader.threads = r->task->train_set->ops->peek ? 0 : o->loader_threads;
    PLB_TRY(plb_phase_open(&r->train, r->task->train_set, &loader));
    loader.shuffle = false;
    loader.threads = r->task->test_set->ops->peek ? 0 : o->loader_threads;
    PLB_TRY(plb_phase_open(&r->test, r->task->test_set, &loader));
    return plb_dataset_majority(r->task->test_set, o->limit, &r->baseline, NULL);
}

static plb_status step_options(const plb_train_options *o, plb_step_options *out) {
    PLB_TRY(plb_step_options_for(o->optimizer, out));
    out->lr = o->lr;
    out->sgd.momentum = o->momentum;
    out->sgd.weight_decay = o->weight_decay;
    out->adam.weight_decay = o->weight_decay;
    if (o->autocast == PLB_AUTOCAST_F16) out->loss_scale = 65536; // as PyTorch's GradScaler begins
    return PLB_OK;
}

static plb_status build_train(run *r, const char *program, int64_t batch) {
    plb_graph *graph = NULL;
    plb_value loss = PLB_NONE;
    plb_step_options step;
    if (!batch) return PLB_OK;
    PLB_TRY(step_options(r->options, &step));
    PLB_TRY(r->task->build_train(r->task->context, r->model, program, batch, &graph, &loss));
    return plb_train_step(graph, loss, &step);
}

static plb_status build_eval(run *r, const char *program, int64_t batch) {
    return batch ? r->task->build_eval(r->task->context, r->model, program, batch) : PLB_OK;
}

static plb_status build(run *r) {
    PLB_TRY(build_train(r, programs[0], plb_phase_whole(&r->train)));
    PLB_TRY(build_train(r, programs[1], plb_phase_last(&r->train)));
    PLB_TRY(build_eval(r, programs[2], plb_phase_whole(&r->test)));
    PLB_TRY(build_eval(r, programs[3], plb_phase_last(&r->test)));
    r->lr = plb_model_find_variable(r->model, "lr");
    return r->lr < 0 ? plb_fail(PLB_EBROKEN, "the program has no learning rate") : PLB_OK;
}

static plb_status make_plans(run *r, const char *choices) {
    const plb_train_options *o = r->options;
    plb_plan_options options = {.level = o->level,
                                .threads = o->threads,
                                .deterministic = o->deterministic,
                                .no_winograd = o->no_winograd,
                                .device = o->device,
                                .math = o->math,
                                .autocast = o->autocast,
                                .sync = o->sync,
                                .recompute = o->recompute,
                                .tune_ms = o->tune_ms,
                                .profile = o->profile,
                                .choices = choices};
    PLB_TRY(plb_phase_plan(&r->train, r->model, programs[0], programs[1], &options));
    return plb_phase_plan(&r->test, r->model, programs[2], programs[3], &options);
}

static void list_plans(const run *r, const plb_plan *out[PLANS]) {
    out[0] = r->train.whole.plan, out[1] = r->train.last.plan;
    out[2] = r->test.whole.plan, out[3] = r->test.last.plan;
}

static bool has_line(const char *text, const char *line, size_t length) {
    for (; *text; text += *text == '\n') {
        if (strncmp(text, line, length) == 0 && text[length] == '\n') return true;
        text += strcspn(text, "\n");
    }
    return false;
}

// Warns when a kernel is in use that the run did not begin with: another machine, library, number
// of threads or version.
static void compare_choices(const run *r, const char *began) {
    const plb_plan *plans[PLANS];
    list_plans(r, plans);
    for (int i = 0; i < PLANS; i++) {
        const char *line = plans[i] ? plb_plan_choices(plans[i]) : "";
        for (; *line; line += strcspn(line, "\n") + 1) {
            if (has_line(began, line, strcspn(line, "\n"))) continue;
            plb_log_line(PLB_LOG_WARN, "other kernels than those the run began with: its end will "
                                       "not be the same bit for bit");
            return;
        }
    }
}

// Options that ask for less than is done would leave a run of which nothing is true.
static plb_status check_rest(const run *r) {
    const plb_train_progress *p = &r->progress;
    const plb_train_options *o = r->options;
    const int64_t epochs = p->epoch + (p->number > 0); // begun
    if (epochs > o->epochs)
        return plb_fail(PLB_EINVAL,
                        "checkpoint: the run is at epoch %lld already: expected at least as many "
                        "epochs, found %lld",
                        (long long)epochs, (long long)o->epochs);
    if (!o->max_steps || p->step <= o->max_steps) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "checkpoint: the run has done %lld steps already: expected at least as many, "
                    "found %lld",
                    (long long)p->step, (long long)o->max_steps);
}

static plb_status take_up(run *r, const plb_checkpoint *resume) {
    PLB_TRY(plb_checkpoint_load(resume, r->model));
    PLB_TRY(plb_checkpoint_progress(resume, &r->progress));
    plb_train_progress *p = &r->progress;
    if (p->number > r->train.batches || p->step != p->epoch * r->train.batches + p->number) {
        return plb_fail(PLB_EINVAL,
                        "checkpoint: step %lld is not batch %lld of epoch %lld with %lld batches "
                        "an epoch: was the data another?",
                        (long long)p->step, (long long)p->number, (long long)p->epoch,
                        (long long)r->train.batches);
    }
    PLB_TRY(check_rest(r));
    return plb_loader_seek(r->train.loader, p->epoch, p->number);
}

static plb_status set_up(run *r, const plb_checkpoint *resume) {
    const plb_train_options *o = r->options;
    PLB_TRY(check_options(o, &r->task->train_set->info, &r->task->test_set->info));
    PLB_TRY(plb_dataset_same_classes(r->task->train_set, r->task->test_set));
    PLB_TRY(plb_schedule_for(o->schedule, o->lr, o->epochs, &r->schedule));
    if (resume) PLB_TRY(plb_checkpoint_check(resume, o));
    PLB_TRY(open_data(r));
    PLB_TRY(build(r));
    PLB_TRY(plb_model_init(r->model, r->options->seed));
    if (resume) PLB_TRY(take_up(r, resume));
    PLB_TRY(make_plans(r, resume ? plb_checkpoint_choices(resume) : NULL));
    if (resume && o->level != PLB_LEVEL_INTERP) {
        compare_choices(r, plb_checkpoint_choices(resume));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- running
static bool asked_to_stop(run *r) {
    const plb_train_callbacks *c = r->callbacks;
    if (!r->stopped && c && c->stop) r->stopped = c->stop(c->context);
    return r->stopped;
}

static void tell(const run *r, const plb_metrics *m, int64_t total, bool evaluating) {
    const plb_train_callbacks *c = r->callbacks;
    if (!c || !c->batch) return;
    plb_train_event event = {.epoch = r->progress.epoch + 1,
                             .epochs = r->options->epochs,
                             .done = m->samples,
                             .total = total,
                             .evaluating = evaluating,
                             .loss = plb_metrics_loss(m),
                             .accuracy = plb_metrics_accuracy(m),
                             .train_ns = r->progress.train_ns};
    c->batch(c->context, &event);
}

static plb_status write_checkpoint(const run *r) {
    const plb_plan *plans[PLANS];
    plb_strbuf choices = {0};
    list_plans(r, plans);
    plb_strbuf_printf(&choices, "%s", "");
    for (int i = 0; i < PLANS; i++) {
        if (plans[i]) plb_strbuf_printf(&choices, "%s", plb_plan_choices(plans[i]));
    }
    plb_status status = choices.failed
                            ? plb_fail(PLB_ENOMEM, "out of memory for a checkpoint")
                            : plb_checkpoint_write(r->options->checkpoint, r->model, r->options,
                                                   &r->progress, choices.text);
    plb_strbuf_free(&choices);
    return status;
}

// A disk that is full ends no training: there may be room for the next one, and the weights are
// there to be saved elsewhere.
static void keep_checkpoint(run *r, bool last) {
    if (!r->options->checkpoint) return;
    const bool told = r->unwritten != PLB_OK || last;
    r->unwritten = write_checkpoint(r);
    if (!r->unwritten) return;
    snprintf(r->why, sizeof r->why, "%s", plb_error_text());
    if (told) return;
    plb_log_line(PLB_LOG_WARN, "step %lld: no checkpoint, training goes on: %s",
                 (long long)r->progress.step, r->why);
}

static void take_result(run *r, const plb_phase_result *result, int64_t step) {
    plb_train_progress *p = &r->progress;
    if (!result->size) return;
    plb_metrics_add(&p->metrics, result->loss * (double)result->size, result->correct,
                    result->size);
    if (isnan(result->loss) && !r->warned) {
        plb_log_line(PLB_LOG_WARN, "step %lld: the loss is not a number", (long long)step);
        r->warned = true;
    }
    tell(r, &p->metrics, r->train.samples, false);
}

// What a device has still in flight.
static plb_status finish_training(run *r) {
    plb_train_progress *p = &r->progress;
    plb_phase_result result;
    int64_t begin_ns = plb_now_ns();
    PLB_TRY(plb_phase_finish(&r->train, &result));
    p->train_ns += plb_now_ns() - begin_ns;
    take_result(r, &result, p->step);
    return PLB_OK;
}

static plb_status train_batch(run *r) {
    plb_train_progress *p = &r->progress;
    int64_t begin_ns = plb_now_ns(), waited_ns = plb_loader_wait_ns(r->train.loader);
    plb_phase_result result;
    PLB_TRY(plb_phase_step(&r->train, p->number, &result));
    p->train_ns += plb_now_ns() - begin_ns;
    p->wait_ns += plb_loader_wait_ns(r->train.loader) - waited_ns;
    p->number++, p->step++;
    take_result(r, &result, p->step - (r->train.pending != NULL));
    int64_t every = r->options->checkpoint_every;
    if (!every || p->step % every != 0) return PLB_OK;
    PLB_TRY(finish_training(r));
    keep_checkpoint(r, false);
    return PLB_OK;
}

static bool steps_left(const run *r) {
    return !r->options->max_steps || r->progress.step < r->options->max_steps;
}

static plb_status set_learning_rate(run *r) {
    float lr = (float)plb_schedule_lr(&r->schedule, r->progress.epoch);
    plb_tensor from = plb_tensor_dense(&lr, PLB_F32, &plb_scalar_shape, (plb_layout){0});
    return plb_variable_write(r->model, r->lr, &from);
}

static void take_test_result(const run *r, const plb_phase_result *result, plb_metrics *out) {
    if (!result->size) return;
    plb_metrics_add(out, result->loss, result->correct, result->size);
    tell(r, out, r->test.samples, true);
}

// The whole test set; ends early when asked to stop.
static plb_status evaluate(run *r, plb_metrics *out) {
    *out = (plb_metrics){0};
    PLB_TRY(plb_loader_seek(r->test.loader, 0, 0));
    for (int64_t i = 0; i < r->test.batches && !asked_to_stop(r); i++) {
        plb_phase_result result;
        PLB_TRY(plb_phase_step(&r->test, i, &result));
        take_test_result(r, &result, out);
    }
    plb_phase_result result;
    PLB_TRY(plb_phase_finish(&r->test, &result));
    take_test_result(r, &result, out);
    return PLB_OK;
}

static void describe_epoch(const run *r, const plb_metrics *test, plb_train_epoch *out) {
    const plb_train_progress *p = &r->progress;
    *out = (plb_train_epoch){.epoch = p->epoch + 1,
                             .samples = p->metrics.samples,
                             .lr = plb_schedule_lr(&r->schedule, p->epoch),
                             .loss = plb_metrics_loss(&p->metrics),
                             .accuracy = plb_metrics_accuracy(&p->metrics),
                             .test_loss = plb_metrics_loss(test),
                             .test_accuracy = plb_metrics_accuracy(test),
                             .test_count = test->samples,
                             .majority_baseline = r->baseline,
                             .train_ns = p->train_ns,
                             .wait_ns = p->wait_ns};
}

// Evaluates and tells. An epoch that ended joins the history and the next one begins; a part of
// one goes to `out_part`, so that a resumed run can finish it.
static plb_status end_epoch(run *r, plb_train_epoch *out_part) {
    plb_train_progress *p = &r->progress;
    plb_metrics test;
    plb_train_epoch epoch;
    PLB_TRY(evaluate(r, &test));
    if (r->stopped) return PLB_OK;
    describe_epoch(r, &test, &epoch);
    if (p->number == r->train.batches) {
        PLB_TRY(plb_train_progress_push(p, &epoch));
        p->epoch++, p->number = 0, p->train_ns = p->wait_ns = 0;
        p->metrics = (plb_metrics){0};
        if (!r->options->checkpoint_every) keep_checkpoint(r, false);
    } else {
        *out_part = epoch;
    }
    if (r->callbacks && r->callbacks->epoch) r->callbacks->epoch(r->callbacks->context, &epoch);
    return PLB_OK;
}

static plb_status train(run *r, plb_train_epoch *out_part) {
    plb_train_progress *p = &r->progress;
    while (p->epoch < r->options->epochs && !asked_to_stop(r)) {
        PLB_TRY(set_learning_rate(r));
        while (p->number < r->train.batches && steps_left(r) && !asked_to_stop(r)) {
            PLB_TRY(train_batch(r));
        }
        PLB_TRY(finish_training(r));
        if (r->stopped || p->number == 0) break;
        PLB_TRY(end_epoch(r, out_part));
        if (p->number) break; // a limit of steps cut the epoch short
    }
    keep_checkpoint(r, true);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- results
static plb_status list_epochs(const run *r, const plb_train_epoch *part, plb_train_result *out) {
    int n = r->progress.n_history, parts = part->epoch > 0;
    plb_train_epoch *all = plb_arena_alloc(out->arena, (size_t)(n + parts) * sizeof *all);
    if (!all) return plb_fail(PLB_ENOMEM, "out of memory for results");
    if (n) memcpy(all, r->progress.history, (size_t)n * sizeof *all);
    if (parts) all[n] = *part;
    out->epochs = all;
    out->n_epochs = n + parts;
    return PLB_OK;
}

static plb_status describe_run(const run *r, const plb_train_epoch *part, plb_train_result *out) {
    const plb_plan *plans[PLANS];
    list_plans(r, plans);
    out->steps = r->progress.step;
    out->stopped = r->stopped;
    out->unwritten = r->unwritten;
    out->why = plb_arena_strdup(out->arena, r->why);
    if (!out->why) return plb_fail(PLB_ENOMEM, "out of memory for results");
    for (int i = 0; i < plb_model_variable_count(r->model); i++) {
        const plb_variable_info info = plb_model_variable_info(r->model, i);
        bool trained = info.role == PLB_ROLE_PARAMETER;
        out->parameters += trained ? plb_shape_count(&info.type.shape) : 0;
    }
    PLB_TRY(list_epochs(r, part, out));
    plb_tally_bytes(r->model, plans, PLANS, &out->planned);
    return plb_tally_ops(plans, 2, out->arena, &out->ops, &out->n_ops); // the training programs
}

plb_status plb_train_run(plb_model *model, const plb_train_task *task,
                         const plb_train_options *options, const plb_checkpoint *resume,
                         const plb_train_callbacks *callbacks, plb_train_result *out) {
    run r = {.model = model, .task = task, .options = options, .callbacks = callbacks};
    plb_train_epoch part = {0};
    plb_status status;
    *out = (plb_train_result){.arena = plb_arena_new()};
    if (!out->arena) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for training"));
    PLB_TRY_OUT(set_up(&r, resume));
    PLB_TRY_OUT(train(&r, &part));
    PLB_TRY_OUT(describe_run(&r, &part, out));
out:
    plb_phase_free(&r.train);
    plb_phase_free(&r.test);
    plb_train_progress_free(&r.progress);
    if (status) plb_train_result_free(out);
    return status;
}

void plb_train_result_free(plb_train_result *result) {
    plb_arena_free(result->arena);
    *result = (plb_train_result){0};
}
