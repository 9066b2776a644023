// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG files, decoded to the pixels that Python's PIL gives after convert("RGB"), so that
// a model sees the same input in every stack: grey is repeated, palettes are looked up, alpha is
// dropped, inverted CMYK (Adobe) is multiplied out, 16-bit colour keeps its high byte and 16-bit
// grey is clipped at 255. EXIF orientation, gamma and colour profiles are not applied. Unlike PIL,
// PNG files must be whole to the last chunk.
#ifndef PLB_IO_IMAGE_H
#define PLB_IO_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_image {
    uint8_t *pixels; // [height, width, 3], RGB, no gaps
    int64_t height, width;
} plb_image;

// What a decoder may be made to spend by a stranger's file.
typedef struct plb_image_limits {
    int64_t max_pixels;
    size_t max_file_bytes;
} plb_image_limits;

// 178,956,970 pixels, where PIL too refuses; files of 1 GiB.
PLB_API extern const plb_image_limits plb_image_default_limits;

// Decodes a file, or `bytes`, whose `label` stands for the path in messages, by their first bytes.
// `limits` may be NULL. `out` is the caller's to free; {0} on failure. Errors: PLB_EINVAL (broken,
// truncated, over a limit), PLB_EUNSUPPORTED (another format or kind), PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_image_read(const char *path, const plb_image_limits *limits,
                                               plb_image *out);
PLB_API PLB_MUST_USE plb_status plb_image_decode(const void *bytes, size_t size_bytes,
                                                 const char *label, const plb_image_limits *limits,
                                                 plb_image *out);
// One format alone.
PLB_API PLB_MUST_USE plb_status plb_jpeg_decode(const void *bytes, size_t size_bytes,
                                                const char *label, const plb_image_limits *limits,
                                                plb_image *out);
PLB_API PLB_MUST_USE plb_status plb_png_decode(const void *bytes, size_t size_bytes,
                                               const char *label, const plb_image_limits *limits,
                                               plb_image *out);

// A rectangle of pixels.
typedef struct plb_image_part {
    int64_t top, left, height, width;
} plb_image_part;

// What becomes of a picture while it is decoded.
typedef struct plb_image_sink {
    // Told height and width, says which part is wanted. NULL: everything.
    plb_image_part (*choose)(void *context, int64_t height, int64_t width);
    // Where the pixels go: at least as many bytes, the sink's own, or NULL (no memory). NULL: they
    // are allocated, for plb_image_free.
    void *(*room)(void *context, size_t size_bytes);
    void *context;
} plb_image_sink;

// The same, of the part that the sink wants: `out` holds *out_part, which covers it, with the
// pixels that decoding the whole picture gives. JPEG alone saves work by it; of other pictures, and
// where the part does not lie inside, *out_part is everything.
PLB_API PLB_MUST_USE plb_status plb_image_decode_part(const void *bytes, size_t size_bytes,
                                                      const char *label,
                                                      const plb_image_limits *limits,
                                                      const plb_image_sink *sink,
                                                      plb_image_part *out_part, plb_image *out);
PLB_API PLB_MUST_USE plb_status plb_jpeg_decode_part(const void *bytes, size_t size_bytes,
                                                     const char *label,
                                                     const plb_image_limits *limits,
                                                     const plb_image_sink *sink,
                                                     plb_image_part *out_part, plb_image *out);

// The palette's indices of a PNG, which in masks are the classes. PLB_EUNSUPPORTED for a PNG
// without a palette; else as above. out is the caller's to free.
typedef struct plb_index_image {
    uint8_t *index; // [height, width]
    int64_t height, width;
} plb_index_image;
PLB_API PLB_MUST_USE plb_status plb_png_decode_indices(const void *bytes, size_t size_bytes,
                                                       const char *label,
                                                       const plb_image_limits *limits,
                                                       plb_index_image *out);

PLB_API void plb_index_image_free(plb_index_image *image); // back to {0}; {0} is legal

// Writes a PNG, whole or not at all. Errors: PLB_EIO, PLB_EFULL, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_image_write_png(const plb_image *image, const char *path);

// An image of this size, its pixels not set. PLB_EINVAL for extents that are not positive or past
// what fits in memory.
PLB_API PLB_MUST_USE plb_status plb_image_new(int64_t height, int64_t width, plb_image *out);
PLB_API void plb_image_free(plb_image *image); // back to {0}; {0} is legal

#endif
