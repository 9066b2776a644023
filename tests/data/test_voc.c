// SPDX-License-Identifier: Apache-2.0
// Objects, pictures and masks of VOC, made here and real ones, whole and spoilt.
#include <stdio.h>

#include <jpeglib.h>

#include "base/core/status.h"
#include "check.h"
#include "data/archive.h"
#include "data/cache.h"
#include "data/inspect.h"
#include "data/voc.h"
#include "mini.h"

// Left half red 200, right half green 200.
static void write_jpeg(const char *name, int width, int height) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    uint8_t row[3 * 256];
    write_text(name, "");
    FILE *file = fopen(at(name), "wb");
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, file);
    c.image_width = (JDIMENSION)width, c.image_height = (JDIMENSION)height;
    c.input_components = 3, c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 98, TRUE);
    jpeg_start_compress(&c, TRUE);
    for (int x = 0; x < width; x++)
        row[3 * x] = x < width / 2 ? 200 : 0, row[3 * x + 1] = x < width / 2 ? 0 : 200,
                row[3 * x + 2] = 0;
    JSAMPROW rows[1] = {row};
    for (int y = 0; y < height; y++) jpeg_write_scanlines(&c, rows, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    fclose(file);
}

#define OBJECT(name, difficult, xmin, ymin, xmax, ymax)                                    \
    "<object><name>" name "</name><difficult>" difficult "</difficult><bndbox><xmin>" xmin \
    "</xmin><ymin>" ymin "</ymin><xmax>" xmax "</xmax><ymax>" ymax "</ymax></bndbox></object>\n"
#define PICTURE(objects) \
    "<annotation>\n<size><width>64</width><height>32</height></size>\n" objects "</annotation>\n"

static void write_voc(void) {
    write_jpeg("JPEGImages/a.jpg", 64, 32);
    write_jpeg("JPEGImages/b.jpg", 64, 32);
    write_text("Annotations/a.xml", PICTURE(OBJECT("dog", "0", "1", "1", "24",
                                                   "32") OBJECT("cat", "1", "1", "1", "64", "32")
                                                OBJECT("person", "0", "40.6", "2", "64", "31")));
    write_text("Annotations/b.xml", PICTURE(OBJECT("aeroplane", "0", "33", "1", "64", "32")));
    write_text("ImageSets/Main/train.txt", "a\n");
    write_text("ImageSets/Main/val.txt", "b  1\n");
}

// The mean of a plane, in JPEG's reach of the true value.
static void check_colour(const uint8_t *sample, int64_t size, int red, int green) {
    int64_t plane = size * size, sum[3] = {0};
    for (int64_t k = 0; k < 3 * plane; k++) sum[k / plane] += sample[k];
    CHECK_NEAR((double)sum[0] / (double)plane, red, 6);
    CHECK_NEAR((double)sum[1] / (double)plane, green, 6);
    CHECK_NEAR((double)sum[2] / (double)plane, 0, 6);
}

static void voc_gives_crops_without_the_difficult(void) {
#ifdef PLB_HAVE_XML
    plb_dataset *set = NULL;
    plb_voc_options options = {.form = PLB_VOC_CROPS, .size = 16};
    uint8_t sample[3 * 16 * 16];
    int64_t label;
    make_root();
    write_voc();
    CHECK_OK(plb_voc_open(root, PLB_TRAIN, &options, &set));
    CHECK(set->info.count == 2 && set->info.classes == 20 && set->info.height == 16);
    CHECK_OK(plb_dataset_get(set, 0, NULL, sample, &label));
    CHECK(label == 11 && !strcmp(set->info.class_names[label], "dog"));
    check_colour(sample, 16, 200, 0);
    CHECK_OK(plb_dataset_get(set, 1, NULL, sample, &label));
    CHECK(label == 14); // person
    check_colour(sample, 16, 0, 200);
    CHECK(plb_voc_classes(set, 0) == 1 << 11 && plb_voc_classes(set, 1) == 1 << 14);
    char path[256];
    CHECK(strstr(plb_voc_path(set, 1, path, sizeof path), "JPEGImages/a.jpg"));
    plb_dataset_free(set);
    CHECK_OK(plb_voc_open(root, PLB_TEST, &options, &set));
    CHECK(set->info.count == 1 && set->ops->label(set, 0) == 0);
    plb_dataset_free(set);
    // As pictures with all their classes: the larger object, 24 x 30 against 24 x 32, is the label.
    options.form = PLB_VOC_IMAGES;
    CHECK_OK(plb_voc_open(root, PLB_TRAIN, &options, &set));
    CHECK(set->info.count == 1 && plb_voc_classes(set, 0) == (1 << 11 | 1 << 14));
    CHECK(set->ops->label(set, 0) == 11);
    CHECK_OK(plb_dataset_get(set, 0, NULL, sample, &label));
    check_colour(sample, 16, 100, 100); // both halves
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libxml2");
#endif
}

// b.jpg has one object: cut out or whole, renamed or not, it is another set in the same place.
static void forms_and_classes_have_caches_of_their_own(void) {
#ifdef PLB_HAVE_XML
    plb_dataset *set = NULL;
    plb_voc_options options = {.form = PLB_VOC_CROPS, .size = 16};
    uint8_t sample[3 * 16 * 16];
    make_root();
    write_voc();
    for (int k = 0; k < 3; k++) {
        if (k == 1) options.form = PLB_VOC_IMAGES;
        if (k == 2)
            write_text("Annotations/b.xml", PICTURE(OBJECT("boat", "0", "33", "1", "64", "32")));
        CHECK_OK(plb_voc_open(root, PLB_TEST, &options, &set));
        CHECK_OK(plb_dataset_cache(&set, at("cache"), 1, NULL));
        CHECK_OK(plb_dataset_get(set, 0, NULL, sample, NULL));
        check_colour(sample, 16, k ? 100 : 0, k ? 100 : 200);
        CHECK(
            !strcmp(set->info.class_names[set->ops->label(set, 0)], k == 2 ? "boat" : "aeroplane"));
        plb_dataset_free(set);
    }
    CHECK(fault_count_files(at("cache")) == 3);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libxml2");
#endif
}

static void spoilt_voc_is_named(void) {
#ifdef PLB_HAVE_XML
    static const struct {
        const char *xml, *words;
    } cases[] = {
        {PICTURE(OBJECT("dog", "0", "1", "1", "65", "32")),
         "a.xml, line 3: <bndbox>: expected a box within 64 x 32 pixels, found 1, 1 to 65, 32"},
        {PICTURE(OBJECT("dog", "0", "9", "1", "8", "32")), "found 9, 1 to 8, 32"},
        {PICTURE(OBJECT("wolf", "0", "1", "1", "8", "8")),
         "line 3: <name>: expected one of VOC's 20 classes, found wolf"},
        {PICTURE(OBJECT("dog", "0", "x", "1", "8", "8")), "<xmin>: expected a number, found x"},
        {PICTURE("<object><name>dog</name></object>"), "expected a <bndbox>, found none"},
        {"<annotation></annotation>", "a.xml: expected a <size>, found none"},
        {"<annotation>\n<size>", "a.xml, line 2: XML: "},
        {"<html/>", "expected an <annotation>, found <html>"},
    };
    plb_dataset *set = NULL;
    plb_voc_options options = {.size = 16};
    make_root();
    write_voc();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("Annotations/a.xml", cases[i].xml);
        CHECK_FAILS(PLB_EINVAL, cases[i].words, plb_voc_open(root, PLB_TRAIN, &options, &set));
    }
    write_text("ImageSets/Main/train.txt", "gone\n");
    CHECK_FAILS(PLB_EIO, "Annotations/gone.xml", plb_voc_open(root, PLB_TRAIN, &options, &set));
    CHECK_OK(plb_voc_open(root, PLB_TEST, &options, &set));
    shell("truncate -s 300 '%s'", at("JPEGImages/b.jpg"));
    uint8_t sample[3 * 16 * 16];
    CHECK_FAILS(PLB_EINVAL, "JPEGImages/b.jpg", plb_dataset_get(set, 0, NULL, sample, NULL));
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libxml2");
#endif
}

static void write_mask(const char *name, int format, const uint8_t *pixels) {
    uint8_t packed[2000], palette[256 * 3] = {0};
    png_image image = {.version = PNG_IMAGE_VERSION, .width = 3, .height = 2};
    image.format = (png_uint_32)format, image.colormap_entries = 256;
    png_alloc_size_t size = sizeof packed;
    CHECK_SAY(png_image_write_to_memory(&image, packed, &size, 0, pixels, 0, palette), "%s",
              image.message);
    write_file(name, packed, size);
}

static void masks_are_palettes_of_classes(void) {
    static const uint8_t pixels[6] = {0, 1, 20, 255, 15, 0}, bad[6] = {0, 1, 20, 255, 21, 0};
    static const uint8_t grey[6] = {0};
    plb_index_image mask;
    make_root();
    write_mask("m.png", PNG_FORMAT_RGB_COLORMAP, pixels);
    CHECK_OK(plb_voc_mask_read(at("m.png"), &mask));
    CHECK(mask.width == 3 && mask.height == 2 && !memcmp(mask.index, pixels, 6));
    plb_index_image_free(&mask);
    write_mask("bad.png", PNG_FORMAT_RGB_COLORMAP, bad);
    CHECK_FAILS(PLB_EINVAL, "pixel 1 of row 1: expected a class up to 20 or 255, found 21",
                plb_voc_mask_read(at("bad.png"), &mask));
    write_mask("grey.png", PNG_FORMAT_GRAY, grey);
    CHECK_FAILS(PLB_EUNSUPPORTED, "expected a PNG with a palette",
                plb_voc_mask_read(at("grey.png"), &mask));
    shell("truncate -s 60 '%s'", at("m.png"));
    CHECK_FAILS(PLB_EINVAL, "m.png", plb_voc_mask_read(at("m.png"), &mask));
    shell("rm -r '%s'", root);
}

// Right values by Python's ElementTree and PIL (crop, then resize to 8 x 8, bilinear).
static void real_voc_photographs_are_read(void) {
#if defined(PLB_HAVE_XML) && defined(PLB_HAVE_ARCHIVE)
    const char *given = getenv("PLUMB_TEST_DATA");
    char archive[512];
    snprintf(archive, sizeof archive, "%s/images/voc-samples.tar.gz",
             given ? given : "../shared/data");
    if (!plb_file_exists(archive)) SKIP("no VOC samples under PLUMB_TEST_DATA");
    plb_unpack_options unpack = {.prefix = "voc-samples/", .skip = "class_names.txt"};
    plb_voc_options options = {.size = 8};
    plb_dataset *set = NULL;
    make_root();
    CHECK_OK(plb_archive_unpack(archive, root, &unpack));
    CHECK(!plb_file_exists(at("class_names.txt")));
    CHECK_OK(plb_voc_open(root, PLB_TRAIN, &options, &set));
    CHECK(set->info.count == 9);
    int64_t counts[20];
    plb_dataset_class_counts(set, counts);
    CHECK(counts[5] == 2 && counts[6] == 1 && counts[14] == 6); // bus, car, person
    uint8_t sample[3 * 64];
    int64_t sum = 0;
    CHECK_OK(plb_dataset_get(set, 2, NULL, sample, NULL));
    for (int k = 0; k < 3 * 64; k++) sum += sample[k];
    CHECK(sample[0] == 97 && sample[64] == 66 && sample[128] == 46 && sum == 11035);
    plb_dataset_free(set);
    plb_index_image mask;
    CHECK_OK(plb_voc_mask_read(at("SegmentationClass/2011_000025.png"), &mask));
    int64_t buses = 0;
    for (int64_t k = 0; k < mask.width * mask.height; k++) buses += mask.index[k] == 6;
    CHECK(mask.width == 500 && mask.height == 375 && buses == 118222);
    plb_index_image_free(&mask);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libxml2 or no libarchive");
#endif
}

static const check_test tests[] = {
    {"voc_gives_crops_without_the_difficult", voc_gives_crops_without_the_difficult},
    {"forms_and_classes_have_caches_of_their_own", forms_and_classes_have_caches_of_their_own},
    {"spoilt_voc_is_named", spoilt_voc_is_named},
    {"masks_are_palettes_of_classes", masks_are_palettes_of_classes},
    {"real_voc_photographs_are_read", real_voc_photographs_are_read},
};
CHECK_MAIN(tests)
