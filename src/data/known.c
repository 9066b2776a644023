// SPDX-License-Identifier: Apache-2.0
#include "data/known.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/folder.h"

static const char *const fashion_names[10] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                              "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                              "Bag",         "Ankle boot"};
static const char *const digit_names[10] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

// One archive, read in two ways.
#define VOC2012_FILES                                                                          \
    .folders = {"voc2012", "voc2012/VOCdevkit/VOC2012", "VOCdevkit/VOC2012"},                  \
    .marks = {"Annotations"},                                                                  \
    .archive = {"VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", 1999639040, \
                "VOCdevkit/VOC2012/", NULL},                                                   \
    .mirrors = {"http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",                             \
                "https://thor.robots.ox.ac.uk/pascal/VOC/voc2012/"}

// Checksums of the packed files are the publishers'; those of MNIST's contents are of the files
// that these unpack to. Sizes are of the files as the publishers serve them. Of STL-10 and VOC the
// publishers state no checksums; theirs are those that torchvision (datasets/stl10.py, voc.py)
// holds the same files against.
const plb_known_set plb_known_sets[] = {
    {.shown = {"mnist", "70,000 handwritten digits, 28 x 28 grey", false, true,
               "http://yann.lecun.com/exdb/mnist"},
     .kind = PLB_KNOWN_IDX,
     .folders = {"mnist", "MNIST/raw"},
     .files = {{"train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "6bbc9ace898e44ae57da46a324031adb"},
               {"train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432",
                "a25bea736e30d166cdddb491f175f624"},
               {"t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3",
                "2646ac647ad5339dbf082846283269ea"},
               {"t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c",
                "27ae3e4e09519cfbb04c329615203637"}},
     .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                 "http://yann.lecun.com/exdb/mnist/"},
     .info = {.name = "mnist",
              .classes = 10,
              .class_names = digit_names,
              .mean = {0.1307f},
              .std = {0.3081f}}},
    {.shown = {"fashion-mnist", "70,000 articles of clothing, 28 x 28 grey", false, true,
               "https://github.com/zalandoresearch/fashion-mnist"},
     .kind = PLB_KNOWN_IDX,
     .folders = {"fashion-mnist", "FashionMNIST/raw"},
     .files = {{"train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", NULL},
               {"train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe", NULL},
               {"t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79", NULL},
               {"t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310", NULL}},
     .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
     .info = {.name = "fashion-mnist",
              .classes = 10,
              .class_names = fashion_names,
              .mean = {0.2860f},
              .std = {0.3530f}}},
    {.shown = {"cifar10", "60,000 photographs of ten classes, 32 x 32", false, true,
               "https://www.cs.toronto.edu/~kriz/cifar.html"},
     .kind = PLB_KNOWN_CIFAR10,
     .folders = {"cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"},
     .packed = {"images/cifar10-jpeg.tar.gz"},
     .marks = {"test_batch.bin", "data_batch_1.bin", "train"},
     .archive = {"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170052171,
                 "cifar-10-batches-bin/", NULL},
     .mirrors = {"https://www.cs.toronto.edu/~kriz/"}},
    {.shown = {"cifar100", "60,000 photographs of a hundred classes, 32 x 32", false, true,
               "https://www.cs.toronto.edu/~kriz/cifar.html"},
     .kind = PLB_KNOWN_CIFAR100,
     .folders = {"cifar100", "cifar100/cifar-100-binary", "cifar-100-binary"},
     .marks = {"test.bin", "train.bin"},
     .archive = {"cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168513733,
                 "cifar-100-binary/", NULL},
     .mirrors = {"https://www.cs.toronto.edu/~kriz/"}},
    {.shown = {"stl10", "13,000 photographs of ten classes, 96 x 96", false, true,
               "https://cs.stanford.edu/~acoates/stl10/"},
     .kind = PLB_KNOWN_STL10,
     .folders = {"stl10", "stl10/stl10_binary", "stl10_binary"},
     .files = {{"train_X.bin", NULL, "918c2871b30a85fa023e0c44e0bee87f"},
               {"train_y.bin", NULL, "5a34089d4802c674881badbb80307741"},
               {"test_X.bin", NULL, "7f263ba9f9e0b06b93213547f721ac82"},
               {"test_y.bin", NULL, "36f9794fa4beb8a2c72628de14fa638e"}},
     .archive = {"stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb", 2640397119,
                 "stl10_binary/", "unlabeled_X.bin"},
     .mirrors = {"https://ai.stanford.edu/~acoates/stl10/"}},
    {.shown = {"voc2012", "objects cut out of 11,540 photographs, 20 classes", false, true,
               "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/"},
     .kind = PLB_KNOWN_VOC,
     VOC2012_FILES},
    {.shown = {"voc2012-images", "the same photographs, each with its classes", false, true,
               "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/"},
     .kind = PLB_KNOWN_VOC_IMAGES,
     VOC2012_FILES},
    {.shown = {"digits", "drawn digits, like MNIST's", true, false, NULL},
     .kind = PLB_KNOWN_DIGITS},
    {.shown = {"shapes", "drawn shapes of ten classes in colour, any size", true, false, NULL},
     .kind = PLB_KNOWN_SHAPES},
    {.shown = {"voc-shapes", "drawn shapes, twenty classes filled as VOC 2012's", true, false,
               NULL},
     .kind = PLB_KNOWN_VOC_SHAPES},
};

enum { SET_COUNT = sizeof plb_known_sets / sizeof *plb_known_sets, MAX_ROOTS = 2 };
const size_t plb_known_dataset_count = SET_COUNT;

const plb_known_dataset *plb_known_dataset_at(size_t i) {
    return i < SET_COUNT ? &plb_known_sets[i].shown : NULL;
}

plb_status plb_known_find(const char *name, const plb_known_set **out) {
    const char *names[SET_COUNT];
    for (size_t i = 0; i < SET_COUNT; i++) {
        names[i] = plb_known_sets[i].shown.name;
        *out = &plb_known_sets[i];
        if (!strcmp(name, names[i])) return PLB_OK;
    }
    *out = NULL;
    const char *nearest = plb_nearest_name(name, names, SET_COUNT);
    if (nearest) return plb_fail(PLB_EINVAL, "no dataset %s; did you mean %s?", name, nearest);
    return plb_fail(
        PLB_EINVAL,
        "no dataset %s; known are mnist, fashion-mnist, cifar10, cifar100, stl10, "
        "voc2012, voc2012-images, digits, shapes, voc-shapes, and any folder or tar file of "
        "pictures by its path",
        name);
}

static const char *set_variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static plb_status keep(const char *text, const char **out) {
    *out = text;
    return text ? PLB_OK : plb_fail(PLB_ENOMEM, "no memory for a path");
}

plb_status plb_data_root(plb_arena *arena, const char **out) {
    const char *own = set_variable("PLUMB_DATA"), *xdg = plb_folder_of_xdg("XDG_DATA_HOME");
    const char *home = set_variable("HOME");
    if (own) return keep(plb_arena_strdup(arena, own), out);
    if (xdg) return keep(plb_arena_printf(arena, "%s/plumb/data", xdg), out);
    if (home) return keep(plb_arena_printf(arena, "%s/.local/share/plumb/data", home), out);
    return plb_fail(PLB_EMISSING, "no place for data: none of PLUMB_DATA, XDG_DATA_HOME and HOME "
                                  "is set");
}

// The roots to look in; their number to *out_count.
static plb_status find_roots(const char *root, plb_arena *arena, const char *out[MAX_ROOTS],
                             int *out_count) {
    *out_count = 0;
    if (root) {
        out[(*out_count)++] = root;
        return PLB_OK;
    }
    const char *test = set_variable("PLUMB_TEST_DATA");
    plb_status status = plb_data_root(arena, &out[0]);
    if (!status) *out_count = 1;
    if (status == PLB_ENOMEM || (status && !test)) return status;
    if (test) out[(*out_count)++] = test;
    return PLB_OK;
}

bool plb_known_file(const char *folder, const char *name, char *path) {
    const char *const endings[] = {"", ".gz"};
    for (int k = 0; k < 2; k++) {
        int length = snprintf(path, PATH_MAX, "%s/%s%s", folder, name, endings[k]);
        if (length < PATH_MAX && plb_file_exists(path)) return true;
    }
    return false;
}

// Whether `folder` looks like the set: any file of it, so that an incomplete set is named by the
// file that it lacks. An archive in it is one that was not unpacked to its end.
static bool holds(const plb_known_set *set, const char *folder) {
    char path[PATH_MAX];
    if (set->archive.name && plb_known_file(folder, set->archive.name, path)) return false;
    for (int i = 0; i < PLB_KNOWN_FILES && set->files[i].name; i++)
        if (plb_known_file(folder, set->files[i].name, path)) return true;
    for (int i = 0; i < 4 && set->marks[i]; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, set->marks[i]);
        if (length < PATH_MAX && (plb_file_exists(path) || plb_folder_exists(path))) return true;
    }
    return false;
}

static plb_status missing(const plb_known_set *set, const char *const *roots, int count) {
    const char *name = set->shown.name, *folder = set->folders[0];
    char hint[160] = "";
    if (set->shown.downloadable)
        snprintf(hint, sizeof hint, "; plumb data get %s downloads it", name);
    return plb_fail(PLB_EMISSING, "%s: not on this machine: looked for %s/%s%s%s%s%s%s", name,
                    roots[0], folder, count > 1 ? " and " : "", count > 1 ? roots[1] : "",
                    count > 1 ? "/" : "", count > 1 ? folder : "", hint);
}

plb_status plb_known_locate(const plb_known_set *set, const char *root, plb_arena *arena,
                            const char **out) {
    const char *roots[MAX_ROOTS];
    int count;
    if (set->shown.drawn)
        return plb_fail(PLB_EUNSUPPORTED, "%s: is drawn on demand and has no folder",
                        set->shown.name);
    PLB_TRY(find_roots(root, arena, roots, &count));
    for (int r = 0; r < count; r++) {
        for (int f = 0; f < 5 && set->folders[f]; f++) {
            PLB_TRY(keep(plb_arena_printf(arena, "%s/%s", roots[r], set->folders[f]), out));
            if (holds(set, *out)) return PLB_OK;
        }
        for (int f = 0; f < 2 && set->packed[f]; f++) {
            PLB_TRY(keep(plb_arena_printf(arena, "%s/%s", roots[r], set->packed[f]), out));
            if (plb_file_exists(*out)) return PLB_OK;
        }
    }
    return missing(set, roots, count);
}

plb_status plb_known_lacks(const plb_known_set *set, const char *folder, const char *file) {
    return plb_fail(PLB_EMISSING, "%s: expected %s or %s.gz in %s, found neither", set->shown.name,
                    file, file, folder);
}
