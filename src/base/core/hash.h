// SPDX-License-Identifier: Apache-2.0
// A 64-bit hash for keys of caches and maps (FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv),
// and a map from strings to integers. Neither defends against hostile keys.
#ifndef PLB_BASE_CORE_HASH_H
#define PLB_BASE_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

#define PLB_HASH_SEED UINT64_C(0xcbf29ce484222325)

// Continues `hash` over the bytes; begin with PLB_HASH_SEED.
PLB_API uint64_t plb_hash_bytes(uint64_t hash, const void *bytes, size_t size_bytes);
PLB_API uint64_t plb_hash_string(uint64_t hash, const char *string); // its end included

typedef struct plb_map plb_map;

PLB_API plb_map *plb_map_new(void); // NULL when out of memory
PLB_API void plb_map_free(plb_map *map);

// Sets key to value (the key is copied); PLB_ENOMEM leaves the map as it was.
PLB_API PLB_MUST_USE plb_status plb_map_set(plb_map *map, const char *key, int64_t value);

// The value of key, or `missing`.
PLB_API int64_t plb_map_get(const plb_map *map, const char *key, int64_t missing);

#endif
