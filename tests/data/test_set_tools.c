// SPDX-License-Identifier: Apache-2.0
// What is done with any set: kept decoded, compared, cut to a part, shown.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "check.h"
#include "data/cache.h"
#include "data/contact_sheet.h"
#include "data/image_folder.h"
#include "data/inspect.h"
#include "data/registry.h"
#include "data/subset.h"
#include "mini.h"

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

// Both splits lie in one file, are equally large and have the same classes.
static void splits_of_a_tar_have_caches_of_their_own(void) {
#ifdef PLB_HAVE_ARCHIVE
    plb_dataset *set = NULL;
    make_root();
    write_png("in/train/a/1.png", 4, 41), write_png("in/train/b/2.png", 4, 42);
    write_png("in/test/a/1.png", 4, 43), write_png("in/test/b/2.png", 4, 44);
    shell("cd '%s' && tar cf x.tar in", root);
    for (int split = 0; split < 2; split++) {
        CHECK_OK(plb_dataset_open(at("x.tar"), (plb_data_split)split, NULL, &set));
        CHECK_OK(plb_dataset_cache(&set, at("cache"), 1, NULL));
        check_reds(set, (const int[]){split ? 43 : 41, split ? 44 : 42}, (const int[]){0, 1}, 2);
        plb_dataset_free(set);
    }
    CHECK(fault_count_files(at("cache")) == 2);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libarchive");
#endif
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

static void open_classes(const char *name, plb_data_split split, plb_dataset **out) {
    CHECK_OK(plb_dataset_open(at(name), split, NULL, out));
}

// As far as it is known: names where both parts have them, else how many.
static void classes_of_two_parts_are_compared(void) {
    static const uint8_t pixels[] = "aaaaaabbbbbb";
    static const int64_t labels[] = {0, 1};
    plb_dataset *train = NULL, *test = NULL, *bare = memory_set(pixels, labels, 2);
    make_root();
    write_png("x/train/Cat/1.png", 4, 1), write_png("x/train/bird/1.png", 4, 2);
    write_png("x/test/bird/1.png", 4, 3), write_png("x/test/cat/1.png", 4, 4);
    open_classes("x", PLB_TRAIN, &train), open_classes("x", PLB_TEST, &test);
    CHECK_FAILS(PLB_EINVAL,
                "x/test: class 0 of the part to test: expected Cat, as in the part to train, "
                "found bird",
                plb_dataset_same_classes(train, test));
    CHECK_OK(plb_dataset_same_classes(train, train));
    CHECK_OK(plb_dataset_same_classes(train, bare));
    plb_dataset_free(test);
    write_png("y/Cat/1.png", 4, 1), write_png("y/bird/1.png", 4, 1), write_png("y/cow/1.png", 4, 1);
    open_classes("y", PLB_TEST, &test);
    CHECK_FAILS(PLB_EINVAL,
                "class 2 of the part to test: expected none, as in the part to train, "
                "found cow",
                plb_dataset_same_classes(train, test));
    CHECK_FAILS(PLB_EINVAL, "expected 2 classes to test, as many as to train, found 3",
                plb_dataset_same_classes(bare, test));
    plb_dataset_free(bare), plb_dataset_free(train), plb_dataset_free(test);
    shell("rm -r '%s'", root);
}

// A folder or tar file without parts is the same set twice, and only then are the sources the same.
static void one_part_taken_for_two_is_known(void) {
    make_root();
    write_png("one/a/1.png", 4, 1), write_png("one/b/2.png", 4, 2);
    write_png("two/train/a/1.png", 4, 1), write_png("two/test/a/1.png", 4, 1);
#ifdef PLB_HAVE_ARCHIVE
    shell("cd '%s' && tar cf one.tar one && tar cf two.tar two", root);
    static const char *const names[] = {"one", "two", "one.tar", "two.tar"};
#else
    static const char *const names[] = {"one", "two"};
#endif
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        plb_dataset *sets[2] = {NULL, NULL};
        bool same = k % 2;
        for (int split = 0; split < 2; split++)
            open_classes(names[k], (plb_data_split)split, &sets[split]);
        CHECK_OK(plb_dataset_same_source(sets[0], sets[1], &same));
        CHECK(same == (k % 2 == 0));
        for (int split = 0; split < 2; split++) plb_dataset_free(sets[split]);
    }
    shell("rm -r '%s'", root);
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
    {"a_decoded_set_is_kept_on_the_disk", a_decoded_set_is_kept_on_the_disk},
    {"splits_of_a_tar_have_caches_of_their_own", splits_of_a_tar_have_caches_of_their_own},
    {"shared_samples_are_found", shared_samples_are_found},
    {"classes_of_two_parts_are_compared", classes_of_two_parts_are_compared},
    {"one_part_taken_for_two_is_known", one_part_taken_for_two_is_known},
    {"a_part_of_a_set_is_drawn_by_chance", a_part_of_a_set_is_drawn_by_chance},
    {"a_sheet_shows_samples_beside_their_class", a_sheet_shows_samples_beside_their_class},
};
CHECK_MAIN(tests)
