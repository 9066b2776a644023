// SPDX-License-Identifier: Apache-2.0
// Pictures sorted into folders, one a class: <path>/<class>/<name>.jpg|jpeg|png. Classes are the
// folders' names sorted by bytes, samples the files' names sorted likewise within each class, as in
// torchvision's ImageFolder; unlike there, folders below a class are not looked into.
#ifndef PLB_DATA_IMAGE_FOLDER_H
#define PLB_DATA_IMAGE_FOLDER_H

#include "data/dataset.h"

typedef struct plb_image_folder_options {
    const char *name; // of the dataset; NULL: the path
    // Every picture is resized, its shorter side to resize_short (0: size), then cut to the size x
    // size in the middle. Size 0: pictures stay as they are and must all be as large as the first.
    int64_t size, resize_short;
    const float *mean, *std; // [3]; NULL: ImageNet's
} plb_image_folder_options;

// Reads the names, and the first picture if size is 0. Samples are decoded when asked for, with
// memory that is taken and given back each time. PLB_EINVAL: no class, a class without pictures.
PLB_API PLB_MUST_USE plb_status plb_image_folder_open(const char *path,
                                                      const plb_image_folder_options *options,
                                                      plb_dataset **out);

// The path of sample i's file into text[size_bytes]; returns text. Only for sets opened above.
PLB_API const char *plb_image_folder_path(const plb_dataset *set, int64_t i, char *text,
                                          size_t size_bytes);

#endif
