// SPDX-License-Identifier: Apache-2.0
// The numbers in the three transforms of F(m x m, 3x3): Y = A^T [(G w G^T) . (B^T x B)] A.
// The interpolation points are pairs +-p, infinity and, in some variants, 0. With pairs, each row
// of B^T, G and A^T splits in an even and an odd half that the two points of a pair share.
#ifndef PLB_ENGINE_DEVICE_CPU_WINOGRAD_POINTS_H
#define PLB_ENGINE_DEVICE_CPU_WINOGRAD_POINTS_H

#include <stdbool.h>

enum { PLB_WINOGRAD_MAX_PAIRS = 3, PLB_WINOGRAD_MAX_M = 5, PLB_WINOGRAD_MAX_EDGE = 7 };

typedef struct plb_winograd_points {
    int pairs, zero; // m = 2 pairs + zero - 1
    int run;         // input channels that are summed before the sum is added to the total
    float input_pair[PLB_WINOGRAD_MAX_PAIRS][2]; // prod over the other pairs of (x^2 - p^2)
    float input_all[PLB_WINOGRAD_MAX_PAIRS];     // prod over all pairs; the leading 1 is left out
    float power[PLB_WINOGRAD_MAX_M][PLB_WINOGRAD_MAX_PAIRS]; // [e][i] = p_i^e
    float weight_pair[PLB_WINOGRAD_MAX_PAIRS][3];            // (1, p, p^2) / prod of differences
    float weight_zero;                                       // 1 / prod of differences
} plb_winograd_points;

// False if there is no variant with m outputs along an edge.
bool plb_winograd_points_make(int m, plb_winograd_points *points);

#endif
