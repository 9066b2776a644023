// SPDX-License-Identifier: Apache-2.0
// Which functions called which, of sampled threads: chains of calls, each with how often it was
// met, and their text for flame graphs. The kernel follows frame pointers; code that keeps none
// cuts a chain short, or leaves a caller out.
#ifndef PLB_PROBE_CHAINS_H
#define PLB_PROBE_CHAINS_H

#include "base/core/strbuf.h"
#include "probe/places.h"

enum {
    PLB_CHAIN_DEPTH = 127, // as many as the kernel follows unless told otherwise
    PLB_CHAINS = 1 << 18,  // of different functions
};

typedef struct plb_chains plb_chains;

// `places` is borrowed. NULL when out of memory.
plb_chains *plb_chains_new(const plb_places *places);
void plb_chains_free(plb_chains *chains);

// One sample; `place` begins with where it was, its caller after it, and ends with the program;
// `depth` is at most PLB_CHAIN_DEPTH and these two. When memory runs out, plb_chains_fold fails.
void plb_chains_note(plb_chains *chains, const plb_place *place, int depth);

// Appends a line for each, "program;outermost;...;innermost samples", in the order of the alphabet.
// Functions without a name are told by their module, in brackets. Chains beyond PLB_CHAINS are one
// line, "[other chains] samples", at the end. PLB_ENOMEM.
PLB_MUST_USE plb_status plb_chains_fold(plb_chains *chains, plb_strbuf *out);

// Of how many samples that line tells, once they were folded.
int64_t plb_chains_beyond(const plb_chains *chains);

#endif
