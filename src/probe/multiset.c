// SPDX-License-Identifier: Apache-2.0
// A hash table of numbers over a list of the elements, whose bytes lie one after the other. Table
// and list are taken whole at once, as untouched memory costs nothing; only the bytes grow.
#include "probe/multiset.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"

typedef struct element {
    size_t first; // of its bytes
    size_t size_bytes;
    int64_t times;
} element;

struct plb_multiset {
    uint8_t *bytes;
    size_t used_bytes, room_bytes;
    element *element;
    uint32_t count, most;
    uint32_t *slot; // an element's number and one; 0: free. At most half of them are taken
    size_t slots;   // a power of two
    int64_t beyond;
};

plb_multiset *plb_multiset_new(uint32_t most) {
    plb_multiset *m = plb_alloc(sizeof *m);
    if (!m) return NULL;
    size_t slots = 2;
    while (slots < 2 * (size_t)most) slots *= 2;
    *m = (plb_multiset){.element = plb_alloc_array(most, sizeof *m->element),
                        .most = most,
                        .slot = plb_alloc_array(slots, sizeof *m->slot),
                        .slots = slots};
    if (m->element && m->slot) return m;
    plb_multiset_free(m);
    return NULL;
}

void plb_multiset_free(plb_multiset *m) {
    if (!m) return;
    plb_free(m->bytes);
    plb_free(m->element);
    plb_free(m->slot);
    plb_free(m);
}

// Where it is, or would be.
static uint32_t *slot_of(const plb_multiset *m, const void *bytes, size_t size_bytes) {
    const uint64_t hash = plb_hash_bytes(PLB_HASH_SEED, bytes, size_bytes);
    for (uint64_t i = hash ^ hash >> 32;; i++) {
        uint32_t *slot = &m->slot[i & (m->slots - 1)];
        if (!*slot) return slot;
        const element *e = &m->element[*slot - 1];
        if (e->size_bytes == size_bytes && memcmp(m->bytes + e->first, bytes, size_bytes) == 0)
            return slot;
    }
}

static bool make_room(plb_multiset *m, size_t size_bytes) {
    if (m->bytes && m->room_bytes - m->used_bytes >= size_bytes) return true;
    const size_t room = 2 * (m->used_bytes + size_bytes) + 4096;
    uint8_t *more = plb_realloc_array(m->bytes, room, 1);
    if (!more) return false;
    m->bytes = more, m->room_bytes = room;
    return true;
}

plb_status plb_multiset_add(plb_multiset *m, const void *bytes, size_t size_bytes, int64_t times) {
    uint32_t *slot = slot_of(m, bytes, size_bytes);
    if (!*slot && m->count == m->most) {
        m->beyond += times;
        return PLB_OK;
    }
    if (!*slot) {
        if (!make_room(m, size_bytes)) return plb_fail(PLB_ENOMEM, "no memory for a multiset");
        memcpy(m->bytes + m->used_bytes, bytes, size_bytes);
        m->element[m->count] = (element){.first = m->used_bytes, .size_bytes = size_bytes};
        m->used_bytes += size_bytes;
        *slot = ++m->count;
    }
    m->element[*slot - 1].times += times;
    return PLB_OK;
}

void plb_multiset_clear(plb_multiset *m) {
    memset(m->slot, 0, m->slots * sizeof *m->slot);
    m->count = 0, m->used_bytes = 0, m->beyond = 0;
}

uint32_t plb_multiset_count(const plb_multiset *m) {
    return m->count;
}

bool plb_multiset_is_full(const plb_multiset *m) {
    return m->count == m->most;
}

int64_t plb_multiset_beyond(const plb_multiset *m) {
    return m->beyond;
}

plb_multiset_element plb_multiset_at(const plb_multiset *m, uint32_t i) {
    const element *e = &m->element[i];
    return (plb_multiset_element){m->bytes + e->first, e->size_bytes, e->times};
}
