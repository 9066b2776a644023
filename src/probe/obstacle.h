// SPDX-License-Identifier: Apache-2.0
// What keeps every library of ours out of a program.
#ifndef PLB_PROBE_OBSTACLE_H
#define PLB_PROBE_OBSTACLE_H

#include <stdbool.h>
#include <stddef.h>

// Whether the program, a path or a name that is looked for as execvp does, can have no probe in
// itself: it is linked statically, of another kind of machine, or runs as another user than its
// caller, for which the loader leaves LD_PRELOAD aside. Then `why` says which. False for scripts.
bool plb_obstacle_find(const char *program, char *why, size_t why_bytes);

#endif
