// SPDX-License-Identifier: Apache-2.0
#include "data/image_folder.h"

#include <png.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "check.h"
#include "data/cifar.h"
#include "data/loader.h"
#include "faults.h"

static char root[128];

static void make_root(void) {
    snprintf(root, sizeof root, "%s", fault_folder());
}

static void remove_root(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    CHECK(system(command) == 0);
}

static void write_file(const char *name, const void *bytes, size_t size_bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size_bytes, file) == size_bytes);
    if (file) fclose(file);
}

// A picture of one colour, red = value, green = 2, blue = 3.
static void write_png(const char *name, int width, int height, int value) {
    uint8_t pixels[64 * 64 * 3], packed[20000];
    for (int i = 0; i < width * height; i++) {
        pixels[3 * i] = (uint8_t)value, pixels[3 * i + 1] = 2, pixels[3 * i + 2] = 3;
    }
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = sizeof packed;
    CHECK(png_image_write_to_memory(&image, packed, &size, 0, pixels, 0, NULL));
    write_file(name, packed, size);
}

static void classes_and_files_are_sorted(void) {
    make_root();
    write_png("b/2.png", 4, 3, 22);
    write_png("b/10.PNG", 4, 3, 20);
    write_png("a/x.png", 4, 3, 10);
    write_png("C/y.png", 4, 3, 30);
    write_file("a/notes.txt", "no", 2);
    write_file("list.csv", "no", 2);
    write_png(".hidden/z.png", 4, 3, 1);
    plb_image_folder_options options = {.name = "mine"};
    plb_dataset *set = NULL;
    CHECK_OK(plb_image_folder_open(root, &options, &set));
    CHECK(set->info.count == 4 && set->info.classes == 3 && !strcmp(set->info.name, "mine"));
    CHECK(set->info.channels == 3 && set->info.height == 3 && set->info.width == 4);
    static const char *const names[] = {"C", "a", "b"}; // as Python sorts
    static const uint8_t reds[] = {30, 10, 20, 22};     // 10.PNG before 2.png
    static const int64_t labels[] = {0, 1, 2, 2};
    for (int k = 0; k < 3; k++) CHECK(!strcmp(set->info.class_names[k], names[k]));
    plb_scratch scratch = {0};
    for (int64_t i = 0; i < 4; i++) {
        uint8_t sample[36];
        int64_t label;
        CHECK_OK(plb_dataset_get(set, i, &scratch, sample, &label));
        CHECK(label == labels[i]);
        for (int k = 0; k < 12; k++)
            CHECK(sample[k] == reds[i] && sample[12 + k] == 2 && sample[24 + k] == 3);
    }
    char path[256];
    CHECK(strstr(plb_image_folder_path(set, 2, path, sizeof path), "/b/10.PNG"));
    plb_scratch_free(&scratch);
    plb_dataset_free(set);
    remove_root();
}

static void sizes_differ_or_are_made_equal(void) {
    make_root();
    write_png("a/1.png", 16, 12, 1);
    write_png("a/2.png", 40, 20, 2);
    plb_image_folder_options asis = {0}, sized = {.size = 8, .resize_short = 10};
    plb_image_folder_options bad = {.size = 8, .resize_short = 7};
    plb_dataset *set = NULL;
    uint8_t sample[3 * 16 * 12];
    CHECK_OK(plb_image_folder_open(root, &asis, &set));
    CHECK_OK(plb_dataset_get(set, 0, NULL, sample, NULL));
    CHECK_FAILS(PLB_EINVAL,
                "a/2.png: expected 16 x 12 pixels like the first picture, found 40 x 20",
                plb_dataset_get(set, 1, NULL, sample, NULL));
    plb_dataset_free(set);
    CHECK_OK(plb_image_folder_open(root, &sized, &set));
    CHECK(set->info.height == 8 && set->info.width == 8);
    CHECK_OK(plb_dataset_get(set, 1, NULL, sample, NULL));
    CHECK(sample[0] == 2 && sample[63] == 2 && sample[64] == 2 && sample[191] == 3);
    plb_dataset_free(set);
    CHECK_FAILS(PLB_EINVAL, "found 8 and 7", plb_image_folder_open(root, &bad, &set));
    remove_root();
}

static void what_cannot_be_read_is_named(void) {
    make_root();
    plb_image_folder_options options = {0};
    plb_dataset *set = NULL;
    CHECK_FAILS(PLB_EINVAL, "expected a folder for each class, found none",
                plb_image_folder_open(root, &options, &set));
    CHECK_FAILS(PLB_EIO, "/no/such", plb_image_folder_open("/no/such", &options, &set));
    write_png("a/1.png", 4, 4, 1);
    write_file("a/2.jpg", "\xff\xd8\xff\xe0 not a picture", 18);
    CHECK_OK(plb_image_folder_open(root, &options, &set));
    plb_loader_options load = {.batch = 2, .threads = 2};
    plb_loader *loader = NULL;
    plb_batch batch;
    CHECK_OK(plb_loader_new(set, &load, &loader));
    CHECK_FAILS(PLB_EINVAL, "a/2.jpg", plb_loader_next(loader, &batch));
    plb_loader_free(loader);
    plb_dataset_free(set);
    write_file("b/readme", "x", 1);
    CHECK_FAILS(PLB_EINVAL, "/b: expected pictures (.jpg, .jpeg, .png), found none",
                plb_image_folder_open(root, &options, &set));
    remove_root();
}

static plb_status open_and_read(void *context) {
    plb_image_folder_options options = {.size = 2};
    plb_dataset *set = NULL;
    uint8_t sample[12];
    PLB_TRY(plb_image_folder_open(context, &options, &set));
    plb_status status = plb_dataset_get(set, 0, NULL, sample, NULL);
    plb_dataset_free(set);
    return status;
}

static void every_failed_allocation_is_a_status(void) {
    make_root();
    write_png("a/1.png", 4, 4, 1);
    CHECK(fault_every_allocation(open_and_read, root) > 10);
    remove_root();
}

static void cifar_records_are_read(void) {
    make_root();
    uint8_t *bytes = plb_alloc(4 * 3073);
    for (int i = 0; i < 4; i++) {
        bytes[i * 3073] = (uint8_t)(i + 6);
        memset(bytes + i * 3073 + 1, 10 * i, 1024);
        memset(bytes + i * 3073 + 1025, 10 * i + 1, 2048);
    }
    plb_dataset *set = NULL;
    write_file("test_batch.bin", bytes, 4 * 3073);
    CHECK_OK(plb_cifar10_open(root, PLB_TEST, &set));
    CHECK(set->info.count == 4 && set->info.channels == 3 && set->info.height == 32);
    const uint8_t *third = set->ops->peek(set, 3);
    CHECK(set->ops->label(set, 3) == 9 && third[1023] == 30 && third[1024] == 31);
    plb_dataset_free(set);
    CHECK_FAILS(PLB_EIO, "data_batch_1.bin", plb_cifar10_open(root, PLB_TRAIN, &set));
    write_file("test_batch.bin", bytes, 4 * 3073 - 1);
    CHECK_FAILS(PLB_EINVAL, "test_batch.bin: expected records of 3073 bytes, found 12291",
                plb_cifar10_open(root, PLB_TEST, &set));
    bytes[3073] = 10;
    write_file("test_batch.bin", bytes, 4 * 3073);
    CHECK_FAILS(PLB_EINVAL, "label of record 1: expected below 10, found 10",
                plb_cifar10_open(root, PLB_TEST, &set));
    plb_free(bytes);
    remove_root();
}

static const check_test tests[] = {
    {"classes and files are sorted", classes_and_files_are_sorted},
    {"sizes differ or are made equal", sizes_differ_or_are_made_equal},
    {"what cannot be read is named", what_cannot_be_read_is_named},
    {"every failed allocation is a status", every_failed_allocation_is_a_status},
    {"CIFAR records are read", cifar_records_are_read},
};
CHECK_MAIN(tests)
