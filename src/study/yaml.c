// SPDX-License-Identifier: Apache-2.0
#include "study/yaml.h"

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"

enum { DEEPEST = 16, MAX_NAMES = 64 };

typedef struct reader {
    yaml_parser_t parser;
    const char *label, *place;
    plb_arena *arena;
} reader;

static plb_status no_memory(const char *label) {
    return plb_fail(PLB_ENOMEM, "%s: no memory to read it", label);
}

static plb_status next_event(reader *r, yaml_event_t *out) {
    if (yaml_parser_parse(&r->parser, out)) return PLB_OK;
    if (r->parser.error == YAML_MEMORY_ERROR) return no_memory(r->label);
    return plb_fail(PLB_EINVAL, "%s, line %zu: YAML: %s", r->label, r->parser.problem_mark.line + 1,
                    r->parser.problem ? r->parser.problem : "not YAML");
}

static plb_yaml *new_node(reader *r, plb_yaml_kind kind, const yaml_event_t *event) {
    plb_yaml *node = plb_arena_alloc(r->arena, sizeof *node);
    if (node)
        *node =
            (plb_yaml){.kind = kind, .line = (int)event->start_mark.line + 1, .place = r->place};
    return node;
}

static plb_status read_node(reader *r, const yaml_event_t *event, int depth, plb_yaml **out);

static plb_status read_key(reader *r, const plb_yaml *map, const yaml_event_t *event,
                           const char **out) {
    if (event->type != YAML_SCALAR_EVENT)
        return plb_fail(PLB_EINVAL, "%s, line %zu: expected a key, found a list or a map", r->label,
                        event->start_mark.line + 1);
    const char *key = (const char *)event->data.scalar.value;
    if (plb_yaml_find(map, key))
        return plb_fail(PLB_EINVAL, "%s, line %zu: the key %s is there twice", r->label,
                        event->start_mark.line + 1, key);
    *out = plb_arena_strdup(r->arena, key);
    return *out ? PLB_OK : no_memory(r->label);
}

static plb_status read_children(reader *r, plb_yaml *parent, yaml_event_type_t end, int depth) {
    plb_yaml **last = &parent->first;
    for (;;) {
        yaml_event_t event;
        const char *key = NULL;
        plb_yaml *child = NULL;
        PLB_TRY(next_event(r, &event));
        if (event.type == end) {
            yaml_event_delete(&event);
            return PLB_OK;
        }
        if (parent->kind == PLB_YAML_MAP) {
            plb_status status = read_key(r, parent, &event, &key);
            yaml_event_delete(&event);
            PLB_TRY(status);
            PLB_TRY(next_event(r, &event));
        }
        plb_status status = read_node(r, &event, depth + 1, &child);
        yaml_event_delete(&event);
        PLB_TRY(status);
        child->key = key;
        *last = child, last = &child->next;
        parent->count++;
    }
}

static plb_status read_node(reader *r, const yaml_event_t *event, int depth, plb_yaml **out) {
    int line = (int)event->start_mark.line + 1;
    if (depth > DEEPEST)
        return plb_fail(PLB_EINVAL, "%s, line %d: nested deeper than %d", r->label, line, DEEPEST);
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        if (!(*out = new_node(r, PLB_YAML_TEXT, event))) return no_memory(r->label);
        (*out)->text = plb_arena_strdup(r->arena, (const char *)event->data.scalar.value);
        return (*out)->text ? PLB_OK : no_memory(r->label);
    case YAML_SEQUENCE_START_EVENT:
        if (!(*out = new_node(r, PLB_YAML_LIST, event))) return no_memory(r->label);
        return read_children(r, *out, YAML_SEQUENCE_END_EVENT, depth);
    case YAML_MAPPING_START_EVENT:
        if (!(*out = new_node(r, PLB_YAML_MAP, event))) return no_memory(r->label);
        return read_children(r, *out, YAML_MAPPING_END_EVENT, depth);
    default: return plb_fail(PLB_EINVAL, "%s, line %d: aliases are not known here", r->label, line);
    }
}

static plb_status read_document(reader *r, plb_yaml **out) {
    for (;;) {
        yaml_event_t event;
        PLB_TRY(next_event(r, &event));
        yaml_event_type_t type = event.type;
        plb_status status = PLB_OK;
        bool opening = type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT;
        if (type == YAML_STREAM_END_EVENT)
            status = plb_fail(PLB_EINVAL, "%s: expected a document, found none", r->label);
        else if (!opening)
            status = read_node(r, &event, 0, out);
        yaml_event_delete(&event);
        if (status || !opening) return status;
    }
}

static plb_status parse(reader *r, const char *text, size_t length, plb_yaml **out) {
    if (!yaml_parser_initialize(&r->parser)) return no_memory(r->label);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, length);
    plb_status status = read_document(r, out);
    yaml_parser_delete(&r->parser);
    return status;
}

plb_status plb_yaml_parse(const char *text, size_t length, const char *label, plb_arena *arena,
                          plb_yaml **out) {
    reader r = {.label = label, .arena = arena};
    return parse(&r, text, length, out);
}

plb_yaml *plb_yaml_find(const plb_yaml *map, const char *key) {
    if (!map || map->kind != PLB_YAML_MAP) return NULL;
    for (plb_yaml *at = map->first; at; at = at->next)
        if (!strcmp(at->key, key)) return at;
    return NULL;
}

// ---------------------------------------------------------------------------- changing a tree
// The element of a list of maps whose `name` is `name`.
static plb_yaml *find_named(const plb_yaml *list, const char *name) {
    for (plb_yaml *at = list->first; at; at = at->next) {
        const plb_yaml *own = plb_yaml_find(at, "name");
        if (own && own->kind == PLB_YAML_TEXT && !strcmp(own->text, name)) return at;
    }
    return NULL;
}

static const char *name_of(const plb_yaml *node) {
    if (node->key) return node->key;
    const plb_yaml *own = plb_yaml_find(node, "name");
    return own && own->kind == PLB_YAML_TEXT ? own->text : "";
}

static plb_yaml *find_step(const plb_yaml *at, const char *word) {
    if (at->kind == PLB_YAML_MAP) return plb_yaml_find(at, word);
    return at->kind == PLB_YAML_LIST ? find_named(at, word) : NULL;
}

static plb_status no_such_key(const plb_yaml *at, const char *path, const char *word) {
    const char *names[MAX_NAMES];
    size_t count = 0;
    for (const plb_yaml *child = at->first; child && count < MAX_NAMES; child = child->next)
        names[count++] = name_of(child);
    const char *nearest = plb_nearest_name(word, names, count);
    return plb_fail(PLB_EINVAL, "--set %s: no key %s%s%s%s", path, word,
                    nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

// Gives `node` the content of `from`, keeping its place.
static void become(plb_yaml *node, const plb_yaml *from) {
    plb_yaml kept = *node;
    *node = *from;
    node->key = kept.key, node->next = kept.next;
}

static plb_status append_child(plb_yaml *parent, const plb_yaml *child, const char *label,
                               plb_arena *arena) {
    plb_yaml *copy = plb_arena_copy(arena, child, sizeof *child), **last = &parent->first;
    if (!copy) return no_memory(label);
    copy->next = NULL;
    while (*last) last = &(*last)->next;
    *last = copy;
    parent->count++;
    return PLB_OK;
}

plb_status plb_yaml_set(plb_yaml *root, const char *path, const char *value, plb_arena *arena) {
    plb_yaml *at = root, *parsed = NULL;
    char *words = plb_arena_strdup(arena, path), *rest = NULL;
    const char *place = plb_arena_printf(arena, "--set %s", path);
    if (!words || !place) return no_memory("--set");
    reader r = {.label = place, .place = place, .arena = arena};
    PLB_TRY(parse(&r, value, strlen(value), &parsed));
    for (char *word = strtok_r(words, ".", &rest); word; word = strtok_r(NULL, ".", &rest)) {
        plb_yaml *next = find_step(at, word);
        if (!next && at->kind == PLB_YAML_MAP && !*rest) { // a key that the file leaves out
            parsed->key = word;
            return append_child(at, parsed, "--set", arena);
        }
        if (!next) return no_such_key(at, path, word);
        at = next;
    }
    become(at, parsed);
    return PLB_OK;
}

plb_status plb_yaml_merge(plb_yaml *under, const plb_yaml *over, const char *label,
                          plb_arena *arena) {
    for (const plb_yaml *child = over->first; child; child = child->next) {
        plb_yaml *own = find_step(under, name_of(child));
        bool named_lists = own && own->kind == PLB_YAML_LIST && child->kind == PLB_YAML_LIST &&
                           child->first && child->first->kind == PLB_YAML_MAP;
        bool maps = own && own->kind == PLB_YAML_MAP && child->kind == PLB_YAML_MAP;
        if (own && (maps || named_lists))
            PLB_TRY(plb_yaml_merge(own, child, label, arena));
        else if (own)
            become(own, child);
        else if (under->kind == PLB_YAML_MAP)
            PLB_TRY(append_child(under, child, label, arena));
        else
            return plb_fail(PLB_EINVAL, "%s, line %d: there is no %s to change", label, child->line,
                            name_of(child));
    }
    return PLB_OK;
}
