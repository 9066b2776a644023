// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "data/transform.h"
#include "faults.h"
#include "io/golden.h"

static int compared, other_pixels;

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
    CHECK(fault_every_allocation(resize_one, NULL) == 10);
}

static const check_test tests[] = {
    {"small pictures grow as in torchvision", small_pictures_grow_as_in_torchvision},
    {"photos shrink as in torchvision", photos_shrink_as_in_torchvision},
    {"sides that stay are not touched", sides_that_stay_are_not_touched},
    {"crops round to even", crops_round_to_even},
    {"bad sizes are refused", bad_sizes_are_refused},
    {"no memory is an answer", no_memory_is_an_answer},
};
CHECK_MAIN(tests)
