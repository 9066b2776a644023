// SPDX-License-Identifier: Apache-2.0
#include "bench/json_text.h"

#include "base/core/status.h"
#include "base/json.h"

static void write_value(plb_json *json, const char *key, const json_t *value);

static void write_members(plb_json *json, const char *key, const json_t *object) {
    const char *name;
    json_t *member;
    plb_json_begin_object(json, key);
    json_object_foreach((json_t *)object, name, member) write_value(json, name, member);
    plb_json_end(json);
}

static void write_elements(plb_json *json, const char *key, const json_t *array) {
    plb_json_begin_array(json, key);
    for (size_t i = 0; i < json_array_size(array); i++)
        write_value(json, NULL, json_array_get(array, i));
    plb_json_end(json);
}

static void write_value(plb_json *json, const char *key, const json_t *value) {
    if (json->misused) return; // nested too deeply
    switch (json_typeof(value)) {
    case JSON_OBJECT: write_members(json, key, value); return;
    case JSON_ARRAY: write_elements(json, key, value); return;
    case JSON_STRING: plb_json_string(json, key, json_string_value(value)); return;
    case JSON_INTEGER: plb_json_int(json, key, json_integer_value(value)); return;
    case JSON_REAL: plb_json_double(json, key, json_real_value(value)); return;
    case JSON_TRUE:
    case JSON_FALSE: plb_json_bool(json, key, json_is_true(value)); return;
    case JSON_NULL: plb_json_null(json, key); return;
    }
}

plb_status plb_json_text(const json_t *object, char **out) {
    plb_json json = {.compact = true};
    plb_status status = PLB_OK;
    *out = NULL;
    write_value(&json, NULL, object);
    if (json.misused)
        status = plb_fail(PLB_EINVAL, "expected at most %d levels", PLB_JSON_MAX_DEPTH);
    else
        status = plb_json_status(&json);
    if (!status) {
        *out = json.text.text;
        json.text = (plb_strbuf){0};
    }
    plb_json_free(&json);
    return status;
}
