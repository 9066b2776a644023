// SPDX-License-Identifier: Apache-2.0
// What the writer writes, as text and as jansson, an independent reader, understands it.
#include <jansson.h>
#include <math.h>

#include "base/core/alloc.h"
#include "base/json.h"
#include "check.h"

static void document_has_the_written_order(void) {
    plb_json json = {0};
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "zebra", "a \"b\" \\ \n");
    plb_json_begin_array(&json, "shape");
    plb_json_int(&json, NULL, 64);
    plb_json_double(&json, NULL, 0.1);
    plb_json_end(&json);
    plb_json_begin_object(&json, "empty");
    plb_json_end(&json);
    plb_json_bool(&json, "ant", true);
    plb_json_end(&json);
    CHECK_OK(plb_json_status(&json));
    CHECK_SAY(strcmp(json.text.text, "{\n  \"zebra\": \"a \\\"b\\\" \\\\ \\u000a\",\n"
                                     "  \"shape\": [\n    64,\n    0.1\n  ],\n"
                                     "  \"empty\": {},\n  \"ant\": true\n}") == 0,
              "%s", json.text.text);
    plb_json_free(&json);
}

static void compact_document_is_one_line(void) {
    plb_json json = {.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_json_int(&json, "a", INT64_MIN);
    plb_json_null(&json, "b");
    plb_json_string(&json, "c", NULL);
    plb_json_end(&json);
    CHECK_OK(plb_json_status(&json));
    CHECK(strcmp(json.text.text, "{\"a\": -9223372036854775808, \"b\": null, \"c\": null}") == 0);
    plb_json_free(&json);
}

static void doubles_read_back_the_same(void) {
    static const double values[] = {0.1,
                                    1.0 / 3,
                                    1e300,
                                    5e-324,
                                    1.7976931348623157e308,
                                    -0.0,
                                    100,
                                    1e22,
                                    123456789012345678.0,
                                    0.1 + 0.2};
    enum { COUNT = sizeof values / sizeof *values };
    plb_json json = {0};
    plb_json_begin_array(&json, NULL);
    for (size_t i = 0; i < COUNT; i++) plb_json_double(&json, NULL, values[i]);
    plb_json_double(&json, NULL, NAN);
    plb_json_double(&json, NULL, -INFINITY);
    plb_json_end(&json);
    CHECK_OK(plb_json_status(&json));
    json_t *read = json_loads(json.text.text, 0, NULL);
    CHECK_SAY(read, "%s", json.text.text);
    for (size_t i = 0; i < COUNT; i++) {
        const json_t *item = json_array_get(read, i);
        CHECK(json_is_real(item) && json_real_value(item) == values[i]);
    }
    CHECK(json_is_null(json_array_get(read, COUNT)));
    CHECK(json_is_null(json_array_get(read, COUNT + 1)));
    json_decref(read);
    plb_json_free(&json);
}

// jansson refuses text that is not UTF-8, so that reading it back proves the repair.
static void broken_utf8_is_repaired(void) {
    static const char *const values[] = {"gr\xc3\xbc\xc3\x9f", "\xff\xfe",     "\xc0\x80",
                                         "\xed\xa0\x80",       "\xf0\x9f\x98", "\x01\x7f",
                                         "\xf4\x90\x80\x80",   "\xe0\x9f\xbf", "\xf0\x9f\x98\x80"};
    enum { COUNT = sizeof values / sizeof *values };
    plb_json json = {0};
    plb_json_begin_array(&json, NULL);
    for (size_t i = 0; i < COUNT; i++) plb_json_string(&json, NULL, values[i]);
    plb_json_end(&json);
    CHECK_OK(plb_json_status(&json));
    json_error_t error;
    json_t *read = json_loads(json.text.text, 0, &error);
    CHECK_SAY(read, "%s: %s", error.text, json.text.text);
    CHECK(strcmp(json_string_value(json_array_get(read, 0)), values[0]) == 0);
    CHECK(strcmp(json_string_value(json_array_get(read, 1)), "\xef\xbf\xbd\xef\xbf\xbd") == 0);
    CHECK(strcmp(json_string_value(json_array_get(read, 5)), values[5]) == 0);
    CHECK(strcmp(json_string_value(json_array_get(read, 8)), values[8]) == 0);
    json_decref(read);
    plb_json_free(&json);
}

static void misuse_is_told(void) {
    plb_json unfinished = {0}, keyless = {0}, ended = {0}, two = {0};
    plb_json_begin_object(&unfinished, NULL);
    CHECK(plb_json_status(&unfinished) == PLB_EBROKEN);
    plb_json_begin_object(&keyless, NULL);
    plb_json_int(&keyless, NULL, 1);
    plb_json_end(&keyless);
    CHECK(plb_json_status(&keyless) == PLB_EBROKEN);
    plb_json_end(&ended);
    CHECK(plb_json_status(&ended) == PLB_EBROKEN);
    plb_json_int(&two, NULL, 1);
    CHECK_OK(plb_json_status(&two));
    plb_json_int(&two, NULL, 2);
    CHECK(plb_json_status(&two) == PLB_EBROKEN);
    plb_json_free(&unfinished);
    plb_json_free(&keyless);
    plb_json_free(&ended);
    plb_json_free(&two);
}

static bool refuse_all(void *context, size_t size_bytes) {
    (void)context;
    (void)size_bytes;
    return false;
}

static void lack_of_memory_is_told(void) {
    plb_json json = {0};
    plb_alloc_set_hook(refuse_all, NULL);
    plb_json_begin_array(&json, NULL);
    plb_json_end(&json);
    plb_status status = plb_json_status(&json);
    plb_alloc_set_hook(NULL, NULL);
    CHECK(status == PLB_ENOMEM);
    plb_json_free(&json);
}

static const check_test tests[] = {
    {"document_has_the_written_order", document_has_the_written_order},
    {"compact_document_is_one_line", compact_document_is_one_line},
    {"doubles_read_back_the_same", doubles_read_back_the_same},
    {"broken_utf8_is_repaired", broken_utf8_is_repaired},
    {"misuse_is_told", misuse_is_told},
    {"lack_of_memory_is_told", lack_of_memory_is_told},
};

CHECK_MAIN(tests)
