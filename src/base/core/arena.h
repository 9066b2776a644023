// SPDX-License-Identifier: Apache-2.0
// A bump allocator whose contents live and die together: a graph, a plan, a parsed file.
#ifndef PLB_BASE_CORE_ARENA_H
#define PLB_BASE_CORE_ARENA_H

#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_arena plb_arena;

PLB_API plb_arena *plb_arena_new(void); // NULL when out of memory
PLB_API void plb_arena_free(plb_arena *arena);

// Zeroed, aligned for any type; NULL when out of memory. Lives as long as the arena.
PLB_API void *plb_arena_alloc(plb_arena *arena, size_t size_bytes);
PLB_API void *plb_arena_copy(plb_arena *arena, const void *bytes, size_t size_bytes);
PLB_API char *plb_arena_strdup(plb_arena *arena, const char *string);
PLB_API char *plb_arena_printf(plb_arena *arena, const char *format, ...) PLB_PRINTF(2);

#endif
