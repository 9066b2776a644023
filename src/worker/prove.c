// SPDX-License-Identifier: Apache-2.0
// `prove` and `state`: every result handed out. Losses, outputs and weights come from the program
// that is timed. Gradients come from a second program of the same model, which differs in that it
// keeps them: in the timed one the optimizer consumes each as it appears.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "worker/session.h"

static plb_status emit_output(plb_worker_session *s, const char *output, const char *name,
                              int64_t batch) {
    plb_tensor tensor;
    PLB_TRY(plb_plan_output(s->job.plan, output, &tensor));
    return plb_worker_emit(s, name, batch, &tensor);
}

// weight.NAME and buffer.NAME, as they are now.
static plb_status emit_variables(plb_worker_session *s, int64_t batch) {
    plb_model *model = s->job.model;
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        const plb_variable_info info = plb_model_variable_info(model, i);
        if (info.role != PLB_ROLE_PARAMETER && info.role != PLB_ROLE_BUFFER) continue;
        if (!plb_dtype_is_float(info.type.dtype)) continue; // num_batches_tracked
        char name[512];
        plb_worker_place place = {.dtype = info.type.dtype, .shape = info.type.shape};
        size_t bytes = (size_t)plb_shape_count(&place.shape) * plb_dtype_size(place.dtype);
        snprintf(name, sizeof name, "%s.%s", info.role == PLB_ROLE_PARAMETER ? "weight" : "buffer",
                 info.name);
        PLB_TRY(plb_worker_out_place(&s->out, bytes, &place.offset));
        plb_tensor to = plb_tensor_dense(plb_worker_out_at(&s->out, place.offset), place.dtype,
                                         &place.shape, (plb_layout){0});
        PLB_TRY(plb_variable_read(model, i, &to));
        plb_worker_describe_place(&s->reply, name, batch, &place);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- a second program
static const char *const second = "prove";

static plb_status build_second(plb_worker_job *job) {
    plb_graph *graph = NULL;
    plb_value loss = PLB_NONE;
    plb_zoo_options zoo = job->zoo;
    plb_step_options step = job->step;
    if (plb_model_find_program(job->model, second)) return PLB_OK;
    zoo.program = second, step.output_gradients = true;
    if (job->file) return plb_worker_file_step(job, second, &step, &graph);
    PLB_TRY(plb_zoo_build_train(job->model, job->model_name, &zoo, &graph, &loss));
    return plb_train_step(graph, loss, &step);
}

static plb_status feed_plan(const plb_worker_job *job, plb_plan *plan, int slot) {
    for (int i = 0; i < job->n_inputs; i++) {
        plb_tensor to;
        PLB_TRY(plb_plan_input(plan, job->input[i].name, &to));
        memcpy(to.data, job->input[i].slot[slot], job->input[i].size_bytes);
    }
    return PLB_OK;
}

static plb_status emit_gradients(plb_worker_session *s, int slot) {
    plb_worker_job *job = &s->job;
    plb_plan *plan = NULL;
    plb_status status;
    PLB_TRY_OUT(build_second(job));
    const plb_graph *graph = plb_model_find_program(job->model, second);
    PLB_TRY_OUT(plb_plan_new(graph, &job->plan_options, &plan));
    PLB_TRY_OUT(feed_plan(job, plan, slot));
    PLB_TRY_OUT(plb_worker_job_restart(job));
    PLB_TRY_OUT(plb_plan_run(plan));
    for (int i = 0; i < graph->n_outputs; i++) {
        plb_tensor tensor;
        const char *name = graph->outputs[i].name;
        if (strncmp(name, "grad.", 5) != 0) continue;
        PLB_TRY_OUT(plb_plan_output(plan, name, &tensor));
        PLB_TRY_OUT(plb_worker_emit(s, name, 0, &tensor));
    }
out:
    plb_plan_free(plan);
    return status;
}

// ---------------------------------------------------------------------------- trace
// The last value that each scope makes: "layer1", "layer1.0", "layer1.0.conv1".
typedef struct traced {
    const char **scope; // in the order of their last values
    plb_value *value;
    int n;
} traced;

static void note_scope(traced *t, plb_arena *arena, const char *scope, plb_value value) {
    for (size_t end = strlen(scope); end; end--) {
        if (scope[end] != '\0' && scope[end] != '.') continue;
        char *name = plb_arena_printf(arena, "%.*s", (int)end, scope);
        for (int i = 0; name && i < t->n; i++) {
            if (strcmp(t->scope[i], name) != 0) continue;
            memmove(&t->scope[i], &t->scope[i + 1], (size_t)(t->n - i - 1) * sizeof *t->scope);
            memmove(&t->value[i], &t->value[i + 1], (size_t)(t->n - i - 1) * sizeof *t->value);
            t->n--;
            break;
        }
        if (name) t->scope[t->n] = name, t->value[t->n++] = value;
    }
}

static bool is_layer_value(const plb_graph *graph, const plb_node *node) {
    if (node->backward || !node->n_out || !node->scope[0]) return false;
    if (plb_op_of(node->op)->flags & PLB_OP_FRAME) return false;
    if (strncmp(node->scope, "loss", 4) == 0 || strncmp(node->scope, "metrics", 7) == 0 ||
        strncmp(node->scope, "optimizer", 9) == 0) {
        return false;
    }
    return plb_dtype_is_float(plb_value_type(graph, node->out).dtype) &&
           plb_value_shape(graph, node->out).rank >= 2;
}

// Appends outputs "layer.SCOPE" to a program that nobody runs but the trace.
static plb_status append_trace(plb_graph *graph, plb_arena *arena) {
    enum { DEPTH = 16 };
    traced t = {
        .scope = plb_arena_alloc(arena, (size_t)graph->n_nodes * DEPTH * sizeof *t.scope),
        .value = plb_arena_alloc(arena, (size_t)graph->n_nodes * DEPTH * sizeof *t.value),
    };
    if (!t.scope || !t.value) return plb_fail(PLB_ENOMEM, "out of memory for a trace");
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (is_layer_value(graph, node)) note_scope(&t, arena, node->scope, node->out);
    }
    for (int i = 0; i < t.n; i++) {
        const char *name = plb_arena_printf(arena, "layer.%s", t.scope[i]);
        if (!name) return plb_fail(PLB_ENOMEM, "out of memory for a trace");
        plb_output(graph, name, t.value[i]);
    }
    return plb_graph_status(graph);
}

static plb_status build_trace(plb_worker_job *job, plb_graph **out) {
    static const char *const title = "trace";
    plb_zoo_options zoo = job->zoo;
    plb_value loss;
    *out = plb_model_find_program(job->model, title);
    if (*out) return PLB_OK;
    if (job->file) return plb_fail(PLB_EUNSUPPORTED, "no trace of a file's model");
    zoo.program = title;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a trace");
    plb_status status;
    if (job->training) {
        PLB_TRY_OUT(plb_zoo_build_train(job->model, job->model_name, &zoo, out, &loss));
    } else {
        PLB_TRY_OUT(plb_zoo_build_infer(job->model, job->model_name, &zoo));
        *out = plb_model_find_program(job->model, title);
    }
    PLB_TRY_OUT(append_trace(*out, arena));
out:
    plb_arena_free(arena);
    return status;
}

static plb_status emit_trace(plb_worker_session *s, int slot) {
    plb_worker_job *job = &s->job;
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_status status;
    PLB_TRY_OUT(build_trace(job, &graph));
    PLB_TRY_OUT(plb_plan_new(graph, &job->plan_options, &plan));
    PLB_TRY_OUT(feed_plan(job, plan, slot));
    if (job->training) PLB_TRY_OUT(plb_worker_job_restart(job));
    PLB_TRY_OUT(plb_plan_run(plan));
    for (int i = 0; i < graph->n_outputs; i++) {
        plb_tensor tensor;
        if (strncmp(graph->outputs[i].name, "layer.", 6) != 0) continue;
        PLB_TRY_OUT(plb_plan_output(plan, graph->outputs[i].name, &tensor));
        PLB_TRY_OUT(plb_worker_emit(s, graph->outputs[i].name, 0, &tensor));
    }
out:
    plb_plan_free(plan);
    return status;
}

// ---------------------------------------------------------------------------- prove
static plb_status prove_infer(plb_worker_session *s, const json_t *batches) {
    for (size_t i = 0; i < json_array_size(batches); i++) {
        int slot = 0;
        PLB_TRY(plb_worker_slot(s, batches, i, &slot));
        plb_worker_job_feed(&s->job, slot);
        PLB_TRY(plb_plan_run(s->job.plan));
        for (int k = 0; k < s->job.n_outputs; k++) {
            PLB_TRY(emit_output(s, s->job.output[k], s->job.answer[k], (int64_t)i));
        }
    }
    return PLB_OK;
}

static plb_status prove_train(plb_worker_session *s, const json_t *batches) {
    const plb_worker_job *job = &s->job;
    int64_t n = (int64_t)json_array_size(batches);
    int first = 0;
    PLB_TRY(plb_worker_job_restart(&s->job));
    for (int64_t i = 0; i < n; i++) {
        int slot = 0;
        PLB_TRY(plb_worker_slot(s, batches, (size_t)i, &slot));
        if (i == 0) first = slot;
        plb_worker_job_feed(&s->job, slot);
        PLB_TRY(plb_plan_run(s->job.plan));
        PLB_TRY(emit_output(s, "loss", "loss", i));
        if (!job->file) PLB_TRY(emit_output(s, "logits", "output", i));
    }
    PLB_TRY(emit_variables(s, n - 1));
    PLB_TRY(emit_gradients(s, first));
    return plb_worker_job_restart(&s->job);
}

plb_status plb_worker_prove(plb_worker_session *s, const json_t *request) {
    const json_t *batches = json_object_get(request, "batches");
    int first = 0;
    PLB_TRY(plb_worker_slot(s, batches, 0, &first)); // there is one, and something is loaded
    plb_json_begin_array(&s->reply, "tensors");
    if (plb_request_bool(request, "trace", false)) PLB_TRY(emit_trace(s, first));
    PLB_TRY(s->job.training ? prove_train(s, batches) : prove_infer(s, batches));
    plb_json_end(&s->reply);
    return PLB_OK;
}

plb_status plb_worker_state(plb_worker_session *s, const json_t *request) {
    (void)request;
    if (!s->job.plan) return plb_fail(PLB_EINVAL, "nothing is loaded");
    plb_json_begin_array(&s->reply, "tensors");
    PLB_TRY(emit_variables(s, -1));
    plb_json_end(&s->reply);
    return PLB_OK;
}
