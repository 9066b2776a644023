// SPDX-License-Identifier: Apache-2.0
#include "data/registry.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/image_tar.h"
#include "data/known.h"
#include "data/stl10.h"
#include "data/synthetic.h"
#include "data/voc.h"

plb_status plb_dataset_locate(const char *name, const char *root, plb_arena *arena,
                              const char **out) {
    const plb_known_set *set;
    PLB_TRY(plb_known_find(name, &set));
    return plb_known_locate(set, root, arena, out);
}

const char *plb_dataset_lacks(const char *name, const char *folder) {
    const plb_known_set *set;
    char path[PATH_MAX];
    if (plb_known_find(name, &set)) return NULL;
    for (int i = 0; i < PLB_KNOWN_FILES && set->files[i].name; i++)
        if (!plb_known_file(folder, set->files[i].name, path)) return set->files[i].name;
    return NULL;
}

static plb_status open_idx(const plb_known_set *set, const char *folder, plb_data_split split,
                           plb_dataset **out) {
    const plb_published_file *file = &set->files[split == PLB_TEST ? 2 : 0];
    char images[PATH_MAX], labels[PATH_MAX];
    if (!plb_known_file(folder, file[0].name, images))
        return plb_known_lacks(set, folder, file[0].name);
    if (!plb_known_file(folder, file[1].name, labels))
        return plb_known_lacks(set, folder, file[1].name);
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

// A folder, or a tar file, of pictures.
static plb_status open_pictures(const char *path, plb_data_split split, bool or_itself,
                                const plb_image_folder_options *options, plb_dataset **out) {
    char folder[PATH_MAX];
    if (plb_file_exists(path)) {
        if (plb_image_tar_named(path)) return plb_image_tar_open(path, split, options, out);
        return plb_fail(PLB_EINVAL, "%s: expected a folder or a tar file of pictures", path);
    }
    PLB_TRY(split_folder(path, split, or_itself, folder));
    return plb_image_folder_open(folder, options, out);
}

static plb_status open_cifar10(const char *folder, plb_data_split split,
                               const plb_dataset_options *options, plb_dataset **out) {
    char path[PATH_MAX];
    if (plb_known_file(folder, "test_batch.bin", path) ||
        plb_known_file(folder, "data_batch_1.bin", path))
        return plb_cifar10_open(folder, split, out);
    plb_image_folder_options pictures = {.name = "cifar10",
                                         .size = options->size,
                                         .resize_short = options->resize_short,
                                         .mean = plb_cifar10_mean,
                                         .std = plb_cifar10_std};
    return open_pictures(folder, split, false, &pictures, out);
}

static plb_status open_located(const plb_known_set *set, const char *folder, plb_data_split split,
                               const plb_dataset_options *options, plb_dataset **out) {
    plb_voc_options voc = {.form = PLB_VOC_CROPS, .size = options->size};
    switch (set->kind) {
    case PLB_KNOWN_CIFAR10: return open_cifar10(folder, split, options, out);
    case PLB_KNOWN_CIFAR100: return plb_cifar100_open(folder, split, out);
    case PLB_KNOWN_STL10: return plb_stl10_open(folder, split, out);
    case PLB_KNOWN_VOC: return plb_voc_open(folder, split, &voc, out);
    case PLB_KNOWN_VOC_IMAGES:
        voc.form = PLB_VOC_IMAGES;
        return plb_voc_open(folder, split, &voc, out);
    default: return open_idx(set, folder, split, out);
    }
}

static plb_status open_stored(const plb_known_set *set, plb_data_split split,
                              const plb_dataset_options *options, plb_dataset **out) {
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory to look for it", set->shown.name);
    const char *folder;
    plb_status status = plb_known_locate(set, options->root, arena, &folder);
    if (!status) status = open_located(set, folder, split, options, out);
    plb_arena_free(arena);
    return status;
}

plb_status plb_dataset_open(const char *name, plb_data_split split,
                            const plb_dataset_options *options, plb_dataset **out) {
    static const plb_dataset_options none;
    const plb_known_set *set;
    if (!options) options = &none;
    if (strchr(name, '/')) {
        plb_image_folder_options pictures = {.size = options->size,
                                             .resize_short = options->resize_short};
        return open_pictures(name, split, true, &pictures, out);
    }
    PLB_TRY(plb_known_find(name, &set));
    plb_synthetic_options drawn = {
        .split = split, .seed = options->seed, .count = options->count, .size = options->size};
    if (set->kind == PLB_KNOWN_DIGITS) return plb_synthetic_digits_new(&drawn, out);
    if (set->kind == PLB_KNOWN_SHAPES) return plb_synthetic_shapes_new(&drawn, out);
    if (set->kind == PLB_KNOWN_VOC_SHAPES) return plb_synthetic_voc_new(&drawn, out);
    return open_stored(set, split, options, out);
}
