// SPDX-License-Identifier: Apache-2.0
#include "stacks/manifest.h"

#include <jansson.h>

#include "base/atomic_file.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "base/json.h"

static void fill(plb_json *json, const plb_manifest *m) {
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "protocol", 1);
    plb_json_string(json, "name", m->name);
    plb_json_begin_array(json, "command");
    for (int i = 0; i < PLB_MANIFEST_WORDS && m->command[i]; i++) {
        plb_json_string(json, NULL, m->command[i]);
    }
    plb_json_end(json);
    plb_json_begin_object(json, "environment");
    plb_json_string(json, "PYTHONNOUSERSITE", "1");
    plb_json_end(json);
    // For us alone.
    plb_json_string(json, "family", m->family->name);
    plb_json_string(json, "python", m->python);
    plb_json_end(json);
}

static plb_status write_text(const char *path, const plb_strbuf *text) {
    plb_atomic_file *file;
    PLB_TRY(plb_atomic_open(path, &file));
    plb_status status = plb_atomic_write(file, text->text, text->length);
    if (!status) status = plb_atomic_write(file, "\n", 1);
    if (!status) return plb_atomic_commit(file);
    plb_atomic_abort(file);
    return status;
}

plb_status plb_manifest_write(const char *home, const plb_manifest *manifest) {
    plb_json json = {0};
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    const char *folder = plb_arena_printf(arena, "%s/%s", home, manifest->name);
    const char *path = plb_arena_printf(arena, "%s/stack.json", folder);
    if (!folder || !path) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory"));
    fill(&json, manifest);
    PLB_TRY_OUT(plb_json_status(&json));
    PLB_TRY_OUT(plb_folder_make(folder));
    status = write_text(path, &json.text);
out:
    plb_json_free(&json);
    plb_arena_free(arena);
    return status;
}

plb_status plb_manifest_python(const char *home, const char *name, plb_arena *arena,
                               const char **out) {
    *out = NULL;
    const char *path = plb_arena_printf(arena, "%s/%s/stack.json", home, name);
    if (!path) return plb_fail(PLB_ENOMEM, "out of memory");
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const char *python = json_string_value(json_object_get(root, "python"));
    if (python) {
        *out = plb_arena_strdup(arena, python);
        if (!*out) {
            json_decref(root);
            return plb_fail(PLB_ENOMEM, "out of memory");
        }
    }
    json_decref(root);
    return PLB_OK;
}
