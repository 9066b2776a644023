// SPDX-License-Identifier: Apache-2.0
// Writes JSON (RFC 8259). Keys keep the order in which they are written, so that documents can be
// compared as text; numbers have as many digits as it takes to read the same double back, which
// jansson's fixed 17 do not show well; NaN and infinities, which JSON lacks, become null.
//
//     plb_json json = {0};
//     plb_json_begin_object(&json, NULL);
//     plb_json_string(&json, "model", "resnet18");
//     plb_json_begin_array(&json, "shape");
//     plb_json_int(&json, NULL, 64);      // inside an array there are no keys
//     plb_json_end(&json);
//     plb_json_end(&json);
//     PLB_TRY(plb_json_status(&json));    // json.text holds the document, without a newline
//     plb_json_free(&json);
#ifndef PLB_BASE_JSON_H
#define PLB_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/strbuf.h"

enum { PLB_JSON_MAX_DEPTH = 64 };

typedef struct plb_json {
    plb_strbuf text;
    bool compact; // one line; set it before the first call
    int depth;    // of open objects and arrays
    bool misused; // a key where none belongs, or the reverse; too deep; an end too many
    struct {
        bool array, filled;
    } level[PLB_JSON_MAX_DEPTH + 1];
} plb_json;

PLB_API void plb_json_begin_object(plb_json *json, const char *key);
PLB_API void plb_json_begin_array(plb_json *json, const char *key);
PLB_API void plb_json_end(plb_json *json); // of what was begun last

// NULL becomes null; bytes that are not UTF-8 become U+FFFD.
PLB_API void plb_json_string(plb_json *json, const char *key, const char *value);
PLB_API void plb_json_int(plb_json *json, const char *key, int64_t value);
PLB_API void plb_json_double(plb_json *json, const char *key, double value);
PLB_API void plb_json_bool(plb_json *json, const char *key, bool value);
PLB_API void plb_json_null(plb_json *json, const char *key);
// `text` is a JSON value already, written as it is; NULL becomes null.
PLB_API void plb_json_raw(plb_json *json, const char *key, const char *text);

// PLB_OK once everything that was begun has ended and no memory was lacking.
PLB_API PLB_MUST_USE plb_status plb_json_status(const plb_json *json);
PLB_API void plb_json_free(plb_json *json); // back to {0}

#endif
