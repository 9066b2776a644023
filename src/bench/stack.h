// SPDX-License-Identifier: Apache-2.0
// Which stacks there are: our own, and one for each folder with a stack.json (stacks/protocol.md)
// in the folders of $PLUMB_STACKS, then in $XDG_DATA_HOME/plumb/stacks. The first of a name counts.
#ifndef PLB_BENCH_STACK_H
#define PLB_BENCH_STACK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/arena.h"
#include "plumb/status.h"

typedef struct plb_stack {
    const char *name;
    const char *folder;             // of its stack.json; NULL: one of our own
    const char *const *command;     // ends in NULL
    const char *const *environment; // "NAME=value"; ends in NULL
    const char *wrong;              // what is wrong with its stack.json; NULL: nothing
} plb_stack;

typedef struct plb_stacks {
    const plb_stack *list; // plumb-plan, the floor, first; then others by name
    size_t count;
    const plb_stack *reference; // plumb-ref; not in the list
} plb_stacks;

// `plumb`: path of the program itself. All memory is the arena's. A stack.json that cannot be read
// does not hide the others: its entry says what is wrong. PLB_ENOMEM, PLB_EIO.
PLB_API PLB_MUST_USE plb_status plb_stacks_find(plb_arena *arena, const char *plumb,
                                                plb_stacks *out);
// The stack of that name. PLB_EINVAL with the nearest name.
PLB_API PLB_MUST_USE plb_status plb_stacks_get(const plb_stacks *stacks, const char *name,
                                               const plb_stack **out);

#endif
