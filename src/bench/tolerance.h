// SPDX-License-Identifier: Apache-2.0
// How far a result may be from the f64 reference: c · eps · sqrt(depth). eps is that of the numbers
// that are multiplied, depth the number of products (convolutions, matrix products) in a row; c is
// read from the one table in tolerance.c. docs/measuring.md says how c was found: at least twice
// the worst honest stack's error, at most half of what a lower precision shows. In coarse numbers
// less is allowed where the reference says how far rounding alone moves a result.
#ifndef PLB_BENCH_TOLERANCE_H
#define PLB_BENCH_TOLERANCE_H

#include "bench/case.h"
#include "plumb/tensor.h"

typedef enum plb_result_kind {
    PLB_RESULT_OUTPUT, // logits: largest difference over largest value
    PLB_RESULT_LOSS,   // |difference| over |value|
    // From here on: root mean square of the difference over that of the value.
    PLB_RESULT_GRADIENT,
    PLB_RESULT_WEIGHT, // of the change since the file's weights
    PLB_RESULT_BUFFER, // running statistics
    PLB_RESULT_LAYER,
    PLB_RESULT_KINDS,
} plb_result_kind;

// "output", "loss", "grad.NAME", …; PLB_RESULT_KINDS for any other name.
PLB_API plb_result_kind plb_result_kind_of(const char *name);
PLB_API const char *plb_result_kind_name(plb_result_kind kind); // for people: "gradients"; static

// The largest legal error; eps of f32 for unknown types.
PLB_API double plb_tolerance(const plb_case *c, plb_result_kind kind, int depth);
// How many times as large as what is found the reference's gradient, or change of a weight, may be;
// infinite where plb_tolerance alone tells one that is missing.
PLB_API double plb_tolerance_size(const plb_case *c);
// Its eps alone.
PLB_API double plb_tolerance_epsilon(const plb_case *c);

// The same where the reference was also computed with rounded operands: `moved` is the error that
// those made, NAN where it was not. Never more than `limit`.
PLB_API double plb_tolerance_rounded(const plb_case *c, plb_result_kind kind, double limit,
                                     double moved);

// Whether a value is what a reference that is not finite asks for: no number either, or the same
// infinity.
PLB_API bool plb_result_same_special(double reference, double value);

// Of n numbers by the kind's measure: their size, less `base` (NULL: 0), of those that are finite,
// and their distance.
PLB_API double plb_result_size(plb_result_kind kind, const double *value, const float *base,
                               int64_t n);
PLB_API double plb_result_distance(plb_result_kind kind, const double *a, const double *b,
                                   int64_t n);
// Error of found[n] (any float dtype) against reference[n]: distance over size. `base`: the file's
// weights for PLB_RESULT_WEIGHT, else NULL. `floor` is the least the reference's size is taken for.
// Infinite where anything found is not finite and the reference is, or the other way round.
PLB_API double plb_result_error(plb_result_kind kind, const double *reference,
                                const plb_tensor *found, const float *base, double floor);

#endif
