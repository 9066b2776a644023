// SPDX-License-Identifier: Apache-2.0
#include "base/core/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>
#include <sys/mman.h>

static plb_alloc_hook hook_function;
static void *hook_context;
static atomic_uint_fast64_t allocations;

static bool allowed(size_t size_bytes) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return !hook_function || hook_function(hook_context, size_bytes);
}

void *plb_alloc(size_t size_bytes) {
    if (!allowed(size_bytes)) return NULL;
    return calloc(1, size_bytes ? size_bytes : 1);
}

void *plb_alloc_array(size_t count, size_t size_bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, size_bytes, &total)) return NULL;
    return plb_alloc(total);
}

void *plb_realloc_array(void *pointer, size_t count, size_t size_bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, size_bytes, &total) || !allowed(total)) return NULL;
    return realloc(pointer, total ? total : 1);
}

void *plb_alloc_slab(size_t size_bytes) {
    if (!allowed(size_bytes)) return NULL;
    size_t align = size_bytes >= PLB_HUGE_PAGE ? PLB_HUGE_PAGE : PLB_CACHE_LINE;
    if (size_bytes > SIZE_MAX - align) return NULL;
    size_t rounded = (size_bytes + align - 1) & ~(align - 1);
    void *slab = aligned_alloc(align, rounded ? rounded : align);
    if (slab && align == PLB_HUGE_PAGE) madvise(slab, rounded, MADV_HUGEPAGE); // a hint only
    return slab;
}

char *plb_strdup(const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = plb_alloc(size);
    return copy ? memcpy(copy, string, size) : NULL;
}

void plb_free(void *pointer) {
    free(pointer);
}

void plb_alloc_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void plb_alloc_set_hook(plb_alloc_hook hook, void *context) {
    hook_function = hook;
    hook_context = context;
}

uint64_t plb_alloc_count(void) {
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}
