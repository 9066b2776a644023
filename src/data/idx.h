// SPDX-License-Identifier: Apache-2.0
// IDX, the format of MNIST and its relatives (http://yann.lecun.com/exdb/mnist, "file format"):
// two zero bytes, element type, rank, extents as big-endian u32, then the elements. Files come
// plain or as gzip; the first bytes tell.
//
// Nothing is believed: the decoded length must be exactly what the header states, and a header
// that promises more than its compressed bytes can hold is refused before memory is taken.
#ifndef PLB_DATA_IDX_H
#define PLB_DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"

typedef struct plb_idx {
    plb_shape shape;
    uint8_t *data; // u8 elements, row-major; plb_free
} plb_idx;

// Decodes a whole file that lies in memory; `place` names it in failures. Only u8 elements are
// known (PLB_EUNSUPPORTED for others). Release with plb_free(out->data).
PLB_API PLB_MUST_USE plb_status plb_idx_decode(const void *bytes, size_t size_bytes,
                                               const char *place, plb_idx *out);
PLB_API PLB_MUST_USE plb_status plb_idx_read(const char *path, plb_idx *out);

// Checks images[N,H,W] against labels[N] and makes a dataset of them. `info` gives name, classes,
// class names and normalisation; the rest is filled in. The arrays are taken over (images->data
// becomes NULL) once the call succeeds. The places name the two files in failures.
PLB_API PLB_MUST_USE plb_status plb_idx_dataset_new(const plb_dataset_info *info, plb_idx *images,
                                                    const char *images_place, const plb_idx *labels,
                                                    const char *labels_place, plb_dataset **out);

// The same from two files.
PLB_API PLB_MUST_USE plb_status plb_idx_dataset_open(const plb_dataset_info *info,
                                                     const char *images_path,
                                                     const char *labels_path, plb_dataset **out);

#endif
