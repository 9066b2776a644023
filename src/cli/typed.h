// SPDX-License-Identifier: Apache-2.0
// The command as it was typed, to be stored with what it made.
#ifndef PLB_CLI_TYPED_H
#define PLB_CLI_TYPED_H

#include "base/core/arena.h"

// The words of this process, quoted so that a shell reads the same ones; the program is "plumb"
// wherever it lies. NULL where they cannot be read.
const char *plb_typed_command(plb_arena *arena);

// The words of such a text, "plumb" among them, in `arena`. PLB_EINVAL: a quote without its end.
PLB_MUST_USE plb_status plb_typed_words(const char *text, plb_arena *arena, char ***words,
                                        int *count);

#endif
