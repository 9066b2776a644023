// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/utf8.h"

static void write_quoted(plb_strbuf *out, const char *value) {
    plb_strbuf_append(out, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        size_t length = plb_utf8_length((const char *)s);
        if (!length) {
            plb_strbuf_printf(out, "\\ufffd");
            length = 1;
        } else if (*s == '"' || *s == '\\') {
            plb_strbuf_printf(out, "\\%c", *s);
        } else if (*s < 0x20 || *s == 0x7f) {
            plb_strbuf_printf(out, "\\u%04x", *s);
        } else {
            plb_strbuf_append(out, (const char *)s, length);
        }
        s += length;
    }
    plb_strbuf_append(out, "\"", 1);
}

static void write_line(plb_json *json) {
    if (!json->compact) plb_strbuf_printf(&json->text, "\n%*s", 2 * json->depth, "");
}

// Comma, line and key before a value.
static void begin_value(plb_json *json, const char *key) {
    bool wants_key = json->depth > 0 && !json->level[json->depth].array;
    if (wants_key != (key != NULL)) json->misused = true;
    if (json->level[json->depth].filled) {
        if (json->depth == 0) json->misused = true; // a second document
        plb_strbuf_printf(&json->text, json->compact ? ", " : ",");
    }
    json->level[json->depth].filled = true;
    if (json->depth > 0) write_line(json);
    if (key) {
        write_quoted(&json->text, key);
        plb_strbuf_printf(&json->text, ": ");
    }
}

static void begin_group(plb_json *json, const char *key, bool array) {
    begin_value(json, key);
    if (json->depth == PLB_JSON_MAX_DEPTH) {
        json->misused = true;
        return;
    }
    plb_strbuf_append(&json->text, array ? "[" : "{", 1);
    json->depth++;
    json->level[json->depth].array = array;
    json->level[json->depth].filled = false;
}

void plb_json_begin_object(plb_json *json, const char *key) {
    begin_group(json, key, false);
}

void plb_json_begin_array(plb_json *json, const char *key) {
    begin_group(json, key, true);
}

void plb_json_end(plb_json *json) {
    if (json->depth == 0) {
        json->misused = true;
        return;
    }
    bool array = json->level[json->depth].array, filled = json->level[json->depth].filled;
    json->depth--;
    if (filled) write_line(json);
    plb_strbuf_append(&json->text, array ? "]" : "}", 1);
}

void plb_json_string(plb_json *json, const char *key, const char *value) {
    begin_value(json, key);
    if (value)
        write_quoted(&json->text, value);
    else
        plb_strbuf_printf(&json->text, "null");
}

void plb_json_int(plb_json *json, const char *key, int64_t value) {
    begin_value(json, key);
    plb_strbuf_printf(&json->text, "%" PRId64, value);
}

void plb_json_double(plb_json *json, const char *key, double value) {
    begin_value(json, key);
    if (!isfinite(value)) {
        plb_strbuf_printf(&json->text, "null");
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) { // 17 always read back the same
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    plb_strbuf_printf(&json->text, "%s%s", text, text[strcspn(text, ".e")] ? "" : ".0");
}

void plb_json_bool(plb_json *json, const char *key, bool value) {
    begin_value(json, key);
    plb_strbuf_printf(&json->text, value ? "true" : "false");
}

void plb_json_null(plb_json *json, const char *key) {
    begin_value(json, key);
    plb_strbuf_printf(&json->text, "null");
}

void plb_json_raw(plb_json *json, const char *key, const char *text) {
    begin_value(json, key);
    plb_strbuf_printf(&json->text, "%s", text ? text : "null");
}

plb_status plb_json_status(const plb_json *json) {
    if (json->misused || json->depth || !json->level[0].filled) {
        return plb_fail(PLB_EBROKEN, "a JSON document was not written to its end");
    }
    return json->text.failed ? plb_fail(PLB_ENOMEM, "out of memory") : PLB_OK;
}

void plb_json_free(plb_json *json) {
    plb_strbuf_free(&json->text);
    *json = (plb_json){0};
}
