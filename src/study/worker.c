// SPDX-License-Identifier: Apache-2.0
// A study's workers: the reference that knows the models, and the stack that runs now.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "base/machine.h"
#include "bench/usage.h"
#include "plumb/version.h"
#include "study/work.h"

enum { LOAD_LIMIT_S = 900 };

static plb_client_options options_for(const plb_study *s, int64_t threads) {
    return (plb_client_options){.threads = (int)threads,
                                .memory_limit_bytes = plb_usage_memory_available() / 10 * 9,
                                .cache = s->cache,
                                .interrupted = s->options.interrupted,
                                .context = s->options.context};
}

size_t plb_study_padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// Whether it runs, having refused something at most.
static bool usable(const plb_client *client) {
    plb_outcome outcome = client->failure.outcome;
    return client->stack && (outcome == PLB_OUTCOME_OK || outcome == PLB_OUTCOME_REFUSED);
}

static plb_status start_reference(plb_study *s) {
    if (usable(&s->reference)) {
        s->reference.failure = (plb_failure){0};
        return PLB_OK;
    }
    plb_client_stop(&s->reference);
    const plb_client_options options = options_for(s, plb_machine_threads());
    return plb_client_start(&s->reference, s->stacks.reference, &options);
}

// plb_facts_ask has no classes; the answer's shapes do not depend on them.
plb_status plb_study_describe(plb_study *s, const char *model, const char *task, int64_t batch,
                              int64_t size, int64_t classes, plb_facts *out) {
    PLB_TRY(start_reference(s));
    const plb_facts_request request = {.model = model, .task = task, .batch = batch, .size = size};
    PLB_TRY(plb_facts_ask(&s->reference, &request, out));
    if (classes) out->classes = classes;
    return PLB_OK;
}

plb_status plb_study_describe_file(plb_study *s, const plb_study_item *item, plb_facts *out) {
    PLB_TRY(start_reference(s));
    const plb_facts_request request = {
        .model = item->model, .task = item->task, .dims = *item->dims ? item->dims : NULL};
    return plb_facts_ask(&s->reference, &request, out);
}

plb_status plb_study_describe_script(const plb_study_item *item, plb_facts *out) {
    const char *slash = strrchr(item->model, '/');
    // flops and parameters stay unknown: nobody here reads such a file.
    *out = (plb_facts){.batch = item->batch,
                       .size = item->size ? item->size : 1,
                       .classes = 1,
                       .n_inputs = 1,
                       .n_outputs = 1,
                       .depth = 1,
                       .flops = NAN,
                       .input[0] = {.name = "x", .dtype = PLB_F32}};
    snprintf(out->model, sizeof out->model, "%s", slash ? slash + 1 : item->model);
    plb_study_script_extents(item->part, item->batch, item->size, &out->input[0].shape);
    if (!realpath(item->model, out->file)) return plb_fail_errno("%s", item->model);
    return plb_shape_check(&out->input[0].shape);
}

plb_status plb_study_weights(plb_study *s, const plb_facts *f, int64_t seed, char *path,
                             size_t size) {
    const char *folder = plb_arena_printf(s->arena, "%s/weights", s->cache);
    if (!folder) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    int n = snprintf(path, size, "%s/study-%s-%s-%" PRId64 "-%" PRId64 "-%" PRId64 ".safetensors",
                     folder, f->model, PLUMB_VERSION, f->size, f->classes, seed);
    if (n < 0 || (size_t)n >= size)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", s->cache);
    PLB_TRY(plb_folder_make(folder));
    if (plb_file_exists(path)) return PLB_OK;
    PLB_TRY(start_reference(s));
    json_t *request = json_pack("{s:s,s:s,s:s,s:I,s:I,s:I}", "type", "weights", "model", f->model,
                                "path", path, "seed", (json_int_t)seed, "size", (json_int_t)f->size,
                                "classes", (json_int_t)f->classes);
    return plb_client_ask(&s->reference, request, 300, "ok", NULL);
}

// ---------------------------------------------------------------------------- the stack
static void stop_parked(plb_study *s) {
    for (int i = 0; i < PLB_STUDY_PARKED; i++) {
        plb_client_stop(&s->parked[i].client);
        s->parked[i] = (plb_parked_client){0};
    }
}

void plb_study_stop_clients(plb_study *s) {
    plb_client_stop(&s->client);
    s->client = (plb_client){0};
    stop_parked(s);
}

// Whether the stack of s->client may be asked to train again, and what it holds stay in memory.
// That of a card is left to the next one alone. The key is "STACK DEVICE THREADS".
static bool worth_parking(const plb_study *s, const plb_study_item *next) {
    return next->part->kind == PLB_PART_TRAIN && usable(&s->client) &&
           !strstr(s->client_key, " cuda") &&
           plb_usage_memory_available() > 4 * s->client.peak_rss_bytes;
}

// Lets s->client go: to a free place, or for good.
static void park(plb_study *s, const plb_study_item *next) {
    for (int i = 0; i < PLB_STUDY_PARKED && worth_parking(s, next); i++) {
        plb_parked_client *place = &s->parked[i];
        if (place->client.stack) continue;
        place->client = s->client;
        snprintf(place->key, sizeof place->key, "%s", s->client_key);
        s->client = (plb_client){0};
        return;
    }
    plb_client_stop(&s->client);
    s->client = (plb_client){0};
}

static bool unpark(plb_study *s, const char *key) {
    for (int i = 0; i < PLB_STUDY_PARKED; i++) {
        plb_parked_client *place = &s->parked[i];
        if (!place->client.stack || strcmp(place->key, key) != 0) continue;
        s->client = place->client;
        *place = (plb_parked_client){0};
        plb_process_look(&s->client.process);
        if (!s->client.process.ended) return true;
        plb_client_stop(&s->client); // it died meanwhile: a new one is started
        s->client = (plb_client){0};
        return false;
    }
    return false;
}

plb_status plb_study_client(plb_study *s, const plb_study_item *item) {
    char key[160];
    const plb_stack *stack = NULL;
    snprintf(key, sizeof key, "%s %s %" PRId64, item->stack, item->device, item->threads);
    if (item->part->kind != PLB_PART_TRAIN) stop_parked(s);
    bool stays = usable(&s->client) && !strcmp(key, s->client_key);
    if (!stays) park(s, item);
    if (stays || unpark(s, key)) {
        snprintf(s->client_key, sizeof s->client_key, "%s", key);
        s->client.failure = (plb_failure){0};
        return PLB_OK;
    }
    if (plb_stacks_get(&s->stacks, item->stack, &stack))
        return plb_failure_set(&s->client.failure, PLB_OUTCOME_REFUSED,
                               "%s is not installed on this machine", item->stack);
    const plb_client_options options = options_for(s, item->threads);
    snprintf(s->client_key, sizeof s->client_key, "%s", key);
    return plb_client_start(&s->client, stack, &options);
}

static plb_status refuse(plb_study *s, const char *what, const char *word) {
    return plb_failure_set(&s->client.failure, PLB_OUTCOME_REFUSED, "%s does not offer %s %s",
                           s->client.stack->name, what, word);
}

static bool runs_files(const plb_client *c, const char *wanted) {
    const json_t *able = json_object_get(c->hello, "capabilities");
    const json_t *files = json_object_get(able, "files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *kind = json_string_value(json_array_get(files, i));
        if (kind && !strcmp(kind, wanted)) return true;
    }
    return false;
}

static plb_status check_capabilities(plb_study *s, const plb_study_item *item,
                                     const plb_facts *facts) {
    const plb_client *c = &s->client;
    char kind[32];
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(item->device, ":"), item->device);
    bool script = plb_study_is_script(item->model);
    if (facts->file[0] && !runs_files(c, script ? "torchscript" : "onnx"))
        return plb_failure_set(&s->client.failure, PLB_OUTCOME_REFUSED, "%s runs no %s files",
                               c->stack->name, script ? "TorchScript" : "ONNX");
    if (!facts->file[0] && !plb_client_can(c, "models", facts->model))
        return refuse(s, "model", facts->model);
    if (!plb_client_can(c, "devices", item->device) && !plb_client_can(c, "devices", kind))
        return refuse(s, "device", item->device);
    if (item->part->kind == PLB_PART_SWEEP && !plb_client_can(c, "regions", item->region))
        return refuse(s, "region", item->region);
    const char *task = facts->training ? "train" : "infer";
    const json_t *epochs = json_object_get(json_object_get(c->hello, "capabilities"), "epoch");
    if (item->part->kind == PLB_PART_TRAIN && !json_is_true(epochs))
        return plb_failure_set(&s->client.failure, PLB_OUTCOME_REFUSED, "%s streams no epochs",
                               c->stack->name);
    return plb_client_can(c, "tasks", task) ? PLB_OK : refuse(s, "task", task);
}

json_t *plb_study_describe_inputs(const plb_facts *f, const plb_study_inputs *in) {
    json_t *list = json_array();
    for (int i = 0; i < f->n_inputs; i++) {
        bool x = f->input[i].name[0] == 'x';
        const size_t *at = x ? in->x_offset : in->y_offset;
        json_t *shape = json_array();
        for (int k = 0; k < f->input[i].shape.rank; k++)
            json_array_append_new(shape, json_integer(f->input[i].shape.dim[k]));
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:o,s:[I,I]}", "name", f->input[i].name, "dtype",
                                        plb_dtype_name(f->input[i].dtype), "shape", shape,
                                        "offsets", (json_int_t)at[0], (json_int_t)at[1]));
    }
    return list;
}

static json_t *describe_optimizer(const plb_study_part *part) {
    if (part->kind == PLB_PART_SWEEP)
        return json_pack("{s:s,s:f,s:f}", "name", "sgd", "lr", 0.001, "momentum", 0.9);
    json_t *o = json_pack("{s:s,s:f,s:f}", "name", part->optimizer, "lr", part->lr, "weight_decay",
                          part->weight_decay);
    if (o && !strcmp(part->optimizer, "sgd")) {
        json_object_set_new(o, "momentum", json_real(part->momentum));
        json_object_set_new(o, "nesterov", json_boolean(part->nesterov));
    }
    return o;
}

plb_status plb_study_load(plb_study *s, const plb_study_item *item, const plb_facts *f,
                          const char *weights, json_t *inputs, json_t **out_answer) {
    plb_status status = check_capabilities(s, item, f);
    if (status) {
        json_decref(inputs);
        return status;
    }
    bool dropout = item->part->kind == PLB_PART_SWEEP || item->part->dropout;
    json_t *request = json_pack(
        "{s:s,s:s,s:s,s:[s],s:I,s:I,s:I,s:s,s:s,s:n,s:I,s:s,s:{},s:s,s:o,s:o,s:s,s:s,s:b}", "type",
        "load", "model", f->model, "task", f->training ? "train" : "infer", "devices", item->device,
        "batch", (json_int_t)f->batch, "size", (json_int_t)f->size, "classes",
        (json_int_t)f->classes, "dtype", "f32", "math", "f32", "autocast", "threads",
        (json_int_t)item->threads, "layout", "default", "settings", "weights", weights, "inputs",
        inputs, "optimizer", describe_optimizer(item->part), "dropout", dropout ? "on" : "off",
        "region", item->region, "log_probabilities", f->log_probabilities);
    if (f->file[0] && (json_object_set_new(request, "file", json_string(f->file)) ||
                       json_object_set_new(request, "dims", json_string(f->dims)))) {
        json_decref(request);
        request = NULL;
    }
    return plb_client_ask(&s->client, request, LOAD_LIMIT_S, "loaded", out_answer);
}

static void add_json(plb_json *results, const char *key, const json_t *value) {
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    plb_json_raw(results, key, text);
    free(text);
}

plb_status plb_study_add_facts(plb_study *s, plb_json *results) {
    json_t *answer = NULL;
    add_json(results, "versions", json_object_get(s->client.hello, "versions"));
    PLB_TRY(
        plb_client_ask(&s->client, json_pack("{s:s}", "type", "memory"), 60, "memory", &answer));
    json_object_del(answer, "id");
    json_object_del(answer, "type");
    add_json(results, "memory", answer);
    json_decref(answer);
    PLB_TRY(plb_client_ask(&s->client, json_pack("{s:s}", "type", "ran"), 120, "ran", &answer));
    json_object_del(answer, "id");
    json_object_del(answer, "type");
    add_json(results, "ran", answer);
    json_decref(answer);
    return PLB_OK;
}
