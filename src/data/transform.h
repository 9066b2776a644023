// SPDX-License-Identifier: Apache-2.0
// From a decoded picture to a model's input, with the arithmetic of Pillow and torchvision, so that
// every stack is given the same numbers: Resize, CenterCrop, then ToTensor and Normalize at once.
#ifndef PLB_DATA_TRANSFORM_H
#define PLB_DATA_TRANSFORM_H

#include "data/dataset.h"
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

// A resize of which a window is wanted: from_height x from_width to height x width, cut to window.
typedef struct plb_resize {
    int64_t from_height, from_width, height, width;
    plb_image_part window; // of the result
} plb_resize;

// The resize of plb_image_resize_short, its window everything; size is from 1 to INT32_MAX.
PLB_API plb_resize plb_resize_short(int64_t height, int64_t width, int64_t size);
// Puts the window size x size in the middle, as plb_image_crop_center does.
PLB_API void plb_resize_center(plb_resize *r, int64_t size);
// Which part of the picture the window is made of; all of it where no such resize can be.
PLB_API plb_image_part plb_resize_needs(const plb_resize *r);
// The window of the resized picture, of which `from` holds the part `at`, which covers what is
// needed. The pixels are those of resizing everything and cropping then. With a scratch `out` lies
// in its slot 2, and slot 1 is used too; without (NULL) it is the caller's to free.
PLB_API PLB_MUST_USE plb_status plb_image_resize_part(const plb_image *from,
                                                      const plb_image_part *at, const plb_resize *r,
                                                      plb_scratch *scratch, plb_image *out);

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
