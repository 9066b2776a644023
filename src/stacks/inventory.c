// SPDX-License-Identifier: Apache-2.0
#include "stacks/inventory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "stacks/family.h"
#include "stacks/place.h"
#include "stacks/python.h"

enum { MAX_ENTRIES = 256 };

const char *plb_stack_state_name(plb_stack_state state) {
    static const char *const names[] = {"ready", "missing", "broken"};
    return names[state];
}

typedef struct list {
    plb_arena *arena;
    plb_stack_entry *entries;
    size_t count;
    // Versions are asked for once a Python and family.
    const char *asked_python, *asked_family, *asked_versions;
} list;

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for the list of stacks");
}

// "torch 2.15.0, torchvision 0.30.0", or NULL with *wrong set.
static plb_status versions_of(list *l, const plb_stack_family *family, const char *python,
                              const char **out, const char **wrong) {
    plb_python_package package[PLB_FAMILY_NAMES] = {0};
    size_t n = 0;
    for (; n < PLB_FAMILY_NAMES && family->packages[n][0]; n++) {
        package[n].name = family->packages[n];
    }
    if (!plb_python_versions(python, package, n)) {
        *wrong = plb_arena_printf(l->arena, "%s cannot be run", python);
        return *wrong ? PLB_OK : no_memory();
    }
    const char *text = "";
    for (size_t i = 0; i < n && text; i++) {
        if (!package[i].version[0]) {
            *wrong = plb_arena_printf(l->arena, "%s has no %s", python, package[i].name);
            return *wrong ? PLB_OK : no_memory();
        }
        text = plb_arena_printf(l->arena, "%s%s%s %s", text, i ? ", " : "", package[i].name,
                                package[i].version);
    }
    *out = text;
    return text ? PLB_OK : no_memory();
}

static plb_status look_into_family(list *l, plb_stack_entry *e, const plb_stack_family *family) {
    if (l->asked_python && strcmp(l->asked_python, e->python) == 0 &&
        strcmp(l->asked_family, family->name) == 0) {
        e->versions = l->asked_versions;
        return PLB_OK;
    }
    PLB_TRY(versions_of(l, family, e->python, &e->versions, &e->wrong));
    if (e->versions) {
        l->asked_python = e->python, l->asked_versions = e->versions;
        l->asked_family = plb_arena_strdup(l->arena, family->name);
        if (!l->asked_family) return no_memory();
    }
    return PLB_OK;
}

// The first words of the command that are paths must exist: program and script.
static plb_status check_command(list *l, plb_stack_entry *e, const json_t *command) {
    if (!json_array_size(command)) {
        e->wrong = "stack.json: expected a command";
        return PLB_OK;
    }
    for (size_t i = 0; i < json_array_size(command); i++) {
        const char *word = json_string_value(json_array_get(command, i));
        if (!word || word[0] != '/' || access(word, i ? R_OK : X_OK) == 0) continue;
        e->wrong = plb_arena_printf(l->arena, "%s is gone", word);
        return e->wrong ? PLB_OK : no_memory();
    }
    return PLB_OK;
}

// What `plumb bench` reads: a stranger goes by the name in its file, whatever its folder is called.
static plb_status check_head(list *l, plb_stack_entry *e, const json_t *root, bool stranger) {
    const char *name = json_string_value(json_object_get(root, "name"));
    const json_t *protocol = json_object_get(root, "protocol");
    if (!name || !*name) {
        e->wrong = "stack.json, name: expected a text";
    } else if (!json_is_integer(protocol) || json_integer_value(protocol) != 1) {
        e->wrong = "stack.json, protocol: expected 1";
    } else if (stranger) {
        e->name = plb_arena_strdup(l->arena, name);
        if (!e->name) return no_memory();
    }
    return PLB_OK;
}

static plb_status read_manifest(list *l, plb_stack_entry *e, const plb_stack_family *family) {
    json_error_t error;
    const char *path = plb_arena_printf(l->arena, "%s/stack.json", e->folder);
    if (!path) return no_memory();
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    plb_status status = PLB_OK;
    if (!root) {
        e->wrong = plb_arena_printf(l->arena, "stack.json, line %d: %s", error.line, error.text);
        return e->wrong ? PLB_OK : no_memory();
    }
    const char *python = json_string_value(json_object_get(root, "python"));
    if (python) e->python = plb_arena_strdup(l->arena, python);
    if (python && !e->python) PLB_TRY_OUT(no_memory());
    PLB_TRY_OUT(check_command(l, e, json_object_get(root, "command")));
    if (!e->wrong) PLB_TRY_OUT(check_head(l, e, root, !family));
    if (!e->wrong && e->python && family) PLB_TRY_OUT(look_into_family(l, e, family));
out:
    json_decref(root);
    return status;
}

// The stack whose stack.json lies in `folder`; where there is none (or NULL) it can be added.
static plb_status add(list *l, const char *name, const char *folder,
                      const plb_stack_family *family) {
    const char *path = folder ? plb_arena_printf(l->arena, "%s/stack.json", folder) : NULL;
    if (folder && !path) return no_memory();
    bool there = path && plb_file_exists(path);
    if ((!there && !family) || l->count == MAX_ENTRIES) return PLB_OK;
    plb_stack_entry *e = &l->entries[l->count++];
    e->name = plb_arena_strdup(l->arena, name);
    if (!e->name) return no_memory();
    if (family) e->family = family->name, e->summary = family->summary;
    e->state = PLB_STACK_MISSING;
    if (!there) return PLB_OK;
    e->folder = plb_arena_strdup(l->arena, folder);
    if (!e->folder) return no_memory();
    PLB_TRY(read_manifest(l, e, family));
    e->state = e->wrong ? PLB_STACK_BROKEN : PLB_STACK_READY;
    return PLB_OK;
}

static bool is_listed(const list *l, const char *name) {
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->entries[i].name, name) == 0) return true;
    }
    return false;
}

static plb_status add_families(list *l, const char *home) {
    for (size_t i = 0; i < plb_stack_family_count(); i++) {
        const plb_stack_family family = plb_stack_family_at(i);
        for (int s = 0; s < PLB_FAMILY_NAMES && family.stacks[s][0]; s++) {
            const char *folder =
                home ? plb_arena_printf(l->arena, "%s/%s", home, family.stacks[s]) : NULL;
            if (home && !folder) return no_memory();
            PLB_TRY(add(l, family.stacks[s], folder, &family));
        }
    }
    return PLB_OK;
}

static plb_status add_others(list *l, const char *root) {
    const char *const *names = NULL;
    size_t count = 0;
    if (!plb_folder_exists(root)) return PLB_OK;
    PLB_TRY(plb_folder_list(root, l->arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *folder = plb_arena_printf(l->arena, "%s/%s", root, names[i]);
        if (!folder) return no_memory();
        if (!is_listed(l, names[i])) PLB_TRY(add(l, names[i], folder, NULL));
    }
    return PLB_OK;
}

plb_status plb_stacks_inventory(plb_arena *arena, plb_stack_entry **out, size_t *count) {
    list l = {.arena = arena};
    const char *home, *listed = getenv("PLUMB_STACKS");
    l.entries = plb_arena_alloc(arena, MAX_ENTRIES * sizeof *l.entries);
    char *roots = plb_arena_strdup(arena, listed ? listed : ""), *rest = NULL;
    if (!l.entries || !roots) return no_memory();
    plb_status status = plb_stacks_home(arena, &home);
    if (status == PLB_EMISSING)
        home = NULL; // none can be there, and that is an answer
    else if (status)
        return status;
    PLB_TRY(add_families(&l, home));
    for (char *root = strtok_r(roots, ":", &rest); root; root = strtok_r(NULL, ":", &rest)) {
        PLB_TRY(add_others(&l, root));
    }
    if (home) PLB_TRY(add_others(&l, home));
    *out = l.entries, *count = l.count;
    return PLB_OK;
}
