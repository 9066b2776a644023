// SPDX-License-Identifier: Apache-2.0
// `epoch` and `batch`: batches are streamed, as a study that trains wants it. The program that is
// timed takes whole batches; evaluation, and the last batch of an epoch, which is not full, have
// programs of their own on the same variables, made when they are first needed.
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "worker/session.h"

static plb_status build_program(const plb_worker_job *job, const char *program, bool train,
                                int64_t rows, plb_graph **out) {
    plb_zoo_options zoo = job->zoo;
    plb_value loss = PLB_NONE;
    *out = plb_model_find_program(job->model, program);
    if (*out) return PLB_OK;
    if (job->file) return plb_fail(PLB_EUNSUPPORTED, "epochs of a file: `plumb train` has them");
    zoo.batch = rows, zoo.program = program;
    if (train) {
        PLB_TRY(plb_zoo_build_train(job->model, job->model_name, &zoo, out, &loss));
        return plb_train_step(*out, loss, &job->step);
    }
    PLB_TRY(plb_zoo_build_eval(job->model, job->model_name, &zoo));
    *out = plb_model_find_program(job->model, program);
    return PLB_OK;
}

// The plan for so many rows; the one that was made first makes room for a new one.
static plb_status find_plan(plb_worker_job *job, bool train, int64_t rows, plb_plan **out) {
    plb_worker_pass *pass = NULL;
    plb_graph *graph = NULL;
    *out = job->plan;
    if (train && rows == job->zoo.batch) return PLB_OK;
    for (int i = 0; i < PLB_WORKER_MAX_PASSES && !pass; i++) {
        plb_worker_pass *p = &job->pass[i];
        if (p->plan && p->train == train && p->rows == rows) pass = p;
    }
    if (!pass) {
        pass = &job->pass[job->next_pass];
        job->next_pass = (job->next_pass + 1) % PLB_WORKER_MAX_PASSES;
        plb_plan_free(pass->plan);
        *pass = (plb_worker_pass){.train = train, .rows = rows};
        snprintf(pass->program, sizeof pass->program, "epoch-%s-%lld", train ? "train" : "eval",
                 (long long)rows);
        PLB_TRY(build_program(job, pass->program, train, rows, &graph));
        PLB_TRY(plb_plan_new(graph, &job->plan_options, &pass->plan));
    }
    *out = pass->plan;
    return PLB_OK;
}

// The first `rows` rows of a slot, from where the caller put them.
static plb_status feed_rows(plb_worker_session *s, plb_plan *plan, int slot, int64_t rows) {
    for (int i = 0; i < s->job.n_inputs; i++) {
        const plb_worker_input *input = &s->job.input[i];
        size_t bytes = input->size_bytes / (size_t)s->job.zoo.batch * (size_t)rows;
        plb_tensor to;
        PLB_TRY(plb_worker_in_map(&s->in, input->offset[slot] + bytes));
        PLB_TRY(plb_plan_input(plan, input->name, &to));
        memcpy(to.data, s->in.bytes + input->offset[slot], bytes);
    }
    return PLB_OK;
}

plb_status plb_worker_epoch(plb_worker_session *s, const json_t *request) {
    if (!s->job.plan) return plb_fail(PLB_EINVAL, "nothing is loaded");
    if (s->job.file) return plb_worker_refuse(s, "model", "a file's model has no loss");
    if (!s->job.training) return plb_worker_refuse(s, "task", "epochs are for training");
    s->job.in_epoch = true;
    s->job.evaluating = !plb_request_bool(request, "train", true);
    return PLB_OK;
}

plb_status plb_worker_batch(plb_worker_session *s, const json_t *request) {
    plb_worker_job *job = &s->job;
    json_t *list = json_pack("[I]", (json_int_t)plb_request_int(request, "slot", -1));
    int64_t rows = plb_request_int(request, "rows", job->zoo.batch);
    int slot = 0;
    plb_plan *plan = NULL;
    plb_status status = plb_worker_slot(s, list, 0, &slot);
    json_decref(list);
    PLB_TRY(status);
    if (!job->in_epoch) return plb_fail(PLB_EINVAL, "batch: no epoch has begun");
    if (rows < 1 || rows > job->zoo.batch) {
        return plb_fail(PLB_EINVAL, "rows: expected 1 to %lld, found %lld",
                        (long long)job->zoo.batch, (long long)rows);
    }
    PLB_TRY(find_plan(job, !job->evaluating, rows, &plan));
    PLB_TRY(feed_rows(s, plan, slot, rows));
    double loss = 0, correct = 0;
    PLB_TRY(plb_plan_upload(plan)); // on a device the batch is there before the clock starts
    PLB_TRY(plb_plan_wait(plan));
    int64_t begin = plb_now_ns();
    PLB_TRY(plb_plan_launch(plan));
    PLB_TRY(plb_plan_download(plan));
    PLB_TRY(plb_plan_wait(plan)); // the loss is known
    int64_t end = plb_now_ns();
    PLB_TRY(plb_plan_scalar(plan, "loss", &loss));
    PLB_TRY(plb_plan_scalar(plan, "correct", &correct));
    // Evaluation's loss is a sum, training's a mean.
    plb_json_int(&s->reply, "ns", end - begin);
    plb_json_double(&s->reply, "loss", job->evaluating ? loss : loss * (double)rows);
    plb_json_double(&s->reply, "correct", correct);
    return PLB_OK;
}

plb_status plb_worker_epoch_end(plb_worker_session *s, const json_t *request) {
    (void)request;
    if (!s->job.in_epoch) return plb_fail(PLB_EINVAL, "epoch_end: no epoch has begun");
    s->job.in_epoch = false;
    return PLB_OK;
}
