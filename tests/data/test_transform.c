// SPDX-License-Identifier: Apache-2.0
#include <stdio.h> // jpeglib.h needs it
//
#include <jpeglib.h>

#include "base/file.h"
#include "check.h"
#include "data/fit.h"
#include "data/resize_kernel.h"
#include "data/transform.h"
#include "faults.h"
#include "io/golden.h"

static int compared, other_pixels, smaller_parts;

static void check_values(const golden *g, const plb_image *crop) {
    plb_shape shape = plb_shape_of(2, 3, 224, 224);
    size_t count = 2 * 3 * 224 * 224;
    float *values = plb_alloc_array(count, sizeof *values);
    float *channels_last = plb_alloc_array(count, sizeof *values);
    plb_tensor plain = plb_tensor_dense(values, PLB_F32, &shape, (plb_layout){0});
    plb_tensor nhwc =
        plb_tensor_dense(channels_last, PLB_F32, &shape, (plb_layout){.kind = PLB_LAYOUT_NHWC});
    CHECK_OK(plb_image_store(crop, &plb_imagenet_normalization, 1, &plain));
    CHECK_OK(plb_image_store(crop, &plb_imagenet_normalization, 1, &nhwc));
    CHECK_SAY(golden_crc(values + count / 2, count * 2) == g->values_crc, "%s", g->name);
    CHECK(values[0] == 0 && values[count / 2 - 1] == 0); // the other picture's place
    for (int i = 0; i < 1000; i++) {
        int64_t index[4] = {1, i % 3, i * 7 % 224, i * 13 % 224};
        CHECK(values[plb_tensor_offset(&plain, index)] ==
              channels_last[plb_tensor_offset(&nhwc, index)]);
    }
    plb_free(values);
    plb_free(channels_last);
}

// Bit for bit, whenever the decoder gave PIL's pixels.
static void check_transforms(const golden *g) {
    plb_image image, resized, square, crop;
    CHECK_OK(plb_image_read(g->path, NULL, &image));
    if (!image.pixels) return;
    if (golden_image_crc(&image) != g->crc) {
        other_pixels++;
        plb_image_free(&image);
        return;
    }
    CHECK_OK(plb_image_resize_short(&image, 256, &resized));
    CHECK_SAY(resized.height == g->short_height && resized.width == g->short_width, "%s", g->name);
    CHECK_SAY(golden_image_crc(&resized) == g->short_crc, "%s resized", g->name);
    CHECK_OK(plb_image_resize(&image, 32, 32, &square));
    CHECK_SAY(golden_image_crc(&square) == g->square_crc, "%s square", g->name);
    CHECK_OK(plb_image_crop_center(&resized, 224, 224, &crop));
    CHECK_SAY(golden_image_crc(&crop) == g->crop_crc, "%s cropped", g->name);
    check_values(g, &crop);
    compared++;
    plb_image_free(&image);
    plb_image_free(&resized);
    plb_image_free(&square);
    plb_image_free(&crop);
}

typedef struct asked {
    plb_resize resize;
    int64_t size;
} asked;

static plb_image_part choose_middle(void *context, int64_t height, int64_t width) {
    asked *a = context;
    a->resize = plb_resize_short(height, width, a->size + a->size / 7);
    plb_resize_center(&a->resize, a->size);
    return plb_resize_needs(&a->resize);
}

// Decoding the part that the middle of the resized picture needs gives what decoding, resizing and
// cropping all of it gives; check_transforms holds the latter to torchvision's pixels.
static void check_part(const golden *g) {
    static const int64_t sizes[] = {1, 7, 32, 100, 224, 300};
    plb_image image, resized, crop, part, same;
    uint8_t *bytes;
    size_t size_bytes;
    CHECK_OK(plb_file_read(g->path, 1 << 26, &bytes, &size_bytes));
    CHECK_OK(plb_image_decode(bytes, size_bytes, g->name, NULL, &image));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        asked a = {.size = sizes[i]};
        plb_image_part at;
        CHECK_OK(plb_image_resize_short(&image, a.size + a.size / 7, &resized));
        CHECK_OK(plb_image_crop_center(&resized, a.size, a.size, &crop));
        const plb_image_sink sink = {.choose = choose_middle, .context = &a};
        CHECK_OK(plb_image_decode_part(bytes, size_bytes, g->name, NULL, &sink, &at, &part));
        if (!a.resize.height) choose_middle(&a, image.height, image.width); // a PNG: not asked
        smaller_parts += part.height < image.height || part.width < image.width;
        CHECK_OK(plb_image_resize_part(&part, &at, &a.resize, NULL, &same));
        CHECK(same.height == a.size && same.width == a.size);
        CHECK_SAY(!memcmp(same.pixels, crop.pixels, (size_t)(a.size * a.size) * 3), "%s to %d",
                  g->name, (int)a.size);
        plb_image_free(&resized);
        plb_image_free(&crop);
        plb_image_free(&part);
        plb_image_free(&same);
    }
    plb_image_free(&image);
    plb_free(bytes);
}

static void parts_are_as_from_everything(void) {
    smaller_parts = 0;
    CHECK(golden_for_each(NULL, check_part) == 40);
    CHECK(smaller_parts > 0);
}

static void small_pictures_grow_as_in_torchvision(void) {
    compared = other_pixels = 0;
    CHECK(golden_for_each(NULL, check_transforms) == 40);
    CHECK(compared >= 30); // the PNG files at least
}

static void photos_shrink_as_in_torchvision(void) {
    const char *folder = golden_unpack();
    if (!folder) SKIP("images/*.tar are not among the test data");
    compared = other_pixels = 0;
    CHECK(golden_for_each(folder, check_transforms) == 46);
    golden_remove(folder);
    if (other_pixels) printf("%d photos are not compared: other pixels\n", other_pixels);
    CHECK(compared >= 3);
}

static void sides_that_stay_are_not_touched(void) {
    uint8_t pixels[2 * 3 * 3];
    for (int i = 0; i < 18; i++) pixels[i] = (uint8_t)(i * 14);
    plb_image from = {pixels, 2, 3}, out;
    CHECK_OK(plb_image_resize(&from, 2, 3, &out));
    CHECK(out.pixels != pixels && memcmp(out.pixels, pixels, 18) == 0);
    plb_image_free(&out);
    CHECK_OK(plb_image_resize(&from, 1, 3, &out)); // the mean of both rows
    for (int i = 0; i < 9; i++) CHECK(out.pixels[i] == (pixels[i] + pixels[i + 9] + 1) / 2);
    plb_image_free(&out);
    // Tent of half-width 3 around 1.5: weights 2/3, 1, 2/3 of 7/3.
    CHECK_OK(plb_image_resize(&from, 2, 1, &out));
    for (int i = 0; i < 6; i++) {
        const uint8_t *at = pixels + i / 3 * 9 + i % 3;
        CHECK(out.pixels[i] == (uint8_t)lround((2 * at[0] + 3 * at[3] + 2 * at[6]) / 7.0));
    }
    plb_image_free(&out);
}

// Python's round(): 0.5 to 0, 1.5 to 2, 2.5 to 2.
static void crops_round_to_even(void) {
    uint8_t pixels[3 * 8];
    for (int i = 0; i < 8; i++) memset(pixels + 3 * i, i, 3);
    static const int first[] = {0, 0, 1, 2, 2, 2, 3, 4};
    for (int excess = 0; excess < 8; excess++) {
        plb_image from = {pixels, 1, 8}, out;
        CHECK_OK(plb_image_crop_center(&from, 1, 8 - excess, &out));
        CHECK(out.pixels[0] == first[excess]);
        plb_image_free(&out);
    }
}

static void bad_sizes_are_refused(void) {
    uint8_t pixels[12] = {0};
    plb_image from = {pixels, 2, 2}, out;
    CHECK_FAILS(PLB_EINVAL, "found 0, 5", plb_image_resize(&from, 0, 5, &out));
    CHECK_FAILS(PLB_EINVAL, "found -1", plb_image_resize_short(&from, -1, &out));
    CHECK_FAILS(PLB_EINVAL, "found 2 rows of 2", plb_image_crop_center(&from, 3, 2, &out));
    CHECK_FAILS(PLB_EINVAL, "up to 178956970", plb_image_resize_short(&from, 20000, &out));
    float values[12];
    plb_tensor batch =
        plb_tensor_dense(values, PLB_F32, &plb_shape_of(1, 3, 2, 2), (plb_layout){0});
    const plb_normalization *norm = &plb_imagenet_normalization;
    CHECK_OK(plb_image_store(&from, norm, 0, &batch));
    CHECK_FAILS(PLB_EINVAL, "picture 1 of a batch", plb_image_store(&from, norm, 1, &batch));
    batch.shape.dim[3] = 1;
    CHECK_FAILS(PLB_EINVAL, "found f32 [1, 3, 2, 1]", plb_image_store(&from, norm, 0, &batch));
}

static plb_status resize_one(void *context) {
    (void)context;
    uint8_t pixels[12] = {0};
    plb_image from = {pixels, 2, 2}, out;
    plb_status status = plb_image_resize_short(&from, 3, &out);
    CHECK(!status == !!out.pixels);
    plb_image_free(&out);
    return status;
}

static void no_memory_is_an_answer(void) {
    CHECK(fault_every_allocation(resize_one, NULL) >= 10); // 12 where weights are split
}

// COARSE has blocks' means alone, as a progressive file that was not sent to its end.
typedef enum scans { BASELINE, PROGRESSIVE, COARSE, SCANS } scans;

// A JPEG of noise and stripes, `across` x `down` luma samples to a chroma sample. The bytes are
// libjpeg's to allocate, the caller's to free().
static unsigned long encode(unsigned char **out, int width, int height, int across, int down,
                            scans kind) {
    static const jpeg_scan_info means = {.comps_in_scan = 3, .component_index = {0, 1, 2}};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned long size_bytes = 0;
    uint8_t row[3 * 512];
    uint32_t state = 1;
    JSAMPROW rows[1] = {row};
    *out = NULL;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, out, &size_bytes);
    c.image_width = (JDIMENSION)width, c.image_height = (JDIMENSION)height;
    c.input_components = 3, c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    c.comp_info[0].h_samp_factor = across, c.comp_info[0].v_samp_factor = down;
    if (kind == PROGRESSIVE) jpeg_simple_progression(&c);
    if (kind == COARSE) c.scan_info = &means, c.num_scans = 1;
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < 3 * width; x++) {
            state = state * 1664525 + 1013904223;
            row[x] = (uint8_t)((state >> 25) + (unsigned)(x / 3 * 5 + y * 3) % 128);
        }
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return size_bytes;
}

static plb_image_part choose_fixed(void *context, int64_t height, int64_t width) {
    (void)height, (void)width;
    return *(const plb_image_part *)context;
}

static void check_fixed(const uint8_t *bytes, size_t size_bytes, const plb_image *whole,
                        plb_image_part wanted, const char *name) {
    plb_image_part at;
    plb_image part;
    const plb_image_sink sink = {.choose = choose_fixed, .context = &wanted};
    CHECK_OK(plb_image_decode_part(bytes, size_bytes, name, NULL, &sink, &at, &part));
    if (!part.pixels) return;
    CHECK(at.top <= wanted.top && at.left <= wanted.left);
    CHECK(at.top + at.height >= wanted.top + wanted.height);
    CHECK(at.left + at.width >= wanted.left + wanted.width);
    CHECK(part.height == at.height && part.width == at.width);
    bool same = true;
    for (int64_t y = wanted.top; y < wanted.top + wanted.height; y++)
        same &=
            !memcmp(part.pixels + ((y - at.top) * part.width + wanted.left - at.left) * 3,
                    whole->pixels + (y * whole->width + wanted.left) * 3, (size_t)wanted.width * 3);
    CHECK_SAY(same, "%s: %d x %d at row %d, column %d", name, (int)wanted.height, (int)wanted.width,
              (int)wanted.top, (int)wanted.left);
    plb_image_free(&part);
}

// Chroma is interpolated over block borders: whatever the sampling, a part's pixels are those of
// the whole.
static void parts_of_any_sampling_are_exact(void) {
    static const int samplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};
    enum { WIDTH = 301, HEIGHT = 219 };
    uint32_t state = 7;
    static const char *const kinds[SCANS] = {"", ", progressive", ", coarse"};
    for (int k = 0; k < 6 * SCANS; k++) {
        const int *sampling = samplings[k / SCANS];
        char name[64];
        unsigned char *bytes;
        size_t size_bytes = encode(&bytes, WIDTH, HEIGHT, sampling[0], sampling[1], k % SCANS);
        plb_image whole;
        snprintf(name, sizeof name, "%d x %d%s", sampling[0], sampling[1], kinds[k % SCANS]);
        CHECK_OK(plb_image_decode(bytes, size_bytes, name, NULL, &whole));
        for (int i = 0; i < 40; i++) {
            int at[4];
            for (int j = 0; j < 4; j++) at[j] = (int)((state = state * 1664525 + 1013904223) >> 9);
            plb_image_part wanted = {.top = at[0] % HEIGHT, .left = at[1] % WIDTH};
            wanted.height = 1 + at[2] % (HEIGHT - wanted.top);
            wanted.width = 1 + at[3] % (WIDTH - wanted.left);
            check_fixed(bytes, size_bytes, &whole, wanted, name);
        }
        plb_image_free(&whole);
        free(bytes);
    }
}

// What lies below a part is not decoded, but a file that ends in it is still found out.
static void a_file_cut_below_the_part_is_refused(void) {
    unsigned char *bytes;
    size_t size_bytes = encode(&bytes, 301, 219, 2, 2, BASELINE);
    plb_image_part wanted = {0, 0, 16, 16}, at;
    const plb_image_sink sink = {.choose = choose_fixed, .context = &wanted};
    plb_image part;
    for (size_t cut = 1; cut < 1000; cut += 111) {
        CHECK_FAILS(
            PLB_EINVAL, "found the file's end",
            plb_image_decode_part(bytes, size_bytes - 2 - cut, "cut", NULL, &sink, &at, &part));
        CHECK(!part.pixels);
    }
    wanted = (plb_image_part){200, 0, 20, 16}; // not inside: everything
    CHECK_OK(plb_image_decode_part(bytes, size_bytes, "past", NULL, &sink, &at, &part));
    CHECK(at.height == 219 && at.width == 301 && part.height == 219);
    plb_image_free(&part);
    free(bytes);
}

static void planes_are_split_for_any_count(void) {
    uint8_t pixels[3 * 70], planes[3 * 70];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7 % 251);
    for (int64_t count = 1; count <= 70; count++) {
        const plb_image image = {pixels, 1, count};
        plb_image_to_planes(&image, planes);
        bool right = true;
        for (int64_t i = 0; i < count; i++)
            for (int64_t c = 0; c < 3; c++) right &= planes[c * count + i] == pixels[3 * i + c];
        CHECK_SAY(right, "%d pixels", (int)count);
    }
}

// The kernels for AVX2 against those in plain C, row by row and column by column.
static void plain_kernels_agree(void) {
#if defined(__x86_64__)
    enum { ROWS = 2, OUT = 9, TAPS = 4, WIDTH = 40 };
    uint8_t from[ROWS * WIDTH * 3], plain[ROWS][OUT * 3], fast[ROWS][OUT * 3];
    int64_t first[OUT], count[OUT];
    int32_t weights[OUT * TAPS];
    int16_t high[OUT * TAPS], low[OUT * TAPS];
    if (!__builtin_cpu_supports("avx2")) return;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * i * 31 % 256 | (i % 5 ? 0 : 255));
    for (int x = 0; x < OUT; x++) {
        const int32_t w[TAPS] = {x * 100003, 2000000 - x * 100003, 2194304, 0};
        first[x] = 3 * x, count[x] = 3;
        memcpy(weights + x * TAPS, w, sizeof w);
    }
    for (int i = 0; i < OUT * TAPS; i++) {
        high[i] = (int16_t)(weights[i] >> PLB_RESIZE_LOW_BITS);
        low[i] = (int16_t)(weights[i] & ((1 << PLB_RESIZE_LOW_BITS) - 1));
    }
    const plb_resize_filter f = {OUT, TAPS, first, count, weights, high, low};
    plb_resize_rows_avx2(fast[0], sizeof fast[0], from, WIDTH * 3, &f);
    for (int y = 0; y < ROWS; y++) plb_resize_row_plain(plain[y], from + y * WIDTH * 3, &f);
    CHECK(!memcmp(plain, fast, sizeof plain));
    uint8_t a[WIDTH * 3], b[WIDTH * 3];
    plb_resize_column_plain(a, from, WIDTH * 3, (int32_t[]){1500000, 2694304}, 2, WIDTH * 3);
    plb_resize_column_avx2(b, from, WIDTH * 3, (int32_t[]){1500000, 2694304}, 2, WIDTH * 3);
    CHECK(!memcmp(a, b, sizeof a));
#endif
}

static const check_test tests[] = {
    {"parts are as from everything", parts_are_as_from_everything},
    {"parts of any sampling are exact", parts_of_any_sampling_are_exact},
    {"planes are split for any count", planes_are_split_for_any_count},
    {"plain kernels agree", plain_kernels_agree},
    {"a file cut below the part is refused", a_file_cut_below_the_part_is_refused},
    {"small pictures grow as in torchvision", small_pictures_grow_as_in_torchvision},
    {"photos shrink as in torchvision", photos_shrink_as_in_torchvision},
    {"sides that stay are not touched", sides_that_stay_are_not_touched},
    {"crops round to even", crops_round_to_even},
    {"bad sizes are refused", bad_sizes_are_refused},
    {"no memory is an answer", no_memory_is_an_answer},
};
CHECK_MAIN(tests)
