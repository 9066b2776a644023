// SPDX-License-Identifier: Apache-2.0
// The engine's levels as words of flags.
#ifndef PLB_CLI_LEVELS_H
#define PLB_CLI_LEVELS_H

#include <string.h>

#include "plumb/plan.h"

#define PLB_LEVEL_WORDS "interp|plan|replay"

// `word` is one of these.
static inline plb_level plb_level_of_word(const char *word) {
    if (strcmp(word, "interp") == 0) return PLB_LEVEL_INTERP;
    return strcmp(word, "replay") == 0 ? PLB_LEVEL_REPLAY : PLB_LEVEL_PLAN;
}

#endif
