// SPDX-License-Identifier: Apache-2.0
// Which stacks there are on this machine and in what state; nothing is started but a Python that
// tells the versions of its packages.
#ifndef PLB_STACKS_INVENTORY_H
#define PLB_STACKS_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/arena.h"
#include "plumb/status.h"

typedef enum plb_stack_state {
    PLB_STACK_READY,
    PLB_STACK_MISSING, // can be added
    PLB_STACK_BROKEN,  // was added, and something that it needs has gone
} plb_stack_state;

PLB_API const char *plb_stack_state_name(plb_stack_state state); // "ready", "missing", "broken"

typedef struct plb_stack_entry {
    const char *name;
    const char *family;   // NULL: nobody's that we know
    const char *summary;  // of the family; NULL
    const char *folder;   // of its stack.json; NULL where missing
    const char *python;   // whose packages it runs on; NULL: unknown
    const char *versions; // "torch 2.15.0, torchvision 0.30.0"; NULL: unknown
    const char *wrong;    // of a broken one
    plb_stack_state state;
} plb_stack_entry;

// Those that can be added, in the order of family.def, then others by folder. All memory is the
// arena's. PLB_ENOMEM, PLB_EIO.
PLB_API PLB_MUST_USE plb_status plb_stacks_inventory(plb_arena *arena, plb_stack_entry **out,
                                                     size_t *count);

#endif
