// SPDX-License-Identifier: Apache-2.0
// Remembered kernel choices. A choice depends on op, attributes, types, layouts, threads, device
// and library versions: all of them are its key. Choices live in memory and in a file under
// $XDG_CACHE_HOME/plumb that several processes may append to at once: one line a choice, written
// by one write(2); the last line of a key counts; lines that make no sense are skipped.
#ifndef PLB_ENGINE_GRAPH_TUNE_H
#define PLB_ENGINE_GRAPH_TUNE_H

#include "engine/device/device.h"

typedef struct plb_choice {
    char kernel[32];
    char choice[PLB_CHOICE_BYTES];
} plb_choice;

// Appends the key of a query to `key`.
void plb_tune_key(const plb_backend *backend, const plb_query *q, plb_strbuf *key);
// Whether a choice is known; thread-safe.
bool plb_tune_find(const char *key, plb_choice *out);
// Looks for `key` in lines of "key<TAB>kernel<TAB>choice" (plb_plan_choices); NULL holds none.
bool plb_choices_find(const char *lines, const char *key, plb_choice *out);
// Remembers it. A cache that cannot be written is no error: the choice is timed again next time.
void plb_tune_remember(const char *key, const plb_choice *choice);

#endif
