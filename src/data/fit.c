// SPDX-License-Identifier: Apache-2.0
#include "data/fit.h"

#include <string.h>
#include <strings.h>

#include "base/core/status.h"
#include "data/transform.h"

plb_status plb_image_fit(plb_image *image, int64_t size, int64_t resize_short) {
    plb_image resized = {0}, cropped = {0};
    PLB_TRY(plb_image_resize_short(image, resize_short, &resized));
    plb_status status = plb_image_crop_center(&resized, size, size, &cropped);
    plb_image_free(&resized);
    if (status) return status;
    plb_image_free(image);
    *image = cropped;
    return PLB_OK;
}

void plb_image_to_planes(const plb_image *image, uint8_t *planes) {
    int64_t plane = image->height * image->width;
    for (int64_t k = 0; k < plane; k++)
        for (int64_t c = 0; c < 3; c++) planes[c * plane + k] = image->pixels[3 * k + c];
}

void plb_image_set_normalisation(plb_dataset_info *info, const float *mean, const float *std) {
    for (int c = 0; c < 3; c++) {
        info->mean[c] = mean ? mean[c] : plb_imagenet_normalization.mean[c];
        info->std[c] = std ? std[c] : plb_imagenet_normalization.std[c];
    }
}

bool plb_is_picture(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot &&
           (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg") || !strcasecmp(dot, ".png"));
}
