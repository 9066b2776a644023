// SPDX-License-Identifier: Apache-2.0
// Pictures in tar files; archives that are unpacked, checked, and spoilt.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "check.h"
#include "data/archive.h"
#include "data/image_tar.h"
#include "data/registry.h"
#include "mini.h"

// ---------------------------------------------------------------------------- tar files
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

// CIFAR-100 and VOC have a class "train".
static void classes_may_be_called_like_splits(void) {
#ifdef PLB_HAVE_ARCHIVE
    plb_dataset *set = NULL;
    make_root();
    write_png("in/train/cat/1.png", 4, 1), write_png("in/train/train/2.png", 4, 2);
    write_png("in/test/cat/3.png", 4, 3), write_png("in/test/train/4.png", 4, 4);
    write_png("one/cat/5.png", 4, 5), write_png("one/train/6.png", 4, 6);
    write_png("flat/train/n00000001_a.png", 4, 7), write_png("flat/train/n00000002_b.png", 4, 8);
    write_png("flat/val/n00000001_c.png", 4, 9), write_png("flat/val/n00000002_d.png", 4, 10);
    shell("cd '%s' && tar cf in.tar in && cd one && tar cf ../one.tar . && cd ../flat && "
          "tar cf ../flat.tar train val",
          root);
    static const struct {
        const char *name;
        int reds[2][2];
    } cases[] = {{"in.tar", {{1, 2}, {3, 4}}},
                 {"one.tar", {{5, 6}, {5, 6}}},
                 {"flat.tar", {{7, 8}, {9, 10}}}};
    for (int k = 0; k < 6; k++) {
        CHECK_OK(plb_dataset_open(at(cases[k / 2].name), (plb_data_split)(k % 2), NULL, &set));
        check_reds(set, cases[k / 2].reds[k % 2], (const int[]){0, 1}, 2);
        CHECK(!strcmp(set->info.class_names[1], k < 4 ? "train" : "n00000002"));
        plb_dataset_free(set);
    }
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libarchive");
#endif
}

// GNU tar writes the second name of a file as a link to the first.
static void links_are_files_or_refused(void) {
#ifdef PLB_HAVE_ARCHIVE
    plb_dataset *set = NULL;
    plb_unpack_options all = {0}, below = {.prefix = "in/b/"};
    make_root();
    write_png("in/a/1.png", 4, 1);
    shell("mkdir '%s/in/b' '%s/out' && cd '%s' && ln in/a/1.png in/a/2.png && "
          "ln in/a/1.png in/b/3.png && "
          "tar cf x.tar in/a/1.png in/a/2.png in/b/3.png",
          root, root, root);
    CHECK_OK(plb_dataset_open(at("x.tar"), PLB_TRAIN, NULL, &set));
    check_reds(set, (const int[]){1, 1, 1}, (const int[]){0, 0, 1}, 3);
    plb_dataset_free(set);
    CHECK_OK(plb_archive_unpack(at("x.tar"), at("out"), &all));
    CHECK_OK(plb_archive_unpack(at("x.tar"), at("out"), &all)); // again, over what is there
    shell("cd '%s' && cmp in/a/1.png out/in/a/2.png && cmp in/a/1.png out/in/b/3.png", root);
    CHECK_FAILS(PLB_EINVAL,
                "x.tar: 3.png: expected the file in/a/1.png that it is a hard link to, found none",
                plb_archive_unpack(at("x.tar"), at("out"), &below));
    shell("cd '%s' && tar --delete -f x.tar in/a/1.png", root);
    CHECK_FAILS(PLB_EINVAL, "expected the file in/a/1.png that it is",
                plb_dataset_open(at("x.tar"), PLB_TRAIN, NULL, &set));
    shell("cd '%s' && ln -s ../a/1.png in/b/4.png && tar cf y.tar in/a/1.png in/b/4.png", root);
    CHECK_FAILS(PLB_EINVAL,
                "y.tar: in/b/4.png: expected a file, found a symbolic link to ../a/1.png",
                plb_dataset_open(at("y.tar"), PLB_TRAIN, NULL, &set));
    CHECK_FAILS(PLB_EINVAL, "in/b/4.png: expected a file",
                plb_archive_unpack(at("y.tar"), at("out"), &all));
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
    CHECK_FAILS(PLB_EINVAL,
                "cifar100: expected 50000 pictures to train, found 3 (and 1 more bad file)",
                plb_dataset_check("cifar100", root, NULL));
    plb_free(bytes);
    shell("rm -r '%s'", root);
#else
    SKIP("this build has no libarchive");
#endif
}

static bool note_bad(void *context, const char *file, const char *wrong) {
    (void)file;
    size_t length = strlen(context);
    if (wrong) snprintf((char *)context + length, 400 - length, "%s\n", strrchr(wrong, '/'));
    return true;
}

static bool stop_at_second(void *context, const char *file, const char *wrong) {
    (void)file, (void)wrong;
    return ++*(int *)context < 2;
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
    int seen = 0;
    const plb_check_report stopped = {stop_at_second, &seen};
    CHECK_FAILS(PLB_ECANCELLED, "interrupted", plb_dataset_check(folder, NULL, &stopped));
    CHECK(seen == 2);
    shell("rm -r '%s'", root);
}

static const check_test tests[] = {
    {"tar_files_have_classes_and_splits", tar_files_have_classes_and_splits},
    {"classes_may_be_called_like_splits", classes_may_be_called_like_splits},
    {"links_are_files_or_refused", links_are_files_or_refused},
    {"spoilt_archives_are_named", spoilt_archives_are_named},
    {"an_archive_is_unpacked_and_checked", an_archive_is_unpacked_and_checked},
    {"every_bad_picture_is_named", every_bad_picture_is_named},
};
CHECK_MAIN(tests)
