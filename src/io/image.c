// SPDX-License-Identifier: Apache-2.0
#include "io/image.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "io/image_limits.h"

const plb_image_limits plb_image_default_limits = {178956970, (size_t)1 << 30};

plb_status plb_image_check_size(const char *label, uint64_t height, uint64_t width,
                                const plb_image_limits *limits) {
    if (!limits) limits = &plb_image_default_limits;
    if (height && width && width <= (uint64_t)limits->max_pixels / height) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: expected 1 to %lld pixels, found %llu rows of %llu", label,
                    (long long)limits->max_pixels, (unsigned long long)height,
                    (unsigned long long)width);
}

plb_status plb_image_new(int64_t height, int64_t width, plb_image *out) {
    *out = (plb_image){0};
    if (height < 1 || width < 1 || height > INT64_MAX / 3 / width) {
        return plb_fail(PLB_EINVAL, "an image of %lld rows of %lld pixels cannot be",
                        (long long)height, (long long)width);
    }
    uint8_t *pixels = plb_alloc_slab((size_t)(height * width) * 3);
    if (!pixels) {
        return plb_fail(PLB_ENOMEM, "no memory for an image of %lld rows of %lld pixels",
                        (long long)height, (long long)width);
    }
    *out = (plb_image){pixels, height, width};
    return PLB_OK;
}

void plb_image_free(plb_image *image) {
    plb_free(image->pixels);
    *image = (plb_image){0};
}

// Moves pixels that were allocated to where the sink wants them.
static plb_status move_into(const plb_image_sink *sink, const char *label, plb_image *image) {
    const size_t size_bytes = (size_t)(image->height * image->width) * 3;
    if (!sink->room) return PLB_OK;
    uint8_t *to = sink->room(sink->context, size_bytes);
    if (to) memcpy(to, image->pixels, size_bytes);
    const plb_image moved = {to, image->height, image->width};
    plb_image_free(image);
    if (!to) return plb_fail(PLB_ENOMEM, "%s: no memory for its pixels", label);
    *image = moved;
    return PLB_OK;
}

plb_status plb_image_decode_part(const void *bytes, size_t size_bytes, const char *label,
                                 const plb_image_limits *limits, const plb_image_sink *sink,
                                 plb_image_part *out_part, plb_image *out) {
    *out = (plb_image){0}, *out_part = (plb_image_part){0};
    if (size_bytes >= 2 && memcmp(bytes, "\xff\xd8", 2) == 0)
        return plb_jpeg_decode_part(bytes, size_bytes, label, limits, sink, out_part, out);
    if (size_bytes >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) {
        PLB_TRY(plb_png_decode(bytes, size_bytes, label, limits, out));
        *out_part = (plb_image_part){0, 0, out->height, out->width};
        return move_into(sink, label, out);
    }
    return plb_fail(PLB_EUNSUPPORTED, "%s: expected a JPEG or PNG file, found neither", label);
}

plb_status plb_image_decode(const void *bytes, size_t size_bytes, const char *label,
                            const plb_image_limits *limits, plb_image *out) {
    const plb_image_sink plain = {0};
    plb_image_part whole;
    return plb_image_decode_part(bytes, size_bytes, label, limits, &plain, &whole, out);
}

plb_status plb_image_read(const char *path, const plb_image_limits *limits, plb_image *out) {
    *out = (plb_image){0};
    if (!limits) limits = &plb_image_default_limits;
    uint8_t *bytes;
    size_t size;
    PLB_TRY(plb_file_read(path, limits->max_file_bytes, &bytes, &size));
    plb_status status = plb_image_decode(bytes, size, path, limits, out);
    plb_free(bytes);
    return status;
}
