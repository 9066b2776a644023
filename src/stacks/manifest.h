// SPDX-License-Identifier: Apache-2.0
// stack.json of the stacks that we add: what stacks/protocol.md asks for, and who made it.
#ifndef PLB_STACKS_MANIFEST_H
#define PLB_STACKS_MANIFEST_H

#include "base/core/arena.h"
#include "stacks/family.h"

enum { PLB_MANIFEST_WORDS = 8 };

typedef struct plb_manifest {
    const char *name;
    const plb_stack_family *family;
    const char *python;                      // whose packages it runs on
    const char *command[PLB_MANIFEST_WORDS]; // NULL ends it
} plb_manifest;

// Writes home/NAME/stack.json, whole or not at all.
PLB_API PLB_MUST_USE plb_status plb_manifest_write(const char *home, const plb_manifest *manifest);
// The member "python" of home/NAME/stack.json; `*out` is NULL where there is none to be read.
PLB_API PLB_MUST_USE plb_status plb_manifest_python(const char *home, const char *name,
                                                    plb_arena *arena, const char **out);

#endif
