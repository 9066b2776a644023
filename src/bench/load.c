// SPDX-License-Identifier: Apache-2.0
#include "bench/load.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"

// ---------------------------------------------------------------------------- capabilities
static plb_status refuse_word(plb_client *client, const char *key, const char *kind,
                              const char *word) {
    if (plb_client_can(client, key, word)) return PLB_OK;
    snprintf(client->failure.kind, sizeof client->failure.kind, "%s", kind);
    return plb_failure_set(&client->failure, PLB_OUTCOME_REFUSED, "%s does not offer %s %s",
                           client->stack->name, kind, word);
}

// "cuda:0" is one of the devices "cuda".
static plb_status check_device(plb_client *client, const char *device) {
    char kind[64];
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(device, ":"), device);
    if (plb_client_can(client, "devices", device)) return PLB_OK;
    if (plb_client_can(client, "devices", kind)) return PLB_OK;
    return refuse_word(client, "devices", "device", device);
}

static bool same_value(const json_t *legal, const char *text) {
    if (json_is_string(legal)) return strcmp(json_string_value(legal), text) == 0;
    if (json_is_boolean(legal)) return strcmp(json_is_true(legal) ? "true" : "false", text) == 0;
    if (!json_is_integer(legal)) return false;
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    return *text && !*end && !errno && json_integer_value(legal) == number;
}

// The value in the type that the stack lists it with; a text where the list is null.
static plb_status read_setting(plb_client *client, const plb_setting *setting, json_t **out) {
    const json_t *all = json_object_get(json_object_get(client->hello, "capabilities"), "settings");
    json_t *legal = json_object_get(all, setting->key);
    if (!legal) {
        snprintf(client->failure.kind, sizeof client->failure.kind, "settings");
        return plb_failure_set(&client->failure, PLB_OUTCOME_REFUSED, "%s has no setting %s",
                               client->stack->name, setting->key);
    }
    if (json_is_null(legal)) {
        char *end;
        double number = strtod(setting->value, &end);
        const bool is_number = *setting->value && !*end && isfinite(number);
        *out = is_number ? json_real(number) : json_string(setting->value);
        return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a setting");
    }
    for (size_t i = 0; i < json_array_size(legal); i++) {
        json_t *value = json_array_get(legal, i);
        if (!same_value(value, setting->value)) continue;
        *out = json_incref(value);
        return PLB_OK;
    }
    char *list = json_dumps(legal, JSON_COMPACT);
    snprintf(client->failure.kind, sizeof client->failure.kind, "settings");
    plb_status status = plb_failure_set(&client->failure, PLB_OUTCOME_REFUSED,
                                        "%s.%s: expected one of %s, found %s", client->stack->name,
                                        setting->key, list ? list : "?", setting->value);
    free(list);
    return status;
}

static plb_status check_file(plb_client *client) {
    const json_t *able = json_object_get(client->hello, "capabilities");
    const json_t *files = json_object_get(able, "files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *kind = json_string_value(json_array_get(files, i));
        if (kind && strcmp(kind, "onnx") == 0) return PLB_OK;
    }
    snprintf(client->failure.kind, sizeof client->failure.kind, "model");
    return plb_failure_set(&client->failure, PLB_OUTCOME_REFUSED, "%s runs no ONNX files",
                           client->stack->name);
}

static plb_status check_case(plb_client *client, const plb_case *c, bool file) {
    PLB_TRY(file ? check_file(client) : refuse_word(client, "models", "model", c->model));
    PLB_TRY(refuse_word(client, "tasks", "task", c->task));
    PLB_TRY(check_device(client, c->device));
    PLB_TRY(refuse_word(client, "dtypes", "dtype", c->dtype));
    PLB_TRY(refuse_word(client, "math", "math", c->math));
    PLB_TRY(refuse_word(client, "regions", "region", c->region));
    if (strcmp(c->autocast, "none") != 0) {
        PLB_TRY(refuse_word(client, "autocast", "autocast", c->autocast));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- load
static json_t *device_list(const char *devices) {
    json_t *list = json_array();
    for (const char *at = devices; *at;) {
        size_t n = strcspn(at, ",");
        json_array_append_new(list, json_stringn(at, n));
        at += n + (at[n] == ',');
    }
    return list;
}

static json_t *make_request(const plb_load *load, json_t *settings) {
    const plb_case *c = load->c;
    const plb_facts *f = load->facts;
    json_t *request = json_pack(
        "{s:s,s:s,s:s,s:o,s:I,s:I,s:I,s:s,s:s,s:I,s:s,s:O,s:s,s:o,s:s,s:s,s:b}", "type", "load",
        "model", c->model, "task", c->task, "devices", device_list(c->device), "batch",
        (json_int_t)f->batch, "size", (json_int_t)f->size, "classes", (json_int_t)f->classes,
        "dtype", c->dtype, "math", c->math, "threads", (json_int_t)c->threads, "layout", c->layout,
        "settings", settings, "weights", load->weights, "inputs",
        plb_batches_describe(load->batches, f), "dropout", load->dropout ? "on" : "off", "region",
        c->region, "log_probabilities", f->log_probabilities);
    bool mixed = strcmp(c->autocast, "none") != 0;
    if (f->file[0] && (json_object_set_new(request, "file", json_string(f->file)) ||
                       json_object_set_new(request, "dims", json_string(f->dims)))) {
        json_decref(request);
        return NULL;
    }
    if (!request ||
        json_object_set_new(request, "autocast", mixed ? json_string(c->autocast) : json_null()) ||
        json_object_set_new(request, "optimizer",
                            json_pack("{s:s,s:f,s:f,s:f}", "name", "sgd", "lr",
                                      load->rate > 0 ? load->rate : PLB_BENCH_LR, "momentum",
                                      PLB_BENCH_MOMENTUM, "weight_decay", 0.0))) {
        json_decref(request);
        return NULL;
    }
    return request;
}

static int64_t known_ns(const json_t *answer, const char *key) {
    const json_t *value = json_object_get(answer, key);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : -1;
}

// The settings in the types that the stack lists; *out is yours to json_decref, if it fails too.
static plb_status read_settings(plb_client *client, const plb_case *c, json_t **out) {
    *out = json_object();
    for (int i = 0; i < c->setting_count; i++) {
        json_t *value = NULL;
        if (strncmp(c->settings[i].key, "dim.", 4) == 0) continue; // of a file, told apart
        PLB_TRY(read_setting(client, &c->settings[i], &value));
        if (json_object_set_new(*out, c->settings[i].key, value)) {
            return plb_fail(PLB_ENOMEM, "out of memory for a setting");
        }
    }
    return PLB_OK;
}

plb_status plb_load_check(plb_client *client, const plb_load *load) {
    json_t *settings = NULL;
    PLB_TRY(check_case(client, load->c, load->facts->file[0]));
    plb_status status = read_settings(client, load->c, &settings);
    json_decref(settings);
    return status;
}

plb_status plb_load_send(plb_client *client, const plb_load *load, plb_loaded *out) {
    json_t *settings = NULL, *answer = NULL;
    plb_status status;
    *out = (plb_loaded){-1, -1};
    PLB_TRY_OUT(check_case(client, load->c, load->facts->file[0]));
    PLB_TRY_OUT(read_settings(client, load->c, &settings));
    for (int slot = 0; slot < load->batches->n_slots; slot++) {
        PLB_TRY_OUT(plb_batches_fill(load->batches, client, slot, 0));
    }
    PLB_TRY_OUT(
        plb_client_ask(client, make_request(load, settings), load->limit_s, "loaded", &answer));
    // The worker's own figure may leave something out; ours has the message too. A model that had
    // to be written as a file for it was not loaded meanwhile.
    out->load_ns = client->answered_ns - client->asked_ns;
    const int64_t export_ns = known_ns(answer, "export_ns");
    if (export_ns > 0 && export_ns < out->load_ns) out->load_ns -= export_ns;
    out->compile_ns = known_ns(answer, "compile_ns");
out:
    json_decref(settings);
    json_decref(answer);
    return status;
}

// ---------------------------------------------------------------------------- blocks
static json_t *slot_list(int first, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(first + i));
    return list;
}

plb_status plb_load_batches(plb_client *client, int first_slot, int n_slots, double limit_s) {
    return plb_client_ask(
        client, json_pack("{s:s,s:o}", "type", "batches", "slots", slot_list(first_slot, n_slots)),
        limit_s, "ok", NULL);
}

// Of which batch the checked iteration was; the worker has no say in that. -1: none was.
static int slot_of(const plb_block_request *r) {
    const int64_t at = strcmp(r->region, "queued") == 0 ? r->n - 1 : r->check;
    return at < 0 ? -1 : r->first_slot + (int)(at % r->n_slots);
}

static plb_status read_checked(plb_client *client, const plb_block_request *request,
                               const json_t *tensors, plb_block *out) {
    const int expected = slot_of(request);
    for (size_t i = 0; expected >= 0 && i < json_array_size(tensors); i++) {
        const json_t *entry = json_array_get(tensors, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *slot = json_object_get(entry, "batch");
        plb_tensor tensor;
        if (!name) continue;
        PLB_TRY(plb_client_tensor(client, entry, &tensor));
        if (json_integer_value(slot) != expected) {
            return plb_failure_set(&client->failure, PLB_OUTCOME_PROTOCOL,
                                   "sample: expected results of batch %d, found some of %lld",
                                   expected, (long long)json_integer_value(slot));
        }
        out->checked_slot = expected;
        if (out->n_outputs < PLB_FACTS_MAX_OUTPUTS && strncmp(name, "output", 6) == 0) {
            out->output[out->n_outputs++] = tensor;
        }
        if (strcmp(name, "loss") == 0) {
            PLB_TRY(plb_client_loss(client, entry, &out->loss));
            out->has_loss = true;
        }
    }
    return PLB_OK;
}

static plb_status read_block(plb_client *client, const json_t *answer,
                             const plb_block_request *request, plb_block *out) {
    const json_t *offset = json_object_get(answer, "offset");
    const json_t *count = json_object_get(answer, "count");
    bool queued = strcmp(request->region, "queued") == 0;
    int64_t expected = queued ? 1 : request->n;
    if (!json_is_integer(offset) || !json_is_integer(count) ||
        json_integer_value(count) != expected) {
        return plb_failure_set(&client->failure, PLB_OUTCOME_PROTOCOL,
                               "sample: expected %lld samples, found %lld", (long long)expected,
                               (long long)json_integer_value(count));
    }
    *out = (plb_block){.count = expected,
                       .checked_slot = -1,
                       .iterations_per_sample = queued ? request->n : 1,
                       .wall_ns = client->answered_ns - client->asked_ns,
                       .compile_ns = known_ns(answer, "compile_ns"),
                       .recompiled = known_ns(answer, "recompiled")};
    PLB_TRY(read_checked(client, request, json_object_get(answer, "tensors"), out));
    return plb_client_samples(client, json_integer_value(offset), expected, &out->samples_ns);
}

plb_status plb_block_take(plb_client *client, const plb_block_request *r, plb_block *out) {
    json_t *answer = NULL;
    json_t *request =
        json_pack("{s:s,s:I,s:s,s:o,s:I,s:b}", "type", "sample", "n", (json_int_t)r->n, "region",
                  r->region, "batches", slot_list(r->first_slot, r->n_slots), "check",
                  (json_int_t)r->check, "restart", r->restart);
    PLB_TRY(plb_client_ask(client, request, r->limit_s, "samples", &answer));
    plb_status status = read_block(client, answer, r, out);
    json_decref(answer);
    return status;
}
