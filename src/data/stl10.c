// SPDX-License-Identifier: Apache-2.0
#include "data/stl10.h"

#include <limits.h>
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "data/fit.h"

enum { SIDE = 96, PLANE = SIDE * SIDE, PICTURE_BYTES = 3 * PLANE, CLASSES = 10 };
static const size_t file_limit_bytes = (size_t)1 << 32;

static const char *const class_names[CLASSES] = {"airplane", "bird",  "car",    "cat",  "deer",
                                                 "dog",      "horse", "monkey", "ship", "truck"};

// Planes of columns to planes of rows, in place: a square is mirrored on its diagonal.
static void transpose(uint8_t *plane) {
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < y; x++) {
            uint8_t kept = plane[y * SIDE + x];
            plane[y * SIDE + x] = plane[x * SIDE + y];
            plane[x * SIDE + y] = kept;
        }
    }
}

static plb_status read_pictures(const char *path, uint8_t **out, size_t *out_count) {
    size_t size_bytes;
    PLB_TRY(plb_file_read(path, file_limit_bytes, out, &size_bytes));
    if (size_bytes == 0 || size_bytes % PICTURE_BYTES) {
        plb_free(*out);
        *out = NULL;
        return plb_fail(PLB_EINVAL, "%s: expected pictures of %d bytes, found %zu bytes", path,
                        PICTURE_BYTES, size_bytes);
    }
    *out_count = size_bytes / PICTURE_BYTES;
    for (size_t plane = 0; plane < 3 * *out_count; plane++) transpose(*out + plane * PLANE);
    return PLB_OK;
}

static plb_status read_labels(const char *path, size_t count, int64_t **out) {
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    PLB_TRY(plb_file_read(path, file_limit_bytes, &bytes, &size_bytes));
    plb_status status = PLB_OK;
    int64_t *labels = plb_alloc_array(count, sizeof *labels);
    if (!labels) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for its labels", path));
    if (size_bytes != count)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: expected %zu labels, one a picture, found %zu", path,
                             count, size_bytes));
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] < 1 || bytes[i] > CLASSES)
            PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: label %zu: expected 1 to %d, found %d", path, i,
                                 CLASSES, bytes[i]));
        labels[i] = bytes[i] - 1;
    }
    *out = labels, labels = NULL;
out:
    plb_free(labels);
    plb_free(bytes);
    return status;
}

plb_status plb_stl10_open(const char *folder, plb_data_split split, plb_dataset **out) {
    const char *part = split == PLB_TRAIN ? "train" : "test";
    char path[PATH_MAX];
    uint8_t *pixels = NULL;
    int64_t *labels = NULL;
    size_t count = 0;
    plb_status status;
    snprintf(path, sizeof path, "%s/%s_X.bin", folder, part);
    PLB_TRY_OUT(read_pictures(path, &pixels, &count));
    snprintf(path, sizeof path, "%s/%s_y.bin", folder, part);
    PLB_TRY_OUT(read_labels(path, count, &labels));
    plb_dataset_info info = {.name = "stl10",
                             .kind = "stl10",
                             .count = (int64_t)count,
                             .classes = CLASSES,
                             .channels = 3,
                             .height = SIDE,
                             .width = SIDE,
                             .dtype = PLB_U8,
                             .class_names = class_names};
    plb_image_set_normalisation(&info, NULL, NULL); // its pictures are ImageNet's
    PLB_TRY_OUT(plb_memory_dataset_new(&info, pixels, labels, out));
    pixels = NULL, labels = NULL;
out:
    plb_free(pixels);
    plb_free(labels);
    return status;
}
