// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static int larger_first(const void *a, const void *b) {
    const plb_block *x = *(plb_block *const *)a, *y = *(plb_block *const *)b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return x->first - y->first; // a total order, so that plans do not depend on qsort
}

static int lower_first(const void *a, const void *b) {
    const plb_block *x = *(plb_block *const *)a, *y = *(plb_block *const *)b;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

// The offset of the tightest gap between the neighbours (sorted by offset) that holds `size`.
static size_t best_gap(plb_block *const *alive, int n, size_t size) {
    size_t end = 0, best = SIZE_MAX, best_offset = 0;
    for (int i = 0; i < n; i++) {
        size_t begin = alive[i]->offset_bytes;
        if (begin > end && begin - end >= size && begin - end < best) {
            best = begin - end;
            best_offset = end;
        }
        size_t after = begin + alive[i]->size_bytes;
        if (after > end) end = after;
    }
    return best == SIZE_MAX ? end : best_offset;
}

plb_status plb_place(plb_block *blocks, int n, size_t align_bytes, size_t *out_bytes) {
    *out_bytes = 0;
    plb_block **order = plb_alloc_array((size_t)n, sizeof *order);
    plb_block **alive = plb_alloc_array((size_t)n, sizeof *alive);
    plb_status status = PLB_OK;
    if (!order || !alive) {
        status = plb_fail(PLB_ENOMEM, "out of memory for placing %d values", n);
        goto out;
    }
    for (int i = 0; i < n; i++) {
        blocks[i].size_bytes = (blocks[i].size_bytes + align_bytes - 1) & ~(align_bytes - 1);
        order[i] = &blocks[i];
    }
    qsort(order, (size_t)n, sizeof *order, larger_first);
    for (int i = 0; i < n; i++) {
        plb_block *block = order[i];
        int n_alive = 0;
        for (int k = 0; k < i; k++) {
            if (order[k]->first <= block->last && block->first <= order[k]->last) {
                alive[n_alive++] = order[k];
            }
        }
        qsort(alive, (size_t)n_alive, sizeof *alive, lower_first);
        block->offset_bytes = best_gap(alive, n_alive, block->size_bytes);
        size_t end = block->offset_bytes + block->size_bytes;
        if (end > *out_bytes) *out_bytes = end;
    }
out:
    plb_free(order);
    plb_free(alive);
    return status;
}
