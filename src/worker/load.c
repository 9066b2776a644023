// SPDX-License-Identifier: Apache-2.0
// `load`: the model with its weights as a plan, batches copied in, and a copy of every variable so
// that a proof or a block can begin from the file's weights again.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "engine/device/backend.h"
#include "plumb/version.h"
#include "plumb/weights.h"
#include "worker/session.h"

static void string_list(plb_json *reply, const char *key, const char *const *words, int n) {
    plb_json_begin_array(reply, key);
    for (int i = 0; i < n; i++) plb_json_string(reply, NULL, words[i]);
    plb_json_end(reply);
}

static void bool_setting(plb_json *reply, const char *key) {
    plb_json_begin_array(reply, key);
    plb_json_bool(reply, NULL, false);
    plb_json_bool(reply, NULL, true);
    plb_json_end(reply);
}

// Whether a graphics driver is there at all: asking it costs time that a CPU's worker has not.
static bool has_driver(void) {
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

static void list_devices(plb_json *reply, const plb_worker_kind *kind, bool cuda, int count) {
    plb_json_begin_array(reply, "devices");
    if (!kind->device_only) plb_json_string(reply, NULL, "cpu");
    if (cuda) plb_json_string(reply, NULL, "cuda");
    for (int i = 0; cuda && i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "cuda:%d", i);
        plb_json_string(reply, NULL, name);
    }
    plb_json_end(reply);
}

// The reference rounds as coarser numbers do. At level interp nothing is mixed.
static bool mixes(const plb_worker_kind *kind, bool device) {
    return kind->f64 || (device && kind->level != PLB_LEVEL_INTERP);
}

static void capabilities(plb_json *reply, const plb_worker_kind *kind) {
    static const char *const tasks[] = {"infer", "train"}, *const types[] = {"f32"};
    static const char *const maths[] = {"f32", "tf32"}, *const mixed[] = {"bf16", "f16"};
    static const char *const files[] = {"onnx"};
    static const char *const regions[] = {"latency", "queued", "host", "return"};
    const plb_backend *backend = NULL;
    bool cuda = !kind->f64 && has_driver() && !plb_backend_find("cuda", &backend);
    int count = cuda ? backend->device_count() : 0;
    cuda = count > 0;
    string_list(reply, "tasks", tasks, 2);
    string_list(reply, "files", files, 1);
    list_devices(reply, kind, cuda, count);
    string_list(reply, "dtypes", types, 1);
    string_list(reply, "math", maths, cuda || kind->f64 ? 2 : 1);
    string_list(reply, "autocast", mixed, mixes(kind, cuda) ? 2 : 0);
    string_list(reply, "regions", regions, 4);
    plb_json_begin_array(reply, "models");
    for (int i = 0; i < plb_zoo_count(); i++) {
        plb_json_string(reply, NULL, plb_zoo_at(i)->name);
    }
    plb_json_end(reply);
    plb_json_begin_object(reply, "settings");
    if (kind->level != PLB_LEVEL_INTERP && !kind->f64) {
        bool_setting(reply, "no_winograd");
        bool_setting(reply, "no_fusion");
        bool_setting(reply, "no_tuning");
        bool_setting(reply, "deterministic");
        plb_json_null(reply, "planted_slowdown_percent");
    }
    plb_json_end(reply);
    plb_json_bool(reply, "trace", true);
    plb_json_bool(reply, "epoch", true);
    plb_json_bool(reply, "group", false);
    plb_json_bool(reply, "gradients", true);
}

plb_status plb_worker_hello(plb_worker_session *s, const json_t *request) {
    int64_t protocol = plb_request_int(request, "protocol", 0);
    if (protocol != 1) {
        s->error_code = "unsupported";
        return plb_fail(PLB_EUNSUPPORTED, "protocol: expected 1, found %" PRId64, protocol);
    }
    plb_json_int(&s->reply, "protocol", 1);
    plb_json_string(&s->reply, "stack", s->kind->name);
    plb_json_begin_object(&s->reply, "versions");
    plb_json_string(&s->reply, "plumb", plb_version());
    plb_json_end(&s->reply);
    plb_json_begin_object(&s->reply, "capabilities");
    capabilities(&s->reply, s->kind);
    plb_json_end(&s->reply);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the request
static plb_status check_word(plb_worker_session *s, const json_t *request, const char *key,
                             const char *expected) {
    const char *found = plb_request_text(request, key, expected);
    if (strcmp(found, expected) == 0) return PLB_OK;
    return plb_worker_refuse(s, key, "%s: expected %s, found %s", key, expected, found);
}

const char *plb_worker_autocast_name(plb_autocast autocast) {
    return autocast == PLB_AUTOCAST_BF16 ? "bf16" : autocast == PLB_AUTOCAST_F16 ? "f16" : NULL;
}

static plb_status read_device(plb_worker_session *s, const json_t *request) {
    const json_t *devices = json_object_get(request, "devices");
    const char *device = json_string_value(json_array_get(devices, 0));
    if (json_array_size(devices) > 1) {
        return plb_worker_refuse(s, "device", "devices: expected one, found %zu",
                                 json_array_size(devices));
    }
    if (!device) device = "cpu";
    bool cuda = strncmp(device, "cuda", 4) == 0 && !s->kind->f64;
    if (strcmp(device, "cpu") == 0 ? s->kind->device_only : !cuda) {
        return plb_worker_refuse(s, "device", "%s does not run on %s", s->kind->name, device);
    }
    if (!cuda) return PLB_OK;
    const plb_backend *backend = NULL;
    int index = 0;
    if (plb_device_find(device, &backend, &index)) {
        s->error_code = "refused", s->error_kind = "device";
        return PLB_EUNSUPPORTED; // with the text that there is
    }
    if (index >= backend->device_count()) {
        return plb_worker_refuse(s, "device", "%s: there are %d devices", device,
                                 backend->device_count());
    }
    snprintf(s->job.device, sizeof s->job.device, "%.4s:%d", device, index);
    return PLB_OK;
}

// What the processor has not.
static plb_status read_precision(plb_worker_session *s, const json_t *request,
                                 plb_plan_options *options) {
    bool device = s->job.device[0];
    const char *autocast = json_string_value(json_object_get(request, "autocast"));
    PLB_TRY(check_word(s, request, "dtype", "f32"));
    if (!device && !s->kind->f64) PLB_TRY(check_word(s, request, "math", "f32"));
    if (strcmp(plb_request_text(request, "math", "f32"), "tf32") == 0) {
        options->math = PLB_MATH_TF32;
    }
    if (!autocast) return PLB_OK;
    if (!mixes(s->kind, device)) {
        return plb_worker_refuse(s, "autocast", "no mixed precision on this device or level");
    }
    if (strcmp(autocast, "bf16") != 0 && strcmp(autocast, "f16") != 0) {
        return plb_worker_refuse(s, "autocast", "autocast: expected bf16 or f16, found %s",
                                 autocast);
    }
    options->autocast = strcmp(autocast, "bf16") == 0 ? PLB_AUTOCAST_BF16 : PLB_AUTOCAST_F16;
    return PLB_OK;
}

static plb_status read_options(plb_worker_session *s, const json_t *request) {
    plb_worker_job *job = &s->job;
    const char *task = plb_request_text(request, "task", "infer");
    PLB_TRY(read_device(s, request));
    job->training = strcmp(task, "train") == 0;
    if (!job->training && strcmp(task, "infer") != 0) {
        return plb_worker_refuse(s, "task", "task: expected infer or train, found %s", task);
    }
    job->dropout_off = strcmp(plb_request_text(request, "dropout", "on"), "off") == 0;
    job->zoo = (plb_zoo_options){.batch = plb_request_int(request, "batch", 0),
                                 .size = plb_request_int(request, "size", 0),
                                 .classes = plb_request_int(request, "classes", 0),
                                 .no_dropout = job->dropout_off};
    const json_t *settings = json_object_get(request, "settings");
    job->planted_slowdown = plb_request_double(settings, "planted_slowdown_percent", 0) / 100;
    job->plan_options = (plb_plan_options){
        .level = s->kind->level,
        .f64 = s->kind->f64,
        .threads = (int)plb_request_int(request, "threads", 0),
        .no_winograd = plb_request_bool(settings, "no_winograd", false),
        .no_fusion = plb_request_bool(settings, "no_fusion", false),
        .no_tuning = plb_request_bool(settings, "no_tuning", false),
        .deterministic = plb_request_bool(settings, "deterministic", false),
        .device = job->device[0] ? job->device : NULL,
    };
    return read_precision(s, request, &job->plan_options);
}

static plb_status read_optimizer(plb_worker_job *job, const json_t *o) {
    PLB_TRY(plb_step_options_for(plb_request_text(o, "name", "sgd"), &job->step));
    plb_step_options *to = &job->step;
    to->lr = plb_request_double(o, "lr", to->lr);
    if (to->optimizer == PLB_OPTIMIZER_SGD) {
        to->sgd.momentum = plb_request_double(o, "momentum", to->sgd.momentum);
        to->sgd.dampening = plb_request_double(o, "dampening", to->sgd.dampening);
        to->sgd.weight_decay = plb_request_double(o, "weight_decay", to->sgd.weight_decay);
        to->sgd.nesterov = plb_request_bool(o, "nesterov", to->sgd.nesterov);
    } else {
        to->adam.beta1 = plb_request_double(o, "beta1", to->adam.beta1);
        to->adam.beta2 = plb_request_double(o, "beta2", to->adam.beta2);
        to->adam.eps = plb_request_double(o, "eps", to->adam.eps);
        to->adam.weight_decay = plb_request_double(o, "weight_decay", to->adam.weight_decay);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the model
static plb_status build(plb_worker_job *job) {
    job->output[0] = "logits", job->n_outputs = 1;
    strcpy(job->answer[0], "output");
    if (!job->training) return plb_zoo_build_infer(job->model, job->model_name, &job->zoo);
    plb_graph *graph = NULL;
    plb_value loss = PLB_NONE;
    PLB_TRY(plb_zoo_build_train(job->model, job->model_name, &job->zoo, &graph, &loss));
    return plb_train_step(graph, loss, &job->step);
}

static size_t variable_bytes(const plb_variable_info *info) {
    enum { ALIGN = 64 };
    size_t bytes = (size_t)plb_shape_count(&info->type.shape) * plb_dtype_size(info->type.dtype);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static plb_tensor first_value(const plb_worker_job *job, int i) {
    const plb_variable_info info = plb_model_variable_info(job->model, i);
    return plb_tensor_dense(job->first[i], info.type.dtype, &info.type.shape, (plb_layout){0});
}

// Random state is left alone by a restart: a proof that looks twice must see other numbers.
static bool is_kept(const plb_variable_info *info) {
    return strcmp(info->name, "random") != 0;
}

static plb_status keep_first_values(plb_worker_job *job) {
    size_t bytes = 0, at = 0;
    job->n_first = plb_model_variable_count(job->model);
    for (int i = 0; i < job->n_first; i++) {
        const plb_variable_info info = plb_model_variable_info(job->model, i);
        bytes += variable_bytes(&info);
    }
    job->first = plb_alloc_array((size_t)job->n_first + 1, sizeof *job->first);
    job->first_slab = plb_alloc_slab(bytes + 1);
    if (!job->first || !job->first_slab) {
        return plb_fail(PLB_ENOMEM, "out of memory for a copy of the weights");
    }
    for (int i = 0; i < job->n_first; i++) {
        const plb_variable_info info = plb_model_variable_info(job->model, i);
        if (!is_kept(&info)) continue;
        job->first[i] = job->first_slab + at, at += variable_bytes(&info);
        plb_tensor to = first_value(job, i);
        PLB_TRY(plb_variable_read(job->model, i, &to));
    }
    return PLB_OK;
}

plb_status plb_worker_job_restart(plb_worker_job *job) {
    for (int i = 0; i < job->n_first; i++) {
        if (!job->first[i]) continue;
        const plb_tensor from = first_value(job, i);
        PLB_TRY(plb_variable_write(job->model, i, &from));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- batches
static const char *name_of_input(const plb_worker_job *job, const char *name) {
    static const char *const of_zoo[] = {"x", "y"};
    const plb_graph *graph = plb_model_find_program(job->model, job->training ? "train" : "infer");
    const char *found;
    plb_type type;
    for (int i = 0; !job->file && i < 2; i++) {
        if (strcmp(of_zoo[i], name) == 0) return of_zoo[i];
    }
    for (int i = 0; job->file && plb_onnx_end(graph, false, i, &found, &type); i++) {
        if (strcmp(found, name) == 0) return found;
    }
    return NULL;
}

static plb_status open_input(plb_worker_session *s, const json_t *entry) {
    plb_worker_job *job = &s->job;
    const char *name = plb_request_text(entry, "name", "");
    const json_t *offsets = json_object_get(entry, "offsets");
    const char *kept = name_of_input(job, name);
    if (!kept) return plb_fail(PLB_EINVAL, "inputs: the model has no '%s'", name);
    plb_worker_input *input = &job->input[job->n_inputs];
    *input = (plb_worker_input){.name = kept};
    size_t slots = json_array_size(offsets);
    if (slots < 1 || slots > PLB_WORKER_MAX_SLOTS ||
        (job->n_inputs && (int)slots != job->n_slots)) {
        return plb_fail(PLB_EINVAL,
                        "%s: expected 1 to %d offsets, of every input as many, found "
                        "%zu",
                        name, PLB_WORKER_MAX_SLOTS, slots);
    }
    plb_tensor to;
    PLB_TRY(plb_plan_input(job->plan, input->name, &to));
    input->to = to.data;
    input->size_bytes = (size_t)plb_shape_count(&to.shape) * plb_dtype_size(to.dtype);
    input->slab = plb_alloc_slab(slots * input->size_bytes + 1);
    if (!input->slab) return plb_fail(PLB_ENOMEM, "out of memory for batches");
    job->n_inputs++, job->n_slots = (int)slots;
    for (size_t i = 0; i < slots; i++) {
        int64_t offset = json_integer_value(json_array_get(offsets, i));
        if (offset < 0) return plb_fail(PLB_EINVAL, "%s: expected offsets from 0", name);
        input->offset[i] = (size_t)offset;
        input->slot[i] = input->slab + i * input->size_bytes;
    }
    return PLB_OK;
}

static plb_status take_slot(plb_worker_session *s, int slot) {
    for (int i = 0; i < s->job.n_inputs; i++) {
        plb_worker_input *input = &s->job.input[i];
        PLB_TRY(plb_worker_in_map(&s->in, input->offset[slot] + input->size_bytes));
        memcpy(input->slot[slot], s->in.bytes + input->offset[slot], input->size_bytes);
    }
    return PLB_OK;
}

static plb_status open_inputs(plb_worker_session *s, const json_t *request) {
    const json_t *inputs = json_object_get(request, "inputs");
    size_t expected = s->job.training ? 2 : 1, n = json_array_size(inputs);
    if (s->job.file && !s->job.training) expected = (size_t)plb_onnx_input_count(s->job.file);
    if (n != expected || n > PLB_WORKER_MAX_INPUTS) {
        return plb_fail(PLB_EINVAL, "inputs: expected %zu, found %zu", expected, n);
    }
    for (size_t i = 0; i < n; i++) PLB_TRY(open_input(s, json_array_get(inputs, i)));
    for (int i = 0; i < s->job.n_slots; i++) PLB_TRY(take_slot(s, i));
    return PLB_OK;
}

void plb_worker_job_feed(plb_worker_job *job, int slot) {
    for (int i = 0; i < job->n_inputs; i++) {
        memcpy(job->input[i].to, job->input[i].slot[slot], job->input[i].size_bytes);
    }
}

plb_status plb_worker_slot(const plb_worker_session *s, const json_t *list, size_t i, int *out) {
    const json_t *value = json_array_get(list, i);
    int64_t slot = json_is_integer(value) ? json_integer_value(value) : -1;
    if (!s->job.plan) return plb_fail(PLB_EINVAL, "nothing is loaded");
    if (slot < 0 || slot >= s->job.n_slots) {
        return plb_fail(PLB_EINVAL, "batches: expected 0 to %d, found %" PRId64, s->job.n_slots - 1,
                        slot);
    }
    *out = (int)slot;
    return PLB_OK;
}

plb_status plb_worker_batches(plb_worker_session *s, const json_t *request) {
    const json_t *slots = json_object_get(request, "slots");
    for (size_t i = 0; i < json_array_size(slots); i++) {
        int slot = 0;
        PLB_TRY(plb_worker_slot(s, slots, i, &slot));
        PLB_TRY(take_slot(s, slot));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- load
void plb_worker_job_free(plb_worker_job *job) {
    for (int i = 0; i < PLB_WORKER_MAX_PASSES; i++) plb_plan_free(job->pass[i].plan);
    plb_plan_free(job->plan);
    plb_model_free(job->model);
    plb_onnx_free(job->file); // after the model, whose weights it holds
    for (int i = 0; i < job->n_inputs; i++) plb_free(job->input[i].slab);
    plb_free(job->first);
    plb_free(job->first_slab);
    *job = (plb_worker_job){0};
}

static plb_status load(plb_worker_session *s, const json_t *request) {
    plb_worker_job *job = &s->job;
    const char *model = plb_request_text(request, "model", ""), *program;
    const char *weights = plb_request_text(request, "weights", NULL);
    const plb_zoo_info *info = NULL;
    bool is_file = json_is_string(json_object_get(request, "file"));
    if (!is_file && plb_zoo_find(model, &info)) {
        return plb_worker_refuse(s, "model", "no model %s in the zoo", model);
    }
    if (info) strcpy(job->model_name, info->name);
    PLB_TRY(read_options(s, request));
    PLB_TRY(read_optimizer(job, json_object_get(request, "optimizer")));
    job->model = plb_model_new();
    if (!job->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    PLB_TRY(is_file ? plb_worker_file_build(s, job, request) : build(job));
    program = job->training ? "train" : "infer";
    const plb_graph *graph = plb_model_find_program(job->model, program);
    if (weights && !is_file)
        PLB_TRY(plb_weights_load(weights, job->model, graph, job->plan_options.threads));
    PLB_TRY(plb_plan_new(graph, &job->plan_options, &job->plan));
    PLB_TRY(open_inputs(s, request));
    return job->training ? keep_first_values(job) : PLB_OK;
}

plb_status plb_worker_load(plb_worker_session *s, const json_t *request) {
    int64_t begin = plb_now_ns();
    plb_worker_job_free(&s->job);
    plb_status status = load(s, request);
    if (status) {
        plb_worker_job_free(&s->job);
        return status;
    }
    plb_json_int(&s->reply, "load_ns", plb_now_ns() - begin);
    plb_json_null(&s->reply, "compile_ns");
    return PLB_OK;
}
