// SPDX-License-Identifier: Apache-2.0
#include "base/core/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

enum { BLOCK_BYTES = 16 << 10 };

typedef struct block {
    struct block *next;
    size_t used_bytes, size_bytes;
    alignas(max_align_t) unsigned char bytes[];
} block;

struct plb_arena {
    block *head; // the block that is being filled
};

plb_arena *plb_arena_new(void) {
    return plb_alloc(sizeof(plb_arena));
}

void plb_arena_free(plb_arena *arena) {
    if (!arena) return;
    for (block *b = arena->head, *next; b; b = next) {
        next = b->next;
        plb_free(b);
    }
    plb_free(arena);
}

static block *block_new(size_t size_bytes) {
    if (size_bytes > SIZE_MAX / 2) return NULL;
    block *b = plb_alloc(sizeof(block) + size_bytes);
    if (b) b->size_bytes = size_bytes;
    return b;
}

void *plb_arena_alloc(plb_arena *arena, size_t size_bytes) {
    const size_t align = alignof(max_align_t);
    if (size_bytes > SIZE_MAX / 2) return NULL;
    size_t need = (size_bytes + align - 1) / align * align;
    block *b = arena->head;
    if (!b || b->size_bytes - b->used_bytes < need) {
        b = block_new(need > BLOCK_BYTES ? need : BLOCK_BYTES);
        if (!b) return NULL;
        b->next = arena->head;
        arena->head = b;
    }
    void *place = b->bytes + b->used_bytes;
    b->used_bytes += need;
    return place;
}

void *plb_arena_copy(plb_arena *arena, const void *bytes, size_t size_bytes) {
    void *copy = plb_arena_alloc(arena, size_bytes);
    return copy && size_bytes ? memcpy(copy, bytes, size_bytes) : copy;
}

char *plb_arena_strdup(plb_arena *arena, const char *string) {
    return plb_arena_copy(arena, string, strlen(string) + 1);
}

char *plb_arena_printf(plb_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *string = n < 0 ? NULL : plb_arena_alloc(arena, (size_t)n + 1);
    if (string) vsnprintf(string, (size_t)n + 1, format, again);
    va_end(again);
    return string;
}
