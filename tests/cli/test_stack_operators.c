// SPDX-License-Identifier: Apache-2.0
// A stack's operators as a document: of an iteration, in order, with what is unknown left so.
#include <string.h>

#include "check.h"
#include "cli/stack_operators.h"

static const char rows_text[] =
    "[{\"name\":\"add\",\"calls\":4,\"self_cpu_ns\":2000000,\"cpu_ns\":2000000,"
    "\"self_device_ns\":null,\"device_ns\":null,\"self_cpu_bytes\":-400,\"cpu_bytes\":800,"
    "\"self_device_bytes\":null,\"device_bytes\":null},"
    "{\"name\":\"conv\",\"calls\":8,\"self_cpu_ns\":6000000,\"cpu_ns\":8000000,"
    "\"self_device_ns\":1000000,\"device_ns\":4000000,\"self_cpu_bytes\":0,\"cpu_bytes\":0,"
    "\"self_device_bytes\":40,\"device_bytes\":4000},{}]";

static json_t *document(const json_t *rows, int top) {
    plb_json json = {.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_stack_operators_json(rows, 4, top, &json);
    plb_json_end(&json);
    CHECK_OK(plb_json_status(&json));
    json_t *read = json_loads(json.text.text, 0, NULL);
    plb_json_free(&json);
    return read;
}

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static void of_an_iteration_in_order(void) {
    json_t *rows = json_loads(rows_text, 0, NULL), *read = document(rows, 0);
    const json_t *list = json_object_get(read, "stack_operators");
    const json_t *conv = json_array_get(list, 0), *add = json_array_get(list, 1);
    CHECK(json_array_size(list) == 3);
    CHECK(strcmp(json_string_value(json_object_get(conv, "name")), "conv") == 0);
    CHECK_NEAR(number(conv, "calls"), 2, 1e-12);
    CHECK_NEAR(number(conv, "self_cpu_ms"), 1.5, 1e-12);
    CHECK_NEAR(number(conv, "device_ms"), 1, 1e-12);
    CHECK_NEAR(number(conv, "device_bytes"), 1000, 1e-12);
    CHECK_NEAR(number(add, "self_cpu_bytes"), -100, 1e-12);
    CHECK(json_is_null(json_object_get(add, "device_ms")));
    CHECK(json_is_null(json_object_get(json_array_get(list, 2), "name")));
    json_decref(read);
    read = document(rows, 1);
    CHECK(json_array_size(json_object_get(read, "stack_operators")) == 1);
    json_decref(read);
    json_decref(rows);
}

static void none_were_recorded(void) {
    json_t *read = document(NULL, 0);
    CHECK(json_is_null(json_object_get(read, "stack_operators")));
    json_decref(read);
}

static const check_test tests[] = {
    {"of an iteration, in order", of_an_iteration_in_order},
    {"none were recorded", none_were_recorded},
};
CHECK_MAIN(tests)
