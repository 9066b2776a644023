// SPDX-License-Identifier: Apache-2.0
// Which function an address of a process is in, for processes that map files, fork, become other
// programs and end while they are looked at. Told in the order of time. When memory runs out, or
// for more processes than there is room for, samples count as ones of an unknown place.
#ifndef PLB_PROBE_PLACES_H
#define PLB_PROBE_PLACES_H

#include "probe/elf_symbols.h"
#include "probe/sampler.h"

typedef struct plb_places plb_places;

// A byte of a file, or a program, by a number that only these places know.
typedef struct plb_place {
    uint64_t file, offset;
} plb_place;

plb_places *plb_places_new(void); // NULL when out of memory
void plb_places_free(plb_places *places);

// [begin, begin + length) now holds what the file has from `file_offset` on.
void plb_places_map(plb_places *places, uint32_t pid, uint64_t begin, uint64_t length,
                    uint64_t file_offset, const char *path);
void plb_places_fork(plb_places *places, uint32_t pid, uint32_t parent);
void plb_places_exec(plb_places *places, uint32_t pid);
// What the program is called from now on.
void plb_places_rename(plb_places *places, uint32_t pid, const char *name);
void plb_places_exit(plb_places *places, uint32_t pid);

void plb_places_sample(plb_places *places, uint32_t pid, uint64_t address, int64_t at_ns);
void plb_places_sample_kernel(plb_places *places, uint32_t pid, int64_t at_ns);

plb_place plb_places_at(const plb_places *places, uint32_t pid, uint64_t address);
plb_place plb_places_in_kernel(void);
// Not a function: what stands for the program that called all the others, at this offset, under a
// number of its own.
#define PLB_PLACE_PROGRAM UINT64_MAX
plb_place plb_places_program(plb_places *places, uint32_t pid);

// Names places one after the other, those of one file best in a row: its symbols stay open. Begins
// with {.places = …}; plb_place_namer_end closes them.
typedef struct plb_place_namer {
    const plb_places *places;
    plb_elf_symbols *symbols;
    uint64_t file; // whose they are; 0: none were opened
    bool failed;   // there was no memory for a file's: its functions have no names
} plb_place_namer;

// Name and module of `out`.
void plb_place_name(plb_place_namer *namer, plb_place at, plb_sampled_function *out);
void plb_place_namer_end(plb_place_namer *namer);

// All samples as functions, by the files' symbols: samples, others, functions and moments of `out`.
void plb_places_functions(const plb_places *places, plb_sampled *out);

#endif
