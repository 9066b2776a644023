// SPDX-License-Identifier: Apache-2.0
// The last steps from a decoded picture to a sample, which all sets of pictures share.
#ifndef PLB_DATA_FIT_H
#define PLB_DATA_FIT_H

#include "data/image_folder.h"
#include "io/image.h"

// What is wanted of a picture: whose shorter side becomes resize_short and of which the size x size
// in the middle are kept; or, with a box, the box, size x size. size 0: the picture as it is.
typedef struct plb_fit {
    int64_t size, resize_short;
    const plb_image_part *box;
} plb_fit;

// Decodes a picture so. `label` stands for its path in messages. `out` lies in the scratch, whose
// slots 0 to 2 are used. PLB_EINVAL where the box does not lie inside.
PLB_MUST_USE plb_status plb_image_decode_fit(const void *bytes, size_t size_bytes,
                                             const char *label, const plb_fit *fit,
                                             plb_scratch *scratch, plb_image *out);
// The same of a file.
PLB_MUST_USE plb_status plb_image_read_fit(const char *path, const plb_fit *fit,
                                           plb_scratch *scratch, plb_image *out);
// [H,W,3] to planes[3,H,W].
void plb_image_to_planes(const plb_image *image, uint8_t *planes);
// Normalisation, ImageNet's unless the options say otherwise.
void plb_image_set_normalisation(plb_dataset_info *info, const float *mean, const float *std);
// Whether the name ends in .jpg, .jpeg or .png.
bool plb_is_picture(const char *name);

#endif
