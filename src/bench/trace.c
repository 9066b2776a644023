// SPDX-License-Identifier: Apache-2.0
#include "bench/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static plb_status ask(plb_client *client, double limit_s, json_t **answer) {
    return plb_client_ask(client,
                          json_pack("{s:s,s:[i],s:b}", "type", "prove", "batches", 0, "trace", 1),
                          limit_s, "proof", answer);
}

static const json_t *find(const json_t *tensors, const char *name) {
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *entry = json_array_get(tensors, i);
        const char *found = json_string_value(json_object_get(entry, "name"));
        if (found && strcmp(found, name) == 0) return entry;
    }
    return NULL;
}

// How far a layer is off; below 0 where the two cannot be compared.
static plb_status layer_error(plb_client *client, const json_t *entry, plb_client *reference,
                              const json_t *known, double *out) {
    plb_tensor found, right;
    *out = -1;
    PLB_TRY(plb_client_tensor(client, entry, &found));
    PLB_TRY(plb_client_tensor(reference, known, &right));
    int64_t n = plb_shape_count(&found.shape);
    if (plb_shape_count(&right.shape) != n || !n) return PLB_OK;
    double *values = plb_alloc_array((size_t)n, sizeof *values);
    if (!values) return plb_fail(PLB_ENOMEM, "out of memory for a layer");
    for (int64_t i = 0; i < n; i++) values[i] = plb_load_f64(right.data, right.dtype, i);
    *out = plb_result_error(PLB_RESULT_LAYER, values, &found, NULL, 0);
    plb_free(values);
    return PLB_OK;
}

static void append(plb_proof *p, const char *text) {
    size_t used = strlen(p->reason);
    snprintf(p->reason + used, sizeof p->reason - used, "; %s", text);
}

static plb_status compare(plb_client *client, plb_client *reference, const plb_load *load,
                          const json_t *found, const json_t *known, plb_proof *p) {
    const double limit = plb_tolerance(load->c, PLB_RESULT_LAYER, load->facts->depth);
    int compared = 0;
    char text[320];
    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *entry = json_array_get(found, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *right = name && strncmp(name, "layer.", 6) == 0 ? find(known, name) : NULL;
        double error = -1;
        if (!right) continue;
        PLB_TRY(layer_error(client, entry, reference, right, &error));
        if (error < 0) continue;
        compared++;
        if (error <= limit) continue;
        snprintf(text, sizeof text, "the first layer that differs is %.200s, by %.3g", name + 6,
                 error);
        append(p, text);
        snprintf(p->first_layer, sizeof p->first_layer, "%s", name + 6);
        return PLB_OK;
    }
    snprintf(text, sizeof text, "the %d layers that it hands out agree", compared);
    if (compared) append(p, text);
    return PLB_OK;
}

plb_status plb_trace_run(plb_client *client, plb_client *reference, const plb_load *load,
                         plb_proof *proof) {
    const json_t *capabilities = json_object_get(client->hello, "capabilities");
    json_t *found = NULL, *known = NULL;
    plb_status status;
    if (!json_is_true(json_object_get(capabilities, "trace"))) return PLB_OK;
    PLB_TRY_OUT(ask(client, load->limit_s, &found));
    PLB_TRY_OUT(ask(reference, load->limit_s, &known));
    status = compare(client, reference, load, json_object_get(found, "tensors"),
                     json_object_get(known, "tensors"), proof);
out:
    json_decref(found);
    json_decref(known);
    return status;
}
