// SPDX-License-Identifier: Apache-2.0
// PNG by libpng, which only unpacks here: samples come as the file has them, and the conversion to
// RGB is ours, so that it can be PIL's. Chunks that say nothing about the pixels are skipped
// unread. Errors leave libpng by a jump; the state lives on the heap, out of its way.
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "io/image.h"
#include "io/image_limits.h"

typedef struct decoder {
    png_structp png;
    png_infop info;
    jmp_buf escape;
    const char *label;
    const uint8_t *bytes;
    size_t at, size_bytes;
    plb_image image;
    uint8_t *raw; // one row, or all of an interlaced picture
    bool wants_indices;
    uint8_t *indices; // [height, width], if wanted; then `image` has extents alone
    bool no_memory;
    plb_status status;
} decoder;

static _Noreturn void on_error(png_structp png, png_const_charp words) {
    decoder *d = png_get_error_ptr(png);
    d->status = d->no_memory
                    ? plb_fail(PLB_ENOMEM, "%s: PNG: no memory to decode it", d->label)
                    : plb_fail(PLB_EINVAL, "%s: PNG, byte %zu: %s", d->label, d->at, words);
    longjmp(d->escape, 1);
}

static void on_warning(png_structp png, png_const_charp words) {
    (void)png, (void)words;
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t size_bytes) {
    decoder *d = png_get_mem_ptr(png);
    void *pointer = plb_alloc(size_bytes);
    if (!pointer) d->no_memory = true;
    return pointer;
}

static void on_free(png_structp png, png_voidp pointer) {
    (void)png;
    plb_free(pointer);
}

static void on_read(png_structp png, png_bytep to, size_t size_bytes) {
    decoder *d = png_get_io_ptr(png);
    if (size_bytes > d->size_bytes - d->at) {
        png_error(png, "expected more, found the file's end");
    }
    memcpy(to, d->bytes + d->at, size_bytes);
    d->at += size_bytes;
}

// How the samples of a row become RGB.
typedef struct samples {
    int channels, depth; // depth 16, or 8 after unpacking
    int scale;           // of grey: 255, 85, 17 or 1 for 1, 2, 4 or 8 bits
    bool colour, indexed;
    uint8_t palette[256][3];
} samples;

// Indices past the palette's end are black.
static void read_palette(decoder *d, samples *s) {
    png_colorp colours = NULL;
    int count = 0;
    if (!png_get_PLTE(d->png, d->info, &colours, &count)) return;
    for (int i = 0; i < count && i < 256; i++) {
        s->palette[i][0] = colours[i].red;
        s->palette[i][1] = colours[i].green;
        s->palette[i][2] = colours[i].blue;
    }
}

static samples read_kind(decoder *d) {
    int type = png_get_color_type(d->png, d->info), bits = png_get_bit_depth(d->png, d->info);
    samples s = {
        .channels = png_get_channels(d->png, d->info),
        .depth = bits == 16 ? 16 : 8,
        .scale = bits < 8 ? 255 / ((1 << bits) - 1) : 1,
        .colour = (type & PNG_COLOR_MASK_COLOR) != 0,
        .indexed = type == PNG_COLOR_TYPE_PALETTE,
    };
    if (s.indexed) read_palette(d, &s);
    return s;
}

static void convert_palette(uint8_t *rgb, const uint8_t *row, int64_t width, const samples *s) {
    for (int64_t x = 0; x < width; x++) memcpy(rgb + 3 * x, s->palette[row[x]], 3);
}

static void convert_colour(uint8_t *rgb, const uint8_t *row, int64_t width, const samples *s) {
    int bytes = s->depth / 8, step = s->channels * bytes;
    for (int64_t x = 0; x < width; x++, row += step, rgb += 3) {
        for (int c = 0; c < 3; c++) rgb[c] = row[c * bytes];
    }
}

// 16-bit grey without alpha is the one kind that PIL clips instead of shifting.
static void convert_grey(uint8_t *rgb, const uint8_t *row, int64_t width, const samples *s) {
    int step = s->channels * s->depth / 8;
    bool clips = s->depth == 16 && s->channels == 1;
    for (int64_t x = 0; x < width; x++, row += step, rgb += 3) {
        int value = clips ? (row[0] ? 255 : row[1]) : row[0] * s->scale;
        memset(rgb, value, 3);
    }
}

static void convert_row(uint8_t *rgb, const uint8_t *row, int64_t width, const samples *s) {
    if (s->indexed) {
        convert_palette(rgb, row, width, s);
    } else if (s->colour) {
        convert_colour(rgb, row, width, s);
    } else {
        convert_grey(rgb, row, width, s);
    }
}

static void keep_row(decoder *d, int64_t y, const uint8_t *row, const samples *s) {
    int64_t width = d->image.width;
    if (d->wants_indices)
        memcpy(d->indices + y * width, row, (size_t)width);
    else
        convert_row(d->image.pixels + y * width * 3, row, width, s);
}

// An interlaced picture comes in seven passes over all its rows, another one row by row.
static plb_status read_rows(decoder *d, const samples *s) {
    int passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    size_t row_bytes = png_get_rowbytes(d->png, d->info);
    int64_t height = d->image.height;
    d->raw = plb_alloc_array(passes > 1 ? (size_t)height : 1, row_bytes);
    if (!d->raw) return plb_fail(PLB_ENOMEM, "%s: no memory for its rows", d->label);
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t y = 0; y < height; y++) {
            uint8_t *row = d->raw + (passes > 1 ? (size_t)y * row_bytes : 0);
            png_read_row(d->png, row, NULL);
            if (pass + 1 == passes) keep_row(d, y, row, s);
        }
    }
    png_read_end(d->png, NULL);
    return PLB_OK;
}

// A fuzzer cannot guess checksums: in its build they are not looked at.
static void trust_checksums(png_structp png) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    png_set_option(png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#else
    (void)png;
#endif
}

static plb_status make_room(decoder *d, int64_t height, int64_t width, const samples *s) {
    if (!d->wants_indices) {
        plb_status status = plb_image_new(height, width, &d->image);
        return status ? plb_fail_context(status, "%s", d->label) : PLB_OK;
    }
    if (!s->indexed)
        return plb_fail(PLB_EUNSUPPORTED, "%s: expected a PNG with a palette, found another kind",
                        d->label);
    d->image.height = height, d->image.width = width;
    d->indices = plb_alloc_array((size_t)height, (size_t)width);
    return d->indices ? PLB_OK : plb_fail(PLB_ENOMEM, "%s: no memory to decode it", d->label);
}

// May leave by a jump to d->escape.
static plb_status decode(decoder *d, const plb_image_limits *limits) {
    d->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, on_error, on_warning, d, on_alloc,
                                      on_free);
    if (d->png) d->info = png_create_info_struct(d->png);
    if (!d->info) return plb_fail(PLB_ENOMEM, "%s: no memory to decode it", d->label);
    png_set_read_fn(d->png, d, on_read);
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_benign_errors(d->png, 1);
    png_set_user_limits(d->png, 0x7fffffff, 0x7fffffff); // the limit on pixels is ours
    trust_checksums(d->png);
    png_read_info(d->png, d->info);
    int64_t height = png_get_image_height(d->png, d->info);
    int64_t width = png_get_image_width(d->png, d->info);
    PLB_TRY(plb_image_check_size(d->label, (uint64_t)height, (uint64_t)width, limits));
    samples s = read_kind(d);
    png_set_packing(d->png);
    PLB_TRY(make_room(d, height, width, &s));
    return read_rows(d, &s);
}

static void run_decoder(decoder *d, const plb_image_limits *limits) {
    if (setjmp(d->escape) == 0) d->status = decode(d, limits);
    png_destroy_read_struct(&d->png, &d->info, NULL);
    plb_free(d->raw);
}

plb_status plb_png_decode(const void *bytes, size_t size_bytes, const char *label,
                          const plb_image_limits *limits, plb_image *out) {
    *out = (plb_image){0};
    decoder *d = plb_alloc(sizeof *d);
    if (!d) return plb_fail(PLB_ENOMEM, "%s: no memory to decode it", label);
    *d = (decoder){.label = label, .bytes = bytes, .size_bytes = size_bytes};
    run_decoder(d, limits);
    plb_status status = d->status;
    if (status) {
        plb_image_free(&d->image);
    } else {
        *out = d->image;
    }
    plb_free(d);
    return status;
}

plb_status plb_png_decode_indices(const void *bytes, size_t size_bytes, const char *label,
                                  const plb_image_limits *limits, plb_index_image *out) {
    *out = (plb_index_image){0};
    decoder *d = plb_alloc(sizeof *d);
    if (!d) return plb_fail(PLB_ENOMEM, "%s: no memory to decode it", label);
    *d = (decoder){.label = label, .bytes = bytes, .size_bytes = size_bytes, .wants_indices = true};
    run_decoder(d, limits);
    plb_status status = d->status;
    if (status) {
        plb_free(d->indices);
    } else {
        *out = (plb_index_image){d->indices, d->image.height, d->image.width};
    }
    plb_free(d);
    return status;
}

void plb_index_image_free(plb_index_image *image) {
    plb_free(image->index);
    *image = (plb_index_image){0};
}
