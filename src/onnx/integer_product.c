// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers, which wrap around as sums and products of single ones do. Devices
// multiply matrices of floats, so integers are cut into limbs that stand in f64, so short that a
// whole sum of their products is exact there. A product of limbs i and j counts 2^(bits (i + j)),
// and one that counts more than the type holds wraps to nothing.
#include "onnx/map.h"

enum { LIMB_BITS = 16, SHORT_LIMB_BITS = 8, EXACT_BITS = 53, MOST_LIMBS = 8 };

// Limb i of x, not negative.
static plb_value limb(plb_graph *g, plb_value x, int i, int bits) {
    plb_value low = plb_shift_right(g, x, plb_scalar(g, PLB_U64, i * bits));
    plb_value mask = plb_scalar(g, PLB_U64, (double)((1 << bits) - 1));
    return plb_cast(g, plb_bit_and(g, low, mask), PLB_F64);
}

// Limbs short enough for sums of `terms` products.
static int bits_for(int64_t terms) {
    return terms <= INT64_C(1) << (EXACT_BITS - 2 * LIMB_BITS) ? LIMB_BITS : SHORT_LIMB_BITS;
}

plb_value plb_onnx_integer_product(plb_graph *g, plb_value a, plb_value b,
                                   const plb_matmul_attrs *attrs) {
    const plb_type type = plb_value_type(g, a);
    const int64_t terms =
        type.shape.rank < 2 ? 1 : type.shape.dim[type.shape.rank - (attrs->trans_a ? 2 : 1)];
    const int bits = bits_for(terms), width = 8 * (int)plb_dtype_size(type.dtype);
    const int n = width <= bits ? 1 : width / bits;
    plb_value left[MOST_LIMBS], right[MOST_LIMBS], sum = PLB_NONE;
    a = plb_cast(g, a, PLB_U64), b = plb_cast(g, b, PLB_U64);
    for (int i = 0; i < n; i++) left[i] = limb(g, a, i, bits), right[i] = limb(g, b, i, bits);
    for (int place = 0; place < n; place++) {
        plb_value here = PLB_NONE;
        for (int i = 0; i <= place; i++) {
            plb_value y = plb_matmul(g, left[i], right[place - i], attrs);
            y = plb_cast(g, y, PLB_U64);
            here = here == PLB_NONE ? y : plb_add(g, here, y);
        }
        if (place) here = plb_shift_left(g, here, plb_scalar(g, PLB_U64, place * bits));
        sum = sum == PLB_NONE ? here : plb_add(g, sum, here);
    }
    return plb_cast(g, sum, type.dtype);
}
