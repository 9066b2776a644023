// SPDX-License-Identifier: Apache-2.0
// `sample`: the timed loop. Two clock readings and one store an iteration; batches are put where
// the plan reads them outside the time of regions `latency` and `return`, inside it in `host` and
// `queued`; on a device those of `queued` lie there before, and what a run reads is copied within
// it. On the CPU the call returns when the work is done; on a device a latency ends with it.
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/slots.h"
#include "worker/session.h"

typedef enum region { LATENCY, QUEUED, HOST, RETURN, REGIONS } region;

typedef struct block {
    plb_worker_session *s;
    int64_t n, check;
    region region;
    int slot[PLB_WORKER_MAX_SLOTS];
    int n_slots;
    int64_t *samples; // in the outputs
    uint8_t *host;    // where HOST copies each output to; NULL otherwise
    plb_slots *slots; // the batches of QUEUED on a device; NULL otherwise
    plb_worker_place result_place[PLB_WORKER_MAX_OUTPUTS], loss_place;
} block;

static plb_status read_request(plb_worker_session *s, const json_t *request, block *b) {
    static const char *const names[REGIONS] = {"latency", "queued", "host", "return"};
    const char *name = plb_request_text(request, "region", "latency");
    const json_t *batches = json_object_get(request, "batches");
    *b = (block){.s = s,
                 .n = plb_request_int(request, "n", 0),
                 .check = plb_request_int(request, "check", -1),
                 .region = REGIONS};
    for (int i = 0; i < REGIONS; i++) {
        if (strcmp(names[i], name) == 0) b->region = (region)i;
    }
    if (b->region == REGIONS) return plb_worker_refuse(s, "region", "no region %s", name);
    if (b->n < 1 || b->n > 100 * 1000 * 1000 || b->check >= b->n) {
        return plb_fail(PLB_EINVAL,
                        "expected n from 1 and check below it, found %" PRId64 " and %" PRId64,
                        b->n, b->check);
    }
    b->n_slots = (int)json_array_size(batches);
    if (b->n_slots < 1 || b->n_slots > PLB_WORKER_MAX_SLOTS) {
        return plb_fail(PLB_EINVAL, "batches: expected 1 to %d, found %d", PLB_WORKER_MAX_SLOTS,
                        b->n_slots);
    }
    for (int i = 0; i < b->n_slots; i++) {
        PLB_TRY(plb_worker_slot(s, batches, (size_t)i, &b->slot[i]));
    }
    return PLB_OK;
}

// Spends a fraction of what an iteration took once more: a known slow-down, to test measuring with.
static void spin_for(int64_t length_ns) {
    int64_t end = plb_now_ns() + length_ns;
    while (plb_now_ns() < end) continue;
}

static plb_status copy_to_host(const block *b) {
    for (int k = 0; k < b->s->job.n_outputs; k++) {
        const plb_worker_place *place = &b->result_place[k];
        plb_tensor from,
            to = plb_tensor_dense(b->host, place->dtype, &place->shape, (plb_layout){0});
        PLB_TRY(plb_plan_output(b->s->job.plan, b->s->job.output[k], &from));
        PLB_TRY(plb_tensor_copy(&to, &from));
    }
    return PLB_OK;
}

// All batches to the device, and there when this returns.
static plb_status send_batches(block *b) {
    const plb_worker_job *job = &b->s->job;
    if (b->region != QUEUED || !job->device[0]) return PLB_OK;
    PLB_TRY(plb_slots_new(job->plan, b->n_slots, NULL, 0, &b->slots));
    if (!b->slots) {
        return plb_worker_refuse(b->s, "region", "no region queued for ops one by one on a device");
    }
    for (int i = 0; i < b->n_slots; i++) {
        for (int k = 0; k < job->n_inputs; k++) {
            const plb_worker_input *input = &job->input[k];
            plb_tensor to;
            PLB_TRY(plb_slots_input(b->slots, i, input->name, &to));
            memcpy(to.data, input->slot[b->slot[i]], input->size_bytes);
        }
        PLB_TRY(plb_slots_send(b->slots, i));
    }
    return plb_slots_arrived(b->slots);
}

// The batch to where the program reads it: on a device, and there, when this returns.
static plb_status place_batch(plb_worker_job *job, int slot) {
    plb_worker_job_feed(job, slot);
    PLB_TRY(plb_plan_upload(job->plan));
    return plb_plan_wait(job->plan);
}

static plb_status iterate(block *b, int64_t i) {
    plb_worker_job *job = &b->s->job;
    int slot = b->slot[i % b->n_slots];
    if (b->region != HOST) PLB_TRY(place_batch(job, slot));
    int64_t begin = plb_now_ns(), end;
    if (b->region == HOST) {
        plb_worker_job_feed(job, slot);
        PLB_TRY(plb_plan_run(job->plan));
        PLB_TRY(copy_to_host(b));
        end = plb_now_ns();
    } else {
        PLB_TRY(plb_plan_launch(job->plan));
        if (b->region != RETURN) PLB_TRY(plb_plan_wait(job->plan));
        end = plb_now_ns();
        if (b->region == RETURN) PLB_TRY(plb_plan_wait(job->plan));
    }
    if (job->planted_slowdown > 0) {
        spin_for((int64_t)((double)(end - begin) * job->planted_slowdown));
        end = plb_now_ns();
    }
    if (b->region != QUEUED) b->samples[i] = end - begin;
    return PLB_OK;
}

static plb_status fill_checked(block *b) {
    const plb_worker_job *job = &b->s->job;
    plb_tensor tensor;
    PLB_TRY(plb_plan_download(job->plan));
    PLB_TRY(plb_plan_wait(job->plan));
    for (int k = 0; k < job->n_outputs; k++) {
        PLB_TRY(plb_plan_output(job->plan, job->output[k], &tensor));
        PLB_TRY(plb_worker_fill(&b->s->out, &b->result_place[k], &tensor));
    }
    if (!job->training) return PLB_OK;
    PLB_TRY(plb_plan_output(job->plan, "loss", &tensor));
    return plb_worker_fill(&b->s->out, &b->loss_place, &tensor);
}

static plb_status run_queued(block *b) {
    const plb_worker_job *job = &b->s->job;
    const int64_t begin_ns = plb_now_ns();
    for (int64_t i = 0; i < b->n; i++) {
        PLB_TRY(b->slots ? plb_slots_run(b->slots, (int)(i % b->n_slots)) : iterate(b, i));
    }
    if (b->slots) {
        PLB_TRY(plb_plan_wait(job->plan));
        spin_for((int64_t)((double)(plb_now_ns() - begin_ns) * job->planted_slowdown));
    }
    b->samples[0] = plb_now_ns() - begin_ns;
    b->check = b->n - 1;
    return fill_checked(b);
}

static plb_status run_block(block *b) {
    if (b->region == QUEUED) return run_queued(b);
    for (int64_t i = 0; i < b->n; i++) {
        PLB_TRY(iterate(b, i));
        if (i == b->check) PLB_TRY(fill_checked(b));
    }
    return PLB_OK;
}

static void describe_block(const block *b, size_t samples_at) {
    plb_json *reply = &b->s->reply;
    plb_json_int(reply, "n", b->n);
    plb_json_int(reply, "offset", (int64_t)samples_at);
    plb_json_int(reply, "count", b->region == QUEUED ? 1 : b->n);
    plb_json_null(reply, "compile_ns");
    plb_json_int(reply, "recompiled", 0);
    plb_json_begin_array(reply, "tensors");
    if (b->check >= 0) {
        int slot = b->slot[b->check % b->n_slots];
        for (int k = 0; k < b->s->job.n_outputs; k++) {
            plb_worker_describe_place(reply, b->s->job.answer[k], slot, &b->result_place[k]);
        }
        if (b->s->job.training) plb_worker_describe_place(reply, "loss", slot, &b->loss_place);
    }
    plb_json_end(reply);
}

// A place for what the program calls `output`; at level interp the plan has none before its first
// run.
static plb_status place_output(plb_worker_session *s, const char *output, plb_worker_place *place) {
    const plb_worker_job *job = &s->job;
    const plb_graph *graph = plb_model_find_program(job->model, job->training ? "train" : "infer");
    for (int i = 0; i < graph->n_outputs; i++) {
        if (strcmp(graph->outputs[i].name, output) != 0) continue;
        const plb_type type = plb_value_type(graph, graph->outputs[i].value);
        bool wide = job->plan_options.f64 && plb_dtype_is_float(type.dtype);
        plb_tensor like = {.dtype = wide ? PLB_F64 : type.dtype, .shape = type.shape};
        return plb_worker_place_like(&s->out, &like, place);
    }
    return plb_fail(PLB_EBROKEN, "the program has no output %s", output);
}

plb_status plb_worker_sample(plb_worker_session *s, const json_t *request) {
    block b;
    size_t samples_at = 0;
    PLB_TRY(read_request(s, request, &b));
    const bool restart = s->job.training && plb_request_bool(request, "restart", false);
    // Trials of a device's captured work are no samples; what they do to variables is undone.
    if (!s->job.training || restart) PLB_TRY(plb_plan_settle(s->job.plan));
    if (restart) PLB_TRY(plb_worker_job_restart(&s->job));
    // All room first: placing may move the window.
    PLB_TRY(plb_worker_out_place(&s->out, (size_t)b.n * sizeof(int64_t), &samples_at));
    size_t most = 0;
    for (int k = 0; k < s->job.n_outputs; k++) {
        PLB_TRY(place_output(s, s->job.output[k], &b.result_place[k]));
        size_t bytes = (size_t)plb_shape_count(&b.result_place[k].shape) * sizeof(double);
        if (bytes > most) most = bytes;
    }
    if (s->job.training) PLB_TRY(place_output(s, "loss", &b.loss_place));
    b.samples = plb_worker_out_at(&s->out, samples_at);
    if (b.region == HOST) {
        b.host = plb_alloc_slab(most + 1);
        if (!b.host) return plb_fail(PLB_ENOMEM, "out of memory for an output");
    }
    plb_status status = send_batches(&b);
    if (!status) status = run_block(&b);
    plb_slots_free(b.slots);
    plb_free(b.host);
    PLB_TRY(status);
    describe_block(&b, samples_at);
    return PLB_OK;
}
