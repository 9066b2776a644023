// SPDX-License-Identifier: Apache-2.0
// Plans: made once by passes, schedule, storage, selection and placement; then run.
#include "engine/graph/plan.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "base/memory_use.h"
#include "engine/device/backend.h"

typedef struct pass_entry {
    plb_pass pass;
    bool fusion;    // left out with no_fusion
    bool inference; // only where nothing is trained
    bool autocast;  // only with mixed precision
    bool host;      // elsewhere than in the host's memory only when asked for
} pass_entry;

static const pass_entry passes[] = {
    {.pass = plb_pass_clean},
    {.pass = plb_pass_int8, .fusion = true, .inference = true},
    {.pass = plb_pass_fold_constants, .fusion = true},
    {.pass = plb_pass_recognise, .fusion = true, .inference = true, .host = true},
    {.pass = plb_pass_permute, .fusion = true, .inference = true, .host = true},
    {.pass = plb_pass_fold_norm, .fusion = true, .inference = true}, // in f32
    {.pass = plb_pass_autocast, .autocast = true},
    {.pass = plb_pass_fuse_norm_act, .fusion = true},
    {.pass = plb_pass_early_relu, .fusion = true},
    {.pass = plb_pass_fuse_epilogue, .fusion = true},
    {.pass = plb_pass_fuse_norm_grad, .fusion = true},
    {.pass = plb_pass_fuse_norm_sum, .fusion = true},
    {.pass = plb_pass_sum_early, .fusion = true},
    {.pass = plb_pass_use_signs, .fusion = true},
    {.pass = plb_pass_recompute, .fusion = true, .host = true}, // memory is dearer than time there
    {.pass = plb_pass_fuse_chain, .fusion = true},
    {.pass = plb_pass_clean},
    {.pass = plb_pass_keep_old}, // late: fusion moves reads towards their users
    {.pass = plb_pass_layout},
};

// What autocast would narrow is then rounded as if it were.
static plb_status widen(plb_plan *plan, const plb_pass_context *context) {
    if (plan->options.autocast) PLB_TRY(plb_pass_autocast(&plan->graph, context));
    return plb_pass_widen(&plan->graph, context);
}

static plb_status run_passes(plb_plan *plan) {
    static const plb_dtype narrow[] = {[PLB_AUTOCAST_NONE] = PLB_F32,
                                       [PLB_AUTOCAST_BF16] = PLB_BF16,
                                       [PLB_AUTOCAST_F16] = PLB_F16};
    plb_pass_context context = {plan->backend, plan->options.threads, &plan->report,
                                narrow[plan->options.autocast], plan->options.math};
    if (plan->options.f64) PLB_TRY(widen(plan, &context));
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].fusion && plan->options.no_fusion) continue;
        if (passes[i].inference && plan->writes) continue;
        if (passes[i].host && !plan->backend->host_memory && !plan->options.recompute) continue;
        if (passes[i].autocast && (!plan->options.autocast || plan->options.f64)) continue;
        PLB_TRY(passes[i].pass(&plan->graph, &context));
    }
    return PLB_OK;
}

static plb_status copy_graph(plb_plan *plan, const plb_graph *graph) {
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(graph, &rw));
    for (int i = 0; i < graph->n_nodes; i++) plb_rewrite_copy(&rw, i);
    return plb_rewrite_end(&rw, &plan->graph);
}

// ---------------------------------------------------------------------------- running
static plb_status store(plb_plan *plan, const plb_step *step) {
    const plb_variable *v = &plan->model->variables[step->variable];
    plb_tensor to = plb_tensor_dense(plb_home_data(v, plan->home), v->type.dtype, &v->type.shape,
                                     (plb_layout){0});
    const plb_tensor *from = &plan->tensors[step->store];
    return plan->backend->host_memory ? plb_tensor_copy(&to, from)
                                      : plan->backend->move(plan->stream, &to, from);
}

static plb_status run_step(plb_plan *plan, plb_step *step) {
    switch (step->kind) {
    case PLB_STEP_PACK: {
        plb_step *target = &plan->steps[step->packs];
        return target->launch.pack(target->launch.state, &target->call, target->packed,
                                   plan->stream);
    }
    case PLB_STEP_STORE: return store(plan, step);
    case PLB_STEP_LAUNCH: break;
    }
    if (step->n_merged) return step->merged.run(step->merged.state, NULL, plan->stream);
    if (step->packs_each_run) {
        PLB_TRY(step->launch.pack(step->launch.state, &step->call, step->packed, plan->stream));
    }
    return step->launch.run(step->launch.state, &step->call, plan->stream);
}

static plb_status fail_at(const plb_plan *plan, const plb_step *step, plb_status status) {
    const plb_node *node = &plan->graph->nodes[step->node];
    return plb_fail_context(status, "%s%s%s", node->scope, *node->scope ? ": " : "",
                            plb_op_of(node->op)->name);
}

plb_status plb_plan_run_step(plb_plan *plan, plb_step *step) {
    plb_status status = run_step(plan, step);
    return status ? fail_at(plan, step, status) : PLB_OK;
}

static plb_status run_steps_here(plb_plan *plan, int first, int last) {
    bool profile = plan->options.profile;
    for (int i = first; i < last; i++) {
        plb_step *step = &plan->steps[i];
        int64_t begin = profile ? plb_now_ns() : 0;
        plb_status status = run_step(plan, step);
        if (status) return fail_at(plan, step, status);
        if (!profile) continue;
        step->time_ns += plb_now_ns() - begin;
        step->calls++;
    }
    return PLB_OK;
}

static int steps_of(const plb_plan *plan, int i) {
    return plan->steps[i].n_merged ? plan->steps[i].n_merged : 1;
}

// On a device a step only appends work: its time lies between two events.
static plb_status append_step(plb_plan *plan, int i) {
    plb_event **events = plan->events;
    if (events) PLB_TRY(plan->backend->record(plan->stream, events[2 * i]));
    PLB_TRY(run_step(plan, &plan->steps[i]));
    if (events) PLB_TRY(plan->backend->record(plan->stream, events[2 * i + 1]));
    return plan->options.sync ? plan->backend->wait(plan->stream) : PLB_OK;
}

static plb_status append_steps(plb_plan *plan, int first, int last) {
    for (int i = first; i < last; i += steps_of(plan, i)) {
        plb_status status = append_step(plan, i);
        if (status) return fail_at(plan, &plan->steps[i], status);
    }
    for (int i = first; i < last && plan->events; i += steps_of(plan, i)) {
        int64_t ns = 0;
        PLB_TRY(plan->backend->elapsed_ns(plan->events[2 * i], plan->events[2 * i + 1], &ns));
        for (int k = 0; k < steps_of(plan, i); k++) { // steps of one launch share its time
            plan->steps[i + k].time_ns += ns / steps_of(plan, i);
            plan->steps[i + k].calls++;
        }
    }
    return PLB_OK;
}

static plb_status run_steps(plb_plan *plan, int first, int last) {
    return plan->backend->host_memory ? run_steps_here(plan, first, last)
                                      : append_steps(plan, first, last);
}

// Which variables the program assigns.
static plb_status find_assigned(plb_plan *plan, const plb_graph *graph) {
    plan->assigned =
        plb_arena_alloc(plan->arena, (size_t)(graph->n_nodes + 1) * sizeof *plan->assigned);
    if (!plan->assigned) return plb_fail(PLB_ENOMEM, "out of memory for a plan");
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_assign) continue;
        plan->assigned[plan->n_assigned++] = ((const plb_variable_attrs *)node->attrs)->variable;
    }
    plan->writes = plan->n_assigned > 0;
    return PLB_OK;
}

static plb_status run_prologue(plb_plan *plan) {
    if (plan->prologue_version == plan->model->version) return PLB_OK;
    PLB_TRY(run_steps(plan, 0, plan->n_prologue));
    plan->prologue_version = plan->model->version;
    return PLB_OK;
}

static plb_status compute(plb_plan *plan) {
    if (plan->options.level == PLB_LEVEL_INTERP) {
        int64_t limit_ms = plan->options.time_limit_ms;
        plan->deadline_ns = limit_ms > 0 ? plb_now_ns() + limit_ms * 1000000 : 0;
        return plb_interp_run(plan);
    }
    PLB_TRY(run_prologue(plan));
    return plan->options.level == PLB_LEVEL_REPLAY
               ? plb_replay_run(plan)
               : run_steps(plan, plan->n_prologue, plan->n_steps);
}

// A launch looks at every variable only if something about them changed since the one before: the
// processor's part of a step is then the same few microseconds, however many weights there are.
static plb_status launch(plb_plan *plan) {
    const bool away = plan->home != PLB_HOST_HOME;
    const bool steady = plan->copies_seen == plan->model->copies;
    if (away && !steady) PLB_TRY(plb_home_update(plan->model, plan->home));
    const plb_status status = compute(plan);
    // Also where it failed: what stood before the failure may have been assigned. The plan's own
    // prologue has no part in that, but may be what failed.
    if (plan->writes) plan->model->version++;
    if (plan->writes && !status) plan->prologue_version = plan->model->version;
    for (int i = 0; i < plan->n_assigned && away && !steady; i++) {
        plb_home_wrote(plan->model, plan->home, plan->assigned[i]);
    }
    plan->copies_seen = plan->model->copies;
    return status;
}

static plb_status run_here(plb_plan *plan) {
    int before = omp_get_max_threads();
    if (before != plan->options.threads) omp_set_num_threads(plan->options.threads);
    plb_status status = launch(plan);
    if (!status && plan->stream) status = plan->backend->wait(plan->stream);
    if (before != plan->options.threads) omp_set_num_threads(before);
    return status;
}

plb_status plb_plan_launch(plb_plan *plan) {
    if (plan->backend->host_memory) return run_here(plan);
    PLB_TRY(plan->backend->enter(plan->device));
    return launch(plan);
}

plb_status plb_plan_upload(plb_plan *plan) {
    if (plan->backend->host_memory) return PLB_OK;
    PLB_TRY(plan->backend->enter(plan->device));
    return plb_mirror_upload(plan);
}

plb_status plb_plan_download(plb_plan *plan) {
    return plan->backend->host_memory ? PLB_OK : plb_mirror_download(plan);
}

// An error that work before has caused comes to light here; only with options.sync is the op that
// caused it known.
plb_status plb_plan_wait(plb_plan *plan) {
    if (plan->backend->host_memory) return PLB_OK;
    plb_status status = plan->backend->wait(plan->stream);
    return status && !plan->options.sync
               ? plb_fail_context(status, "somewhere in %s (option sync finds the op)",
                                  plan->graph ? plan->graph->name : "the program")
               : status;
}

plb_status plb_plan_settle(plb_plan *plan) {
    if (plb_replay_settled(plan)) return PLB_OK;
    while (!plb_replay_settled(plan)) PLB_TRY(plb_plan_launch(plan));
    return plb_plan_wait(plan);
}

plb_status plb_plan_run(plb_plan *plan) {
    if (plan->backend->host_memory) return run_here(plan);
    PLB_TRY(plb_plan_upload(plan));
    PLB_TRY(launch(plan));
    PLB_TRY(plb_plan_download(plan));
    return plb_plan_wait(plan);
}

static plb_status time_on_device(plb_plan *plan, int count, int64_t *out_ns) {
    const plb_backend *backend = plan->backend;
    for (int i = 0; i < 2; i++) {
        if (!plan->timer[i]) PLB_TRY(backend->event_new(plan->device, &plan->timer[i]));
    }
    PLB_TRY(backend->record(plan->stream, plan->timer[0]));
    for (int i = 0; i < count; i++) PLB_TRY(launch(plan));
    PLB_TRY(backend->record(plan->stream, plan->timer[1]));
    PLB_TRY(plb_plan_wait(plan));
    return backend->elapsed_ns(plan->timer[0], plan->timer[1], out_ns);
}

plb_status plb_plan_time(plb_plan *plan, int count, int64_t *out_ns) {
    *out_ns = 0;
    if (!plan->backend->host_memory) {
        PLB_TRY(plan->backend->enter(plan->device));
        return time_on_device(plan, count, out_ns);
    }
    int64_t begin = plb_now_ns();
    for (int i = 0; i < count; i++) PLB_TRY(run_here(plan));
    *out_ns = plb_now_ns() - begin;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- making
static plb_status make_events(plb_plan *plan) {
    size_t n = 2 * (size_t)plan->n_steps;
    plan->events = plb_arena_alloc(plan->arena, (n + 1) * sizeof *plan->events);
    if (!plan->events) return plb_fail(PLB_ENOMEM, "out of memory for a profile");
    for (size_t i = 0; i < n; i++) {
        PLB_TRY(plan->backend->event_new(plan->device, &plan->events[i]));
    }
    return PLB_OK;
}

// Libraries generate code for every shape, and keep it out of sight: 26 MiB for a densenet121.
static plb_status select_kernels(plb_plan *plan) {
    const int64_t before = plb_memory_resident();
    PLB_TRY(plb_plan_select(plan));
    const int64_t after = plb_memory_resident();
    if (plan->backend->host_memory && before > 0 && after > before) {
        plan->bytes.kernels = (size_t)(after - before);
    }
    return PLB_OK;
}

// A line for who looks for the time that making a plan takes.
static void lap(const plb_graph *graph, const char *what, int64_t *since_ns) {
    int64_t now = plb_now_ns();
    plb_log_line(PLB_LOG_DEBUG, "plan of %s: %s took %.1f ms", graph->name, what,
                 (double)(now - *since_ns) / 1e6);
    *since_ns = now;
}

static plb_status make_plan(plb_plan *plan, const plb_graph *graph) {
    int64_t since_ns = plb_now_ns();
    PLB_TRY(find_assigned(plan, graph));
    if (plan->options.math == PLB_MATH_TF32 && plan->backend->host_memory && !plan->options.f64) {
        return plb_fail(PLB_EUNSUPPORTED, "math tf32 is for devices: the CPU multiplies in f32");
    }
    if (plan->options.level == PLB_LEVEL_INTERP) {
        if (!plan->options.f64 && !plan->options.autocast) return plb_interp_new(plan, graph);
        return plb_fail(PLB_EUNSUPPORTED,
                        "level interp runs a program as it is: not in f64, no autocast");
    }
    PLB_TRY(copy_graph(plan, graph));
    PLB_TRY(run_passes(plan));
    PLB_TRY(plb_plan_schedule(plan));
    PLB_TRY(plb_plan_assign_storage(plan));
    if (!plan->backend->host_memory) PLB_TRY(plb_plan_check_room(plan));
    lap(graph, "passes and schedule", &since_ns);
    PLB_TRY(select_kernels(plan));
    lap(graph, "selection", &since_ns);
    PLB_TRY(plb_plan_place(plan));
    if (!plan->backend->host_memory) PLB_TRY(plb_mirror_new(plan));
    PLB_TRY(plb_plan_merge(plan));
    lap(graph, "placement", &since_ns);
    if (plan->options.level == PLB_LEVEL_REPLAY) {
        PLB_TRY(plb_replay_new(plan));
        lap(graph, "capture", &since_ns);
    } else if (plan->options.profile && !plan->backend->host_memory) {
        PLB_TRY(make_events(plan));
    }
    return plan->report.failed ? plb_fail(PLB_ENOMEM, "out of memory for a report") : PLB_OK;
}

// A device that is being opened.
typedef struct opening {
    const plb_backend *backend;
    int index;
    plb_device *device;
    plb_status status;
    char text[512];
} opening;

static void *open_beside(void *context) {
    opening *o = context;
    o->status = o->backend->open(o->index, &o->device);
    if (o->status) snprintf(o->text, sizeof o->text, "%s", plb_error_text());
    return NULL;
}

// A driver takes a third of a second to start, and so do the first values of a large model: both at
// once. The device is current for this thread, as after `open`.
static plb_status open_and_allocate(plb_plan *plan, int index) {
    opening o = {.backend = plan->backend, .index = index};
    pthread_t thread;
    if (o.backend->host_memory || pthread_create(&thread, NULL, open_beside, &o)) {
        PLB_TRY(o.backend->open(index, &plan->device));
        return plb_model_allocate(plan->model);
    }
    plb_status status = plb_model_allocate(plan->model);
    pthread_join(thread, NULL);
    plan->device = o.device;
    if (o.status) return plb_fail(o.status, "%s", o.text);
    return status ? status : o.backend->enter(o.device);
}

// Opens the device and gives the model's variables a home there.
static plb_status open_device(plb_plan *plan) {
    const plb_backend *backend = NULL;
    int index = 0;
    PLB_TRY(plb_device_find(plan->options.device, &backend, &index));
    plan->backend = backend;
    PLB_TRY(open_and_allocate(plan, index));
    plan->align_bytes = plan->backend->host_memory ? PLB_CACHE_LINE : 256;
    if (plan->backend->host_memory) return PLB_OK;
    plb_device *device = plan->device;
    plan->device = NULL; // the home closes it
    PLB_TRY(plb_home_on(plan->model, plan->backend, device, &plan->home));
    plan->device = device;
    plan->stream = plan->model->homes[plan->home - 1].stream;
    return PLB_OK;
}

static plb_status check_options(const plb_plan_options *o) {
    const struct {
        const char *name;
        int value, last;
    } choices[] = {{"level", (int)o->level, PLB_LEVEL_REPLAY},
                   {"math", (int)o->math, PLB_MATH_TF32},
                   {"autocast", (int)o->autocast, PLB_AUTOCAST_F16}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].value >= 0 && choices[i].value <= choices[i].last) continue;
        return plb_fail(PLB_EINVAL, "plan option %s: expected 0 to %d, found %d", choices[i].name,
                        choices[i].last, choices[i].value);
    }
    return PLB_OK;
}

plb_status plb_plan_new(const plb_graph *graph, const plb_plan_options *options, plb_plan **out) {
    *out = NULL;
    PLB_TRY(plb_graph_status(graph));
    if (options) PLB_TRY(check_options(options));
    plb_plan *plan = plb_alloc(sizeof *plan);
    if (!plan) return plb_fail(PLB_ENOMEM, "out of memory for a plan");
    plan->arena = plb_arena_new();
    plan->model = graph->model;
    plan->backend = &plb_backend_cpu;
    if (options) plan->options = *options;
    if (plan->options.threads <= 0) plan->options.threads = plb_machine_threads();
    plb_status status = PLB_OK;
    if (!plan->arena) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a plan");
        goto out;
    }
    int before = omp_get_max_threads();
    omp_set_num_threads(plan->options.threads);
    int64_t since_ns = plb_now_ns();
    status = open_device(plan);
    lap(graph, "the device", &since_ns);
    if (!status) status = make_plan(plan, graph);
    omp_set_num_threads(before);
out:
    if (status) {
        plb_plan_free(plan);
        return status;
    }
    *out = plan;
    return PLB_OK;
}

void plb_plan_free(plb_plan *plan) {
    if (!plan) return;
    // Nothing of the plan may go while the device still works on it.
    bool away = !plan->backend->host_memory && plan->device && plan->stream;
    if (away && plan->backend->enter(plan->device) == PLB_OK) {
        (void)!plan->backend->wait(plan->stream);
    }
    for (int i = 0; i < plan->n_steps; i++) {
        plb_launch *launch = &plan->steps[i].launch, *merged = &plan->steps[i].merged;
        if (launch->release) launch->release(launch->state);
        if (merged->release) merged->release(merged->state);
    }
    plb_replay_free(plan);
    plb_interp_free(plan->interp);
    if (plan->device) {
        for (int i = 0; i < 2 * plan->n_steps && plan->events; i++) {
            plan->backend->event_free(plan->events[i]);
        }
        plan->backend->event_free(plan->timer[0]);
        plan->backend->event_free(plan->timer[1]);
        plb_mirror_free(plan);
        plan->backend->free(plan->device, plan->transient);
        plan->backend->free(plan->device, plan->persistent);
        plan->backend->free(plan->device, plan->bound);
    }
    if (plan->backend->host_memory) plan->backend->stream_free(plan->stream);
    plb_graph_free(plan->graph);
    plb_strbuf_free(&plan->report);
    plb_strbuf_free(&plan->choices);
    plb_arena_free(plan->arena);
    plb_free(plan);
}

// ---------------------------------------------------------------------------- questions
static plb_status no_such(const plb_plan *plan, const char *what, const char *name) {
    (void)plan;
    return plb_fail(PLB_EINVAL, "plan: no %s is called %s", what, name);
}

static plb_status view_of(plb_plan *plan, plb_value value, plb_tensor *out) {
    if (!plan->backend->host_memory) return plb_mirror_view(plan, value, out);
    *out = plan->tensors[value];
    return PLB_OK;
}

plb_status plb_plan_input(plb_plan *plan, const char *name, plb_tensor *out) {
    if (plan->interp) return plb_interp_input(plan, name, out);
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        const plb_node *node = &plan->graph->nodes[i];
        if (node->op != PLB_OP_input) continue;
        if (strcmp(((const plb_input_attrs *)node->attrs)->name, name) != 0) continue;
        return view_of(plan, node->out, out);
    }
    return no_such(plan, "input", name);
}

plb_status plb_plan_output(plb_plan *plan, const char *name, plb_tensor *out) {
    if (plan->interp) return plb_interp_output(plan, name, out);
    for (int i = 0; i < plan->graph->n_outputs; i++) {
        if (strcmp(plan->graph->outputs[i].name, name) != 0) continue;
        return view_of(plan, plan->graph->outputs[i].value, out);
    }
    return no_such(plan, "output", name);
}

plb_status plb_plan_scalar(plb_plan *plan, const char *name, double *out) {
    plb_tensor t;
    PLB_TRY(plb_plan_output(plan, name, &t));
    if (plb_shape_count(&t.shape) != 1) {
        return plb_fail(PLB_EINVAL, "output %s: expected one element, found %lld", name,
                        (long long)plb_shape_count(&t.shape));
    }
    *out = plb_load_f64(t.data, t.dtype, 0);
    return PLB_OK;
}

plb_plan_bytes plb_plan_memory(const plb_plan *plan) {
    return plan->bytes;
}

// Questions about ops count the steps that launch something, in order.
static plb_step *launch_step(const plb_plan *plan, int index) {
    for (int i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == PLB_STEP_LAUNCH && index-- == 0) return &plan->steps[i];
    }
    return NULL;
}

int plb_plan_op_count(const plb_plan *plan) {
    if (plan->interp) return plb_interp_op_count(plan);
    int n = 0;
    for (int i = 0; i < plan->n_steps; i++) n += plan->steps[i].kind == PLB_STEP_LAUNCH;
    return n;
}

static double moved_bytes(const plb_step *step) {
    if (step->launch.bytes > 0) return step->launch.bytes;
    double bytes = 0;
    for (int k = 0; k < step->call.n_in; k++) {
        const plb_tensor *t = &step->call.in[k];
        if (t->data) bytes += (double)plb_layout_bytes(&t->shape, t->dtype, t->layout);
    }
    for (int k = 0; k < step->call.n_out; k++) {
        const plb_tensor *t = &step->call.out[k];
        if (t->data) bytes += (double)plb_layout_bytes(&t->shape, t->dtype, t->layout);
    }
    return bytes;
}

plb_plan_op plb_plan_op_info(const plb_plan *plan, int index) {
    if (plan->interp) return plb_interp_op_info(plan, index);
    const plb_step *step = launch_step(plan, index);
    if (!step) return (plb_plan_op){.op = ""};
    const plb_node *node = &plan->graph->nodes[step->node];
    return (plb_plan_op){.op = plb_op_of(node->op)->name,
                         .scope = node->scope,
                         .kernel = step->kernel->name,
                         .choice = step->choice,
                         .refused = step->refused,
                         .flops = step->launch.flops,
                         .bytes = moved_bytes(step),
                         .calls = step->calls,
                         .time_ns = step->time_ns,
                         .type = plan->graph->values[node->out].type,
                         .layout = plan->graph->values[node->out].layout,
                         .prologue = step < plan->steps + plan->n_prologue,
                         .backward = node->backward,
                         .live_bytes = step->live_bytes,
                         .live_gradient_bytes = step->live_gradient_bytes,
                         .live_workspace_bytes = step->live_workspace_bytes};
}

void plb_plan_reset_times(plb_plan *plan) {
    if (plan->interp) plb_interp_reset_times(plan);
    for (int i = 0; i < plan->n_steps; i++) plan->steps[i].calls = plan->steps[i].time_ns = 0;
}

const char *plb_plan_choices(const plb_plan *plan) {
    return plan->choices.text ? plan->choices.text : "";
}

const char *plb_plan_report(const plb_plan *plan) {
    return plan->report.text ? plan->report.text : "";
}
