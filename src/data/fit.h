// SPDX-License-Identifier: Apache-2.0
// The last steps from a decoded picture to a sample, which all sets of pictures share.
#ifndef PLB_DATA_FIT_H
#define PLB_DATA_FIT_H

#include "data/image_folder.h"
#include "io/image.h"

// Replaces *image by its resized and cropped form: the shorter side becomes resize_short, then the
// size x size in the middle is kept.
PLB_MUST_USE plb_status plb_image_fit(plb_image *image, int64_t size, int64_t resize_short);
// [H,W,3] to planes[3,H,W].
void plb_image_to_planes(const plb_image *image, uint8_t *planes);
// Normalisation, ImageNet's unless the options say otherwise.
void plb_image_set_normalisation(plb_dataset_info *info, const float *mean, const float *std);
// Whether the name ends in .jpg, .jpeg or .png.
bool plb_is_picture(const char *name);

#endif
