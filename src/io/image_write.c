// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "io/image.h"

static plb_status pack(const plb_image *image, const char *path, void **out, size_t *out_bytes) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = PNG_FORMAT_RGB};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
    void *packed = plb_alloc(bytes);
    if (!packed) return plb_fail(PLB_ENOMEM, "%s: no memory to write it", path);
    if (!png_image_write_to_memory(&png, packed, &bytes, 0, image->pixels, 0, NULL)) {
        plb_free(packed);
        return plb_fail(PLB_ENOMEM, "%s: PNG: %s", path, png.message);
    }
    *out = packed, *out_bytes = bytes;
    return PLB_OK;
}

plb_status plb_image_write_png(const plb_image *image, const char *path) {
    void *packed = NULL;
    size_t bytes = 0;
    plb_atomic_file *file = NULL;
    plb_status status;
    PLB_TRY(pack(image, path, &packed, &bytes));
    PLB_TRY_OUT(plb_atomic_open(path, &file));
    PLB_TRY_OUT(plb_atomic_write(file, packed, bytes));
    status = plb_atomic_commit(file);
    file = NULL;
out:
    plb_atomic_abort(file);
    plb_free(packed);
    return status;
}
