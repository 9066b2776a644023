// SPDX-License-Identifier: Apache-2.0
// Where stacks live: environments and their stack.json in the user's own folder, workers' sources
// beside the program.
#ifndef PLB_STACKS_PLACE_H
#define PLB_STACKS_PLACE_H

#include "base/core/arena.h"
#include "plumb/status.h"

// $XDG_DATA_HOME/plumb/stacks, else ~/.local/share/plumb/stacks; need not exist. PLB_EMISSING where
// neither variable is set.
PLB_API PLB_MUST_USE plb_status plb_stacks_home(plb_arena *arena, const char **out);
// The folder with torch/worker.py and the others: $PLUMB_STACK_SOURCES, share/plumb/stacks of the
// installed program, or stacks/ beside the build folder. PLB_EMISSING with where it was looked for.
PLB_API PLB_MUST_USE plb_status plb_stacks_sources(plb_arena *arena, const char **out);

#endif
