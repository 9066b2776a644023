// SPDX-License-Identifier: Apache-2.0
#include "base/core/hash.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

uint64_t plb_hash_bytes(uint64_t hash, const void *bytes, size_t size_bytes) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size_bytes; i++) hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t plb_hash_string(uint64_t hash, const char *string) {
    return plb_hash_bytes(hash, string, strlen(string) + 1);
}

// Open addressing with linear probing; at most three quarters full; capacity a power of two.
typedef struct slot {
    char *key; // NULL when free
    uint64_t hash;
    int64_t value;
} slot;

struct plb_map {
    slot *slots;
    size_t capacity, count;
};

plb_map *plb_map_new(void) {
    return plb_alloc(sizeof(plb_map));
}

void plb_map_free(plb_map *map) {
    if (!map) return;
    for (size_t i = 0; i < map->capacity; i++) plb_free(map->slots[i].key);
    plb_free(map->slots);
    plb_free(map);
}

static slot *find(const plb_map *map, const char *key, uint64_t hash) {
    size_t i = hash & (map->capacity - 1);
    while (map->slots[i].key &&
           (map->slots[i].hash != hash || strcmp(map->slots[i].key, key) != 0)) {
        i = (i + 1) & (map->capacity - 1);
    }
    return &map->slots[i];
}

static plb_status grow(plb_map *map) {
    plb_map bigger = {.capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count};
    bigger.slots = plb_alloc_array(bigger.capacity, sizeof(slot));
    if (!bigger.slots) return plb_fail(PLB_ENOMEM, "out of memory for a map");
    for (size_t i = 0; i < map->capacity; i++) {
        slot *s = &map->slots[i];
        if (s->key) *find(&bigger, s->key, s->hash) = *s;
    }
    plb_free(map->slots);
    *map = bigger;
    return PLB_OK;
}

plb_status plb_map_set(plb_map *map, const char *key, int64_t value) {
    if (4 * (map->count + 1) > 3 * map->capacity) PLB_TRY(grow(map));
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, key);
    slot *s = find(map, key, hash);
    if (!s->key) {
        char *copy = plb_strdup(key);
        if (!copy) return plb_fail(PLB_ENOMEM, "out of memory for a map");
        *s = (slot){.key = copy, .hash = hash};
        map->count++;
    }
    s->value = value;
    return PLB_OK;
}

int64_t plb_map_get(const plb_map *map, const char *key, int64_t missing) {
    if (!map->capacity) return missing;
    const slot *s = find(map, key, plb_hash_string(PLB_HASH_SEED, key));
    return s->key ? s->value : missing;
}
