// SPDX-License-Identifier: Apache-2.0
// Mini editions of the stored sets, made here byte by byte, so that every right value is known; and
// the same cut short and spoilt.
#include <stdio.h>

#include <jpeglib.h>
#include <png.h>
#include <stdarg.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "check.h"
#include "data/archive.h"
#include "data/cache.h"
#include "data/cifar.h"
#include "data/contact_sheet.h"
#include "data/image_tar.h"
#include "data/inspect.h"
#include "data/registry.h"
#include "data/stl10.h"
#include "data/subset.h"
#include "data/voc.h"
#include "faults.h"

static char root[128];

static void make_root(void) {
    snprintf(root, sizeof root, "%s", fault_folder());
}

static void shell(const char *format, ...) {
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    CHECK_SAY(system(command) == 0, "%s", command);
}

static const char *at(const char *name) {
    static char path[4][320];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", root, name);
    return path[next];
}

static void write_file(const char *name, const void *bytes, size_t size_bytes) {
    char folder[320];
    snprintf(folder, sizeof folder, "%s", at(name));
    *strrchr(folder, '/') = '\0';
    CHECK_OK(plb_folder_make(folder));
    FILE *file = fopen(at(name), "wb");
    CHECK(file && fwrite(bytes, 1, size_bytes, file) == size_bytes);
    if (file) fclose(file);
}

static void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

// ---------------------------------------------------------------------------- CIFAR-100
static void cifar100_takes_the_fine_label(void) {
    enum { RECORD = 2 + 3072 };
    uint8_t bytes[2 * RECORD] = {0};
    plb_dataset *set = NULL;
    make_root();
    bytes[0] = 19, bytes[1] = 99;             // coarse, fine
    bytes[2] = 7, bytes[2 + 1024] = 8;        // first pixel, red and green
    bytes[RECORD] = 3, bytes[RECORD + 1] = 0; //
    bytes[RECORD + 2 + 3071] = 9;             // last pixel, blue
    write_file("train.bin", bytes, sizeof bytes);
    CHECK_OK(plb_cifar100_open(root, PLB_TRAIN, &set));
    CHECK(set->info.count == 2 && set->info.classes == 100 && !strcmp(set->info.name, "cifar100"));
    CHECK(!strcmp(set->info.class_names[0], "apple") && !strcmp(set->info.class_names[99], "worm"));
    uint8_t sample[3072];
    int64_t label;
    CHECK_OK(plb_dataset_get(set, 0, NULL, sample, &label));
    CHECK(label == 99 && sample[0] == 7 && sample[1024] == 8 && sample[2048] == 0);
    CHECK_OK(plb_dataset_get(set, 1, NULL, sample, &label));
    CHECK(label == 0 && sample[3071] == 9);
    plb_dataset_free(set);
    write_file("test.bin", bytes, sizeof bytes - 1);
    CHECK_FAILS(PLB_EINVAL, "test.bin: expected records of 3074 bytes, found 6147 bytes",
                plb_cifar100_open(root, PLB_TEST, &set));
    bytes[1] = 100;
    write_file("test.bin", bytes, sizeof bytes);
    CHECK_FAILS(PLB_EINVAL, "test.bin: label of record 0: expected below 100, found 100",
                plb_cifar100_open(root, PLB_TEST, &set));
    shell("rm -r '%s'", root);
}

// ---------------------------------------------------------------------------- STL-10
enum { SIDE = 96, STL_BYTES = 3 * SIDE * SIDE };

static uint8_t stl_value(int picture, int channel, int y, int x) {
    return (uint8_t)(picture * 100 + channel * 50 + y / 2 + (x == 95));
}

static void write_stl(void) {
    uint8_t *bytes = plb_alloc(2 * STL_BYTES);
    for (int p = 0; p < 2; p++)
        for (int c = 0; c < 3; c++)
            for (int x = 0; x < SIDE; x++) // columns, as published
                for (int y = 0; y < SIDE; y++)
                    bytes[p * STL_BYTES + (c * SIDE + x) * SIDE + y] = stl_value(p, c, y, x);
    write_file("train_X.bin", bytes, 2 * STL_BYTES);
    write_file("train_y.bin", "\x01\x0a", 2);
    plb_free(bytes);
}

static void stl10_comes_in_columns(void) {
    plb_dataset *set = NULL;
    make_root();
    write_stl();
    CHECK_OK(plb_stl10_open(root, PLB_TRAIN, &set));
    CHECK(set->info.count == 2 && set->info.height == SIDE && set->info.channels == 3);
    uint8_t *sample = plb_alloc(STL_BYTES);
    for (int p = 0; p < 2; p++) {
        int64_t label, wrong = 0;
        CHECK_OK(plb_dataset_get(set, p, NULL, sample, &label));
        CHECK(label == (p ? 9 : 0)); // counted from 1 in the file
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++)
                    wrong += sample[(c * SIDE + y) * SIDE + x] != stl_value(p, c, y, x);
        CHECK(wrong == 0);
    }
    CHECK(!strcmp(set->info.class_names[9], "truck"));
    plb_free(sample);
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
}

static void spoilt_stl10_is_named(void) {
    plb_dataset *set = NULL;
    make_root();
    write_stl();
    write_file("train_y.bin", "\x01", 1);
    CHECK_FAILS(PLB_EINVAL, "train_y.bin: expected 2 labels, one a picture, found 1",
                plb_stl10_open(root, PLB_TRAIN, &set));
    write_file("train_y.bin", "\x01\x00", 2);
    CHECK_FAILS(PLB_EINVAL, "label 1: expected 1 to 10, found 0",
                plb_stl10_open(root, PLB_TRAIN, &set));
    shell("truncate -s -1 '%s'", at("train_X.bin"));
    CHECK_FAILS(PLB_EINVAL, "train_X.bin: expected pictures of 27648 bytes, found 55295 bytes",
                plb_stl10_open(root, PLB_TRAIN, &set));
    CHECK_FAILS(PLB_EIO, "test_X.bin", plb_stl10_open(root, PLB_TEST, &set));
    shell("rm -r '%s'", root);
}

// ---------------------------------------------------------------------------- VOC
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

// ---------------------------------------------------------------------------- tar files
// A PNG of one colour: red = value.
static void write_png(const char *name, int side, int value) {
    uint8_t pixels[16 * 16 * 3] = {0}, packed[4000];
    for (int i = 0; i < side * side; i++) pixels[3 * i] = (uint8_t)value;
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)side,
                       .height = (png_uint_32)side,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = sizeof packed;
    CHECK(png_image_write_to_memory(&image, packed, &size, 0, pixels, 0, NULL));
    write_file(name, packed, size);
}

static void check_reds(const plb_dataset *set, const int *reds, const int *labels, int count) {
    CHECK_SAY(set->info.count == count, "found %d", (int)set->info.count);
    for (int i = 0; i < count && i < set->info.count; i++) {
        uint8_t sample[3 * 16 * 16];
        int64_t label;
        CHECK_OK(plb_dataset_get(set, i, NULL, sample, &label));
        CHECK_SAY(sample[0] == reds[i] && label == labels[i], "sample %d: red %d, label %d", i,
                  sample[0], (int)label);
    }
}

static void tar_files_have_classes_and_splits(void) {
#ifdef PLB_HAVE_ARCHIVE
    plb_dataset *set = NULL;
    plb_image_folder_options options = {0};
    make_root();
    write_png("in/train/b/1.png", 4, 11), write_png("in/train/a/2.png", 4, 12);
    write_png("in/train/a/1.png", 4, 13), write_png("in/val/a/9.png", 4, 14);
    write_text("in/train/a/notes.txt", "no picture");
    shell("cd '%s' && tar cf x.tar in && tar czf x.tar.gz in", root);
    static const char *const names[] = {"x.tar", "x.tar.gz"};
    for (int k = 0; k < 2; k++) {
        CHECK_OK(plb_dataset_open(at(names[k]), PLB_TRAIN, NULL, &set));
        check_reds(set, (const int[]){13, 12, 11}, (const int[]){0, 0, 1}, 3);
        CHECK(!strcmp(set->info.class_names[1], "b"));
        plb_dataset_free(set);
        CHECK_OK(plb_image_tar_open(at(names[k]), PLB_TEST, &options, &set));
        check_reds(set, (const int[]){14}, (const int[]){0}, 1);
        plb_dataset_free(set);
    }
    write_png("flat/n00000002_x.png", 4, 21), write_png("flat/n00000001_y.png", 4, 22);
    shell("cd '%s' && tar cf flat.tar flat", root);
    CHECK_OK(plb_image_tar_open(at("flat.tar"), PLB_TEST, &options, &set));
    check_reds(set, (const int[]){22, 21}, (const int[]){0, 1}, 2);
    CHECK(!strcmp(set->info.class_names[0], "n00000001"));
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libarchive");
#endif
}

static void spoilt_archives_are_named(void) {
#ifdef PLB_HAVE_ARCHIVE
    plb_dataset *set = NULL;
    plb_unpack_options all = {0}, other = {.prefix = "elsewhere/"};
    make_root();
    write_png("in/a/1.png", 16, 1);
    shell("cd '%s' && tar czf x.tar.gz in && truncate -s 60 x.tar.gz", root);
    CHECK_FAILS(PLB_EINVAL,
                "x.tar.gz: archive: ", plb_dataset_open(at("x.tar.gz"), PLB_TRAIN, NULL, &set));
    write_text("y.tar", "this is no archive");
    CHECK_FAILS(PLB_EINVAL,
                "y.tar: archive: ", plb_dataset_open(at("y.tar"), PLB_TRAIN, NULL, &set));
    write_text("in/only.txt", "no picture");
    shell("cd '%s' && tar cf z.tar in/only.txt", root);
    CHECK_FAILS(PLB_EINVAL, "z.tar: expected pictures (.jpg, .jpeg, .png), found none",
                plb_dataset_open(at("z.tar"), PLB_TRAIN, NULL, &set));
    CHECK_FAILS(PLB_EINVAL, "expected files below elsewhere/, found none",
                plb_archive_unpack(at("z.tar"), root, &other));
    shell("mkdir '%s/out' && cd '%s/in' && tar cPf ../evil.tar ../in/only.txt", root, root);
    CHECK_FAILS(PLB_EINVAL, "../in/only.txt: a name that leads out of the folder",
                plb_archive_unpack(at("evil.tar"), at("out"), &all));
    CHECK(fault_count_files(at("out")) == 0);
    // A picture in it that is none.
    write_text("bad/a/1.png", "not a picture");
    shell("cd '%s' && tar cf bad.tar bad", root);
    plb_image_folder_options sized = {.size = 4};
    CHECK_OK(plb_image_tar_open(at("bad.tar"), PLB_TRAIN, &sized, &set));
    uint8_t sample[48];
    CHECK_FAILS(PLB_EUNSUPPORTED, "bad.tar: bad/a/1.png",
                plb_dataset_get(set, 0, NULL, sample, NULL));
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libarchive");
#endif
}

// ---------------------------------------------------------------------------- getting and checking
// An archive that is there already is unpacked, and removed when all of it is.
static void an_archive_is_unpacked_and_checked(void) {
#ifdef PLB_HAVE_ARCHIVE
    uint8_t *bytes = plb_alloc(3 * 3074);
    plb_dataset *set = NULL;
    plb_dataset_options options = {0};
    make_root();
    options.root = root;
    bytes[1] = 4, bytes[3074 + 1] = 5, bytes[2 * 3074 + 1] = 6;
    write_file("cifar-100-binary/train.bin", bytes, 3 * 3074);
    write_file("cifar-100-binary/test.bin", bytes, 3074);
    shell("mkdir '%s/cifar100' && cd '%s' && tar czf cifar100/cifar-100-binary.tar.gz "
          "cifar-100-binary && rm -r cifar-100-binary",
          root, root);
    CHECK_FAILS(PLB_EMISSING, "cifar100: not on this machine",
                plb_dataset_open("cifar100", PLB_TRAIN, &options, &set));
    CHECK_OK(plb_dataset_download("cifar100", root, NULL));
    CHECK(fault_count_files(at("cifar100")) == 2); // the archive is gone
    CHECK_OK(plb_dataset_open("cifar100", PLB_TRAIN, &options, &set));
    CHECK(set->info.count == 3 && set->ops->label(set, 2) == 6);
    plb_dataset_free(set);
    CHECK_FAILS(PLB_EINVAL, "cifar100: expected 50000 pictures to train, found 3 (and 1 more bad",
                plb_dataset_check("cifar100", root, NULL));
    plb_free(bytes);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libarchive");
#endif
}

static void note_bad(void *context, const char *file, const char *wrong) {
    (void)file;
    size_t length = strlen(context);
    if (wrong) snprintf((char *)context + length, 400 - length, "%s\n", strrchr(wrong, '/'));
}

static void every_bad_picture_is_named(void) {
    char said[400] = "", folder[160];
    const plb_check_report report = {note_bad, said};
    make_root();
    write_png("set/train/a/1.png", 4, 1), write_png("set/train/a/2.png", 4, 2);
    write_text("set/train/a/3.png", "\x89PNG"), write_text("set/test/a/4.jpg", "no");
    snprintf(folder, sizeof folder, "%s", at("set"));
    CHECK_FAILS(PLB_EINVAL, "3.png", plb_dataset_check(folder, NULL, &report));
    CHECK_SAY(strstr(said, "/3.png") && strstr(said, "/4.jpg") && !strstr(said, "/1.png"), "%s",
              said);
    shell("rm -r '%s'", root);
}

// ---------------------------------------------------------------------------- cache
static void a_decoded_set_is_kept_on_the_disk(void) {
    plb_dataset *set = NULL;
    plb_image_folder_options options = {.size = 4};
    char folder[160];
    make_root();
    write_png("set/a/1.png", 4, 31), write_png("set/a/2.png", 16, 32),
        write_png("set/b/3.png", 4, 33);
    snprintf(folder, sizeof folder, "%s", at("set"));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(plb_image_folder_open(folder, &options, &set));
        CHECK(!set->ops->peek);
        CHECK_OK(plb_dataset_cache(&set, at("cache"), 2, NULL));
        CHECK(set->ops->peek && !strcmp(set->info.class_names[1], "b"));
        check_reds(set, (const int[]){31, 32, 33}, (const int[]){0, 0, 1}, 3);
        CHECK(((const uint8_t *)set->ops->peek(set, 2))[0] == 33);
        plb_dataset_free(set);
        CHECK(fault_count_files(at("cache")) == 1);
        // Cut short, it is made anew.
        if (round == 1) shell("truncate -s 4100 '%s'/*", at("cache"));
    }
    write_png("set/b/3.png", 4, 34); // another picture: another file
    CHECK_OK(plb_image_folder_open(folder, &options, &set));
    CHECK_OK(plb_dataset_cache(&set, at("cache"), 1, NULL));
    check_reds(set, (const int[]){31, 32, 34}, (const int[]){0, 0, 1}, 3);
    plb_dataset_free(set);
    CHECK(fault_count_files(at("cache")) == 2);
    // A set in memory stays as it is; one that cannot be decoded leaves nothing behind.
    plb_dataset_options drawn = {.count = 10};
    write_text("set/b/4.png", "no");
    CHECK_OK(plb_image_folder_open(folder, &options, &set));
    CHECK_FAILS(PLB_EUNSUPPORTED, "4.png", plb_dataset_cache(&set, at("cache"), 2, NULL));
    CHECK(set->info.count == 4 && fault_count_files(at("cache")) == 2);
    plb_dataset_free(set);
    CHECK_OK(plb_dataset_open("digits", PLB_TRAIN, &drawn, &set));
    plb_dataset *before = set;
    CHECK_OK(plb_dataset_cache(&set, at("cache"), 2, NULL));
    CHECK(set == before);
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
}

// ---------------------------------------------------------------------------- looking at sets
static plb_dataset *memory_set(const uint8_t *samples, const int64_t *labels, int64_t count) {
    plb_dataset_info info = {.name = "m", .count = count, .classes = 2, .channels = 3};
    info.height = 1, info.width = 2, info.dtype = PLB_U8;
    uint8_t *pixels = plb_alloc((size_t)count * 6);
    int64_t *copies = plb_alloc_array((size_t)count, sizeof *copies);
    memcpy(pixels, samples, (size_t)count * 6);
    memcpy(copies, labels, (size_t)count * sizeof *copies);
    plb_dataset *set = NULL;
    CHECK_OK(plb_memory_dataset_new(&info, pixels, copies, &set));
    return set;
}

static void shared_samples_are_found(void) {
    static const uint8_t a[] = "aaaaaabbbbbbcccccc", b[] = "xxxxxxccccccyyyyyyaaaaaa";
    static const int64_t labels[] = {0, 1, 1, 1};
    plb_dataset *train = memory_set(a, labels, 3), *test = memory_set(b, labels, 4);
    plb_shared_sample first[2] = {{0, 0}, {0, 0}};
    int64_t count = -1, counts[2];
    CHECK_OK(plb_dataset_shared(train, test, 2, NULL, first, 1, &count));
    CHECK(count == 2);
    bool one = first[0].a == 2 && first[0].b == 1, other = first[0].a == 0 && first[0].b == 3;
    CHECK((one || other) && first[1].a == 0 && first[1].b == 0);
    plb_dataset_class_counts(test, counts);
    CHECK(counts[0] == 1 && counts[1] == 3);
    plb_dataset_free(test);
    test = memory_set(b, labels, 1);
    CHECK_OK(plb_dataset_shared(train, test, 1, NULL, first, 1, &count));
    CHECK(count == 0);
    plb_dataset_free(train);
    plb_dataset_free(test);
}

static void a_part_of_a_set_is_drawn_by_chance(void) {
    plb_dataset *set = NULL, *again = NULL;
    plb_dataset_options drawn = {.count = 1000};
    int64_t counts[10], seen = 0;
    CHECK_OK(plb_dataset_open("digits", PLB_TRAIN, &drawn, &set));
    CHECK_OK(plb_dataset_open("digits", PLB_TRAIN, &drawn, &again));
    CHECK_OK(plb_dataset_subset(&set, 200, 1));
    CHECK_OK(plb_dataset_subset(&again, 200, 1));
    CHECK(set->info.count == 200 && !set->ops->peek);
    uint8_t a[784], b[784];
    plb_scratch scratch = {0};
    for (int64_t i = 0; i < 200; i++) {
        int64_t x, y;
        CHECK_OK(plb_dataset_get(set, i, &scratch, a, &x));
        CHECK_OK(plb_dataset_get(again, i, &scratch, b, &y));
        CHECK(x == y && !memcmp(a, b, sizeof a));
    }
    plb_dataset_class_counts(set, counts);
    for (int k = 0; k < 10; k++) seen += counts[k] > 5;
    CHECK(seen == 10); // of about 20 each
    plb_scratch_free(&scratch);
    plb_dataset *before = set;
    CHECK_OK(plb_dataset_subset(&set, 200, 1));
    CHECK(set == before);
    plb_dataset_free(set);
    plb_dataset_free(again);
}

static void a_sheet_shows_samples_beside_their_class(void) {
    uint8_t pixels[12] = {250, 0, 1, 2, 3, 4, 0, 251, 1, 2, 3, 4}; // red left, or red right
    static const int64_t labels[] = {0, 1};
    plb_dataset *set = memory_set(pixels, labels, 2);
    plb_contact_options options = {.columns = 1};
    plb_image sheet;
    CHECK_OK(plb_contact_sheet(set, &options, &sheet));
    // Pixels 24 times as large, beside 16 letters; below a line of text.
    int64_t left = 16 * 6 + 8, top = 7 + 8;
    const uint8_t *first = sheet.pixels + 3 * (top * sheet.width + left);
    CHECK(first[0] == 250 && first[1] == 1 && first[2] == 3);
    CHECK(first[3 * 24] == 0 && first[3 * 24 + 1] == 2 && first[3 * 24 + 2] == 4);
    CHECK(sheet.height == top + 2 * (24 + 4));
    const uint8_t *second = first + 3 * 28 * sheet.width;
    CHECK(second[0] == 0 && second[3 * 24] == 251);
    make_root();
    CHECK_OK(plb_image_write_png(&sheet, at("sheet.png")));
    plb_image again;
    CHECK_OK(plb_image_read(at("sheet.png"), NULL, &again));
    size_t bytes = (size_t)(sheet.width * sheet.height * 3);
    CHECK(again.width == sheet.width && !memcmp(again.pixels, sheet.pixels, bytes));
    plb_image_free(&again);
    plb_image_free(&sheet);
    plb_dataset_free(set);
    shell("rm -r '%s'", root);
}

static const check_test tests[] = {
    {"cifar100_takes_the_fine_label", cifar100_takes_the_fine_label},
    {"stl10_comes_in_columns", stl10_comes_in_columns},
    {"spoilt_stl10_is_named", spoilt_stl10_is_named},
    {"voc_gives_crops_without_the_difficult", voc_gives_crops_without_the_difficult},
    {"spoilt_voc_is_named", spoilt_voc_is_named},
    {"masks_are_palettes_of_classes", masks_are_palettes_of_classes},
    {"real_voc_photographs_are_read", real_voc_photographs_are_read},
    {"tar_files_have_classes_and_splits", tar_files_have_classes_and_splits},
    {"spoilt_archives_are_named", spoilt_archives_are_named},
    {"an_archive_is_unpacked_and_checked", an_archive_is_unpacked_and_checked},
    {"every_bad_picture_is_named", every_bad_picture_is_named},
    {"a_decoded_set_is_kept_on_the_disk", a_decoded_set_is_kept_on_the_disk},
    {"shared_samples_are_found", shared_samples_are_found},
    {"a_part_of_a_set_is_drawn_by_chance", a_part_of_a_set_is_drawn_by_chance},
    {"a_sheet_shows_samples_beside_their_class", a_sheet_shows_samples_beside_their_class},
};
CHECK_MAIN(tests)
