// SPDX-License-Identifier: Apache-2.0
// What really ran, memory, and streaming of an epoch.
#include <omp.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "base/memory_use.h"
#include "worker/session.h"

static const char *common_layout(const plb_plan *plan) {
    int nhwc = 0, blocked = 0, plain = 0;
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        const plb_plan_op op = plb_plan_op_info(plan, i);
        if (op.type.shape.rank != 4) continue;
        if (op.layout.kind == PLB_LAYOUT_NHWC)
            nhwc++;
        else if (op.layout.kind == PLB_LAYOUT_BLOCKED)
            blocked++;
        else
            plain++;
    }
    return nhwc >= plain && nhwc >= blocked && nhwc ? "nhwc"
           : blocked > plain                        ? "blocked"
                                                    : "plain";
}

plb_status plb_worker_ran(plb_worker_session *s, const json_t *request) {
    (void)request;
    const plb_worker_job *job = &s->job;
    plb_json *reply = &s->reply;
    if (!job->plan) return plb_fail(PLB_EINVAL, "nothing is loaded");
    int threads = job->plan_options.threads;
    plb_json_begin_object(reply, "threads");
    plb_json_int(reply, "plan", threads ? threads : plb_machine_threads());
    plb_json_int(reply, "openmp", omp_get_max_threads());
    plb_json_end(reply);
    plb_json_begin_array(reply, "devices");
    plb_json_begin_object(reply, NULL);
    plb_json_string(reply, "device", "cpu");
    plb_json_int(reply, "nodes", plb_plan_op_count(job->plan));
    plb_json_end(reply);
    plb_json_end(reply);
    plb_json_string(reply, "dtype", job->plan_options.f64 ? "f64" : "f32");
    plb_json_string(reply, "math", job->plan_options.f64 ? "f64" : "f32");
    plb_json_null(reply, "autocast");
    plb_json_string(reply, "layout", common_layout(job->plan));
    plb_json_bool(reply, "training", job->training);
    plb_json_int(reply, "graphs", 1);
    plb_json_int(reply, "breaks", 0);
    plb_json_int(reply, "recompiles", 0);
    plb_json_begin_array(reply, "fallbacks");
    plb_json_end(reply);
    plb_json_begin_object(reply, "settings");
    if (s->kind->level == PLB_LEVEL_PLAN && !s->kind->f64) {
        plb_json_bool(reply, "no_winograd", job->plan_options.no_winograd);
        plb_json_bool(reply, "no_fusion", job->plan_options.no_fusion);
        plb_json_bool(reply, "no_tuning", job->plan_options.no_tuning);
        plb_json_bool(reply, "deterministic", job->plan_options.deterministic);
    }
    plb_json_end(reply);
    return PLB_OK;
}

static void known_bytes(plb_json *reply, const char *key, int64_t bytes) {
    if (bytes < 0) {
        plb_json_null(reply, key);
    } else {
        plb_json_int(reply, key, bytes);
    }
}

plb_status plb_worker_memory(plb_worker_session *s, const json_t *request) {
    (void)request;
    plb_json *reply = &s->reply;
    known_bytes(reply, "rss_bytes", plb_memory_resident());
    known_bytes(reply, "peak_rss_bytes", plb_memory_resident_peak());
    known_bytes(reply, "libraries_rss_bytes", s->libraries_rss_bytes);
    known_bytes(reply, "planned_bytes",
                s->job.plan && s->kind->level != PLB_LEVEL_INTERP
                    ? (int64_t)plb_plan_memory(s->job.plan).total
                    : -1);
    plb_json_begin_array(reply, "devices");
    plb_json_end(reply);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- epochs
plb_status plb_worker_epoch(plb_worker_session *s, const json_t *request) {
    if (!s->job.plan) return plb_fail(PLB_EINVAL, "nothing is loaded");
    if (plb_request_bool(request, "train", true) != s->job.training) {
        return plb_fail(PLB_EINVAL, "epoch: expected the task that is loaded");
    }
    return PLB_OK;
}

// Rows beyond `rows` hold what the caller left there; training needs whole batches.
plb_status plb_worker_batch(plb_worker_session *s, const json_t *request) {
    plb_worker_job *job = &s->job;
    json_t *list = json_pack("[I]", (json_int_t)plb_request_int(request, "slot", -1));
    int slot = 0;
    plb_status status = plb_worker_slot(s, list, 0, &slot);
    json_decref(list);
    PLB_TRY(status);
    int64_t rows = plb_request_int(request, "rows", job->zoo.batch);
    if (rows != job->zoo.batch) {
        return plb_worker_refuse(s, "batch", "rows: expected whole batches of %lld, found %lld",
                                 (long long)job->zoo.batch, (long long)rows);
    }
    if (!job->training) return plb_worker_refuse(s, "task", "epochs are for training");
    for (int i = 0; i < job->n_inputs; i++) {
        plb_worker_input *input = &job->input[i];
        PLB_TRY(plb_worker_in_map(&s->in, input->offset[slot] + input->size_bytes));
        memcpy(input->to, s->in.bytes + input->offset[slot], input->size_bytes);
    }
    double loss = 0, correct = 0;
    int64_t begin = plb_now_ns();
    PLB_TRY(plb_plan_run(job->plan));
    int64_t end = plb_now_ns();
    PLB_TRY(plb_plan_scalar(job->plan, "loss", &loss));
    PLB_TRY(plb_plan_scalar(job->plan, "correct", &correct));
    plb_json_int(&s->reply, "ns", end - begin);
    plb_json_double(&s->reply, "loss", loss * (double)rows);
    plb_json_double(&s->reply, "correct", correct);
    return PLB_OK;
}
