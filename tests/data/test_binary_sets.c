// SPDX-License-Identifier: Apache-2.0
// The records of CIFAR-100 and STL-10, whole, cut short and spoilt.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "check.h"
#include "data/cifar.h"
#include "data/stl10.h"
#include "mini.h"

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

static const check_test tests[] = {
    {"cifar100_takes_the_fine_label", cifar100_takes_the_fine_label},
    {"stl10_comes_in_columns", stl10_comes_in_columns},
    {"spoilt_stl10_is_named", spoilt_stl10_is_named},
};
CHECK_MAIN(tests)
