// SPDX-License-Identifier: Apache-2.0
// Which function an address of a process is in, for processes that map files, fork, become other
// programs and end while they are looked at. Told in the order of time. When memory runs out, or
// for more processes than there is room for, samples count as ones of an unknown place.
#ifndef PLB_PROBE_PLACES_H
#define PLB_PROBE_PLACES_H

#include "probe/sampler.h"

typedef struct plb_places plb_places;

plb_places *plb_places_new(void); // NULL when out of memory
void plb_places_free(plb_places *places);

// [begin, begin + length) now holds what the file has from `file_offset` on.
void plb_places_map(plb_places *places, uint32_t pid, uint64_t begin, uint64_t length,
                    uint64_t file_offset, const char *path);
void plb_places_fork(plb_places *places, uint32_t pid, uint32_t parent);
void plb_places_exec(plb_places *places, uint32_t pid);
void plb_places_exit(plb_places *places, uint32_t pid);

void plb_places_sample(plb_places *places, uint32_t pid, uint64_t address, int64_t at_ns);
void plb_places_sample_kernel(plb_places *places, uint32_t pid, int64_t at_ns);

// All samples as functions, by the files' symbols: samples, others, functions and moments of `out`.
void plb_places_functions(const plb_places *places, plb_sampled *out);

#endif
