// SPDX-License-Identifier: Apache-2.0
// A multiset: different sequences of bytes, each with how often it was met. It holds up to a fixed
// number of them; of those for which there is no room only how often they were met counts.
#ifndef PLB_PROBE_MULTISET_H
#define PLB_PROBE_MULTISET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_multiset plb_multiset;

typedef struct plb_multiset_element {
    const void *bytes; // borrowed until something is added
    size_t size_bytes;
    int64_t times;
} plb_multiset_element;

plb_multiset *plb_multiset_new(uint32_t most); // NULL when out of memory
void plb_multiset_free(plb_multiset *set);

// PLB_ENOMEM, which leaves it as it was. Where all sequences have a multiple of some size, each
// begins at one.
PLB_MUST_USE plb_status plb_multiset_add(plb_multiset *set, const void *bytes, size_t size_bytes,
                                         int64_t times);
void plb_multiset_clear(plb_multiset *set); // of those beyond, too

uint32_t plb_multiset_count(const plb_multiset *set);
bool plb_multiset_is_full(const plb_multiset *set);
int64_t plb_multiset_beyond(const plb_multiset *set); // how often those without room were met
// `i` < count, in the order in which they were first met.
plb_multiset_element plb_multiset_at(const plb_multiset *set, uint32_t i);

#endif
