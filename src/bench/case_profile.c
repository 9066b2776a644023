// SPDX-License-Identifier: Apache-2.0
#include "bench/case_profile.h"

#include <jansson.h>
#include <math.h>

#include "base/core/status.h"

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int64_t count_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

// NULL where there is no such text, or no memory for it.
static const char *text_of(const json_t *object, const char *key, plb_arena *arena) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? plb_arena_strdup(arena, text) : NULL;
}

static void read_rows(const json_t *list, const char *kind, plb_arena *arena,
                      plb_case_profile *out) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *at = json_array_get(list, i);
        const char *name = text_of(at, "name", arena), *class = text_of(at, "class", arena);
        out->row[out->rows++] = (plb_profile_row){.kind = kind,
                                                  .name = name ? name : "?",
                                                  .class = class ? class : "",
                                                  .calls = number_of(at, "calls"),
                                                  .ns = number_of(at, "ms") * 1e6};
    }
}

static plb_status read_all(const json_t *p, plb_arena *arena, plb_case_profile *out) {
    const json_t *classes = json_object_get(p, "classes"), *kernels = json_object_get(p, "kernels");
    const json_t *api = json_object_get(p, "api");
    size_t most = json_array_size(classes) + json_array_size(kernels) + json_array_size(api);
    *out = (plb_case_profile){
        .there = true,
        .failure = text_of(p, "failure", arena),
        .lacks = text_of(p, "incomplete_reason", arena),
        .iterations = count_of(p, "iterations"),
        .devices = count_of(p, "devices"),
        .wall_ns = number_of(p, "wall_ms") * 1e6,
        .cpu_ns = number_of(p, "cpu_ms") * 1e6,
        .active = number_of(p, "active"),
        .move = number_of(p, "move"),
        .idle = number_of(p, "idle"),
        .launches = number_of(p, "launches"),
        .device_ns = number_of(p, "device_ms") * 1e6,
        .row = plb_arena_alloc(arena, (most + 1) * sizeof *out->row),
    };
    if (!out->row) return plb_fail(PLB_ENOMEM, "out of memory for a profile");
    read_rows(classes, "class", arena, out);
    read_rows(kernels, "kernel", arena, out);
    read_rows(api, "call", arena, out);
    return PLB_OK;
}

plb_status plb_case_profile_read(const char *results, plb_arena *arena, plb_case_profile *out) {
    *out = (plb_case_profile){0};
    json_t *root = results ? json_loads(results, 0, NULL) : NULL;
    const json_t *profile = json_object_get(root, "profile");
    plb_status status = json_is_object(profile) ? read_all(profile, arena, out) : PLB_OK;
    json_decref(root);
    return status;
}
