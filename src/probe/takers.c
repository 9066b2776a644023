// SPDX-License-Identifier: Apache-2.0
#include "probe/takers.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"

enum { LIVE = 1 << 16 }; // taken and not given back, a power of two; of more the rest stays "left"

typedef struct live {
    int64_t address, bytes; // address 0: free, or given back
    int32_t source;
    bool was_used; // what follows may have been put behind it
} live;

struct plb_takers {
    plb_spool *spool;
    live of[LIVE];
};

plb_takers *plb_takers_new(plb_spool *spool) {
    plb_takers *t = plb_alloc(sizeof *t);
    if (t) t->spool = spool;
    return t;
}

void plb_takers_free(plb_takers *t) {
    plb_free(t);
}

// The file's name without its folder.
static const char *short_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

// The last row is that of all for which there is no other.
static int row_of(plb_spool *s, const char *name, uint32_t device) {
    for (int i = 0; i < PLB_SPOOL_SOURCES; i++) {
        plb_spool_source *row = &s->source[i];
        const bool last = i + 1 == PLB_SPOOL_SOURCES;
        if (row->used &&
            (last || (row->device == device && strcmp(s->names + row->name, name) == 0)))
            return i;
        if (row->used) continue;
        row->name = plb_spool_add_name(s, last ? "others" : name);
        row->device = device, row->used = 1;
        return i;
    }
    return PLB_SPOOL_SOURCES - 1;
}

static size_t place_of(int64_t address, size_t tries) {
    const uint64_t hash = plb_hash_bytes(PLB_HASH_SEED, &address, sizeof address);
    return (size_t)(hash + tries) & (LIVE - 1);
}

static void keep(plb_takers *t, int64_t address, int64_t bytes, int source) {
    for (size_t n = 0; n < LIVE / 64; n++) {
        live *l = &t->of[place_of(address, n)];
        if (l->address && l->address != address) continue;
        *l = (live){address, bytes, source, true};
        return;
    }
}

static live *find(plb_takers *t, int64_t address) {
    for (size_t n = 0; n < LIVE / 64; n++) {
        live *l = &t->of[place_of(address, n)];
        if (l->address == address) return l;
        if (!l->address && !l->was_used) return NULL;
    }
    return NULL;
}

void plb_takers_note(plb_takers *t, const plb_record *r) {
    if (r->device >= PLB_SPOOL_DEVICES || !r->address) return;
    if (r->bytes < 0) {
        live *l = find(t, r->address);
        if (!l) return;
        t->spool->source[l->source].now_bytes -= l->bytes;
        l->address = 0;
        return;
    }
    if (!r->name) return;
    const int at = row_of(t->spool, short_name(r->name), r->device);
    plb_spool_source *row = &t->spool->source[at];
    row->allocations++;
    row->bytes += r->bytes, row->now_bytes += r->bytes;
    if (row->now_bytes > row->peak_bytes) row->peak_bytes = row->now_bytes;
    keep(t, r->address, r->bytes, at);
}
