// SPDX-License-Identifier: Apache-2.0
#include "data/registry.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/folder.h"
#include "data/cifar.h"
#include "data/download.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/synthetic.h"

// A file as published: MD5 of the .gz and, where known, of what is in it.
typedef struct published_file {
    const char *name, *packed_md5, *content_md5;
} published_file;

// Images and labels to train, images and labels to test, as plb_data_split counts.
typedef struct known {
    plb_known_dataset shown;
    enum { IDX, CIFAR, DIGITS, SHAPES } kind;
    const char *folders[3]; // below a root, ours first; NULL ends
    published_file files[4];
    const char *mirrors[2];
    plb_dataset_info info;
} known;

static const char *const fashion_names[10] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                              "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                              "Bag",         "Ankle boot"};
static const char *const digit_names[10] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

// Checksums of the packed files are the publishers'; those of MNIST's contents are of the files
// that these unpack to.
static const known sets[] = {
    {.shown = {"mnist", "70,000 handwritten digits, 28 x 28 grey", false, true},
     .kind = IDX,
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
    {.shown = {"fashion-mnist", "70,000 articles of clothing, 28 x 28 grey", false, true},
     .kind = IDX,
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
    {.shown = {"cifar10", "60,000 photographs of ten classes, 32 x 32", false, false},
     .kind = CIFAR,
     .folders = {"cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"}},
    {.shown = {"digits", "drawn digits, like MNIST's", true, false}, .kind = DIGITS},
    {.shown = {"shapes", "drawn shapes of ten classes in colour, any size", true, false},
     .kind = SHAPES},
};

enum { SET_COUNT = sizeof sets / sizeof *sets, MAX_ROOTS = 2 };
const size_t plb_known_dataset_count = SET_COUNT;

const plb_known_dataset *plb_known_dataset_at(size_t i) {
    return i < SET_COUNT ? &sets[i].shown : NULL;
}

static plb_status find_known(const char *name, const known **out) {
    const char *names[SET_COUNT];
    for (size_t i = 0; i < SET_COUNT; i++) {
        names[i] = sets[i].shown.name;
        *out = &sets[i];
        if (!strcmp(name, names[i])) return PLB_OK;
    }
    *out = NULL;
    const char *nearest = plb_nearest_name(name, names, SET_COUNT);
    if (nearest) return plb_fail(PLB_EINVAL, "no dataset %s; did you mean %s?", name, nearest);
    return plb_fail(PLB_EINVAL,
                    "no dataset %s; known are mnist, fashion-mnist, cifar10, digits, shapes, and "
                    "any folder of pictures by its path",
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
    const char *own = set_variable("PLUMB_DATA"), *xdg = set_variable("XDG_DATA_HOME");
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

// The path of a published file in `folder`, packed or not, if it is there.
static bool find_file(const char *folder, const char *name, char path[PATH_MAX]) {
    const char *const endings[] = {"", ".gz"};
    for (int k = 0; k < 2; k++) {
        int length = snprintf(path, PATH_MAX, "%s/%s%s", folder, name, endings[k]);
        if (length < PATH_MAX && plb_file_exists(path)) return true;
    }
    return false;
}

// Whether `folder` looks like the set: any file of it, so that an incomplete set is named by the
// file that it lacks.
static bool holds(const known *set, const char *folder) {
    char path[PATH_MAX];
    for (int i = 0; set->kind == IDX && i < 4; i++)
        if (find_file(folder, set->files[i].name, path)) return true;
    if (set->kind != CIFAR) return false;
    if (find_file(folder, "test_batch.bin", path)) return true;
    if (find_file(folder, "data_batch_1.bin", path)) return true;
    int length = snprintf(path, sizeof path, "%s/train", folder);
    return length < PATH_MAX && plb_folder_exists(path);
}

static plb_status missing(const known *set, const char *const *roots, int count) {
    const char *name = set->shown.name;
    char hint[160] = "";
    if (set->shown.downloadable)
        snprintf(hint, sizeof hint, "; plumb data get %s downloads it", name);
    return plb_fail(PLB_EMISSING, "%s: not on this machine: looked for %s/%s%s%s%s%s%s", name,
                    roots[0], name, count > 1 ? " and " : "", count > 1 ? roots[1] : "",
                    count > 1 ? "/" : "", count > 1 ? name : "", hint);
}

static plb_status locate(const known *set, const char *root, plb_arena *arena, const char **out) {
    const char *roots[MAX_ROOTS];
    int count;
    if (set->shown.drawn)
        return plb_fail(PLB_EUNSUPPORTED, "%s: is drawn on demand and has no folder",
                        set->shown.name);
    PLB_TRY(find_roots(root, arena, roots, &count));
    for (int r = 0; r < count; r++) {
        for (int f = 0; f < 3 && set->folders[f]; f++) {
            PLB_TRY(keep(plb_arena_printf(arena, "%s/%s", roots[r], set->folders[f]), out));
            if (holds(set, *out)) return PLB_OK;
        }
    }
    return missing(set, roots, count);
}

plb_status plb_dataset_locate(const char *name, const char *root, plb_arena *arena,
                              const char **out) {
    const known *set;
    PLB_TRY(find_known(name, &set));
    return locate(set, root, arena, out);
}

static plb_status lacks(const known *set, const char *folder, const char *file) {
    return plb_fail(PLB_EMISSING, "%s: expected %s or %s.gz in %s, found neither", set->shown.name,
                    file, file, folder);
}

static plb_status open_idx(const known *set, const char *folder, plb_data_split split,
                           plb_dataset **out) {
    const published_file *file = &set->files[split == PLB_TEST ? 2 : 0];
    char images[PATH_MAX], labels[PATH_MAX];
    if (!find_file(folder, file[0].name, images)) return lacks(set, folder, file[0].name);
    if (!find_file(folder, file[1].name, labels)) return lacks(set, folder, file[1].name);
    return plb_idx_dataset_open(&set->info, images, labels, out);
}

// A split's folder below `path`: "train", or "test" or "val"; where none is there, `path` itself if
// `or_itself`.
static plb_status split_folder(const char *path, plb_data_split split, bool or_itself,
                               char folder[PATH_MAX]) {
    const char *const names[] = {split == PLB_TRAIN ? "train" : "test", "val"};
    for (int k = 0; k < (split == PLB_TRAIN ? 1 : 2); k++) {
        int length = snprintf(folder, PATH_MAX, "%s/%s", path, names[k]);
        if (length < PATH_MAX && plb_folder_exists(folder)) return PLB_OK;
    }
    bool fits = snprintf(folder, PATH_MAX, "%s", path) < PATH_MAX;
    if (or_itself && fits) return PLB_OK;
    return plb_fail(PLB_EMISSING, "%s: expected a folder %s in it", path, names[0]);
}

static plb_status open_folder(const char *path, plb_data_split split, bool or_itself,
                              const plb_image_folder_options *folder_options, plb_dataset **out) {
    char folder[PATH_MAX];
    PLB_TRY(split_folder(path, split, or_itself, folder));
    return plb_image_folder_open(folder, folder_options, out);
}

static plb_status open_cifar(const char *folder, plb_data_split split,
                             const plb_dataset_options *options, plb_dataset **out) {
    char path[PATH_MAX];
    if (find_file(folder, "test_batch.bin", path) || find_file(folder, "data_batch_1.bin", path))
        return plb_cifar10_open(folder, split, out);
    plb_image_folder_options pictures = {.name = "cifar10",
                                         .size = options->size,
                                         .resize_short = options->resize_short,
                                         .mean = plb_cifar10_mean,
                                         .std = plb_cifar10_std};
    return open_folder(folder, split, false, &pictures, out);
}

static plb_status open_stored(const known *set, plb_data_split split,
                              const plb_dataset_options *options, plb_dataset **out) {
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory to look for it", set->shown.name);
    const char *folder;
    plb_status status = locate(set, options->root, arena, &folder);
    if (!status)
        status = set->kind == IDX ? open_idx(set, folder, split, out)
                                  : open_cifar(folder, split, options, out);
    plb_arena_free(arena);
    return status;
}

plb_status plb_dataset_open(const char *name, plb_data_split split,
                            const plb_dataset_options *options, plb_dataset **out) {
    static const plb_dataset_options none;
    const known *set;
    if (!options) options = &none;
    if (strchr(name, '/')) {
        plb_image_folder_options pictures = {.size = options->size,
                                             .resize_short = options->resize_short};
        return open_folder(name, split, true, &pictures, out);
    }
    PLB_TRY(find_known(name, &set));
    plb_synthetic_options drawn = {
        .split = split, .seed = options->seed, .count = options->count, .size = options->size};
    if (set->kind == DIGITS) return plb_synthetic_digits_new(&drawn, out);
    if (set->kind == SHAPES) return plb_synthetic_shapes_new(&drawn, out);
    return open_stored(set, split, options, out);
}

static plb_status download_file(const known *set, const published_file *file, const char *folder,
                                plb_progress *progress) {
    char path[PATH_MAX], urls[2][256];
    const char *url_list[2] = {urls[0], urls[1]};
    size_t count = 0;
    if (find_file(folder, file->name, path)) return PLB_OK; // there already
    if (snprintf(path, sizeof path, "%s/%s.gz", folder, file->name) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", folder);
    for (; count < 2 && set->mirrors[count]; count++)
        snprintf(urls[count], sizeof urls[count], "%s%s.gz", set->mirrors[count], file->name);
    plb_download download = {.urls = url_list,
                             .url_count = count,
                             .path = path,
                             .digest_kind = PLB_MD5,
                             .digest = file->packed_md5,
                             .progress = progress};
    return plb_download_file(&download);
}

plb_status plb_dataset_download(const char *name, const char *root, plb_progress *progress) {
    const known *set;
    PLB_TRY(find_known(name, &set));
    if (!set->shown.downloadable)
        return plb_fail(PLB_EUNSUPPORTED, "%s: %s", name,
                        set->shown.drawn ? "is drawn on demand; there is nothing to download"
                                         : "cannot be downloaded by plumb");
    plb_status status = PLB_OK;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory for its path", name);
    if (!root) PLB_TRY_OUT(plb_data_root(arena, &root));
    const char *folder;
    PLB_TRY_OUT(keep(plb_arena_printf(arena, "%s/%s", root, set->folders[0]), &folder));
    PLB_TRY_OUT(plb_folder_make(folder));
    for (int i = 0; i < 4; i++) PLB_TRY_OUT(download_file(set, &set->files[i], folder, progress));
out:
    plb_arena_free(arena);
    return status;
}

static plb_status check_file(const known *set, const published_file *file, const char *folder) {
    char path[PATH_MAX], packed[PLB_DIGEST_TEXT_BYTES], content[PLB_DIGEST_TEXT_BYTES];
    if (!find_file(folder, file->name, path)) return lacks(set, folder, file->name);
    PLB_TRY(plb_digest_file(PLB_MD5, path, false, packed));
    if (!strcmp(packed, file->packed_md5)) return PLB_OK;
    if (!file->content_md5)
        return plb_fail(PLB_EINVAL, "%s: MD5: expected %s, found %s", path, file->packed_md5,
                        packed);
    PLB_TRY(plb_digest_file(PLB_MD5, path, true, content));
    if (!strcmp(content, file->content_md5)) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: MD5 of its contents: expected %s, found %s", path,
                    file->content_md5, content);
}

plb_status plb_dataset_check(const char *name, const char *root) {
    const known *set;
    PLB_TRY(find_known(name, &set));
    if (set->kind != IDX)
        return plb_fail(PLB_EUNSUPPORTED, "%s: has no published checksums to compare with", name);
    plb_status status = PLB_OK;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory for its path", name);
    const char *folder;
    PLB_TRY_OUT(locate(set, root, arena, &folder));
    for (int i = 0; i < 4; i++) PLB_TRY_OUT(check_file(set, &set->files[i], folder));
out:
    plb_arena_free(arena);
    return status;
}
