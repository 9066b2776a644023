// SPDX-License-Identifier: Apache-2.0
#include "data/fit.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "data/resize_kernel.h"
#include "data/transform.h"

// A picture on its way; its size is not known until its head is read.
typedef struct wish {
    const plb_fit *fit;
    plb_scratch *scratch;
    int64_t height, width; // of the picture; 0: not known yet
    plb_resize resize;     // of the box, or of everything
} wish;

static plb_image_part choose(void *context, int64_t height, int64_t width) {
    wish *w = context;
    const int64_t size = w->fit->size;
    const plb_image_part *box = w->fit->box;
    w->height = height, w->width = width;
    if (box) {
        w->resize = (plb_resize){box->height, box->width, size, size, {0, 0, size, size}};
        return *box;
    }
    w->resize = plb_resize_short(height, width, w->fit->resize_short);
    plb_resize_center(&w->resize, size);
    return plb_resize_needs(&w->resize);
}

static void *room(void *context, size_t size_bytes) {
    return plb_scratch_reserve(((wish *)context)->scratch, 0, size_bytes);
}

static plb_status check_box(const wish *w) {
    const plb_image_part *box = w->fit->box;
    if (!box || (box->top + box->height <= w->height && box->left + box->width <= w->width))
        return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "expected %" PRId64 " x %" PRId64
                    " pixels or more, as annotated, found %" PRId64 " x %" PRId64,
                    box->left + box->width, box->top + box->height, w->width, w->height);
}

plb_status plb_image_decode_fit(const void *bytes, size_t size_bytes, const char *label,
                                const plb_fit *fit, plb_scratch *scratch, plb_image *out) {
    wish w = {.fit = fit, .scratch = scratch};
    const plb_image_sink sink = {fit->size ? choose : NULL, room, &w};
    plb_image decoded;
    plb_image_part part;
    *out = (plb_image){0};
    PLB_TRY(plb_image_decode_part(bytes, size_bytes, label, NULL, &sink, &part, &decoded));
    if (!fit->size) {
        *out = decoded;
        return PLB_OK;
    }
    if (!w.height) choose(&w, decoded.height, decoded.width); // it was not asked
    plb_status status = check_box(&w);
    if (fit->box) part.top -= fit->box->top, part.left -= fit->box->left;
    if (!status) status = plb_image_resize_part(&decoded, &part, &w.resize, scratch, out);
    return status ? plb_fail_context(status, "%s", label) : PLB_OK;
}

plb_status plb_image_read_fit(const char *path, const plb_fit *fit, plb_scratch *scratch,
                              plb_image *out) {
    uint8_t *bytes;
    size_t size_bytes;
    *out = (plb_image){0};
    PLB_TRY(plb_file_read(path, plb_image_default_limits.max_file_bytes, &bytes, &size_bytes));
    plb_status status = plb_image_decode_fit(bytes, size_bytes, path, fit, scratch, out);
    plb_free(bytes);
    return status;
}

void plb_image_to_planes(const plb_image *image, uint8_t *planes) {
    int64_t plane = image->height * image->width;
    int64_t k = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) k = plb_split_planes_avx2(planes, image->pixels, plane);
#endif
    for (; k < plane; k++)
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
