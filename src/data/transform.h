// SPDX-License-Identifier: Apache-2.0
// From a decoded picture to a model's input, with the arithmetic of Pillow and torchvision, so that
// every stack is given the same numbers: Resize, CenterCrop, then ToTensor and Normalize at once.
#ifndef PLB_DATA_TRANSFORM_H
#define PLB_DATA_TRANSFORM_H

#include "io/image.h"
#include "plumb/tensor.h"

// All make a new picture that the caller frees; {0} on failure. Errors: PLB_EINVAL, PLB_ENOMEM.

// Antialiased bilinear, to exactly this size: Resize((height, width)).
PLB_API PLB_MUST_USE plb_status plb_image_resize(const plb_image *from, int64_t height,
                                                 int64_t width, plb_image *out);
// The shorter side becomes `size`, the longer one keeps the ratio, rounded down: Resize(size).
PLB_API PLB_MUST_USE plb_status plb_image_resize_short(const plb_image *from, int64_t size,
                                                       plb_image *out);
// The middle; PLB_EINVAL where the picture is smaller: CenterCrop((height, width)).
PLB_API PLB_MUST_USE plb_status plb_image_crop_center(const plb_image *from, int64_t height,
                                                      int64_t width, plb_image *out);

typedef struct plb_normalization {
    float mean[3], std[3]; // of values from 0 to 1, red first
} plb_normalization;

PLB_API extern const plb_normalization plb_imagenet_normalization;

// batch[n, c, h, w] = (from[h, w, c] / 255 - mean[c]) / std[c]; `batch` is f32 [N, 3, H, W] of the
// picture's height and width, plain or NHWC. PLB_EINVAL for any other.
PLB_API PLB_MUST_USE plb_status plb_image_store(const plb_image *from,
                                                const plb_normalization *normalization, int64_t n,
                                                plb_tensor *batch);

#endif
