// SPDX-License-Identifier: Apache-2.0
// The command as it was typed, to be stored with what it made.
#ifndef PLB_CLI_TYPED_H
#define PLB_CLI_TYPED_H

#include "base/core/arena.h"

// The words of this process, quoted so that a shell reads the same ones; the program is "plumb"
// wherever it lies. NULL where they cannot be read.
const char *plb_typed_command(plb_arena *arena);

#endif
