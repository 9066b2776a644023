// SPDX-License-Identifier: Apache-2.0
// A YAML document as a tree whose nodes know their lines, so that whoever reads it can say where a
// mistake is. libyaml parses; aliases, tags and more than one document are not known here.
#ifndef PLB_STUDY_YAML_H
#define PLB_STUDY_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/arena.h"
#include "plumb/status.h"

typedef enum plb_yaml_kind { PLB_YAML_TEXT, PLB_YAML_LIST, PLB_YAML_MAP } plb_yaml_kind;

typedef struct plb_yaml plb_yaml;
struct plb_yaml {
    plb_yaml_kind kind;
    int line;          // from 1
    const char *place; // "--set PATH", of what a flag gave; NULL: the document, at `line`
    const char *text;  // TEXT
    const char *key;   // in a map, else NULL
    plb_yaml *first;   // LIST, MAP
    plb_yaml *next;    // the next one of the same list or map
    size_t count;      // of children
};

// Parses `text`; the tree is the arena's. `label` names the file in failures. PLB_EINVAL with label
// and line: not YAML, a key that is there twice, nested too deeply.
PLB_API PLB_MUST_USE plb_status plb_yaml_parse(const char *text, size_t length, const char *label,
                                               plb_arena *arena, plb_yaml **out);

// The value of a key, or NULL.
PLB_API plb_yaml *plb_yaml_find(const plb_yaml *map, const char *key);

// Sets the value at a path of keys and list positions ("parts.epoch.seeds": an element of a list of
// maps is found by its `name`) to the parsed `value`. PLB_EINVAL names the key that there is none
// of, with the nearest one.
PLB_API PLB_MUST_USE plb_status plb_yaml_set(plb_yaml *root, const char *path, const char *value,
                                             plb_arena *arena);

// Lays `over` on `under`: maps key by key, lists of maps element by element by their `name`; all
// else is replaced.
PLB_API PLB_MUST_USE plb_status plb_yaml_merge(plb_yaml *under, const plb_yaml *over,
                                               const char *label, plb_arena *arena);

#endif
