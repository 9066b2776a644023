// SPDX-License-Identifier: Apache-2.0
#include "bench/stack.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/file.h"
#include "base/folder.h"

enum { MAX_STACKS = 256, MAX_FILE_BYTES = 1 << 20 };

typedef struct finder {
    plb_arena *arena;
    const char *plumb;
    plb_stack list[MAX_STACKS];
    size_t count;
} finder;

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for stacks");
}

static const char *const no_environment[] = {NULL};

static plb_status own_stack(finder *f, const char *name, plb_stack *out) {
    const char **command = plb_arena_alloc(f->arena, 4 * sizeof *command);
    if (!command) return no_memory();
    command[0] = f->plumb, command[1] = "worker", command[2] = name;
    *out = (plb_stack){.name = name, .command = command, .environment = no_environment};
    return PLB_OK;
}

// ---------------------------------------------------------------------------- stack.json
static plb_status read_command(finder *f, const json_t *list, plb_stack *stack) {
    size_t n = json_array_size(list);
    const char **command = plb_arena_alloc(f->arena, (n + 1) * sizeof *command);
    if (!command) return no_memory();
    for (size_t i = 0; i < n; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (!word) return plb_fail(PLB_EINVAL, "command: expected words");
        bool own = i == 0 && strcmp(word, "{plumb}") == 0;
        command[i] = plb_arena_strdup(f->arena, own ? f->plumb : word);
        if (!command[i]) return no_memory();
    }
    stack->command = command;
    return n ? PLB_OK : plb_fail(PLB_EINVAL, "command: expected words");
}

static plb_status read_environment(finder *f, json_t *object, plb_stack *stack) {
    const char **list = plb_arena_alloc(f->arena, (json_object_size(object) + 2) * sizeof *list);
    size_t n = 0;
    const char *key;
    json_t *value;
    if (!list) return no_memory();
    json_object_foreach(object, key, value) {
        if (!json_is_string(value)) {
            return plb_fail(PLB_EINVAL, "environment, %s: expected a string", key);
        }
        list[n] = plb_arena_printf(f->arena, "%s=%s", key, json_string_value(value));
        if (!list[n++]) return no_memory();
    }
    list[n] = plb_arena_printf(f->arena, "PLUMB_PROGRAM=%s", f->plumb);
    if (!list[n++]) return no_memory();
    stack->environment = list;
    return PLB_OK;
}

static plb_status read_fields(finder *f, const json_t *root, plb_stack *stack) {
    const char *name = json_string_value(json_object_get(root, "name"));
    const json_t *protocol = json_object_get(root, "protocol");
    if (!name || !*name || strlen(name) >= 40 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(name)) {
        return plb_fail(PLB_EINVAL, "name: expected up to 39 of a-z 0-9 - _ .");
    }
    stack->name = plb_arena_strdup(f->arena, name);
    if (!stack->name) return no_memory();
    if (!json_is_integer(protocol) || json_integer_value(protocol) != 1) {
        return plb_fail(PLB_EINVAL, "protocol: expected 1");
    }
    PLB_TRY(read_command(f, json_object_get(root, "command"), stack));
    return read_environment(f, json_object_get(root, "environment"), stack);
}

static plb_status read_file(finder *f, const char *path, plb_stack *stack) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    json_error_t error;
    PLB_TRY(plb_file_read(path, MAX_FILE_BYTES, &bytes, &size));
    json_t *root = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &error);
    plb_free(bytes);
    plb_status status = root ? read_fields(f, root, stack)
                             : plb_fail(PLB_EINVAL, "line %d: %s", error.line, error.text);
    json_decref(root);
    return status ? plb_fail_context(status, "%s", path) : PLB_OK;
}

static bool is_known(const finder *f, const char *name) {
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->list[i].name, name) == 0) return true;
    }
    return strcmp(name, "plumb-ref") == 0;
}

static plb_status add_folder(finder *f, const char *folder, const char *base) {
    const char *path = plb_arena_printf(f->arena, "%s/stack.json", folder);
    if (!path) return no_memory();
    if (!plb_file_exists(path)) return PLB_OK;
    plb_stack stack = {.name = base, .environment = no_environment};
    stack.folder = plb_arena_strdup(f->arena, folder);
    plb_status status = read_file(f, path, &stack);
    if (status == PLB_ENOMEM) return status;
    if (status) {
        stack.wrong = plb_arena_strdup(f->arena, plb_error_text());
        if (!stack.wrong) return no_memory();
    }
    if (!is_known(f, stack.name) && f->count < MAX_STACKS) f->list[f->count++] = stack;
    return PLB_OK;
}

static plb_status scan(finder *f, const char *root) {
    const char *const *names = NULL;
    size_t count = 0;
    if (!plb_folder_exists(root)) return PLB_OK;
    PLB_TRY(plb_folder_list(root, f->arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *folder = plb_arena_printf(f->arena, "%s/%s", root, names[i]);
        if (!folder) return no_memory();
        PLB_TRY(add_folder(f, folder, names[i]));
    }
    return PLB_OK;
}

static plb_status scan_listed(finder *f, const char *list) {
    char *copy = plb_arena_strdup(f->arena, list), *rest = NULL;
    if (!copy) return no_memory();
    for (char *root = strtok_r(copy, ":", &rest); root; root = strtok_r(NULL, ":", &rest)) {
        PLB_TRY(scan(f, root));
    }
    return PLB_OK;
}

static plb_status scan_home(finder *f) {
    const char *data = plb_folder_of_xdg("XDG_DATA_HOME"), *home = getenv("HOME"), *root;
    if (data) {
        root = plb_arena_printf(f->arena, "%s/plumb/stacks", data);
    } else if (home && *home) {
        root = plb_arena_printf(f->arena, "%s/.local/share/plumb/stacks", home);
    } else {
        return PLB_OK;
    }
    return root ? scan(f, root) : no_memory();
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const plb_stack *)a)->name, ((const plb_stack *)b)->name);
}

plb_status plb_stacks_find(plb_arena *arena, const char *plumb, plb_stacks *out) {
    finder *f = plb_arena_alloc(arena, sizeof *f);
    plb_stack *reference = plb_arena_alloc(arena, sizeof *reference);
    const char *listed = getenv("PLUMB_STACKS");
    if (!f || !reference) return no_memory();
    f->arena = arena, f->plumb = plumb;
    PLB_TRY(own_stack(f, "plumb-ref", reference));
    PLB_TRY(own_stack(f, "plumb-plan", &f->list[f->count++]));
    PLB_TRY(own_stack(f, "plumb-interp", &f->list[f->count++]));
    PLB_TRY(own_stack(f, "plumb-replay", &f->list[f->count++]));
    size_t own = f->count;
    if (listed) PLB_TRY(scan_listed(f, listed));
    PLB_TRY(scan_home(f));
    qsort(f->list + own, f->count - own, sizeof *f->list, by_name);
    *out = (plb_stacks){.list = f->list, .count = f->count, .reference = reference};
    return PLB_OK;
}

plb_status plb_stacks_get(const plb_stacks *stacks, const char *name, const plb_stack **out) {
    const char *names[MAX_STACKS];
    for (size_t i = 0; i < stacks->count; i++) {
        names[i] = stacks->list[i].name;
        *out = &stacks->list[i];
        if (strcmp(names[i], name) == 0) return PLB_OK;
    }
    *out = stacks->reference;
    if (strcmp(name, stacks->reference->name) == 0) return PLB_OK;
    const char *nearest = plb_nearest_name(name, names, stacks->count);
    if (nearest) return plb_fail(PLB_EINVAL, "no stack %s; did you mean %s?", name, nearest);
    return plb_fail(PLB_EINVAL, "no stack %s; `plumb stacks list` names those there are", name);
}
