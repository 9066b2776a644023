// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo with its default, accurate arithmetic, which is what PIL uses. Damaged data
// inside a scan gives grey blocks and no error there, so none here; a file that ends too early is
// refused. libjpeg reports errors by a call that may not return: the state lives in one block on
// the heap, so that the jump out of it leaves no local behind.
//
// Of a picture whose middle alone is wanted the rest is read (its bits must be), but neither
// transformed nor converted. Chroma is interpolated between neighbours, so a margin is decoded with
// it: what is kept is what decoding all of it gives.
#include <stdio.h> // jpeglib.h needs it
//
#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "io/image.h"
#include "io/image_limits.h"

enum {
    // A progressive file can ask for a pass over the whole picture with every few bytes; encoders
    // use about ten.
    MAX_SCANS = 100,
    ROWS_A_CALL = 4, // at most what libjpeg hands out at once
    MARGIN = 2,      // pixels, in which the chroma of one neighbour lies
};

typedef struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const char *label;
    plb_image image;
    plb_image_part part; // of the picture, what `image` holds
    uint8_t *cmyk;       // one row [width, 4]
    const plb_image_sink *sink;
    bool truncated;
    plb_status status;
} decoder;

static plb_status status_of(int code) {
    switch (code) {
    case JERR_OUT_OF_MEMORY: return PLB_ENOMEM;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_SOF_UNSUPPORTED: return PLB_EUNSUPPORTED;
    default: return PLB_EINVAL;
    }
}

static _Noreturn void escape(j_common_ptr info, plb_status status) {
    decoder *d = info->client_data;
    d->status = status;
    longjmp(d->escape, 1);
}

static void on_error(j_common_ptr info) {
    decoder *d = info->client_data;
    char words[JMSG_LENGTH_MAX];
    info->err->format_message(info, words);
    escape(info, plb_fail(status_of(info->err->msg_code), "%s: JPEG: %s", d->label, words));
}

static void on_message(j_common_ptr info, int level) {
    decoder *d = info->client_data;
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) d->truncated = true;
}

static void on_output(j_common_ptr info) {
    (void)info;
}

static void on_progress(j_common_ptr info) {
    decoder *d = info->client_data;
    if (d->info.input_scan_number <= MAX_SCANS) return;
    escape(info, plb_fail(PLB_EINVAL, "%s: JPEG: expected at most %d scans, found more", d->label,
                          MAX_SCANS));
}

static void prepare(decoder *d) {
    d->info.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->errors.output_message = on_output;
    d->progress.progress_monitor = on_progress;
    d->info.client_data = d; // both kept by jpeg_create_decompress
}

static plb_status choose_colours(decoder *d) {
    switch (d->info.num_components) {
    case 1:
    case 3: d->info.out_color_space = JCS_RGB; return PLB_OK;
    case 4: d->info.out_color_space = JCS_CMYK; return PLB_OK;
    default:
        return plb_fail(PLB_EUNSUPPORTED, "%s: JPEG: expected 1, 3 or 4 components, found %d",
                        d->label, d->info.num_components);
    }
}

// a b / 255, rounded.
static uint8_t times(uint8_t a, uint8_t b) {
    unsigned product = (unsigned)a * b + 128;
    return (uint8_t)((product + (product >> 8)) >> 8);
}

// Files with four components hold inverted ink, as Adobe writes it: with k' = 255 - K and
// c' = 255 - C, red = k' - C k' / 255.
static void convert_cmyk(uint8_t *rgb, const uint8_t *cmyk, int64_t width) {
    for (int64_t x = 0; x < width; x++, rgb += 3, cmyk += 4) {
        for (int c = 0; c < 3; c++) {
            rgb[c] = (uint8_t)(cmyk[3] - times((uint8_t)(255 - cmyk[c]), cmyk[3]));
        }
    }
}

static void read_rows(decoder *d) {
    size_t row_bytes = (size_t)d->image.width * 3;
    const JDIMENSION first = (JDIMENSION)d->part.top, end = first + (JDIMENSION)d->part.height;
    while (d->info.output_scanline < end) {
        uint8_t *at = d->image.pixels + (d->info.output_scanline - first) * row_bytes;
        if (d->cmyk) {
            jpeg_read_scanlines(&d->info, &d->cmyk, 1);
            convert_cmyk(at, d->cmyk, d->image.width);
            continue;
        }
        JSAMPROW rows[ROWS_A_CALL];
        JDIMENSION left = end - d->info.output_scanline;
        JDIMENSION count = left < ROWS_A_CALL ? left : ROWS_A_CALL;
        for (JDIMENSION i = 0; i < count; i++) rows[i] = at + i * row_bytes;
        jpeg_read_scanlines(&d->info, rows, count);
    }
}

// Narrows the columns to those around the part, which then says what is decoded; whole pictures
// stay whole.
static void choose_columns(decoder *d) {
    const int64_t width = d->info.output_width, right = d->part.left + d->part.width + MARGIN;
    JDIMENSION left = (JDIMENSION)(d->part.left > MARGIN ? d->part.left - MARGIN : 0);
    JDIMENSION kept = (JDIMENSION)((right < width ? right : width) - left);
    if (kept < width)
        jpeg_crop_scanline(&d->info, &left, &kept); // left moves to a block's
    else
        left = 0;
    d->part.left = left, d->part.width = d->info.output_width;
}

// Goes to the part's first row: far above it rows are skipped, near it read and overwritten later.
static void skip_above(decoder *d) {
    const JDIMENSION first = (JDIMENSION)d->part.top;
    if (first > MARGIN) jpeg_skip_scanlines(&d->info, first - MARGIN);
    JSAMPROW row = d->image.pixels;
    while (d->info.output_scanline < first) jpeg_read_scanlines(&d->info, &row, 1);
}

// Whether the last bytes are the mark of an end: else only reading all rows tells if it is whole.
static bool ends_whole(const uint8_t *bytes, size_t size_bytes) {
    return size_bytes >= 2 && bytes[size_bytes - 2] == 0xff && bytes[size_bytes - 1] == JPEG_EOI;
}

// A progressive file that lacks bits of its waves is smoothed across blocks, of which those beside
// the part would be missing.
static bool lacks_bits(const decoder *d) {
    for (int c = 0; d->info.coef_bits && c < d->info.num_components; c++) {
        for (int k = 1; k < 10; k++) {
            if (d->info.coef_bits[c][k] != 0) return true;
        }
    }
    return false;
}

static void choose_part(decoder *d, bool whole) {
    const int64_t height = d->info.output_height, width = d->info.output_width;
    d->part = (plb_image_part){0, 0, height, width};
    // CMYK goes through a row of its own.
    if (whole || !d->sink->choose || d->cmyk || lacks_bits(d)) return;
    d->part = d->sink->choose(d->sink->context, height, width);
    const bool inside = d->part.top >= 0 && d->part.left >= 0 && d->part.height > 0 &&
                        d->part.width > 0 && d->part.height <= height - d->part.top &&
                        d->part.width <= width - d->part.left;
    if (inside)
        choose_columns(d);
    else
        d->part = (plb_image_part){0, 0, height, width};
}

static plb_status make_room(decoder *d) {
    if (!d->sink->room) return plb_image_new(d->part.height, d->part.width, &d->image);
    const size_t size_bytes = (size_t)(d->part.height * d->part.width) * 3;
    d->image =
        (plb_image){d->sink->room(d->sink->context, size_bytes), d->part.height, d->part.width};
    return d->image.pixels ? PLB_OK : plb_fail(PLB_ENOMEM, "no memory for its pixels");
}

// May leave by a jump to d->escape.
static plb_status decode(decoder *d, const void *bytes, size_t size_bytes,
                         const plb_image_limits *limits) {
    jpeg_create_decompress(&d->info);
    d->info.progress = &d->progress;
    jpeg_mem_src(&d->info, bytes, (unsigned long)size_bytes);
    jpeg_read_header(&d->info, TRUE);
    PLB_TRY(plb_image_check_size(d->label, d->info.image_height, d->info.image_width, limits));
    PLB_TRY(choose_colours(d));
    if (d->info.out_color_space == JCS_CMYK) {
        d->cmyk = plb_alloc_array(d->info.image_width, 4);
        if (!d->cmyk) return plb_fail(PLB_ENOMEM, "%s: no memory for a row", d->label);
    }
    jpeg_start_decompress(&d->info);
    choose_part(d, !ends_whole(bytes, size_bytes));
    plb_status status = make_room(d);
    if (status) return plb_fail_context(status, "%s", d->label);
    skip_above(d);
    read_rows(d);
    if (d->truncated) {
        return plb_fail(PLB_EINVAL, "%s: JPEG: expected more, found the file's end at byte %zu",
                        d->label, size_bytes);
    }
    return PLB_OK;
}

plb_status plb_jpeg_decode_part(const void *bytes, size_t size_bytes, const char *label,
                                const plb_image_limits *limits, const plb_image_sink *sink,
                                plb_image_part *out_part, plb_image *out) {
    *out = (plb_image){0}, *out_part = (plb_image_part){0};
    decoder *d = plb_alloc(sizeof *d);
    if (!d) return plb_fail(PLB_ENOMEM, "%s: no memory to decode it", label);
    d->label = label, d->sink = sink;
    prepare(d);
    if (setjmp(d->escape) == 0) d->status = decode(d, bytes, size_bytes, limits);
    jpeg_destroy_decompress(&d->info);
    plb_status status = d->status;
    if (!status)
        *out = d->image, *out_part = d->part;
    else if (!sink->room)
        plb_image_free(&d->image);
    plb_free(d->cmyk);
    plb_free(d);
    return status;
}

plb_status plb_jpeg_decode(const void *bytes, size_t size_bytes, const char *label,
                           const plb_image_limits *limits, plb_image *out) {
    const plb_image_sink plain = {0};
    plb_image_part whole;
    return plb_jpeg_decode_part(bytes, size_bytes, label, limits, &plain, &whole, out);
}
