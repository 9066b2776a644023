// SPDX-License-Identifier: Apache-2.0
// How far coarse numbers move the results of a network. In TF32, bf16 and f16 every product rounds
// what it multiplies; the same network in f64, its operands rounded like that, says what this does
// to each result: little to an output behind two layers, all of its direction to a gradient that
// comes through fifty normalisations. What is allowed is read off there, since the number of layers
// knows nothing of it.
#ifndef PLB_BENCH_ROUNDING_H
#define PLB_BENCH_ROUNDING_H

#include "bench/reference.h"

// Whether the case multiplies coarser numbers than f32, and the reference can do so too.
PLB_API bool plb_rounding_shows(const plb_case *c, const plb_facts *facts);
// Fills `moved` of the reference's entries, or of its outputs: the distance to the same results
// computed as math and autocast of `load->c` say, in f64 but for the rounding. Kept on disk beside
// the reference. `client`, `cache` and `budget_s` as plb_reference_get has them.
PLB_API PLB_MUST_USE plb_status plb_reference_round(plb_client *client, const plb_load *load,
                                                    const char *cache, double budget_s,
                                                    plb_reference *reference);

#endif
