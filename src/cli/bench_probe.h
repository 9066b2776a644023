// SPDX-License-Identifier: Apache-2.0
// The probe of `plumb profile` for bench: puts it into the worker of one more start, and sums up
// what it saw.
#ifndef PLB_CLI_BENCH_PROBE_H
#define PLB_CLI_BENCH_PROBE_H

#include "base/core/strbuf.h"
#include "bench/probed.h"
#include "cli/profile_show.h"

typedef struct plb_bench_probing plb_bench_probing;

// PLB_EMISSING without the probe's library. With `show`, which is borrowed, the whole profile of
// each start is printed when it is taken, as JSON documents with `json`.
PLB_MUST_USE plb_status plb_bench_probing_new(const plb_profile_flags *show, const plb_call *call,
                                              plb_bench_probing **out);
void plb_bench_probing_free(plb_bench_probing *probing);
// To give to bench; as long-lived as `probing`.
const plb_bench_probe *plb_bench_probing_probe(plb_bench_probing *probing);

// With `show`: what the profile that was printed lacks, "" for nothing; NULL: none was printed.
const char *plb_bench_probing_lacks(const plb_bench_probing *probing);

// A profile that bench kept, in one line: "active 61 %, ...".
void plb_bench_profile_line(const char *profile, plb_strbuf *out);

#endif
