// SPDX-License-Identifier: Apache-2.0
// Cropping and normalising; resizing has a file of its own.
#include "data/transform.h"

#include <string.h>

#include "base/core/status.h"

const plb_normalization plb_imagenet_normalization = {{0.485f, 0.456f, 0.406f},
                                                      {0.229f, 0.224f, 0.225f}};

// Half the excess, to the nearest; a tie to the even one, as Python rounds.
static int64_t half_of(int64_t excess) {
    int64_t half = excess / 2;
    return excess % 2 ? half + half % 2 : half;
}

void plb_resize_center(plb_resize *r, int64_t size) {
    r->window = (plb_image_part){half_of(r->height - size), half_of(r->width - size), size, size};
}

plb_status plb_image_crop_center(const plb_image *from, int64_t height, int64_t width,
                                 plb_image *out) {
    *out = (plb_image){0};
    if (height > from->height || width > from->width) {
        return plb_fail(PLB_EINVAL, "crop to %lld rows of %lld pixels: found %lld rows of %lld",
                        (long long)height, (long long)width, (long long)from->height,
                        (long long)from->width);
    }
    PLB_TRY(plb_image_new(height, width, out));
    int64_t top = half_of(from->height - height), left = half_of(from->width - width);
    for (int64_t y = 0; y < height; y++) {
        memcpy(out->pixels + y * width * 3, from->pixels + ((top + y) * from->width + left) * 3,
               (size_t)width * 3);
    }
    return PLB_OK;
}

plb_status plb_image_store(const plb_image *from, const plb_normalization *normalization, int64_t n,
                           plb_tensor *batch) {
    const int64_t *dim = batch->shape.dim, *stride = batch->stride;
    bool fits = batch->dtype == PLB_F32 && batch->layout.kind != PLB_LAYOUT_BLOCKED &&
                batch->shape.rank == 4 && n >= 0 && n < dim[0] && dim[1] == 3 &&
                dim[2] == from->height && dim[3] == from->width;
    if (!fits) {
        char text[200];
        return plb_fail(PLB_EINVAL,
                        "picture %lld of a batch: expected f32 [N, 3, %lld, %lld], found %s %s of "
                        "layout %s",
                        (long long)n, (long long)from->height, (long long)from->width,
                        plb_dtype_name(batch->dtype),
                        plb_shape_format(&batch->shape, text, sizeof text),
                        plb_layout_name(batch->layout));
    }
    float table[3][256]; // in f32 and in this order, so that it is bit for bit what torch gives
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            table[c][v] = ((float)v / 255.0f - normalization->mean[c]) / normalization->std[c];
        }
    }
    float *to = (float *)batch->data + n * stride[0];
    for (int64_t h = 0; h < from->height; h++) {
        const uint8_t *row = from->pixels + h * from->width * 3;
        for (int c = 0; c < 3; c++) {
            float *at = to + c * stride[1] + h * stride[2];
            for (int64_t w = 0; w < from->width; w++) at[w * stride[3]] = table[c][row[3 * w + c]];
        }
    }
    return PLB_OK;
}
