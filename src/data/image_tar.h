// SPDX-License-Identifier: Apache-2.0
// Pictures in a tar file, packed or not: <...>/<class>/<name>.jpg|jpeg|png, perhaps with the
// classes in a folder train, or test or val: folders of these names elsewhere are no splits. Where
// all pictures lie in one folder and their names begin like ImageNet's (n01440764_...), these
// beginnings are the classes, and the folder may be a split. Classes are sorted by bytes, samples
// by class and name. The files stay packed in memory: they are as large as on the disk.
#ifndef PLB_DATA_IMAGE_TAR_H
#define PLB_DATA_IMAGE_TAR_H

#include "data/image_folder.h"

// Whether the path's ending is that of a tar file.
PLB_API bool plb_image_tar_named(const char *path);

// Reads the whole archive once. PLB_EINVAL: not an archive, no pictures, a picture above 64 MiB,
// more than 16 GiB of them (unpack it instead).
PLB_API PLB_MUST_USE plb_status plb_image_tar_open(const char *path, plb_data_split split,
                                                   const plb_image_folder_options *options,
                                                   plb_dataset **out);

#endif
