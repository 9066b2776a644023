// SPDX-License-Identifier: Apache-2.0
// Every byte of host memory that Plumb itself takes comes from here, so that tests can count
// allocations (the steady state makes none) and make the n-th one fail.
#ifndef PLB_BASE_CORE_ALLOC_H
#define PLB_BASE_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/memory.h" // plb_free

enum { PLB_CACHE_LINE = 64, PLB_HUGE_PAGE = 2 << 20 };

// malloc, zeroed; NULL when out of memory or when the hook says so. Size 0 gives a unique pointer.
PLB_API void *plb_alloc(size_t size_bytes);

// plb_alloc(count * size_bytes), NULL when the product overflows.
PLB_API void *plb_alloc_array(size_t count, size_t size_bytes);

// Grows or shrinks; new bytes are not zeroed. On failure returns NULL and leaves `pointer` alive.
PLB_API void *plb_realloc_array(void *pointer, size_t count, size_t size_bytes);

// Aligned to a cache line, or to a huge page when large; not zeroed. Freed by plb_free.
PLB_API void *plb_alloc_slab(size_t size_bytes);

PLB_API char *plb_strdup(const char *string);

// Hands freed memory back to the system where the C library can: before large slabs are taken, so
// that what went before does not stay resident beside them.
PLB_API void plb_alloc_trim(void);

// Called before every allocation with its size; returning false makes it fail. NULL removes it.
// Not for use while other threads allocate.
typedef bool (*plb_alloc_hook)(void *context, size_t size_bytes);
PLB_API void plb_alloc_set_hook(plb_alloc_hook hook, void *context);

// Allocations since the process began, for "the steady state makes none".
PLB_API uint64_t plb_alloc_count(void);

#endif
