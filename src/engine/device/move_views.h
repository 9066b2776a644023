// SPDX-License-Identifier: Apache-2.0
// The views that moves copy between, the same on every device.
#ifndef PLB_ENGINE_DEVICE_MOVE_VIEWS_H
#define PLB_ENGINE_DEVICE_MOVE_VIEWS_H

#include "engine/ops/slice.h"
#include "plumb/ops.h"

// The same extents and strides from `elements` further on; empty tensors may have no data.
static inline plb_tensor plb_shifted(const plb_tensor *t, int64_t elements) {
    plb_tensor view = *t;
    if (t->data) view.data = (char *)t->data + elements * (int64_t)plb_dtype_size(t->dtype);
    return view;
}

// The elements of `whole` that a slice with these attributes shows, of shape `part`.
static inline plb_tensor plb_sliced(const plb_slice_attrs *a, const plb_tensor *whole,
                                    const plb_shape *part) {
    plb_tensor view = *whole;
    view.shape = *part;
    for (int i = 0; i < part->rank; i++) {
        view = plb_shifted(&view, a->begin[i] * whole->stride[i]);
        view.stride[i] *= plb_slice_step(a, i);
    }
    return view;
}

// Narrows x and y of a pad to what is copied from one to the other; begin[i] gets where that begins
// along y's axis i. Axes that are cut off altogether get the extent 0.
static inline void plb_pad_box(const plb_pad_attrs *a, plb_tensor *from, plb_tensor *to,
                               int64_t *begin) {
    for (int i = 0; i < to->shape.rank; i++) {
        const int64_t cut = a->before[i] < 0 ? -a->before[i] : 0;
        int64_t left = from->shape.dim[i] - cut + (a->after[i] < 0 ? a->after[i] : 0);
        begin[i] = a->before[i] > 0 ? a->before[i] : 0;
        if (left < 0) left = 0; // more cut off than there is: only fill, from anywhere on
        if (begin[i] > to->shape.dim[i]) begin[i] = to->shape.dim[i];
        if (left > to->shape.dim[i] - begin[i]) left = to->shape.dim[i] - begin[i];
        if (left) *from = plb_shifted(from, cut * from->stride[i]);
        *to = plb_shifted(to, begin[i] * to->stride[i]);
        from->shape.dim[i] = to->shape.dim[i] = left;
    }
}

#endif
